"""What the tests of the tape share: a run's directory, a writer in it, and real processes."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from jobtape.tape.header import this_process
from jobtape.tape.writer import Writer

PREAMBLE = """
import os, signal, sys, threading, time
from pathlib import Path
from jobtape.tape.header import this_process
from jobtape.tape.writer import Writer
writer = Writer(Path(sys.argv[1]), this_process("job-1", "worker"))
"""


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """Where a run's tape files go; not made yet."""
    return tmp_path / "shelf" / "job-1"


@pytest.fixture
def writer(run_dir: Path) -> Writer:
    """An open tape file of this process."""
    return Writer(run_dir, this_process("job-1", "worker"))


@pytest.fixture
def start(run_dir: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start a Python process that has an open `writer`, and then does what the script says."""

    def start_script(script: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + textwrap.dedent(script), str(run_dir), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start_script


@pytest.fixture
def run(start: Callable[..., subprocess.Popen[str]]) -> Callable[..., str]:
    """As `start`, to the end: what it printed, when it ended with the code 0."""

    def run_script(script: str, *arguments: str) -> str:
        with start(script, *arguments) as process:
            try:
                out, err = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        assert (0, "") == (process.returncode, err)
        return out

    return run_script
