"""Which writers of a tape live on this host."""

import os
import subprocess
import sys

from jobtape.cli.tapes import living, process_start
from jobtape.tape.header import this_process
from jobtape.tape.reader import read_tape
from jobtape.tape.writer import Writer
from tests.cli.tapes_to_read import record_failed_run


def test_own_start_is_that_of_the_header():
    """The kernel's start of this process is what its header says."""
    assert this_process("x", "other").pid_start == process_start(os.getpid())


def test_no_such_process():
    """A process that is gone has no start, a zombie neither."""
    gone = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, gone.pid, os.WEXITED | os.WNOWAIT)
    zombie = process_start(gone.pid)
    gone.wait()
    assert (None, None) == (zombie, process_start(gone.pid))


def test_living_writers(tmp_path):
    """This process lives; one of another boot, with its tape closed, or started at another time does not."""
    mine = Writer(tmp_path / "r", this_process("r", "agent"))
    closed = Writer(tmp_path / "r", this_process("r", "worker"))
    closed.close("exit")
    other = this_process("r", "agent")
    other.pid_start += 1
    impostor = Writer(tmp_path / "r", other)
    dead = record_failed_run(tmp_path, "r")
    files = [read_tape(path) for path in (mine.path, closed.path, impostor.path, dead)]
    assert frozenset({mine.path.name}) == living(files)
