"""Log lines that a collector has put into a JSON object each, and what else the object says.

Objects known by the names of their fields: Docker's ``json-file`` driver (``log``, ``stream``, ``time``), Fluent Bit
and Fluentd in Kubernetes (``log`` or ``message``, ``kubernetes.pod_name``, ``@timestamp``), Loki's ``logcli -o jsonl``
(``line``, ``timestamp``, ``labels``), the journal (``MESSAGE``, ``__REALTIME_TIMESTAMP``, ``_HOSTNAME``), Google Cloud
(``textPayload``, ``timestamp``) and CloudWatch (``message``, ``timestamp``, ``logStreamName``).

One such object among other lines is text like any other: `torchelastic`'s own records hold texts too, and a text in a
string is never a record. Only where a file consists of them (see `collectors`) are the texts the job's lines.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jobtape.importers.clock import Stamp
from jobtape.importers.event_lines import decode_object, is_record
from jobtape.importers.prefixes import find_stamp

_TEXTS = ("log", "line", "textPayload", "MESSAGE", "message")
_TIMES = ("time", "timestamp", "@timestamp", "ts", "__REALTIME_TIMESTAMP", "date")
_INSIDE = ("kubernetes", "labels", "resource", "fields", "host", "attrs")
_NODES = ("pod_name", "pod", "logStreamName", "logStream", "_HOSTNAME", "hostname", "host", "node_name", "node", "name")
_UNITS = ((1e18, 1), (1e15, 1_000), (1e12, 1_000_000), (1e9, 1_000_000_000))
"""From which number on a time is in nano-, micro-, milliseconds or seconds, and how many nanoseconds that is."""


class Envelope(NamedTuple):
    """One wrapped line, or several where a collector has joined them."""

    text: str
    stamp: Stamp | None
    node: str
    stream: str


def open_envelope(line: str) -> Envelope | None:
    """What a wrapped line holds; None when it is none.

    >>> open_envelope('{"log":"boom\\\\n","stream":"stderr","time":"2026-02-17T09:30:00.5Z"}')[0]
    'boom\\n'
    """
    decoded = decode_object(line) if line.startswith("{") else None
    if decoded is None or line[decoded[1] :].strip() or is_record(decoded[0]):
        return None
    fields = decoded[0]
    texts = [fields[name] for name in _TEXTS if isinstance(fields.get(name), str)]
    stamp = next((found for name in _TIMES if (found := _stamp(fields.get(name))) is not None), None)
    stream = fields.get("stream")
    if len(texts) != 1 or (stamp is None and not isinstance(stream, str)):
        return None
    return Envelope(texts[0], stamp, _node(fields), stream if isinstance(stream, str) else "")


def _stamp(value: object) -> Stamp | None:
    if isinstance(value, str) and not value.isdigit():
        return find_stamp(value[:64])
    if isinstance(value, str) and value.isascii() and len(value) < 20:
        value = int(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        for least, unit_ns in _UNITS:
            if least <= value < least * 5:
                return Stamp(epoch_ns=int(value * unit_ns) if isinstance(value, int) else round(value * 1e6) * 1000)
    return None


def _node(fields: dict[str, Any]) -> str:
    places = [fields, *(inner for name in _INSIDE if isinstance(inner := fields.get(name), dict))]
    return next((p[name] for name in _NODES for p in places if isinstance(p.get(name), str) and p[name]), "")
