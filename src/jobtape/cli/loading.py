"""The facts of a run, file by file: a large run's files are read by several processes at once.

The processes are forks of this one that read their share, send the facts through a pipe and end. Whatever goes wrong
with them only costs time: what they have not told is read here.
"""

from __future__ import annotations

import gc
import os
import signal
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn

if TYPE_CHECKING:
    from jobtape.diagnose.facts import FileFacts
    from jobtape.tape.shelf import ShelfRun

POOL_BYTES = 32 * 1024 * 1024
"""A run of less is read by one process, in half a second."""
SHARE_BYTES = 16 * 1024 * 1024
"""What a process should have to read to be worth it."""
STREAM_BYTES = 256 * 1024
"""Smaller files fit into the processor's cache as they are."""
MOST_PROCESSES = 8
"""The answer is put together by one process: more of them than that would wait for it."""

kept: list[object] = []
"""What the answer on a large run was made of. Taking millions of values apart takes seconds, and the end of the process
none: a command that has something here may end its process without that."""

_LENGTH = struct.Struct("<q")
_NOT_TOLD = -1


def facts_of_run(run: ShelfRun) -> list[FileFacts]:
    """What each tape file of a run says, in the order of their names.

    Raises:
        TapeError: none of the files can be read.
    """
    shares = _shares(run.files)
    found: dict[Path, FileFacts] = {}
    with _helpers(shares[1:]) as pipes:
        errors = _read_here(shares[0], found)
        for share, pipe in zip(shares[1:], pipes, strict=False):
            _receive(share, pipe, found)
        errors += _read_here([path for path in run.files if path not in found], found)
    if errors and len(errors) == len(run.files):
        raise errors[0]
    return [found[path] for path in run.files]


def is_large(run: ShelfRun) -> bool:
    """Whether a run has more than one process should read."""
    return sum(map(_size, run.files)) >= POOL_BYTES


def read_file(path: Path) -> tuple[FileFacts, Exception | None]:
    """What one tape file says, and why it cannot be read, if it cannot."""
    from jobtape.cli.tapes import living
    from jobtape.diagnose.reading import read_facts
    from jobtape.errors import TapeError
    from jobtape.tape.reader import Damage, TapeFile, read_tape

    streamed = _streamed(path)
    if streamed is not None:
        return streamed, None
    problem = None
    try:
        tape = read_tape(path)
    except TapeError as error:
        problem, tape = error, TapeFile(path, damage=[Damage(0, str(error))])
    return read_facts(tape, alive=bool(living([tape]))), problem


def _streamed(path: Path) -> FileFacts | None:
    """What a large file of an agent says; None when it has to be read in the other way."""
    from jobtape.cli.tapes import living
    from jobtape.diagnose.reading import fits_a_stream, read_facts
    from jobtape.errors import TapeError
    from jobtape.tape.stream import Odd, stream_tape

    try:
        tape = stream_tape(path) if _size(path) >= STREAM_BYTES else None
    except TapeError:
        return None
    if tape is None:
        return None
    try:
        return read_facts(tape, alive=bool(living([tape]))) if fits_a_stream(tape.header) else None
    except (Odd, OSError):
        return None
    finally:
        tape.close()


def _read_here(paths: Sequence[Path], found: dict[Path, FileFacts]) -> list[Exception]:
    problems = []
    for path in paths:
        found[path], problem = read_file(path)
        if problem is not None:
            problems.append(problem)
    return problems


def _shares(files: Sequence[Path]) -> list[list[Path]]:
    """The files of each process, this one first: one share for a small run."""
    sizes = [_size(path) for path in files]
    total = sum(sizes)
    count = min(_cores(), MOST_PROCESSES, total // SHARE_BYTES) if total >= POOL_BYTES else 1
    if count < 2 or not hasattr(os, "fork") or threading.active_count() > 1:
        return [list(files)]
    shares: list[list[Path]] = [[] for _ in range(count)]
    loads = [0] * count
    for size, path in sorted(zip(sizes, files, strict=True), key=lambda pair: -pair[0]):
        lightest = loads.index(min(loads))
        loads[lightest] += size
        shares[lightest].append(path)
    return shares


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count() or 1


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection while millions of values are made, none of which is garbage, nor a look at them later."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@contextmanager
def _helpers(shares: Sequence[Sequence[Path]]) -> Iterator[list[BinaryIO]]:
    """A process for each share, and the pipe through which it tells what it has read; they are gone afterwards."""
    pids: list[int] = []
    pipes: list[BinaryIO] = []
    try:
        for share in shares:
            try:
                pid, pipe = _fork(share)
            except OSError:
                break
            pids.append(pid)
            pipes.append(pipe)
        yield pipes
    finally:
        for pipe in pipes:
            pipe.close()
        for pid in pids:
            _end(pid)


def _fork(share: Sequence[Path]) -> tuple[int, BinaryIO]:
    ours, theirs = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(ours)
        os.close(theirs)
        raise
    if pid == 0:
        os.close(ours)
        _tell(share, theirs)
    os.close(theirs)
    return pid, open(ours, "rb", buffering=1024 * 1024)


def _end(pid: int) -> None:
    """Make sure that a process of ours is no more, and leave no zombie."""
    try:
        if os.waitpid(pid, os.WNOHANG)[0] == 0:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    except OSError:
        return


def _tell(share: Sequence[Path], pipe: int) -> NoReturn:
    """What a process does that reads a share: nothing of this one's that ends with a process may happen in it."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        from jobtape.diagnose.packing import pack

        told: list[bytes] = []
        for path in share:
            facts, problem = read_file(path)
            # The reader of the pipe is busy with a share of its own: nobody waits for it before all is read.
            packed = pack(facts) if problem is None else None
            told += [_LENGTH.pack(_NOT_TOLD)] if packed is None else [_LENGTH.pack(len(packed)), packed]
        with open(pipe, "wb", buffering=1024 * 1024) as stream:
            stream.writelines(told)
    finally:
        os._exit(0)


def _receive(share: Sequence[Path], pipe: BinaryIO, found: dict[Path, FileFacts]) -> None:
    """Take in what a process has told; it may have died in the midst of it."""
    from jobtape.diagnose.packing import unpack

    for path in share:
        head = pipe.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            return
        length = _LENGTH.unpack(head)[0]
        if length == _NOT_TOLD:
            continue
        packed = pipe.read(length)
        if len(packed) < length:
            return
        found[path] = unpack(packed)
