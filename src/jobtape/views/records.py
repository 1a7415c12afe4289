"""Records one by one, for ``jobtape events``."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.text import Text

from jobtape.diagnose.model import iso
from jobtape.tape.records import CloseRecord, EventRecord, Header, LossRecord, Other, RdzvRecord, Record
from jobtape.tape.values import encode_metadata, encode_value
from jobtape.views.clock import moment
from jobtape.views.escape import brief, visible
from jobtape.views.page import Line, Piece

VALUE_LIMIT = 300
SHOWN_ELSEWHERE = frozenset({"run_id", "host", "hostname", "rank", "global_rank"})
RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def record_json(record: Record, kind: str, file: str, line: int) -> dict[str, Any]:
    """A record for programs: where it stands, its time in UTC, and its fields as they are on the tape."""
    fields = record.fields if isinstance(record, Other) else msgspec.to_builtins(record, builtin_types=(int, float))
    told: dict[str, Any] = {"file": file, "line": line, "time": utc_of(record.time_ns), "kind": kind}
    if isinstance(record, Other):
        told |= {"kind": record.kind, "seq": record.seq, "time_ns": record.time_ns, "mono_ns": record.mono_ns}
    for key, value in fields.items():
        if key in ("metadata", "extra") and isinstance(value, dict):
            told[key] = encode_metadata(value)
        elif key not in told:
            told[key] = encode_value(value)
    return told


def utc_of(time_ns: int | None) -> str | None:
    """A time of the tape as ISO 8601 in UTC."""
    return iso(time_ns / 1e9) if time_ns is not None else None


def line(record: Record, header: Header | None, file: str, number: int) -> Line:
    """A record for people: when, who, what, and where it stands."""
    when = moment(record.time_ns / 1e9, fine=True) if record.time_ns is not None else "time not recorded"
    title, told = what(record)
    text = Text.assemble((when, "dim"), "  ", (who(record, header), "cyan"), "  ", (brief(title, 120), "bold"), *told)
    text.append(f"  [{visible(file)}:{number}]", "dim")
    return Line(text, 0, 4)


def who(record: Record, header: Header | None) -> str:
    """The host, and the rank or the role, a record is about."""
    host = header.host if header is not None else ""
    rank: object = None
    source = header.role if header is not None else "?"
    if header is not None and header.role == "worker":
        rank = next((header.ranks[name] for name in RANK_VARIABLES if name in header.ranks), None)
    if isinstance(record, EventRecord):
        metadata = record.metadata
        host = next((metadata[key] for key in ("host", "hostname") if isinstance(metadata.get(key), str)), host)
        rank = next((metadata[key] for key in ("rank", "global_rank") if metadata.get(key) is not None), rank)
        source = record.source.lower() or source
    elif isinstance(record, RdzvRecord):
        host, source, rank = record.hostname or host, "agent", None
    return brief(f"{host or '?'} {f'rank {rank}' if rank is not None else source}", 80)


def what(record: Record) -> tuple[str, list[Piece]]:
    """A record's name, and what it says as pieces of text."""
    if isinstance(record, EventRecord):
        values = {key: value for key, value in record.metadata.items() if key not in SHOWN_ELSEWHERE}
        return record.name or "(no name)", pairs({**values, **record.extra})
    if isinstance(record, RdzvRecord):
        return record.name or "(no name)", pairs(
            {"state": record.node_state, "message": record.message, "rank": record.rank, "pid": record.pid or None,
             "local_id": record.local_id, "master_endpoint": record.master_endpoint, "error_trace": record.error_trace,
             **record.extra}
        )  # fmt: skip
    if isinstance(record, Header):
        return "header", pairs(
            {"role": record.role, "pid": record.pid or None, "python": record.python, "torch": record.torch,
             "jobtape": record.jobtape, "command": " ".join(record.command), **record.ranks,
             "source_file": record.source_file}
        )  # fmt: skip
    if isinstance(record, LossRecord):
        return "loss", pairs({"reason": record.reason, "count": record.count, "detail": record.detail})
    if isinstance(record, CloseRecord):
        return "close", pairs({"reason": record.reason, "recorded": record.recorded, "lost": record.lost})
    return f"unknown kind {record.kind}", pairs(record.fields)


def pairs(values: dict[str, Any]) -> list[Piece]:
    """``key=value`` for what has a value."""
    told: list[Piece] = []
    for key, value in values.items():
        if value is None or value == "":
            continue
        shown = brief(value if isinstance(value, str) else repr(value), VALUE_LIMIT)
        quoted = isinstance(value, str) and (" " in value or not value.isprintable())
        told += [" ", (f"{brief(key, 60)}=", "dim"), f'"{shown}"' if quoted else shown]
    return told
