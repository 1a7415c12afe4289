"""What happens to agents and launchers: killed, signalled before they were ready, set up wrongly."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from . import lab

pytestmark = [pytest.mark.torch, pytest.mark.torchrun]

WAIT = """
    import os, pathlib, time
    here = pathlib.Path(os.environ["MARKS"])
    (here / f"up-{os.getpid()}").touch()
    for _ in range(600):
        if (here / "finish").exists():
            break
        time.sleep(0.1)
"""


def until(condition: Callable[[], object], timeout_s: float = 60) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "the job did not come to the point the test waits for"
        time.sleep(0.05)


def agent(tmp_path: Path, port: int, nnodes: str) -> lab.Job:
    """One of several agents of the run `elastic`, on a shelf they share."""
    return lab.start(
        tmp_path,
        WAIT,
        f"--nnodes={nnodes}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint=127.0.0.1:{port}",
        "--rdzv-id=elastic",
        "--local-addr=127.0.0.1",
        nproc=1,
        env={"MARKS": str(tmp_path)},
    )


def test_a_killed_agent_leaves_a_lost_run(tmp_path: Path) -> None:
    """SIGKILL to the only agent: the tape just ends, and that is what is said."""
    job = lab.start(tmp_path, WAIT, nproc=1, env={"MARKS": str(tmp_path)})
    until(lambda: list(tmp_path.glob("up-*")))
    assert "running" == job.why()["state"]
    job.process.kill()
    (tmp_path / "finish").touch()
    job.wait()
    answer = job.why()
    assert "lost" == answer["state"]
    assert answer["attempts"][0]["cause"] is None or answer["attempts"][0]["cause"]["confidence"] != "certain"


def test_the_launchers_own_error_is_recorded(tmp_path: Path) -> None:
    """A rendezvous backend that cannot be reached fails the launch before there is an agent; the tape says so."""
    job = lab.run(
        tmp_path,
        "print('never')",
        "--nnodes=1:2",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint=192.0.2.1:{lab.free_port()}",
        "--rdzv-conf=is_host=0,timeout=1,read_timeout=1",
        "--rdzv-id=unreachable",
        nproc=1,
    )
    answer = job.why("unreachable")
    (end,) = job.records("jobtape.launch.end")
    assert 1 == job.exit_code
    assert "error" == end["metadata"]["outcome"]
    assert "RendezvousConnectionError" in end["metadata"]["error_type"]
    assert ("failed", "agent_error") == (answer["state"], answer["attempts"][0]["cause"]["kind"])


def test_an_agent_killed_before_its_handlers_were_set(tmp_path: Path) -> None:
    """SIGTERM while an agent waits in its first rendezvous kills it without an event; its tape knows where it stood."""
    job = agent(tmp_path, lab.free_port(), "2")
    until(lambda: "added itself to the participants" in "".join(path.read_text() for path in job.tapes()))
    job.process.send_signal(signal.SIGTERM)
    job.wait()
    (sidecar,) = job.shelf.glob("*/*.stacks")
    answer = job.why("elastic")
    assert -signal.SIGTERM == job.exit_code
    assert "in next_rendezvous" in sidecar.read_text()
    assert "stopped" == answer["state"]
    assert ("preempted", "SIGTERM") == tuple(answer["attempts"][0]["cause"][key] for key in ("kind", "signal"))


@pytest.mark.parametrize("launcher", [("torchrun",), ("jobtape", "run")])
def test_a_setting_that_cannot_be_read_is_recorded(tmp_path: Path, launcher: tuple[str, ...]) -> None:
    """A launcher that fails before it launches anything leaves its error on the tape."""
    job = lab.start(tmp_path, "print('never')", "--nnodes=1:many", nproc=1, launcher=launcher).wait()
    answer = job.why()
    cause = answer["attempts"][0]["cause"]
    assert (1, "failed") == (job.exit_code, answer["state"])
    assert ("agent_error", "ValueError") == (cause["kind"], cause["error_type"])
