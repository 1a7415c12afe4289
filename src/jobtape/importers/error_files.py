"""torch's error files, and what else workers left in torchrun's log directory.

``torch/distributed/elastic/multiprocessing/errors/error_handler.py`` writes an error file for a function decorated with
``@record``, and ``multiprocessing/api.py`` says where: ``<log_dir>/<run id>_<8 random characters>/attempt_<N>/<local
rank>/error.json``, one directory an agent. Fields of the source: ``message``, a text, or an object with ``message``,
``errorCode`` (set by the parent of a process that was killed) and ``extraInfo`` with ``py_callstack`` and
``timestamp`` (unix time in whole seconds, as text). All of it is kept in ``raw_error``, unknown fields too.

``stdout.log`` and ``stderr.log`` beside it are there with ``--redirects`` or ``--tee``: their lines are a worker's own
words, of which the last exception is kept.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any, NamedTuple

from jobtape.importers.event_lines import decode_object
from jobtape.importers.foreign import Lines
from jobtape.importers.onto_tape import ForeignFile
from jobtape.importers.prefixes import Prefix, read_prefix
from jobtape.importers.worker_output import WorkerError, WorkerOutput
from jobtape.tape.records import EventRecord
from jobtape.tape.values import encode_metadata, plain_text

_OUTPUT = frozenset({"stdout.log", "stderr.log"})
_ATTEMPT = re.compile(r"attempt_(\d{1,9})")
_RUN = re.compile(r"(?P<run>.+)_[a-z0-9_]{8}", re.DOTALL)
_FIELDS = frozenset({"message", "timestamp", "errorTraits", "errorCode", "extraInfo"})
_TORN_MESSAGE = re.compile(r'"message": ?("(?:[^"\\]|\\.)*")')
_EARLIEST_S, _LATEST_S = 10**9, 4 * 10**9


class _Place(NamedTuple):
    """Where a file lies in torchrun's log directory, as far as its path says."""

    folder: Path
    """The directory of its agent."""
    attempt: int | None = None
    local_rank: int | None = None

    @property
    def run_id(self) -> str | None:
        match = _RUN.fullmatch(self.folder.name) if self.attempt is not None else None
        return None if match is None else plain_text(match["run"])

    @property
    def name(self) -> str:
        """The directory's name and that of the one it lies in: several nodes' directories may have one name."""
        return plain_text("/".join(self.folder.parts[-2:]).lstrip("/"))


def read_files(sources: Sequence[Path], shelf: Path, _zone: tzinfo | None) -> Iterator[tuple[str, Path, ForeignFile]]:
    """Read error files and outputs of workers, those of one agent onto one tape.

    Yields:
        For each agent's directory the hash of what was read of it, the directory, and its records.

    Raises:
        ImportFailed: a file cannot be read.
    """
    folders: dict[Path, list[tuple[_Place, Path]]] = {}
    for source in sources:
        place = _locate(source)
        folders.setdefault(place.folder, []).append((place, source))
    for folder, files in folders.items():
        # Of a file that lies alone the directory says nothing: it is named by itself.
        stem = files[0][0].name if files[0][0].attempt is not None else files[0][1].name
        target = ForeignFile(folder, shelf, stem=stem, replaces=True)
        target.likely_run_id = files[0][0].run_id
        digest = hashlib.sha256()
        for place, source in sorted(
            files, key=lambda found: (found[0].attempt or 0, found[0].local_rank or 0, found[1])
        ):
            # Its directories are told from those of other agents by their names.
            name = f"{folder.name}/{source.absolute().relative_to(folder).as_posix()}"
            digest.update(name.encode("utf-8", "surrogateescape") + b"\0")
            read = _read_output if is_output(source) else _read_error_file
            digest.update(read(target, place, source, name).encode())
        yield digest.hexdigest(), folder, target


def fits(content: bytes) -> bool:
    """Whether a file's content is that of an error file.

    >>> fits(b'{"message": {"message": "ValueError: bad", "extraInfo": {"timestamp": "1771320688"}}}')
    True
    """
    fields = _decode(content)
    if fields is None:
        return False
    message = fields.get("message")
    return "message" in message if isinstance(message, dict) else isinstance(message, str) and fields.keys() <= _FIELDS


