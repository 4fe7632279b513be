# The front door. Every target does its own set-up: missing Debian packages are installed, builds are made.
# The build itself is Meson's: meson.build.

PYTHON ?= /usr/bin/python3
PREFIX ?= /usr/local
CONFIG ?=
FUZZ_SECONDS ?= 60
LAB_SECONDS ?= 115
LAB ?=

.PHONY: help run test test-long test-nacos test-spring lint bench lab fuzz install clean

help:
	@echo 'make run                  start rea and three faulty services, and watch calls heal'
	@echo 'make run CONFIG=my.yaml   start rea on your own configuration'
	@echo 'make test                 every test; a few minutes'
	@echo 'make test-long            the same with repetitions and long runs'
	@echo 'make test-nacos           the policy source against a real Nacos server (JDK, Maven)'
	@echo 'make test-spring          a Spring Cloud OpenFeign application through rea (JDK, Maven)'
	@echo 'make lint                 compilers, formatter, clang-tidy, and the rules of the house'
	@echo 'make bench                rea beside its peers; BENCH="library" or proxy, store, tasks picks (BENCH="--rounds 1 --seconds 1": a quick look)'
	@echo 'make lab                  retry policies under faults, in virtual time and on sockets; LAB_SECONDS=115: what doc/lab/REPORT.md has'
	@echo 'make fuzz                 each fuzz target for FUZZ_SECONDS=60'
	@echo 'make install              to PREFIX=/usr/local, under DESTDIR'
	@echo 'make clean                remove what was built'

run:
	@tools/bootstrap build run
	@tools/build release src/rea
	@tools/first-light $(CONFIG)

test:
	@tools/bootstrap build test
	@$(PYTHON) tools/run-tests

test-long:
	@tools/bootstrap build test
	@$(PYTHON) tools/run-tests --long

test-nacos:
	@tools/bootstrap build test
	@tools/build release src/rea
	@$(PYTHON) tests/nacos/run . build/src/rea build/nacos

test-spring:
	@tools/bootstrap build test
	@tools/build release src/rea
	@$(PYTHON) tests/spring/run . build/src/rea build/spring

lint:
	@tools/bootstrap build test lint
	@tools/lint

bench:
	@tools/bootstrap build bench
	@tools/build release src/rea bench/decision bench/primitives bench/guard bench/executor bench/store bench/tasks
	@$(PYTHON) bench/run $(BENCH)

lab:
	@tools/bootstrap build
	@tools/build release src/rea
	@$(PYTHON) tools/run-lab $(LAB_SECONDS) $(LAB)

fuzz:
	@tools/bootstrap build fuzz
	@tools/build fuzz fuzzers
	@tools/run-fuzz $(FUZZ_SECONDS)

install:
	@tools/bootstrap build
	@tools/build release
	@meson configure build -Dprefix=$(PREFIX)
	@meson install -C build --quiet $(if $(DESTDIR),--destdir $(DESTDIR))

clean:
	rm -rf build build-asan build-tsan build-gcc build-clang build-fuzz
