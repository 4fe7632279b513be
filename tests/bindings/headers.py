"""The installed headers, by name and as cffi reads them: what a Python program has to do to use librea without a compiler of its own."""
import os
import pathlib
import re
import subprocess
import tempfile

# What the headers take from C's own, as far as a declaration needs it.
STAND_INS = {
    "stdbool.h": "",
    "stddef.h": "",
    "stdint.h": "#define UINT32_C(n) n\n#define UINT64_C(n) n\n#define UINT64_MAX 18446744073709551615\n",
}


def names(include):
    """All of librea's; rea/curl.h also needs libcurl's."""
    return sorted(f"rea/{path.name}" for path in include.glob("rea/*.h") if path.name != "curl.h")


def read(include):
    from cffi import FFI

    with tempfile.TemporaryDirectory() as stand_ins:
        for name, text in STAND_INS.items():
            pathlib.Path(stand_ins, name).write_text(text)
        text = subprocess.run(["gcc", "-E", "-P", "-nostdinc", f"-I{stand_ins}", f"-I{include}", "-"], check=True, capture_output=True,
                              text=True, input="".join(f"#include <{name}>\n" for name in names(include))).stdout
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)\)?", "", text)
    text = re.sub(r"^static inline .*?^}", "", text, flags=re.M | re.S)
    ffi = FFI()
    ffi.cdef(text)
    return ffi


def load():
    stage, lib = pathlib.Path(os.environ["STAGE"]), pathlib.Path(os.environ["STAGE_LIB"])
    ffi = read(stage / "include")
    return ffi, ffi.dlopen(str(lib / "librea.so.0"))
