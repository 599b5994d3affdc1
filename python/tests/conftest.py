"""Where things are, and small machines."""

import os
import pathlib
import signal
import subprocess

import pytest

import wordline as wl

ROOT = pathlib.Path(__file__).resolve().parents[2]


def pytest_configure(config) -> None:
    """SIGINT is heeded: a shell's job in the background ignores it, and a test that interrupts itself would never end."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionfinish(session) -> None:
    """What was left out fails where all is to be tested, as in the tests of the program."""
    if os.environ.get("WORDLINE_TESTS") != "all" or hasattr(session.config, "workerinput"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    reporter.ensure_newline()
    for left in reporter.stats.get("skipped", []):
        why = left.longrepr[-1] if isinstance(left.longrepr, tuple) else left.longrepr
        reporter.write_line(f"not tested: {left.nodeid}: {why}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory) -> None:
    """Aged drives are not kept in the user's cache."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def program() -> str:
    """The command line of the same build."""
    path = os.environ.get("WORDLINE", str(ROOT / "target/debug/wordline"))
    assert os.access(path, os.X_OK), f"no {path}: make test-python builds it"
    return path


@pytest.fixture
def shell(program, tmp_path):
    """Runs the command line in a folder of the test's own."""

    def run(*words: str) -> str:
        done = subprocess.run([program, *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


MIXED = """
[readers]
rw=randread
bs=4k
iodepth=8
number_ios=3000

[writer]
rw=randwrite
bs=4k
iodepth=4
number_ios=3000
"""


@pytest.fixture(scope="session")
def mixed() -> wl.Result:
    """Readers beside a writer on a small drive."""
    return wl.run(MIXED, device="cnex-small", precondition="fill", progress=False)
