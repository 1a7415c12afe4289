"""A recording that cannot work changes nothing but one line on stderr."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from . import lab

pytestmark = [pytest.mark.torch, pytest.mark.torchrun]

SCRIPT = """
    import os, sys
    print("done", flush=True)
    sys.exit({code})
"""


@pytest.mark.parametrize("code", [0, 3])
def test_a_directory_that_cannot_be_made(tmp_path: Path, code: int) -> None:
    """Where the directory of tapes cannot be made, the job ends as without us, and one line says so."""
    (tmp_path / "tapes").write_text("a file stands here")
    job = lab.run(tmp_path, SCRIPT.format(code=code), nproc=1)
    assert (min(code, 1), "done\n") == (job.exit_code, job.out)
    assert 1 == job.err.count("jobtape:")


def test_an_unknown_destination_kills_no_agent(tmp_path: Path) -> None:
    """A destination nobody knows is said once; torch alone would end the agent with a KeyError."""
    job = lab.run(tmp_path, SCRIPT.format(code=0), nproc=1, destination="tpae")
    assert (0, "done\n") == (job.exit_code, job.out)
    assert 1 == job.err.count("unknown destination 'tpae'")


def test_a_directory_that_vanishes_during_the_job(tmp_path: Path) -> None:
    """Deleting the tapes under a running job does it no harm."""
    script = """
        import os, pathlib, shutil, time
        shutil.rmtree(os.environ["TAPES"], ignore_errors=True)
        time.sleep(0.5)
        print("done", flush=True)
    """
    job = lab.run(tmp_path, script, nproc=1, env={"TAPES": str(tmp_path / "tapes")})
    assert (0, "done\n") == (job.exit_code, job.out)


def test_a_full_disk(tmp_path: Path) -> None:
    """On a file system without a free byte the job ends as without us, and each process says so once."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.strip()}")
    try:
        with open(disk / "filler", "wb", buffering=0) as stream, contextlib.suppress(OSError):
            while stream.write(b"x" * 4096):
                pass
        job = lab.run(tmp_path, SCRIPT.format(code=3), nproc=1, env={"JOBTAPE_DIR": str(disk / "tapes")})
        assert (1, "done\n") == (job.exit_code, job.out)
        assert 1 == job.err.count("jobtape:")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_worker_without_jobtape_in_its_environment(tmp_path: Path) -> None:
    """A worker whose interpreter has no jobtape runs as ever, and its agent still records how it ended."""
    python = tmp_path / "other-python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(python)], check=True)
    interpreter = str(python / "bin" / "python")
    job = lab.run(tmp_path, "import sys\nprint(sys.prefix)\nsys.exit(6)\n", "--no-python", interpreter, nproc=1)
    cause = job.why()["attempts"][0]["cause"]
    assert (1, f"{python}\n") == (job.exit_code, job.out)
    assert ("exit_code", 6) == (cause["kind"], cause["exit_code"])
