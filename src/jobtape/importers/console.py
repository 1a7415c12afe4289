"""The lines of one node's console, or of one file of event lines, as records.

What belongs together over several lines is put together here: torchrun's closing block, the traceback below an exit
barrier's line, listings, and the exceptions of workers. Where a file holds several nodes, each has a `Console` of its
own, so that lines of another node in between break nothing.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from jobtape.importers import closing_block, event_lines
from jobtape.importers.clock import FileClock, Stamp
from jobtape.importers.listings import Listing, open_listing
from jobtape.importers.log_lines import BarrierError, is_of_torch, read_log_line
from jobtape.importers.onto_tape import ForeignFile
from jobtape.importers.prefixes import Prefix, read_prefix, stamp_before
from jobtape.importers.progress import behind_bars
from jobtape.importers.rendezvous_lines import read_rendezvous
from jobtape.importers.scheduler_lines import read_scheduler_line
from jobtape.importers.worker_output import WorkerError, WorkerOutput
from jobtape.tape.records import EventRecord
from jobtape.tape.values import plain_text

_WORTH_READING = re.compile(
    rb"[\[{}\x00\x1b\x80-\xff]|torch|Traceback|slurm|srun|sbatch|salloc|scancel|rocess |oom-kill|Normal |Warning "
)
"""Every line that is read, or counted as damaged, has one of these in it; most of what workers print has none."""
_REMEMBERED_MESSAGES = 64
_AGENT_ERROR_FREE = "ChildFailedError"
"""What torchrun raises when workers failed: its closing block says it better."""


class Console:
    """Reads one node's lines in their order.

    Args:
        target: takes the records.
        name: the file's name, for records' origins.
        clock: reads the file's times.
        host: the node's host where the file holds several nodes, for records that do not name one.
    """

    def __init__(self, target: ForeignFile, name: str, clock: FileClock, host: str = "") -> None:
        self._target = target
        self._name = name
        self._clock = clock
        self._host = host
        self._workers = WorkerOutput(mixed=True)
        self._block: tuple[int, bytes, closing_block.BlockReader] | None = None
        self._open: tuple[BarrierError | Listing, EventRecord, int] | None = None
        self._told: deque[str] = deque(maxlen=_REMEMBERED_MESSAGES)

    @property
    def held_bytes(self) -> int:
        """How much of a closing block is held until its end is seen."""
        return self._block[2].size if self._block is not None else 0

    def line(self, number: int, raw: bytes | None, stamp: Stamp | None = None) -> None:
        """Take the next line in; ``stamp`` is a collector's time of it."""
        if self._block is not None:
            if self._block[2].take(number, raw):
                self.end_block()
        elif raw is None:
            self._target.damaged_line(number)
        elif raw[:1] == b"{":
            self._end_of_output()
            text, intact = _decode(raw)
            self._json(number, text, intact, stamp)
        elif closing_block.opens(raw):
            self._block = number, raw, closing_block.BlockReader(raw)
        elif raw:
            if self._open is None and self._workers.idle and not _WORTH_READING.search(raw):
                if not raw.isspace():
                    self._target.foreign_line()
            else:
                self._text_line(number, raw, stamp)

    def end(self) -> None:
        """The file is over."""
        while self._block is not None:
            self.end_block()
        self._errors(self._workers.flush())
        self._end_of_lines()

    def end_block(self) -> None:
        """Take what there is of a closing block for all that will come of it."""
        if self._block is None:
            return
        number, border, reader = self._block
        self._block = None
        block, rest = reader.result(self._clock)
        if block is None:
            self._text_line(number, border, None)
        else:
            self._end_of_output()
            self._closing_block(number, block)
        for later, raw in rest:
            self.line(later, raw)

    def _json(self, number: int, text: str, intact: bool, stamp: Stamp | None) -> None:
        """Import the record, or records, of a text that begins with one; count it when it holds none."""
        decoded = event_lines.decode_object(text)
        if decoded is not None and not text[decoded[1] :].strip():
            if event_lines.is_record(decoded[0]):
                self._event(number, decoded[0], stamp)
            elif intact:
                self._target.foreign_line()
            if not intact:
                self._target.damaged_line(number)
        elif intact and not event_lines.looks_torn(text):
            self._target.foreign_line()
        else:
            found, nothing_else = event_lines.find_records(text)
            for fields, start in found:
                self._event(number, fields, stamp_before(text[:start]) if start else stamp)
            if not (nothing_else and intact):
                self._target.damaged_line(number)

    def _event(self, number: int, fields: dict[str, Any], stamp: Stamp | None) -> None:
        time_ns = None if stamp is None else self._clock.read(stamp)
        if isinstance(fields.get("message"), str):
            self._told.append(fields["message"])
        record = event_lines.to_record(fields, time_ns, self._origin(number))
        if stamp is None and record.time_ns is not None:
            self._clock.read(Stamp(epoch_ns=record.time_ns))
        self._target.record(record, number, event_lines.run_id_of(fields), event_lines.host_of(record))

    def _text_line(self, number: int, raw: bytes, stamp: Stamp | None) -> None:
        text, intact = _decode(raw)
        garbage = not intact and (raw[0] == 0 or text[0] == "\ufffd")
        if not intact:
            text = text.replace("\0", "")
        if (glued := behind_bars(text)) is not None:
            text = glued
        prefix = read_prefix(text, stamp)
        if self._open is not None and self._open[0].take(prefix):
            return
        self._end_of_lines()
        if prefix.worker or prefix.native:
            self._worker_line(number, prefix)
        elif prefix.text[:1] == "{" and (prefix.stamp or prefix.writer or prefix.level or garbage):
            self._end_of_output()
            self._json(number, prefix.text, intact, prefix.stamp)
        elif garbage:
            self._json(number, text, intact, None)
        elif is_of_torch(prefix) and self._agent_line(number, prefix):
            self._end_of_output(keep=prefix)
        elif (told := read_scheduler_line(prefix)) is not None:
            name, metadata, own = told
            self._target.record(self._record(number, name, metadata, prefix.stamp or own), number)
        elif not prefix.writer and not prefix.level and self._unlabelled(number, prefix):
            return
        elif not intact or event_lines.looks_torn(text):
            self._target.damaged_line(number)
        elif text.strip():
            if prefix.stamp is not None and "torch" in prefix.writer:
                self._clock.read(prefix.stamp)
            self._target.foreign_line()

    def _agent_line(self, number: int, prefix: Prefix) -> bool:
        """Import a line of the agent's or the launcher's; False when it is none that is known."""
        if (fields := read_rendezvous(prefix)) is not None:
            if fields["message"] in self._told:
                self._target.foreign_line()  # the event that says the same stands beside it
            else:
                self._event(number, fields, prefix.stamp)
            return True
        if (listing := open_listing(prefix)) is not None:
            self._errors(self._workers.end_of_attempt())
            self._open = listing, self._record(number, listing.name, listing.metadata, prefix.stamp, prefix.pid), number
            return True
        reading = read_log_line(prefix)
        if reading is None:
            return False
        self._errors(self._workers.end_of_attempt())
        name, metadata = reading
        run_id = metadata.pop("run_id", None)
        record = self._record(number, name, metadata, prefix.stamp)
        if name == "torchelastic.log.barrier_failed":
            self._open = BarrierError(prefix, metadata), record, number
        else:
            self._target.record(record, number, run_id)
        return True

    def _closing_block(self, number: int, block: closing_block.ClosingBlock) -> None:
        failures = [failure._asdict() for failure in block.failures]
        metadata = {"entrypoint": block.entrypoint, "failures": failures}
        if failures:
            record = self._record(number, "torchelastic.log.root_cause", metadata, None)
            self._target.record(record, number, host=block.failures[0].host)
            if self._target.likely_run_id is None:
                named = (closing_block.run_id_in(failure.error_file) for failure in block.failures)
                self._target.likely_run_id = next((run_id for run_id in named if run_id is not None), None)
        if block.cut:
            self._target.damaged_line(number)
        for line in block.damaged:
            self._target.damaged_line(line)

    def _worker_line(self, number: int, prefix: Prefix) -> None:
        if prefix.native and prefix.level in ("E", "F"):
            metadata = {"rank": prefix.rank, "message": prefix.text}
            if prefix.local_rank is not None:
                metadata["local_rank"] = prefix.local_rank
            self._output_record(number, metadata, prefix.stamp)
            return
        if prefix.writer or prefix.native:
            self._target.foreign_line()
            return
        taken, done = self._workers.take(number, prefix)
        self._errors(done)
        if not taken:
            self._target.foreign_line()

    def _unlabelled(self, number: int, prefix: Prefix) -> bool:
        """Whether a line without any label belongs to an exception."""
        taken, done = self._workers.take(number, prefix)
        self._errors(done)
        return taken

    def _errors(self, errors: list[WorkerError]) -> None:
        for error in errors:
            message = "\n".join(error.message)
            traceback = "\n".join([*error.traceback, *error.message])
            if error.by_torchrun:
                if _AGENT_ERROR_FREE not in message:
                    metadata: dict[str, Any] = {"message": message, "traceback": traceback}
                    record = self._record(error.line, "torchelastic.log.agent_failed", metadata, None)
                    self._target.record(record, error.line)
                continue
            metadata = {"rank": error.rank, "message": message}
            if error.local_rank is not None:
                metadata["local_rank"] = error.local_rank
            metadata["traceback"] = traceback
            self._output_record(error.line, metadata, None)

    def _output_record(self, number: int, metadata: dict[str, Any], stamp: Stamp | None) -> None:
        self._target.record(self._record(number, "torchelastic.log.worker_output", metadata, stamp), number)

    def _end_of_output(self, keep: Prefix | None = None) -> None:
        """A line that is no worker's: exceptions whose message was read are over.

        Args:
            keep: the agent's line that was read, which may have opened something itself.
        """
        self._errors(self._workers.end_of_attempt())
        if keep is None:
            self._end_of_lines()

    def _end_of_lines(self) -> None:
        if self._open is not None:
            lines, record, number = self._open
            self._open = None
            if isinstance(lines, Listing):
                record.metadata = self._placed(lines.metadata, lines.pid)
                run_id = lines.metadata.get("run_id")
                self._target.record(record, number, str(run_id) if run_id not in (None, "") else None)
            else:
                self._target.record(record, number)

    def _record(
        self, number: int, name: str, metadata: dict[str, Any], stamp: Stamp | None, pid: int | None = None
    ) -> EventRecord:
        time_ns = None if stamp is None else self._clock.read(stamp)
        metadata = self._placed(metadata, pid)
        return EventRecord(
            seq=0, time_ns=time_ns, name=name, source="AGENT", metadata=metadata, origin=self._origin(number)
        )

    def _placed(self, metadata: dict[str, Any], pid: int | None) -> dict[str, Any]:
        if pid is not None:
            metadata["agent_pid"] = pid
        if self._host:
            metadata.setdefault("host", self._host)
        return metadata

    def _origin(self, number: int) -> str:
        return plain_text(f"{self._name}:{number}")


def _decode(raw: bytes) -> tuple[str, bool]:
    """A line's text, and whether it is intact: UTF-8 without NULs."""
    try:
        return raw.decode(), b"\0" not in raw
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace"), False
