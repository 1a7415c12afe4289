"""Real torchrun jobs for tests: started as a user would, read back through the command line."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
TIMEOUT_S = 120
NAMED = ("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0")
"""With an endpoint torchrun keeps the ``--rdzv-id`` it is given; a plain single-node launch gets a uuid."""


def environment(shelf: Path, extra: dict[str, str] | None = None) -> dict[str, str]:
    """The environment of a user who set nothing but the directory of tapes."""
    foreign = (
        "JOBTAPE",
        "PET_",
        "TORCHELASTIC",
        "SLURM_",
        "LOGLEVEL",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "PYTHONPATH",
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    env.update(JOBTAPE_DIR=str(shelf), OMP_NUM_THREADS="1", PATH=f"{BIN}{os.pathsep}{env.get('PATH', '')}")
    env.update(extra or {})
    return env


@dataclass
class Job:
    """One launch that has ended, or is running."""

    shelf: Path
    process: subprocess.Popen[str]
    script: Path
    out: str = ""
    err: str = ""
    exit_code: int | None = None
    started: float = field(default_factory=time.time)

    def wait(self, timeout_s: float = TIMEOUT_S) -> Job:
        """Wait for the end and keep the output."""
        self.out, self.err = self.process.communicate(timeout=timeout_s)
        self.exit_code = self.process.returncode
        return self

    def why(self, run: str = "latest") -> dict[str, Any]:
        """What ``jobtape why --json`` answers."""
        return why(self.shelf, run)

    def records(self, name: str = "*") -> list[dict[str, Any]]:
        """The records of that name, as ``jobtape events --json`` prints them."""
        done = jobtape(self.shelf, "events", "latest", "--json", "--name", name)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def tapes(self) -> list[Path]:
        """Every tape file on the shelf."""
        return sorted(self.shelf.glob("*/*.jsonl"))


def start(
    tmp_path: Path,
    script: str,
    *args: str,
    nproc: int = 2,
    destination: str | None = "tape",
    env: dict[str, str] | None = None,
    launcher: tuple[str, ...] = ("torchrun",),
    prefix: tuple[str, ...] = (),
) -> Job:
    """Start ``torchrun --event-log-handler=<destination> … train.py`` in a folder of its own."""
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(script), encoding="utf-8")
    shelf = tmp_path / "tapes"
    wish = [f"--event-log-handler={destination}"] if destination is not None else []
    command = [*prefix, str(BIN / launcher[0]), *launcher[1:], *wish, f"--nproc-per-node={nproc}", *args, str(path)]
    process = subprocess.Popen(
        command,
        env=environment(shelf, env),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    return Job(shelf, process, path)


def run(tmp_path: Path, script: str, *args: str, **options: Any) -> Job:
    """`start`, then wait for the end."""
    return start(tmp_path, script, *args, **options).wait()


def jobtape(shelf: Path, *args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a jobtape command on a shelf."""
    return subprocess.run(
        [str(BIN / "jobtape"), *args],
        env=environment(shelf, {"NO_COLOR": "1", **(env or {})}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def why(shelf: Path, run: str = "latest") -> dict[str, Any]:
    """What ``jobtape why --json`` answers about a run."""
    done = jobtape(shelf, "why", run, "--json")
    assert done.returncode in (0, 1), done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def free_port() -> int:
    """A port nobody listens on at the moment."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def line_of(script: Path, text: str) -> int:
    """The number of the line of the script that has this text."""
    lines = script.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def ranks(attempt: dict[str, Any], *keys: str) -> dict[int, Any]:
    """Rank → the named value (or tuple of values) of an attempt's ranks."""
    return {
        entry["rank"]: entry[keys[0]] if len(keys) == 1 else tuple(entry[key] for key in keys)
        for entry in attempt["ranks"]
    }


def without_times(text: str) -> str:
    """Console output with what differs between two runs of the same job (times, pids, ports, paths) made equal."""
    text = re.sub(r"[WEI]\d{4} \d\d:\d\d:\d\d\.\d+ \d+", "LOG", text)
    text = re.sub(r"\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d", "TIME", text)
    text = re.sub(r"(pid|PID|process):? ?\d+", r"\1 N", text)
    text = re.sub(r"0x[0-9a-f]+", "0xN", text)
    return re.sub(r"torchelastic_\w+/\S+|/tmp/\S+", "PATH", text)
