"""Plays one scenario: starts its agents with recording on, injects what the harness has to inject, and cleans up."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from ..capture import lab
from ..capture.memory_group import MemoryGroup, memory_group
from .observer import Observer, Pulse, processes_with
from .performance import HARNESS, Line, Performance
from .scenario import Scenario

END_S = 75.0
"""How long a job may take; the lab's scripts give up by themselves after 60 s."""

TWO_AGENTS = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=4,join_timeout=60"


class Stage:
    """Where one scenario is played.

    Args:
        scenario: what is played.
        folder: empty, for everything the job leaves.
        pulse: tells how late this machine is.
        armed: whether the faults are injected; without them the same job has to end well.
    """

    def __init__(self, scenario: Scenario, folder: Path, pulse: Pulse, *, armed: bool = True) -> None:
        self.scenario = scenario
        self.folder = folder
        self.armed = armed
        self.shelf = folder / "tapes"
        self.run_id = f"lab-{scenario.name}"
        self.agents: list[subprocess.Popen[bytes]] = []
        self.prefix: tuple[str, ...] = ()
        self.port = 0
        self._pulse = pulse
        self._marker = f"FAULTLAB_STAGE={uuid.uuid4().hex}"
        self._lines: list[Line] = []
        self._begun = time.time()
        self.script = folder / "train.py"
        self.script.write_text(textwrap.dedent(scenario.script), encoding="utf-8")
        shutil.copy(Path(__file__).with_name("witness.py"), folder)
        if not armed:
            self.finish()
        self.observer = Observer(folder)

    def start_agent(self, *args: str) -> int:
        """Start one more torchrun on this scenario's script; its number."""
        return self.start("torchrun", "--event-log-handler=tape", f"--nproc-per-node={self.scenario.ranks}",
                          *self._rendezvous(), *self.scenario.args, *args, str(self.script))  # fmt: skip

    def start(self, program: str, *args: str, env: dict[str, str] | None = None) -> int:
        """Start a program of this environment as a part of the job; its number among the agents."""
        name, _, value = self._marker.partition("=")
        ours = {name: value, "FAULTLAB_FOLDER": str(self.folder), "FAULTLAB_ARMED": str(int(self.armed))}
        with open(self.folder / f"console-{len(self.agents)}.txt", "wb") as console:
            process = subprocess.Popen(
                [*self.prefix, str(lab.BIN / program), *args],
                env=lab.environment(self.shelf, {**self.scenario.env, **ours, **(env or {})}),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.agents.append(process)
        self.observer.watch(process.pid)
        return len(self.agents) - 1

    def _rendezvous(self) -> list[str]:
        if self.scenario.agents == 1:
            return [*lab.NAMED, f"--rdzv-id={self.run_id}"]
        self.port = self.port or lab.free_port()
        return [
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint=127.0.0.1:{self.port}",
            f"--rdzv-id={self.run_id}",
            "--local-addr=127.0.0.1",
            f"--rdzv-conf={TWO_AGENTS}",
        ]

    def inject(self, what: str, *deeds: Callable[[], object], pid: int, **facts: object) -> None:
        """Write down, synced, what will be done to a process; then do it. Unarmed it is not done."""
        if not self.armed:
            return
        line = {"what": what, "pid": pid, **facts}
        fd = os.open(self.folder / "harness.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(fd, (json.dumps(line) + "\n").encode())
        os.fsync(fd)
        os.close(fd)
        now = time.time()
        for deed in deeds:
            deed()
        rank = next((up.rank for up in self.said("up") if up.pid == pid), HARNESS)
        self._lines.append(Line(what, rank, 0, 0, pid, 0, now, dict(facts)))

    def signal_agent(self, what: str, number: int, sent: signal.Signals, *also: int) -> None:
        """Send a signal to an agent, and then to other processes."""
        pid = self.agents[number].pid
        deeds = [lambda pid=pid: os.kill(pid, sent) for pid in (pid, *also)]
        self.inject(what, *deeds, pid=pid, signal=sent.name, also=also)

    def said(self, what: str) -> list[Line]:
        """What the workers have said so far."""
        return [line for line in _read(self.folder) if line.what == what]

    def workers_of(self, number: int) -> list[int]:
        """The pids of an agent's workers."""
        agent = self.agents[number].pid
        return [line.pid for line in self.said("up") if line.ppid == agent]

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition holds; after some time the scenario has failed."""
        end = time.monotonic() + END_S
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError("the job did not come to the point the scenario waits for")
            time.sleep(0.02)

    def until_up(self, processes: int, *, world_size: int) -> list[Line]:
        """Wait until so many processes of a world of that size have come up and were seen; them."""

        def found() -> list[Line]:
            return [line for line in self.said("up") if line.world_size == world_size]

        self.until(lambda: len([up for up in found() if (self.folder / f"{up.pid}.seen").exists()]) >= processes)
        return found()

    def until_printed(self, text: str) -> None:
        """Wait until the job has printed a text."""
        self.until(lambda: any(text in path.read_text(errors="replace") for path in self.folder.glob("console-*.txt")))

    def until_taped(self, text: str) -> None:
        """Wait until a text is on a tape."""
        self.until(lambda: any(text in path.read_text(errors="replace") for path in self.shelf.glob("*/*.jsonl")))

    def finish(self) -> None:
        """Tell the scripts that the work is done."""
        (self.folder / "finish").touch()

    def mark(self, name: str) -> None:
        """Make a file that a script waits for."""
        (self.folder / name).touch()

    def end(self, trouble: str | None, group: MemoryGroup | None) -> Performance:
        """Wait for the agents and for all that they started, kill what is left, and gather what happened."""
        deadline = time.monotonic() + (END_S if trouble is None else 0)
        for process in self.agents:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                trouble = trouble or f"agent {process.pid} did not come to an end"
        left = self._sweep(5.0)
        for process in self.agents:
            process.wait(10)
        self.observer.close()
        lines = sorted([*_read(self.folder), *self._lines], key=lambda line: line.time)
        consoles = sorted(self.folder.glob("console-*.txt"))
        return Performance(
            shelf=self.shelf,
            folder=self.folder,
            host=socket.gethostname(),
            begun=self._begun,
            over=time.time(),
            lines=tuple(lines),
            deaths=self.observer.deaths,
            agents=tuple(process.pid for process in self.agents),
            exit_codes=tuple(process.returncode for process in self.agents),
            consoles=tuple(path.read_text(encoding="utf-8", errors="replace") for path in consoles),
            left=tuple(left),
            oom_kills=group.oom_kills() if group is not None else 0,
            lateness_s={line.what: self._pulse.lateness_s(line.time) for line in lines},
            trouble=trouble,
        )

    def _sweep(self, patience_s: float) -> list[int]:
        """Give what the job started a moment to end; kill the rest."""
        end = time.monotonic() + patience_s
        while (left := processes_with(self._marker)) and time.monotonic() < end:
            time.sleep(0.05)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left


def play(scenario: Scenario, folder: Path, pulse: Pulse, *, armed: bool = True) -> Performance:
    """Play a scenario from its first process to its last.

    Raises:
        NoMemoryGroup: it needs a control group, and this machine lets nobody make one.
    """
    with _group_of(scenario) as group:
        stage = Stage(scenario, folder, pulse, armed=armed)
        if group is not None:
            stage.prefix = group.prefix
        trouble = None
        try:
            scenario.play(stage)
        except Exception as error:
            trouble = f"{type(error).__name__}: {error}"
        finally:
            performance = stage.end(trouble, group)
    return performance


@contextlib.contextmanager
def _group_of(scenario: Scenario) -> Iterator[MemoryGroup | None]:
    if scenario.memory_limit is None:
        yield None
    else:
        with memory_group(scenario.memory_limit) as group:
            yield group


def _read(folder: Path) -> list[Line]:
    """The lines of all witness files; of an injection only the one with its time."""
    found = []
    for path in folder.glob("*.jsonl"):
        for text in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            if line.pop("moment") == "now":
                line.pop("monotonic")
                keys = ("what", "rank", "world_size", "attempt", "pid", "ppid", "time")
                found.append(Line(*(line.pop(key) for key in keys), facts=line))
    return sorted(found, key=lambda line: line.time)
