"""What ``jobtape doctor`` looks at: whether recording is on here, where to, how fast, and what was lost."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, entry_points, version
from importlib.util import find_spec
from pathlib import Path

from jobtape.views.findings import Finding
from jobtape.views.groups import count

HOOK = "jobtape.capture.hook:activate"
OLDEST_TORCH = (2, 4)
LITTLE_SPACE = 1 << 30
SLOW_US = 200.0
"""A median above this is worth a word: a healthy local disk takes a tenth of it."""

EVENTS_MEASURED = 2000
BYTES_READ = 1 << 30
"""How much of the shelf is read to count losses, the newest runs first."""

NETWORK_KINDS = frozenset({"nfs", "nfs4", "lustre", "cifs", "smb3", "ceph", "fuse.sshfs", "gpfs", "beegfs"})
PASSING_KINDS = frozenset({"tmpfs", "ramfs"})
LEVELS = frozenset({"CRITICAL", "FATAL", "ERROR", "WARN", "WARNING", "INFO", "DEBUG", "NOTSET"})


def checkup(directory: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Everything that is looked at, one finding after the other."""
    yield hook()
    yield torch()
    yield from environment(environ)
    place = nearest(directory)
    yield from where(directory, place)
    yield speed(place)
    yield losses(directory)


def hook() -> Finding:
    """Whether torch will find our entry point."""
    found = [each for each in entry_points(group="torch.backends") if each.value == HOOK]
    if not found:
        return Finding(
            "hook", "problem", "jobtape's entry point is not installed in this Python, so torch does not know of it",
            "install it where the job runs: pip install jobtape (a PYTHONPATH alone is not enough)",
        )  # fmt: skip
    versions = sorted({each.dist.version for each in found if each.dist is not None})
    return Finding("hook", "ok", f"torch will call jobtape {', '.join(versions)} in every process that imports it")


def torch() -> Finding:
    """Whether there is a torch to record, without importing it."""
    try:
        found = version("torch")
    except PackageNotFoundError:
        found = None
    if find_spec("torch") is None:
        return Finding(
            "torch", "problem", "torch is not installed in this Python, so no job of it can be recorded from here",
            "run doctor with the Python of the job; reading tapes needs no torch",
        )  # fmt: skip
    if found is None:
        return Finding("torch", "note", "torch is there, but its version is not known")
    numbers = tuple(int(number) for number in re.findall(r"\d+", found)[:2])
    if numbers < OLDEST_TORCH:
        return Finding(
            "torch", "problem", f"torch {found} loads no entry points, ours included", "use torch 2.4 or newer"
        )
    return Finding("torch", "ok", f"torch {found}")


def environment(environ: Mapping[str, str]) -> Iterator[Finding]:
    """What the environment says about recording."""
    if environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "0":
        yield Finding(
            "autoload", "problem", "TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps torch from loading jobtape",
            "unset it, or start the job with jobtape run",
        )  # fmt: skip
    asked = [name for name in ("PET_EVENT_LOG_HANDLER", "JOBTAPE_RECORD") if environ.get(name)]
    for name in asked:
        yield destination(name, environ[name])
    if not asked:
        yield Finding(
            "recording", "note", "nothing in this environment asks for a recording",
            "torchrun --event-log-handler=tape records one job, export PET_EVENT_LOG_HANDLER=tape all of this shell",
        )  # fmt: skip
    level = environ.get("LOGLEVEL", "")
    if level and level.upper() not in LEVELS and not level.isdecimal():
        known = ", ".join(sorted(LEVELS))
        yield Finding("LOGLEVEL", "note", f"LOGLEVEL={level} is no level and is ignored", f"use one of {known}")


def destination(name: str, value: str) -> Finding:
    """Whether a destination named in the environment is one, and a durable one."""
    from jobtape.errors import JobtapeError
    from jobtape.events import get_logging_handler

    try:
        for part in value.split(","):
            get_logging_handler(part.strip())
    except JobtapeError as error:
        return Finding("recording", "problem", f"{name}={value}: {error}", f"set {name}=tape")
    except Exception as error:  # noqa: BLE001 - a destination of somebody else's may fail in any way
        return Finding("recording", "problem", f"{name}={value}: {type(error).__name__}: {error}", f"set {name}=tape")
    if not any(part.strip() == "tape" or part.strip().startswith("file://") for part in value.split(",")):
        return Finding("recording", "note", f"{name}={value} records nothing that lasts", f"set {name}=tape")
    agents = name.startswith("PET")
    who = "the agents torchrun starts, and their workers" if agents else "every Python process that imports torch"
    return Finding("recording", "ok", f"{name}={value}: on, for {who}")


def nearest(directory: Path) -> Path:
    """The directory, or the nearest one above it that exists."""
    place = directory.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    return place


