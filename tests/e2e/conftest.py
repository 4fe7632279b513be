"""One rig per test; its invariants are checked and its processes ended whatever the test did."""
import pytest

from rig import Rig


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
    finally:
        rig.close()
