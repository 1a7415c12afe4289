"""One agent, real workers: what the test injects is what ``why --json`` answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import lab

pytestmark = [pytest.mark.torch, pytest.mark.torchrun]

FAIL_ON_RANK_1 = """
    import os, signal, sys, time
    def inner():
        {fault}
    if os.environ["RANK"] == "1":
        inner()
    time.sleep(30)
"""


def failing(fault: str) -> str:
    """A script in which rank 1 does `fault` and the others wait to be stopped."""
    return FAIL_ON_RANK_1.format(fault=fault)


def test_a_clean_run_is_a_success_without_warnings(tmp_path: Path) -> None:
    """Four ranks that end with 0 are a succeeded run: no cause, nothing lost, nothing to warn of."""
    job = lab.run(tmp_path, "import sys; sys.stdout.write('fine\\n')", *lab.NAMED, "--rdzv-id=clean", nproc=4)
    answer = job.why()
    assert (0, "fine\n" * 4) == (job.exit_code, job.out)
    assert ("clean", "succeeded", 4, 1) == (answer["run_id"], answer["state"], answer["world_size"], answer["nodes"])
    assert {"failure": 0, "membership": 0, "preemption": 0} == answer["restarts"]
    assert ([], 0) == (answer["warnings"], answer["loss"]["events_missing"])
    (attempt,) = answer["attempts"]
    assert ("succeeded", None) == (attempt["outcome"], attempt["cause"])
    assert {0: 0, 1: 0, 2: 0, 3: 0} == lab.ranks(attempt, "exit_code")


@pytest.mark.parametrize("decorated", [False, True])
def test_an_exception_is_named_with_its_place(tmp_path: Path, decorated: bool) -> None:
    """Type, message, traceback and line of an exception are known, with torch's @record and without."""
    script = """
        import os, time
        {wrap}
        def main():
            if os.environ["RANK"] == "1":
                raise ValueError("bad row 17")
            time.sleep(30)
        if __name__ == "__main__":
            main()
    """
    wrap = "from torch.distributed.elastic.multiprocessing.errors import record" if decorated else ""
    script = script.format(wrap=wrap)
    if decorated:
        script = script.replace("        def main", "        @record\n        def main")
    job = lab.run(tmp_path, script)
    (attempt,) = job.why()["attempts"]
    cause = attempt["cause"]
    assert 1 == job.exit_code
    assert ("exception", 1, 1) == (cause["kind"], cause["rank"], cause["exit_code"])
    assert ("ValueError", "bad row 17") == (cause["error_type"], cause["message"])
    assert f"{job.script}:{lab.line_of(job.script, 'raise ValueError')}" == cause["location"]
    assert "in main" in cause["traceback"]
    assert "certain" == cause["confidence"]
    assert {0: ("stopped", "SIGTERM"), 1: ("first", None)} == lab.ranks(attempt, "role", "signal")


@pytest.mark.parametrize(("fault", "exit_code"), [("sys.exit(3)", 3), ("os._exit(4)", 4)])
def test_an_exit_is_named_with_its_place(tmp_path: Path, fault: str, exit_code: int) -> None:
    """A worker that leaves is the cause, with its exit code and the line from which it left."""
    job = lab.run(tmp_path, failing(fault))
    (attempt,) = job.why()["attempts"]
    cause = attempt["cause"]
    assert ("exit_code", 1, exit_code, None) == (cause["kind"], cause["rank"], cause["exit_code"], cause["signal"])
    assert "certain" == cause["confidence"]
    assert f"{job.script}:{lab.line_of(job.script, fault)}" == cause["location"]
    assert len(list(job.shelf.glob("*/*.stacks"))) <= 1  # of rank 0, if it had started when it was stopped


@pytest.mark.parametrize(
    ("fault", "signal_name"),
    [("import ctypes; ctypes.string_at(0)", "SIGSEGV"), ("os.abort()", "SIGABRT")],
)
def test_a_native_crash_leaves_the_python_stack(tmp_path: Path, fault: str, signal_name: str) -> None:
    """After a native crash the stack of the Python code that called it is on the tape, and not on the console."""
    job = lab.run(tmp_path, failing(fault))
    (attempt,) = job.why()["attempts"]
    cause = attempt["cause"]
    assert ("signal", 1, signal_name) == (cause["kind"], cause["rank"], cause["signal"])
    assert f"line {lab.line_of(job.script, fault)} in inner" in cause["traceback"]
    assert "Fatal Python error" not in job.err


def test_an_import_error_before_anything_ran(tmp_path: Path) -> None:
    """A script whose first line fails, before it can import torch, still tells why."""
    job = lab.run(tmp_path, "import no_such_module_anywhere\n")
    cause = job.why()["attempts"][0]["cause"]
    assert ("exception", "ModuleNotFoundError") == (cause["kind"], cause["error_type"])
    assert f"{job.script}:1" == cause["location"]
    assert "no_such_module_anywhere" in cause["message"]


def test_an_exception_in_a_thread_is_kept(tmp_path: Path) -> None:
    """A thread's exception is on the tape, also when the process then leaves with a code of its own."""
    script = """
        import os, threading, time
        def load():
            raise OSError("disk gone")
        if os.environ["RANK"] == "1":
            thread = threading.Thread(target=load, name="loader")
            thread.start()
            thread.join()
            os._exit(5)
        time.sleep(30)
    """
    job = lab.run(tmp_path, script)
    (record,) = job.records("jobtape.worker.thread_error")
    assert ("loader", "OSError", "disk gone") == tuple(
        record["metadata"][key] for key in ("thread", "error_type", "message")
    )
    assert (1, 5) == tuple(job.why()["attempts"][0]["cause"][key] for key in ("rank", "exit_code"))


def test_a_hung_rank_that_is_stopped_tells_where_it_stood(tmp_path: Path) -> None:
    """The stack of a hanging worker the agent stops is kept, own SIGTERM handler or not."""
    script = """
        import os, signal, sys, time
        def wait_for_data():
            time.sleep(30)
        if os.environ["RANK"] == "0":
            signal.signal(signal.SIGTERM, lambda *_: (print("own handler", flush=True), sys.exit(7)))
        if os.environ["RANK"] == "2":
            time.sleep(1)
            sys.exit(1)
        wait_for_data()
    """
    job = lab.run(tmp_path, script, nproc=3)
    (attempt,) = job.why()["attempts"]
    assert "own handler\n" == job.out
    assert {0: "stopped", 1: "stopped", 2: "first"} == lab.ranks(attempt, "role")
    stacks = [path.read_text() for path in sorted(job.shelf.glob("*/*.stacks"))]
    assert [True, True] == ["in wait_for_data" in text for text in stacks]
    place = f"{job.script}:{lab.line_of(job.script, 'time.sleep(30)')}"
    assert 2 == lab.jobtape(job.shelf, "show", "--full").stdout.count(f"stood at {place}")
