"""What the tests of the commands share: the command as a process, and a shelf of runs."""

import os
import subprocess
import sys
from dataclasses import dataclass

import pytest

from tests.cli.tapes_to_read import record_failed_run, record_good_run


@dataclass
class Done:
    """What a command did."""

    code: int
    out: str
    err: str


@pytest.fixture
def shelf(tmp_path):
    """A directory of runs: one that succeeded, then one that failed."""
    directory = tmp_path / "shelf"
    record_good_run(directory)
    record_failed_run(directory)
    return directory


@pytest.fixture
def jobtape(tmp_path):
    """Run a command of jobtape, from an empty directory, with the variables given."""
    empty = tmp_path / "empty"
    empty.mkdir()

    def run(*words, cwd=empty, **environ):
        done = subprocess.run(
            [sys.executable, "-m", "jobtape", *map(str, words)],
            cwd=cwd,
            env={**os.environ, "TZ": "UTC", "PYTHONWARNINGS": "error", **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))

    return run
