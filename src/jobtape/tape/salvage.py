"""The records in one line that is not simply a record.

Lines are torn when a disk fills or a machine dies, spliced when what follows was written on the cut end, and ridden
with NULs when a file system gave a file its new size before its bytes. A writer begins every record with
``{"kind":"…","seq":N``, which cannot stand inside a JSON string, so a reader finds its feet again at the next one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, get_args

import msgspec

from jobtape.tape.records import Known, Other, Record, decode_known

_START = re.compile(rb'\{"kind":"[^"\\]{1,64}","seq":\d')
_NOTHING = b" \t\r\n\0"
_SCANS = 4
_FREE_SCANS = 1024 * 1024
"""A line is scanned at most so many times its length and so many characters more in search of records, so that hostile
ones cost linear time."""

_decode_any = msgspec.json.decode
_scan = json.JSONDecoder().raw_decode
_KINDS = frozenset(kind.__struct_config__.tag for kind in get_args(Known))


@dataclass
class Salvage:
    """What a line holds: its intact records, and why the rest of it is none (empty: there is no rest)."""

    records: list[Record] = field(default_factory=list)
    damage: str = ""


def salvage(line: bytes) -> Salvage:
    """Every intact record in ``line``; never raises."""
    if not line or line.isspace():
        return Salvage()
    found = _whole(line)
    if found.records:
        return found
    pieces = _pieces(line)
    if not pieces.records:
        return Salvage([], _reason(line, found.damage))
    return pieces


def _whole(line: bytes) -> Salvage:
    try:
        return Salvage([decode_known(line)])
    except Exception as error:  # noqa: BLE001 - a record of a later version, or hostile bytes
        reason = str(error)
    try:
        fields = _decode_any(line)
    except RecursionError:
        return Salvage([], "nested too deeply")
    except Exception as error:  # noqa: BLE001
        return Salvage([], str(error))
    return _other(fields, reason)


def _other(fields: Any, reason: str) -> Salvage:
    """A record of a kind this version does not know; or of a known one, with a field that is not what it should be."""
    if not isinstance(fields, dict):
        return Salvage([], "not a record")
    kind, seq = fields.pop("kind", None), fields.pop("seq", None)
    if not isinstance(kind, str) or not isinstance(seq, int) or isinstance(seq, bool):
        return Salvage([], "not a record")
    times = [fields.pop(name) if isinstance(fields.get(name), int) else None for name in ("time_ns", "mono_ns")]
    record = Other(seq=seq, time_ns=times[0], mono_ns=times[1], kind=kind, fields=fields)
    return Salvage([record], f"a strange {kind} record: {reason}" if kind in _KINDS else "")


def _pieces(line: bytes) -> Salvage:
    found = Salvage()
    rest_is_empty = True
    text = ""
    budget = _SCANS * len(line) + _FREE_SCANS
    position = 0
    while budget > 0:
        start = _START.search(line, position)
        if start is None:
            break
        if not text:
            text = line.decode("latin-1")  # one character a byte, and JSON's structure is ASCII
        begin = start.start()
        end, cost = _object_end(text, begin)
        budget -= cost
        piece = _whole(line[begin:end]) if end else Salvage()
        if not piece.records:
            position = begin + 1
            rest_is_empty = False
            continue
        if line[position:begin].strip(_NOTHING):
            rest_is_empty = False
        found.records += piece.records
        found.damage = found.damage or piece.damage
        position = end
    if line[position:].strip(_NOTHING):
        rest_is_empty = False
    if not found.damage and found.records:
        found.damage = _what_was_wrong(line, len(found.records), rest_is_empty)
    return found


def _object_end(text: str, begin: int) -> tuple[int, int]:
    """Where the JSON object that begins there ends (0: nowhere), and what it cost to know, in characters scanned."""
    try:
        end = _scan(text, begin)[1]
    except json.JSONDecodeError as error:
        unterminated = error.msg.startswith("Unterminated")
        scanned = (len(text) if unterminated else max(error.pos, begin)) - begin
        return 0, scanned + 64 + error.pos // 16  # the error counts the line ends before it, which is fast but not free
    except (RecursionError, ValueError):
        return 0, len(text) - begin
    return end, end - begin


def _what_was_wrong(line: bytes, records: int, rest_is_empty: bool) -> str:
    if not rest_is_empty:
        return f"part of the line is no record; {records} kept"
    if b"\0" in line:
        return f"NUL bytes around {records} intact"
    return f"{records} records on one line, all kept"


def _reason(line: bytes, why: str) -> str:
    if not line.strip(b"\0"):
        return f"{len(line)} NUL bytes"
    if b"\0" in line:
        return "NUL bytes in the line"
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"invalid UTF-8 at byte {error.start}"
    return why
