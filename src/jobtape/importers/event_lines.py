"""The JSON of torchelastic's own records, as ``Event.serialize()`` and ``RdzvEvent.serialize()`` write it.

Fields of the source: an event has ``name``, ``source``, ``timestamp`` (0 from torch's agent), ``metadata``; a
rendezvous event ``name``, ``run_id``, ``message``, ``hostname``, ``pid``, ``node_state``, ``master_endpoint``,
``rank``, ``local_id``, ``error_trace``. Either may carry its arrival time in ``time`` (unix seconds). Further fields
are kept in ``extra``.
"""

from __future__ import annotations

import json
import re
from typing import Any

from jobtape.tape.records import EventRecord, RdzvRecord
from jobtape.tape.values import INT_MAX, INT_MIN, encode_metadata, plain_text

_FIELD = r'"(?:name|source|timestamp|metadata|run_id|message|hostname|pid|node_state|time)"\s*:'
_START = re.compile(rf"\{{\s*{_FIELD}")
_LAST_FIELDS = ('"node_state": ', '"agent_restarts": ', '"error_trace": ', '"master_endpoint": ')
_ARRIVAL = re.compile(rb'[{,] ?"time": ?(\d{10}(?:\.\d{1,9})?)[,}]')
_ATTEMPTS = 64
"""Starts of a record that are tried in one broken line; a hostile line may hold millions."""

_EARLIEST_S, _LATEST_S = 1e9, 4.2e9  # 2001 to 2103: what a unix time in seconds may be

_LONGEST_NUMBER = 4000  # digits; Python refuses to convert longer ones


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    # torch writes the metadata {1: …, "1": …} with two equal keys; both are kept
    kept: dict[str, Any] = {}
    for key, value in pairs:
        name, n = key, 1
        while name in kept:
            n += 1
            name = f"{key}#{n}"
        kept[name] = value
    return kept


def _number(digits: str) -> int | str:
    return int(digits) if len(digits) < _LONGEST_NUMBER else digits


_decode = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=_number).raw_decode


def decode_object(text: str, start: int = 0) -> tuple[dict[str, Any], int] | None:
    """The JSON object that begins at ``start`` and where it ends; None when there is no whole one."""
    try:
        found, end = _decode(text, start)
    except (ValueError, RecursionError):
        return None
    return (found, end) if isinstance(found, dict) else None


def looks_torn(text: str) -> bool:
    """Whether a text that is no JSON object is what was left of a record: its start or its end."""
    if text.startswith('{"'):
        return True
    if not text.rstrip().endswith("}") or not any(name in text for name in _LAST_FIELDS):
        return False
    return not find_records(text)[0]


def find_records(text: str) -> tuple[list[tuple[dict[str, Any], int]], bool]:
    """The whole records of a broken line and where they begin, and whether the line holds nothing else.

    A record cannot begin inside a string of another, where its quotes would be escaped: so a torn record with an intact
    one behind it is told apart from a record that quotes another.
    """
    found: list[tuple[dict[str, Any], int]] = []
    nothing_else = True
    position = start = failed = 0
    while failed < _ATTEMPTS and (match := _START.search(text, start)):
        decoded = decode_object(text, match.start())
        if decoded is None:
            failed += 1
            start = match.start() + 1
            continue
        fields, start = decoded
        if is_record(fields):
            found.append((fields, match.start()))
            nothing_else = nothing_else and not text[position : match.start()].strip()
            position = start
    return found, nothing_else and bool(found) and not text[position:].strip()


def is_record(fields: dict[str, Any]) -> bool:
    """Whether the object is an event or a rendezvous event of torch, by its fields."""
    return _is_event(fields) or _is_rdzv(fields)


def _is_event(fields: dict[str, Any]) -> bool:
    return (
        isinstance(fields.get("name"), str)
        and isinstance(fields.get("source"), str)
        and isinstance(fields.get("metadata"), dict)
    )


def _is_rdzv(fields: dict[str, Any]) -> bool:
    return all(isinstance(fields.get(name), str) for name in ("name", "run_id", "message", "node_state"))


def to_record(fields: dict[str, Any], time_ns: int | None, origin: str) -> EventRecord | RdzvRecord:
    """The tape's record of an object for which `is_record` holds; its own ``time`` wins over the line's.

    What is not of the type that torch gives a field is kept in ``extra`` under the field's name.
    """
    fields = dict(fields)
    if (arrival := _arrival_ns(fields.get("time"))) is not None:
        time_ns = arrival
        del fields["time"]
    if _is_event(fields):
        timestamp = fields.pop("timestamp", 0)
        if not _is_number(timestamp):
            fields["timestamp"], timestamp = timestamp, 0
        if time_ns is None and 1e3 * _EARLIEST_S < timestamp < 1e3 * _LATEST_S:
            time_ns = int(timestamp * 1000) * 1000
        return EventRecord(
            seq=0,
            time_ns=time_ns,
            name=plain_text(fields.pop("name")),
            source=plain_text(fields.pop("source")),
            timestamp=timestamp,
            metadata=encode_metadata(fields.pop("metadata")),
            extra=encode_metadata(fields),
            origin=plain_text(origin),
        )
    return RdzvRecord(
        seq=0,
        time_ns=time_ns,
        name=_take_text(fields, "name"),
        source=_take_text(fields, "source") or "AGENT",
        run_id=_take_text(fields, "run_id"),
        message=_take_text(fields, "message"),
        hostname=_take_text(fields, "hostname"),
        pid=_take_int(fields, "pid") or 0,
        node_state=_take_text(fields, "node_state"),
        master_endpoint=_take_text(fields, "master_endpoint"),
        rank=_take_int(fields, "rank"),
        local_id=_take_int(fields, "local_id"),
        error_trace=_take_text(fields, "error_trace"),
        extra=encode_metadata(fields),
        origin=plain_text(origin),
    )


def run_id_of(fields: dict[str, Any]) -> str | None:
    """The run a record says it is of, if it does."""
    run_id = fields["metadata"].get("run_id") if _is_event(fields) else fields["run_id"]
    if isinstance(run_id, str):
        return plain_text(run_id)
    return str(run_id) if isinstance(run_id, int) and not isinstance(run_id, bool) else None


def host_of(record: EventRecord | RdzvRecord) -> str | None:
    """The host an agent's or a worker's record names."""
    if isinstance(record, RdzvRecord):
        return record.hostname or None
    host = record.metadata.get("hostname") if record.source in ("AGENT", "WORKER") else None
    return host if isinstance(host, str) and host else None


def arrival_in(line: bytes) -> int | None:
    """The arrival time in a line of JSON, found without reading the whole of it."""
    match = _ARRIVAL.search(line)
    return None if match is None else _arrival_ns(float(match[1]))


def _take_text(fields: dict[str, Any], name: str) -> str:
    if isinstance(fields.get(name, ""), str):
        return plain_text(fields.pop(name, ""))
    _drop_null(fields, name)
    return ""


def _take_int(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if isinstance(value, int) and _is_number(value):
        return int(fields.pop(name))
    _drop_null(fields, name)
    return None


def _drop_null(fields: dict[str, Any], name: str) -> None:
    if name in fields and fields[name] is None:
        del fields[name]


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return -1e300 < value < 1e300
    return isinstance(value, int) and not isinstance(value, bool) and INT_MIN <= value <= INT_MAX


def _arrival_ns(value: object) -> int | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and _EARLIEST_S < value < _LATEST_S:
        # a float of today's seconds is exact to a fraction of a microsecond, not to a nanosecond
        return int(value) * 1_000_000_000 + round((value - int(value)) * 1e6) * 1000
    return None
