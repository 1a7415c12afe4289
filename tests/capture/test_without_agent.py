"""Jobs without a torchelastic agent: ``JOBTAPE_RECORD=tape`` in front of any launcher."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from . import lab

pytestmark = [pytest.mark.torch, pytest.mark.torchrun]


def launch(tmp_path: Path, script: str, *envs: dict[str, str]) -> list[subprocess.CompletedProcess[str]]:
    """Start one python a given environment, as srun or mpirun would, and wait for all."""
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(script), encoding="utf-8")
    processes = [
        subprocess.Popen(
            [sys.executable, str(path)],
            env=lab.environment(tmp_path / "tapes", {"JOBTAPE_RECORD": "tape", **env}),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for env in envs
    ]
    results = []
    for process in processes:
        out, err = process.communicate(timeout=60)
        results.append(subprocess.CompletedProcess(process.args, process.returncode, out, err))
    return results


def test_ranks_started_by_slurm_are_one_run(tmp_path: Path) -> None:
    """Two ranks of one SLURM job are one run named by the job's id; the one that raised is the cause."""
    script = """
        import os, sys, time
        import torch
        if os.environ["SLURM_PROCID"] == "1":
            time.sleep(0.5)
            raise RuntimeError("no such shard")
        time.sleep(2)
    """
    slurm = [
        {"SLURM_JOB_ID": "4711", "SLURM_PROCID": str(rank), "SLURM_NTASKS": "2", "SLURM_JWT": "secret"}
        for rank in range(2)
    ]
    codes = [done.returncode for done in launch(tmp_path, script, *slurm)]
    answer = lab.why(tmp_path / "tapes", "4711")
    (attempt,) = answer["attempts"]
    assert [0, 1] == codes
    assert ("failed", "4711") == (answer["state"], answer["run_id"])
    assert ("exception", 1, "no such shard") == tuple(attempt["cause"][key] for key in ("kind", "rank", "message"))
    assert "secret" not in "".join(path.read_text() for path in (tmp_path / "tapes").glob("*/*.jsonl"))


def test_a_plain_python_process_is_a_run(tmp_path: Path) -> None:
    """Without any scheduler the run id is made at the start, and success is success."""
    (done,) = launch(tmp_path, "import torch\nprint('fine')\n", {})
    answer = lab.why(tmp_path / "tapes")
    assert (0, "fine\n", "") == (done.returncode, done.stdout, done.stderr)
    assert "succeeded" == answer["state"]


def test_a_process_without_torch_is_not_recorded(tmp_path: Path) -> None:
    """``JOBTAPE_RECORD`` is about processes that import torch; others leave no file."""
    launch(tmp_path, "print('fine')\n", {})
    assert not (tmp_path / "tapes").exists()


def test_torchrun_under_jobtape_record_is_an_agent(tmp_path: Path) -> None:
    """With ``JOBTAPE_RECORD`` in the environment torchrun records as an agent, without the flag."""
    job = lab.run(tmp_path, "raise ValueError('x')", nproc=1, destination=None, env={"JOBTAPE_RECORD": "tape"})
    assert "ValueError" == job.why()["attempts"][0]["cause"]["error_type"]
    assert 2 == len(job.tapes())
