"""The one writer of a tape file: a record is one line, a line is one ``write(2)``.

Nothing is buffered in the process: when a call returns, the kernel has the line, and SIGKILL or ``os._exit`` cannot
take it back. There is no lock, so a signal handler, a ``__repr__`` or a garbage-collector callback that records in the
middle of another record cannot deadlock; the kernel appends whole lines in some order, and the sequence number a record
took says which came first. A number whose line could not be written is used again by the next record, so numbers have
no gaps.
"""

from __future__ import annotations

import errno
import itertools
import os
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import MsgspecError

from jobtape.tape.descriptors import identity, out_of_the_way
from jobtape.tape.names import safe_name
from jobtape.tape.records import CloseRecord, EventRecord, Header, LossRecord, RdzvRecord, encode
from jobtape.tape.values import INT_MAX, INT_MIN, encode_metadata, encode_value, plain_text

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longer lines are damage to the reader, so none is written."""

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_MENDS = 8
_REFUSALS = (TypeError, ValueError, ArithmeticError, RuntimeError, MsgspecError)
"""What encoding raises for surrogates, strange numbers, or a dict that another thread changes; the careful way takes
all. Not ``Exception``: a signal handler may raise one in the middle of an encoding, and it is not ours to swallow."""

_RDZV_TEXT = ("name", "source", "run_id", "message", "hostname", "node_state", "master_endpoint", "error_trace")

_time_ns = time.time_ns
_mono_ns = time.monotonic_ns
_os_write = os.write

_writers: weakref.WeakSet[Writer] = weakref.WeakSet()


class Writer:
    """Writes one tape file in ``directory``, the run's directory, which is made when it is missing.

    Every method raises ``OSError`` when the line could not be written and ``ValueError`` when it would be longer than
    `MAX_LINE_BYTES`; the file stays readable either way and the next call tries again. Safe to call from any thread and
    from signal handlers. A forked child has no writer: calls there raise ``OSError`` (EBADF).

    Attributes:
        path: the file, ``<host>-<pid>-<start>.jsonl``.
        lost: what `loss` was told is missing, summed.
        sync_failures: how often a record was written but could not be synced to disk.
    """

    def __init__(self, directory: Path, header: Header) -> None:
        self._fd = -1
        self._open_fd = -1
        self._torn = False
        self._next: Callable[[], int] = itertools.count(1).__next__
        self._spare: list[int] = []
        self._marks = 0
        self._closers = [True]
        self.lost = 0
        self.sync_failures = 0
        if header.time_ns is None:
            header.time_ns, header.mono_ns = _time_ns(), _mono_ns()
        header.seq = 0
        line = _encoded(header)
        self._fd, self.path = _create(directory, header)
        self._file = identity(self._fd)
        try:
            if _os_write(self._fd, line) != len(line):
                raise OSError(errno.ENOSPC, "no space for a header", str(self.path))
        except OSError:
            os.close(self._fd)
            _unlink(self.path)
            raise
        self._open_fd = self._fd
        _writers.add(self)

    def event(self, name: Any, source: Any, timestamp: Any, metadata: Any, *, sync: bool = False) -> None:
        """Append an event; ``sync`` waits until the disk has it.

        Meant are ``name: str, source: str, timestamp: int | float, metadata: dict[str, EventMetadataValue]``; what else
        is given is kept as `jobtape.tape.values` says.
        """
        seq = self._next() if not self._spare else self._take_spare()
        try:
            line = b""
            # A loop in line, not a function: this is most of what a record costs beside its write. msgspec takes more
            # types than these, and would bend them (NaN to null, bytes to base64), so they go the careful way.
            if name.__class__ is str and source.__class__ is str and timestamp.__class__ is int:
                try:
                    if metadata.__class__ is dict:
                        for key, value in metadata.items():
                            if key.__class__ is not str:
                                break
                            if value is None:
                                continue
                            kind = value.__class__
                            if (
                                kind is str
                                or (kind is int and INT_MIN <= value <= INT_MAX)
                                or kind is bool
                                or (kind is float and value - value == 0)
                            ):
                                continue
                            break
                        else:
                            # by position, which is twice as fast
                            record = EventRecord(seq, _time_ns(), _mono_ns(), name, source, timestamp, metadata)
                            line = encode(record)
                except _REFUSALS:
                    line = b""
            line = (line or encode(_careful_event(seq, name, source, timestamp, metadata))) + b"\n"
        except BaseException:
            self._spare.append(seq)
            raise
        self._put(line, seq)
        if sync:
            self.sync()

    def rdzv(
        self,
        /,
        *,
        name: Any = "",
        source: Any = "AGENT",
        run_id: Any = "",
        message: Any = "",
        hostname: Any = "",
        pid: Any = 0,
        node_state: Any = "",
        master_endpoint: Any = "",
        rank: Any = None,
        local_id: Any = None,
        error_trace: Any = "",
        sync: bool = False,
        **extra: Any,
    ) -> None:
        """Append a rendezvous event; the fields are those of `RdzvRecord`, others go into its ``extra``."""
        seq = self._next() if not self._spare else self._take_spare()
        try:
            record = RdzvRecord(
                seq=seq,
                time_ns=_time_ns(),
                mono_ns=_mono_ns(),
                name=name,
                source=source,
                run_id=run_id,
                message=message,
                hostname=hostname,
                pid=pid,
                node_state=node_state,
                master_endpoint=master_endpoint,
                rank=rank,
                local_id=local_id,
                error_trace=error_trace,
            )
            line = b""
            if (
                name.__class__ is str
                and source.__class__ is str
                and run_id.__class__ is str
                and message.__class__ is str
                and hostname.__class__ is str
                and pid.__class__ is int
                and node_state.__class__ is str
                and master_endpoint.__class__ is str
                and (rank is None or rank.__class__ is int)
                and (local_id is None or local_id.__class__ is int)
                and error_trace.__class__ is str
                and not extra
            ):
                try:
                    line = encode(record)
                except _REFUSALS:
                    line = b""
            line = (line or encode(_careful_rdzv(record, extra))) + b"\n"
        except BaseException:
            self._spare.append(seq)
            raise
        self._put(line, seq)
        if sync:
            self.sync()

    def loss(self, reason: str, count: int, detail: str = "") -> None:
        """Append that ``count`` records are missing here, and why."""
        seq = self._next() if not self._spare else self._take_spare()
        record = LossRecord(seq=seq, time_ns=_time_ns(), mono_ns=_mono_ns(), reason=reason, count=count)
        record.detail = plain_text(detail)
        self._append(record, seq)
        self._marks += 1
        self.lost += count

    def close(self, reason: str) -> None:
        """Append the closing record, sync, and take no more; a second call does nothing.

        The descriptor lives as long as this object: a thread that is inside a call must not find its number given to
        another file.
        """
        try:
            self._closers.pop()
        except IndexError:
            return
        recorded = self.recorded
        seq = self._next() if not self._spare else self._take_spare()
        record = CloseRecord(seq=seq, time_ns=_time_ns(), mono_ns=_mono_ns(), reason=plain_text(reason))
        record.recorded, record.lost = recorded, self.lost
        try:
            self._append(record, seq)
        except BaseException:
            self._closers.append(True)
            raise
        self._marks += 1
        self._fd = -1
        self.sync()

    def sync(self) -> None:
        """Wait until the disk has what was written; a refusal is counted, for the record is in the file anyhow."""
        try:
            os.fdatasync(self._open_fd)
        except OSError:
            self.sync_failures += 1

    @property
    def recorded(self) -> int:
        """How many events and rendezvous events are on the file."""
        taken = int(repr(self._next.__self__)[6:-1])  # type: ignore[attr-defined]  # count(N): looks without taking
        return taken - 1 - len(self._spare) - self._marks

    @property
    def deleted(self) -> bool:
        """Whether the file has no name any more: what is written now can be read by nobody."""
        try:
            return not self.taken and os.fstat(self._open_fd).st_nlink == 0
        except OSError:
            return True

    @property
    def taken(self) -> bool:
        """Whether the job has closed the descriptor, or opened something else under its number: it must not be used."""
        return identity(self._open_fd) != self._file

    def _append(self, record: LossRecord | CloseRecord, seq: int) -> None:
        try:
            line = _encoded(record)
        except BaseException:
            self._spare.append(seq)
            raise
        self._put(line, seq)

    def _take_spare(self) -> int:
        try:
            return self._spare.pop()
        except IndexError:
            return self._next()

    def _put(self, line: bytes, seq: int) -> None:
        if self._torn or len(line) > MAX_LINE_BYTES:
            self._put_carefully(line, seq)
            return
        try:
            done = _os_write(self._fd, line)
        except OSError as error:
            self._give_back(seq, error)
            raise
        if done != len(line):
            self._mend(line, done, seq)

    def _put_carefully(self, line: bytes, seq: int) -> None:
        if len(line) > MAX_LINE_BYTES:
            self._spare.append(seq)
            raise ValueError(f"a record of {len(line)} bytes is too long for a tape ({MAX_LINE_BYTES})")
        self._mend(line, 0, seq)

    def _mend(self, line: bytes, done: int, seq: int) -> None:
        """Write the line again, whole, after a LF that ends what was cut.

        Not the missing rest of it: another thread's line may have come between.
        """
        for _ in range(_MENDS):
            self._torn = True
            if done == len(line) - 1:
                return
            try:
                done = _os_write(self._fd, b"\n" + line) - 1
            except OSError as error:
                self._give_back(seq, error)
                raise
            if done == len(line):
                self._torn = False
                return
        self._spare.append(seq)
        raise OSError(errno.ENOSPC, "the line was cut again and again", str(self.path))

    def _give_back(self, seq: int, error: OSError) -> None:
        """Let the next record use a number whose line was refused.

        A signal handler may raise an ``OSError`` of its own (``TimeoutError``) right behind a write that went well;
        then the traceback goes on into the handler and the number stays taken.
        """
        if error.__traceback__ is None or error.__traceback__.tb_next is None:
            self._spare.append(seq)

    def _forget_parent(self) -> None:
        self._fd = -1

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if self._open_fd >= 0 and not self.taken:
            try:
                close(self._open_fd)
            except OSError:
                pass


def _careful_event(seq: int, name: Any, source: Any, timestamp: Any, metadata: Any) -> EventRecord:
    record = EventRecord(seq=seq, time_ns=_time_ns(), mono_ns=_mono_ns(), name=plain_text(name))
    record.source = plain_text(source)
    record.metadata = encode_metadata(metadata)
    kept = encode_value(timestamp)
    if kept.__class__ is int or kept.__class__ is float:
        record.timestamp = kept
    else:
        record.extra = {"timestamp": kept}
    return record


def _careful_rdzv(record: RdzvRecord, extra: dict[str, Any]) -> RdzvRecord:
    record.extra = encode_metadata(extra)
    for field in _RDZV_TEXT:
        setattr(record, field, plain_text(getattr(record, field)))
    for field, missing in (("pid", 0), ("rank", None), ("local_id", None)):
        kept = encode_value(getattr(record, field))
        if kept.__class__ is int:
            setattr(record, field, kept)
        else:
            setattr(record, field, missing)
            if kept is not None:
                record.extra[field] = kept
    return record


def _encoded(record: Header | LossRecord | CloseRecord) -> bytes:
    return encode(record) + b"\n"


def _create(directory: Path, header: Header) -> tuple[int, Path]:
    """A new file of this process; 0700 and 0600, for tapes hold tracebacks and command lines."""
    make_directory(directory)
    parent = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        start_ms = (header.time_ns or 0) // 1_000_000
        while True:
            stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(start_ms // 1000)) + f"{start_ms % 1000:03d}"
            name = f"{safe_name(header.host or 'unknown')}-{header.pid}-{stamp}.jsonl"
            try:
                return out_of_the_way(os.open(name, _CREATE, 0o600, dir_fd=parent)), directory / name
            except FileExistsError:
                start_ms += 1
    finally:
        os.close(parent)


def make_directory(directory: Path) -> None:
    """Make a directory and its missing parents, 0700 each."""
    try:
        directory.mkdir(0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_directory(directory.parent)
        directory.mkdir(0o700, exist_ok=True)


def _unlink(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        pass


def _forget_all() -> None:
    for writer in list(_writers):
        writer._forget_parent()


os.register_at_fork(after_in_child=_forget_all)
