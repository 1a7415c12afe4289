"""The hook: which processes it makes a recording of, and what it costs the others."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from . import lab

pytestmark = [pytest.mark.torch, pytest.mark.torchrun]

FUNCTION_LAUNCHER = """
    import sys
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    def work(text):
        import os
        if os.environ["RANK"] == "1":
            raise ValueError(text)
        return int(os.environ["RANK"])

    if __name__ == "__main__":
        config = LaunchConfig(
            min_nodes=1, max_nodes=1, nproc_per_node=2, run_id="functions", rdzv_backend="c10d",
            rdzv_endpoint="localhost:0", max_restarts=0, start_method=sys.argv[1], event_log_handler="tape",
        )
        try:
            elastic_launch(config, work)("no such token")
        except Exception as error:
            print("caught", type(error).__name__)
"""


@pytest.mark.parametrize("start_method", ["spawn", "fork"])
def test_a_launcher_of_ones_own_names_the_destination(tmp_path: Path, start_method: str) -> None:
    """``LaunchConfig(event_log_handler="tape")`` records workers given as functions."""
    script = tmp_path / "launch.py"
    script.write_text(textwrap.dedent(FUNCTION_LAUNCHER), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), start_method],
        env=lab.environment(tmp_path / "tapes"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert (0, "caught ChildFailedError\n") == (done.returncode, done.stdout), done.stderr
    (attempt,) = lab.why(tmp_path / "tapes", "functions")["attempts"]
    cause = attempt["cause"]
    assert ("exception", 1, "ValueError") == (cause["kind"], cause["rank"], cause["error_type"])
    assert "no such token" == cause["message"]
    assert "in work" in cause["traceback"]


def test_a_worker_that_torch_stopped_for_its_peer_is_stopped(tmp_path: Path) -> None:
    """With ``--run-path`` workers are functions and torch.multiprocessing ends the others: they are not to blame."""
    script = """
        import os, time
        if os.environ["RANK"] == "1":
            raise ValueError("no such token")
        time.sleep(30)
    """
    job = lab.run(tmp_path, script, "--run-path", nproc=2)
    (attempt,) = job.why()["attempts"]
    assert {0: "stopped", 1: "first"} == lab.ranks(attempt, "role")
    assert "ValueError" == attempt["cause"]["error_type"]


def test_the_environment_names_the_destination(tmp_path: Path) -> None:
    """``PET_EVENT_LOG_HANDLER=tape`` is the flag without the command line."""
    job = lab.run(tmp_path, "pass", nproc=1, destination=None, env={"PET_EVENT_LOG_HANDLER": "tape"})
    assert "succeeded" == job.why()["state"]


def test_several_destinations_at_once(tmp_path: Path) -> None:
    """``tape,console`` writes the tape and prints torch's events, and none of jobtape's own, on stderr."""
    job = lab.run(tmp_path, "pass", nproc=1, destination="console,tape")
    assert "succeeded" == job.why()["state"]
    assert 1 == job.err.count('{"name": "torchelastic.worker.status.START"')
    assert "jobtape." not in job.err


def test_a_tape_elsewhere(tmp_path: Path) -> None:
    """``file:///dir`` puts the agent's and the workers' tapes there."""
    job = lab.run(tmp_path, "raise ValueError('x')", nproc=1, destination=f"file://{tmp_path}/elsewhere")
    assert "ValueError" == lab.why(tmp_path / "elsewhere")["attempts"][0]["cause"]["error_type"]
    assert not job.shelf.exists()


@pytest.mark.parametrize("autoload", ["0", "1"])
def test_jobtape_run_says_how_each_attempt_ended(tmp_path: Path, autoload: str) -> None:
    """``jobtape run`` is torchrun with one line an attempt, also where torch loads no hooks."""
    script = """
        import os, sys, time
        if os.environ["RANK"] == "1":
            attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
            raise ValueError("first") if attempt == 0 else SystemExit(5)
        time.sleep(30)
    """
    job = lab.run(
        tmp_path,
        script,
        "--max-restarts=1",
        nproc=2,
        destination=None,
        launcher=("jobtape", "run"),
        env={"TORCH_DEVICE_BACKEND_AUTOLOAD": autoload},
    )
    lines = [line for line in job.err.splitlines() if line.startswith("jobtape: ")]
    assert 1 == job.exit_code
    assert 3 == len(lines), job.err
    assert "attempt 0 failed after" in lines[0]
    assert "rank 1" in lines[0]
    assert "ValueError: first at" in lines[0]
    assert "attempt 1 failed after" in lines[1]
    assert "exit code 5" in lines[1]
    assert "recorded in" in lines[2]
    assert ["exception", "exit_code"] == [attempt["cause"]["kind"] for attempt in job.why()["attempts"]]
    assert "jobtape/cli" not in job.err


def test_the_hook_costs_under_a_millisecond_where_nothing_is_recorded(tmp_path: Path) -> None:
    """Importing the hook and calling it at the end of ``import torch``, the best of five fresh processes."""
    code = (
        "import time, torch; start = time.perf_counter(); from jobtape.capture.hook import activate; "
        "activate(); print((time.perf_counter() - start) * 1000)"
    )
    env = lab.environment(tmp_path, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})  # else torch has called it already
    run = [sys.executable, "-c", code]
    costs_ms = [
        float(subprocess.run(run, env=env, capture_output=True, text=True, check=True).stdout) for _ in range(5)
    ]
    assert min(costs_ms) < 1.0, costs_ms  # what it costs, not what else the machine was doing