def is_output(path: Path) -> bool:
    """Whether a file is a worker's output in torchrun's log directory."""
    return path.name in _OUTPUT and _locate(path).attempt is not None


def _locate(path: Path) -> _Place:
    parts = path.absolute().parts
    if len(parts) > 4 and parts[-2].isascii() and parts[-2].isdigit() and len(parts[-2]) < 10:
        match = _ATTEMPT.fullmatch(parts[-3])
        if match is not None:
            return _Place(Path(*parts[:-3]), int(match[1]), int(parts[-2]))
    return _Place(path.absolute().parent)


def _read_error_file(target: ForeignFile, place: _Place, source: Path, name: str) -> str:
    lines = Lines(source)
    content = b"\n".join(raw or b"" for _, raw in lines)
    fields = _decode(content)
    if fields is None or "message" not in fields:
        # A process that is killed while it writes leaves a part.
        torn = _TORN_MESSAGE.search(content.decode("utf-8", "replace"))
        found = decode_object(f'{{"message": {torn[1]}}}') if torn is not None else None
        target.damaged_line(1, plain_text(name))
        if found is None:
            return lines.digest
        fields = {"message": found[0]}
    message = fields["message"]
    extra = message.get("extraInfo") if isinstance(message, dict) else fields.get("extraInfo")
    stamp = extra.get("timestamp") if isinstance(extra, dict) else fields.get("timestamp")
    time_s = _whole_second(stamp)
    metadata = _whereabouts(place)
    metadata["error_file"] = str(source)
    code = message.get("errorCode") if isinstance(message, dict) else fields.get("errorCode")
    if type(code) is int and code:
        metadata["exit_code"] = code
    metadata["raw_error"] = fields
    target.record(_record("torchelastic.log.error_file", metadata, time_s, f"{name}:1"), 1)
    return lines.digest


def _read_output(target: ForeignFile, place: _Place, source: Path, name: str) -> str:
    lines = Lines(source)
    output = WorkerOutput()
    last: WorkerError | None = None
    rank: int | None = None
    for number, raw in lines:
        if raw is None:
            target.damaged_line(number, plain_text(name))
            continue
        text = raw.decode("utf-8", "replace").replace("\0", "")
        prefix = read_prefix(text) if text[:5] == "[rank" else Prefix(text)
        rank = prefix.rank if rank is None else rank
        taken, done = output.take(number, prefix)
        last = done[-1] if done else last
        if not taken and raw:
            target.foreign_line()
    done = output.flush()
    last = done[-1] if done else last
    if last is not None:
        metadata = _whereabouts(place)
        metadata["rank"] = last.rank if last.rank is not None else rank
        metadata["message"] = "\n".join(last.message)
        metadata["traceback"] = "\n".join([*last.traceback, *last.message])
        target.record(_record("torchelastic.log.output_error", metadata, None, f"{name}:{last.line}"), last.line)
    return lines.digest


def _whereabouts(place: _Place) -> dict[str, Any]:
    return {"directory": place.name, "attempt": place.attempt, "local_rank": place.local_rank}


def _record(name: str, metadata: dict[str, Any], time_s: int | None, origin: str) -> EventRecord:
    return EventRecord(
        seq=0,
        time_ns=None if time_s is None else time_s * 1_000_000_000,
        name=name,
        source="WORKER",
        metadata=encode_metadata(metadata),
        origin=plain_text(origin),
    )


def _decode(content: bytes) -> dict[str, Any] | None:
    """The one JSON object that a content is, blanks around it aside."""
    try:
        text = content.decode().strip()
    except UnicodeDecodeError:
        return None
    decoded = decode_object(text)
    return None if decoded is None or decoded[1] != len(text) else decoded[0]


def _whole_second(stamp: object) -> int | None:
    if isinstance(stamp, str) and stamp.isascii() and stamp.isdigit() and len(stamp) < 12:
        stamp = int(stamp)
    return stamp if type(stamp) is int and _EARLIEST_S < stamp < _LATEST_S else None
