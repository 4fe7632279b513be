"""One rig per test; its invariants are checked and its processes ended whatever the test did."""
import pathlib
import shutil

import pytest

from rig import REA, Rig


def sanitized():
    """A sanitized program has other memory figures, and needs an address space without limits."""
    path = shutil.which(REA)
    program = b"" if path is None else pathlib.Path(path).read_bytes()
    return b"__asan_init" in program or b"__tsan_init" in program


def pytest_collection_modifyitems(items):
    if not sanitized():
        return
    for item in items:
        if item.get_closest_marker("memory"):
            item.add_marker(pytest.mark.skip(reason="measures memory; the program is sanitized"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call":
        item.passed = outcome.get_result().passed


@pytest.fixture
def rig(tmp_path, request):
    rig = Rig(tmp_path)
    try:
        yield rig
        if getattr(request.node, "passed", False):
            rig.check_invariants()
            rig.end()
    finally:
        rig.close()
