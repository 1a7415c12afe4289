"""The records of a tape: what one line of a tape file means.

A line is one JSON object; ``kind`` says which of the structs below it is. ``docs/tape-format.md`` specifies them for
readers in other languages and ``docs/tape.schema.json`` checks them. Fields a reader does not know are ignored and
kinds it does not know become `Other`, so a newer writer never makes an older reader fail.

The structs hold decoded JSON, in which there are no cycles, so the garbage collector need not look at them
(``gc=False``).

Common fields: ``seq`` counts a file's records from 0 without gaps; ``time_ns`` is unix wall time and ``mono_ns`` the
host's monotonic clock, both when the record was written, both in nanoseconds and null when nobody knows (imports).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

FORMAT = 1
"""Version of the tape format, in each header."""


class Header(msgspec.Struct, tag_field="kind", tag="header", gc=False, omit_defaults=False, kw_only=True):
    """The first record of a file: which process wrote it, of which run, where."""

    seq: int = 0
    time_ns: int | None = None
    mono_ns: int | None = None
    format: int = FORMAT
    run_id: str = ""
    run_id_from: str = ""
    """``given``, the name of the environment variable it came from, or ``made``."""
    host: str = ""
    host_from: str = ""
    boot_id: str = ""
    pid: int = 0
    pid_start: int = 0
    parent_pid: int = 0
    role: str = "other"
    python: str = ""
    torch: str | None = None
    jobtape: str = ""
    command: list[str] = msgspec.field(default_factory=list)
    ranks: dict[str, str] = msgspec.field(default_factory=dict)
    scheduler: dict[str, str] = msgspec.field(default_factory=dict)
    source_file: str | None = None
    """Only in imports: the file the records came from."""


class EventRecord(msgspec.Struct, tag_field="kind", tag="event", gc=False, omit_defaults=True):
    """An `jobtape.events.Event`, torch's or ours."""

    seq: int
    time_ns: int | None
    mono_ns: int | None = None
    name: str = ""
    source: str = ""
    timestamp: int | float = 0
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
    """What torch's own fields have no room for: other top-level fields, or a timestamp that is no number."""
    origin: str | None = None
    """Only in imports: ``file:line`` of the foreign record."""


class RdzvRecord(msgspec.Struct, tag_field="kind", tag="rdzv", gc=False, omit_defaults=True):
    """An `jobtape.events.RdzvEvent`, torch's or ours."""

    seq: int
    time_ns: int | None
    mono_ns: int | None = None
    name: str = ""
    source: str = "AGENT"
    run_id: str = ""
    message: str = ""
    hostname: str = ""
    pid: int = 0
    node_state: str = ""
    master_endpoint: str = ""
    rank: int | None = None
    local_id: int | None = None
    error_trace: str = ""
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
    origin: str | None = None


class LossRecord(msgspec.Struct, tag_field="kind", tag="loss", gc=False, omit_defaults=True, kw_only=True):
    """Something is missing from here: how many records or lines, and why."""

    seq: int
    time_ns: int | None = None
    mono_ns: int | None = None
    reason: str = ""
    """``write_failed`` · ``encode_failed`` · ``file_deleted`` · ``damaged_line`` (imports) · ``foreign_line`` (imports,
    nothing lost)."""
    count: int = 0
    detail: str = ""


class CloseRecord(msgspec.Struct, tag_field="kind", tag="close", gc=False, omit_defaults=False, kw_only=True):
    """The last record: the writer ended in an orderly way. Its absence means it did not."""

    seq: int
    time_ns: int | None = None
    mono_ns: int | None = None
    reason: str = ""
    """``exit`` (interpreter shutdown) · ``launch_end`` (the agent returned) · ``imported``."""
    recorded: int = 0
    lost: int = 0


class Other(msgspec.Struct, gc=False, kw_only=True):
    """A record of a kind this version does not know, kept as it is."""

    seq: int
    time_ns: int | None = None
    mono_ns: int | None = None
    kind: str = ""
    fields: dict[str, Any] = msgspec.field(default_factory=dict)


Known: TypeAlias = Header | EventRecord | RdzvRecord | LossRecord | CloseRecord
Record: TypeAlias = Known | Other

decode_known = msgspec.json.Decoder(Known).decode
encode = msgspec.json.Encoder().encode
