"""Every struct of the public headers, field by field: cffi, which works the layout out by itself, agrees with the C and the C++ compiler."""
import os
import pathlib
import subprocess
import sys

import headers

include = pathlib.Path(os.environ["STAGE"]) / "include"
ffi = headers.read(include)
work = pathlib.Path(sys.argv[1])


def fields_of(kind, path=""):
    """Each member with its offset, those of nested structs without a name too."""
    for name, field in kind.fields:
        yield path + name, field.offset
        if field.type.kind == "struct" and "$" in field.type.cname:
            yield from ((inner, field.offset + offset) for inner, offset in fields_of(field.type, f"{path}{name}."))


structs = {name: ffi.typeof(f"struct {name}") for name in ffi.list_types()[1] if "$" not in name}
structs = {name: kind for name, kind in structs.items() if kind.fields is not None}
expected = {}
for name, kind in structs.items():
    expected[f"sizeof(struct {name})"] = ffi.sizeof(kind)
    for path, offset in fields_of(kind):
        expected[f"offsetof(struct {name}, {path})"] = offset

source = "".join(f"#include <{name}>\n" for name in headers.names(include)) + "#include <stdio.h>\nint main(void)\n{\n"
source += "".join(f'\tprintf("%zu\\n", (size_t){what});\n' for what in expected) + "\treturn 0;\n}\n"
(work / "layout.c").write_text(source)
wrong = 0
for compiler, language in (("gcc", "c"), ("g++", "c++")):
    subprocess.run([compiler, f"-I{include}", "-x", language, work / "layout.c", "-o", work / "layout"], check=True)
    told = map(int, subprocess.run([work / "layout"], check=True, capture_output=True, text=True).stdout.split())
    for (what, offset), number in zip(expected.items(), told, strict=True):
        if offset != number:
            print(f"{what}: {number} says {compiler}, {offset} says cffi")
            wrong += 1
print(f"{len(structs)} structs, {len(expected) - len(structs)} fields")
sys.exit(wrong > 0 or len(structs) < 20)