def where(directory: Path, place: Path) -> Iterator[Finding]:
    """Whether tapes can be written to the directory, and for how long there is room."""
    shown, elsewhere = str(directory.absolute()), "set JOBTAPE_DIR to a directory of yours"
    if not place.is_dir():
        yield Finding("directory", "problem", f"{shown} cannot be a directory: {place} is a file", elsewhere)
        return
    if not os.access(place, os.W_OK | os.X_OK):
        yield Finding("directory", "problem", f"{shown} cannot be written by this user", elsewhere)
        return
    there = "" if place == directory.absolute() else ", which the first recording will make"
    kind = file_system(place)
    yield Finding("directory", "ok", f"{shown}{there}, on {kind or 'a file system of unknown kind'}")
    if kind in PASSING_KINDS:
        yield Finding(
            "file system", "note", f"{kind} is memory: the tapes are gone when the machine or the container is",
            "set JOBTAPE_DIR to a disk",
        )  # fmt: skip
    elif kind in NETWORK_KINDS:
        yield Finding("file system", "note", f"{kind} is on the network: recording works, as slow as that is")
    total, _, free = shutil.disk_usage(place)
    if not total:
        return
    if free < LITTLE_SPACE:
        yield Finding(
            "space", "problem", f"{free / 2**20:,.0f} MiB free", "make room, or set JOBTAPE_DIR to another file system"
        )
    else:
        yield Finding("space", "ok", f"{free / 2**30:,.1f} GiB free")


def file_system(place: Path) -> str:
    """The kind of file system a directory is on; empty when the kernel does not say."""
    try:
        text = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    except OSError:
        return ""
    device = place.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    real = os.path.realpath(place)
    best, kind = -1, ""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        rank = len(point) + (10_000 if fields[2] == number else 0)
        if inside and rank >= best:
            best, kind = rank, after.split()[0]
    return kind


def speed(place: Path) -> Finding:
    """The median time of ``record()`` to a tape there, in a scratch run that is removed afterwards."""
    from jobtape import events
    from jobtape.destinations.tape import TapeHandler

    try:
        scratch = Path(tempfile.mkdtemp(prefix=".jobtape-doctor-", dir=place))
    except OSError as error:
        return Finding(
            "speed", "problem", f"nothing can be written to {place}: {error.strerror}",
            "set JOBTAPE_DIR to a directory of yours",
        )  # fmt: skip
    handler = TapeHandler(scratch, "jobtape-doctor")
    try:
        handler.open("doctor", "doctor", "other")
        events.register_handler("jobtape-doctor", handler, replace=True)
        event = events.Event("jobtape.doctor", events.EventSource.WORKER, metadata={"step": 1, "loss": 0.5})
        took = []
        for _ in range(EVENTS_MEASURED):
            before = time.perf_counter_ns()
            events.record(event, "jobtape-doctor")
            took.append(time.perf_counter_ns() - before)
        kept = handler.tally.recorded
    finally:
        handler.close_tape("exit")
        shutil.rmtree(scratch, ignore_errors=True)
    if kept < EVENTS_MEASURED:
        return Finding(
            "speed", "problem", f"{EVENTS_MEASURED - kept:,} of {EVENTS_MEASURED:,} events recorded there were lost",
            "look at the message above, or set JOBTAPE_DIR to another file system",
        )  # fmt: skip
    median = statistics.median(took) / 1000
    slowest = sorted(took)[int(len(took) * 0.99)] / 1000
    text = f"record() took {median:.1f} µs (median of {EVENTS_MEASURED:,}), 99 in 100 under {slowest:.0f} µs"
    if median > SLOW_US:
        return Finding("speed", "note", text, "a local disk in JOBTAPE_DIR would be faster")
    return Finding("speed", "ok", text)


def losses(directory: Path) -> Finding:
    """What the tapes on the shelf lack."""
    from jobtape.cli.tapes import diagnosed
    from jobtape.errors import TapeError
    from jobtape.tape.shelf import list_runs

    if not directory.exists():
        return Finding("losses", "ok", "no runs yet")
    try:
        runs = list_runs(directory)
    except TapeError as error:
        return Finding("losses", "problem", str(error), "name another directory with --dir or JOBTAPE_DIR")
    looked, size, short, unreadable = 0, 0, [], []
    for run in reversed(runs):
        size += sum(path.lstat().st_size for path in run.files if path.exists())
        if looked and size > BYTES_READ:
            break
        looked += 1
        try:
            loss = diagnosed(run).loss
        except TapeError:
            unreadable.append(run.name)
            continue
        if loss.events_missing or loss.damaged_lines:
            short.append((run.name, loss.events_missing, loss.damaged_lines))
    told = f"{looked:,} of {count(len(runs), 'run')}" if looked < len(runs) else count(len(runs), "run")
    if not short and not unreadable:
        return Finding("losses", "ok", f"none in {told}" if runs else "no runs yet")
    missing, damaged = sum(each[1] for each in short), sum(each[2] for each in short)
    names = ", ".join([name for name, _, _ in short] + unreadable)
    return Finding(
        "losses", "problem", f"{missing:,} records missing and {damaged:,} lines damaged in {told}: {names}",
        "jobtape why RUN says what that means for a run; a full disk and killed writers are the usual reasons",
    )  # fmt: skip
