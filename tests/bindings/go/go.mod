module example/rea

go 1.19
