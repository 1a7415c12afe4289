"""What happens to agents: signals, kills, membership, rendezvous that never form."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from . import lab

pytestmark = [pytest.mark.torch, pytest.mark.torchrun]

WAIT = """
    import os, pathlib, time
    here = pathlib.Path(os.environ["MARKS"])
    (here / f"up-{os.environ['GROUP_RANK']}-{os.environ['WORLD_SIZE']}-{os.getpid()}").touch()
    for _ in range(600):
        if (here / "finish").exists():
            break
        if (here / "peer-lost").exists() and os.environ["WORLD_SIZE"] == "2":
            raise RuntimeError("[pair.cc:553] Connection closed by peer [127.0.0.1]:23811")
        time.sleep(0.1)
"""


def until(condition: Callable[[], object], timeout_s: float = 60) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "the job did not come to the point the test waits for"
        time.sleep(0.05)


def agent(tmp_path: Path, port: int, nnodes: str, *args: str, **env: str) -> lab.Job:
    """One of several agents of the run `elastic`, on a shelf they share."""
    return lab.start(
        tmp_path,
        WAIT,
        f"--nnodes={nnodes}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint=127.0.0.1:{port}",
        "--rdzv-id=elastic",
        "--local-addr=127.0.0.1",
        "--max-restarts=3",
        "--rdzv-conf=last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=4,join_timeout=60",
        *args,
        nproc=1,
        # Without it a node that joins a running job never learns the address of the shared store.
        env={"MARKS": str(tmp_path), "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", **env},
    )


def test_the_agents_death_signal_is_the_cause(tmp_path: Path) -> None:
    """A SIGTERM to the agent is a preemption: the workers it stopped are not to blame."""
    job = lab.start(tmp_path, WAIT, nproc=2, env={"MARKS": str(tmp_path)})
    until(lambda: len(list(tmp_path.glob("up-*"))) == 2)
    time.sleep(0.5)
    job.process.send_signal(signal.SIGTERM)
    job.wait()
    answer = job.why()
    (attempt,) = answer["attempts"]
    assert 1 == job.exit_code
    assert "stopped" == answer["state"]
    assert ("preempted", None, "SIGTERM") == tuple(attempt["cause"][key] for key in ("kind", "rank", "signal"))
    assert {0: "stopped", 1: "stopped"} == lab.ranks(attempt, "role")
    assert {"signal": "SIGTERM"} == job.records("jobtape.agent.signal")[0]["metadata"]


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


def test_scale_up_is_a_membership_restart(tmp_path: Path) -> None:
    """A second node joins a running job: two attempts, one membership restart, no failure and nobody to blame."""
    port = lab.free_port()
    first = agent(tmp_path, port, "1:2")
    until(lambda: list(tmp_path.glob("up-0-1-*")))
    second = agent(tmp_path, port, "1:2")
    until(lambda: len(list(tmp_path.glob("up-*-2-*"))) == 2)
    (tmp_path / "finish").touch()
    first.wait()
    second.wait()
    answer = first.why("elastic")
    assert (0, 0) == (first.exit_code, second.exit_code)
    assert {"failure": 0, "membership": 1, "preemption": 0} == answer["restarts"]
    assert ["membership", "succeeded"] == [attempt["outcome"] for attempt in answer["attempts"]]
    assert [1, 2] == [attempt["world_size"] for attempt in answer["attempts"]]
    assert [None, None] == [attempt["cause"] for attempt in answer["attempts"]]
    assert ("succeeded", 2) == (answer["state"], answer["nodes"])


def test_one_agent_is_killed_and_the_other_goes_on(tmp_path: Path) -> None:
    """The node whose agent was killed is the suspect; the surviving node's next attempt succeeds."""
    port = lab.free_port()
    host = agent(tmp_path, port, "1:2")
    until(lambda: "hosts the TCP store" in "".join(path.read_text() for path in host.tapes()))
    other = agent(tmp_path, port, "1:2")
    until(lambda: len(list(tmp_path.glob("up-*-2-*"))) == 2)
    time.sleep(1)
    victim = next(path for path in tmp_path.glob("up-*-2-*") if _parent(path) == other.process.pid)
    other.process.kill()
    os.kill(int(victim.name.rpartition("-")[2]), signal.SIGKILL)
    other.wait()
    (tmp_path / "peer-lost").touch()
    until(lambda: len(list(tmp_path.glob("up-0-1-*"))) == 2)
    (tmp_path / "finish").touch()
    host.wait()
    answer = host.why("elastic")
    assert 0 == host.exit_code
    assert "succeeded" == answer["state"]
    assert 2 == answer["nodes"]
    assert "succeeded" == answer["attempts"][-1]["outcome"]
    assert ["membership", "failed", "succeeded"] == [attempt["outcome"] for attempt in answer["attempts"]]
    lost = answer["attempts"][1]
    assert ("node_lost", None) == (lost["cause"]["kind"], lost["cause"]["rank"])
    assert lost["cause"]["confidence"] in ("suspected", "likely")
    assert "collateral" == lab.ranks(lost, "role")[0]
    assert {"failure": 1, "membership": 1, "preemption": 0} == answer["restarts"]


def test_nobody_came(tmp_path: Path) -> None:
    """A rendezvous that never forms is an attempt without ranks, and no rank is to blame."""
    job = agent(tmp_path, lab.free_port(), "2", "--rdzv-conf=join_timeout=2").wait()
    answer = job.why("elastic")
    (attempt,) = answer["attempts"]
    assert 1 == job.exit_code
    assert ("failed", []) == (answer["state"], attempt["ranks"])
    assert ("rendezvous_timeout", None) == (attempt["cause"]["kind"], attempt["cause"]["rank"])


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


def _parent(mark: Path) -> int:
    pid = mark.name.rpartition("-")[2]
    done = subprocess.run(["ps", "-o", "ppid=", "-p", pid], capture_output=True, text=True, check=False)
    return int(done.stdout or 0)


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
