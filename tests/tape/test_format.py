"""docs/tape-format.md and docs/tape.schema.json say what is really written."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from jobtape.tape.header import RANK_VARIABLES, SCHEDULER_PREFIXES, this_process
from jobtape.tape.reader import read_tape
from jobtape.tape.records import FORMAT, EventRecord, Known, encode
from jobtape.tape.writer import MAX_LINE_BYTES, Writer

from .test_reader import DAMAGED, HEADER, UNDAMAGED, changed, good

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT = (DOCS / "tape-format.md").read_text()
SCHEMA = json.loads((DOCS / "tape.schema.json").read_text())
KINDS = {kind.__struct_config__.tag: kind for kind in get_args(Known)}


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """A real file with every kind of record and every kind of value in it."""
    header = this_process("job-1", "agent")
    header.ranks, header.scheduler = {"RANK": "0"}, {"SLURM_JOB_ID": "7"}
    writer = Writer(tmp_path_factory.mktemp("shelf") / "job-1", header)
    values = [
        math.nan,
        math.inf,
        -math.inf,
        2**99,
        -(2**63),
        2**64 - 1,
        "\udc80",
        {"$a": {"b": [1, 2.5, None]}},
        True,
        1e300,
    ]
    writer.event("x", "WORKER", 5, {str(index): value for index, value in enumerate(values)})
    writer.event("x", "WORKER", 0, {"nested": {"values": values}, "empty": {}, "object": object()})
    writer.event("x", "WORKER", math.nan, {})
    writer.rdzv(name="f", run_id="job-1", hostname="h", pid=1, node_state="FAILED", rank=0, error_trace="e", other=[1])
    writer.loss("write_failed", 2, "no space")
    writer.close("launch_end")
    return [json.loads(line) for line in writer.path.read_bytes().splitlines()]


def test_real_records_of_every_kind_are_valid(lines: list[dict[str, Any]]) -> None:
    """Each line holds against the schema."""
    Draft202012Validator.check_schema(SCHEMA)
    assert set(KINDS) == {line["kind"] for line in lines}
    assert [] == [error.message for line in lines for error in Draft202012Validator(SCHEMA).iter_errors(line)]


def test_imported_records_are_valid() -> None:
    """They have an origin, and no times."""
    record = EventRecord(seq=1, time_ns=None, name="x", source="AGENT", extra={"later": 1}, origin="a.log:7")
    assert [] == list(Draft202012Validator(SCHEMA).iter_errors(json.loads(encode(record))))


@pytest.mark.parametrize(
    "record",
    [
        {"kind": "event"},
        {"kind": "event", "seq": -1, "time_ns": 1},
        {"kind": "event", "seq": 1, "time_ns": "now"},
        {"kind": "event", "seq": 1, "time_ns": 1, "name": 7},
        {"kind": "event", "seq": 1, "time_ns": 1, "metadata": {"a": {"$float": 1}}},
        {"kind": "event", "seq": 1, "time_ns": 1, "metadata": {"a": {"$int": "x"}}},
        {"kind": "event", "seq": 1, "time_ns": 1, "metadata": {"a": {"$a": 1, "b": 2}}},
        {"kind": "close", "seq": 1},
        {"kind": 7, "seq": 1},
        [],
    ],
)
def test_what_no_writer_writes_is_invalid(record: Any) -> None:
    """The schema can fail."""
    assert list(Draft202012Validator(SCHEMA).iter_errors(record))


def test_a_later_kind_is_valid() -> None:
    """So that a tape of a later version can be checked, too."""
    assert [] == list(Draft202012Validator(SCHEMA).iter_errors({"kind": "span", "seq": 1, "name": 7}))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_document_and_schema_name_every_field(kind: str) -> None:
    """In the document in the section of the kind or of all kinds, in the schema in its definition."""
    sections = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^###? )", TEXT, re.MULTILINE | re.DOTALL))
    common = {"seq", "time_ns", "mono_ns"}
    fields = set(KINDS[kind].__struct_fields__)
    assert fields - common == set(SCHEMA["$defs"][kind]["properties"]) - {"kind"}
    assert common | {"kind"} == set(SCHEMA["properties"])
    assert set() == {field for field in fields - common if f"`{field}`" not in sections[kind]}
    assert set() == {field for field in common if f"| `{field}` |" not in TEXT}


def test_the_schema_has_the_fields_types_of_the_records() -> None:
    """A field that may be null, or is text, is so in both."""
    names = {str: "string", int: "integer", str | None: ["string", "null"], int | None: ["integer", "null"]}
    for kind, struct in KINDS.items():
        properties = SCHEMA["$defs"][kind]["properties"]
        fields = {field.name: field.type for field in msgspec.structs.fields(struct) if field.name in properties}
        simple = {name: names[each] for name, each in fields.items() if each in names}
        assert simple == {name: properties[name]["type"] for name in simple}
        assert simple


def test_the_document_names_what_the_header_keeps() -> None:
    """Every variable of the environment that may come onto a tape."""
    names = [*RANK_VARIABLES, *SCHEDULER_PREFIXES]
    assert [] == [name for name in names if f"`{name}`" not in TEXT]


def test_the_document_has_the_version_and_the_limit() -> None:
    """They are numbers in the code, too."""
    assert TEXT.startswith(f"# The tape format, version {FORMAT}\n")
    assert f"at most {MAX_LINE_BYTES >> 20} MiB" in TEXT


def as_documented(content: bytes) -> tuple[list[int], int]:
    """The numbers of the records in a file, and how many are missing, read by nothing but the document's rules."""
    records: list[dict[str, Any]] = []
    for line in content.split(b"\n"):
        records += records_in(line.strip())
    first = 0
    header = next((record for record in records if record["kind"] == "header"), None)
    if header is not None:
        first = header["seq"]
        records = [record for record in records if record["kind"] != "header"]
    unique = [record for index, record in enumerate(records) if record not in records[:index]]
    numbers = {record["seq"] for record in unique if first <= record["seq"] < 2**53} | {first}
    return [record["seq"] for record in unique], max(numbers) - first + 1 - len(numbers)


def records_in(line: bytes) -> Iterator[dict[str, Any]]:
    """Rules 2 and 3."""
    record = parsed(line)
    if record is not None:
        yield record
        return
    position = 0
    while found := re.compile(rb'\{"kind":"[^"\\]{1,64}","seq":\d').search(line, position):
        position = found.start() + 1
        try:
            end = json.JSONDecoder().raw_decode(line.decode("latin-1"), found.start())[1]
        except (ValueError, RecursionError):
            continue
        record = parsed(line[found.start() : end])
        if record is not None:
            yield record
            position = end


def finite(text: str) -> float:
    """A number that a double can hold."""
    if math.isinf(number := float(text)):
        raise ValueError(text)
    return number


def parsed(text: bytes) -> dict[str, Any] | None:
    """The record that a text is, or None."""
    try:
        record = json.loads(text.decode("utf-8"), parse_float=finite)
    except (ValueError, RecursionError):
        return None
    is_record = isinstance(record, dict) and isinstance(record.get("kind"), str) and type(record.get("seq")) is int
    return record if is_record else None


@pytest.mark.parametrize("content", [case[0] for case in [*DAMAGED, *UNDAMAGED]])
def test_the_document_is_enough_to_read_a_damaged_file(content: bytes, tmp_path: Path) -> None:
    """A reader made from its rules alone finds what ours finds."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(HEADER + content)
    tape = read_tape(path)
    assert as_documented(HEADER + content) == ([record.seq for record in tape.records], tape.missing)


@given(data=st.data())
def test_the_document_is_enough_to_read_any_file(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Also when bytes of it were cut, flipped and put in."""
    content = changed(data, b"".join(good()))
    path = tmp_path_factory.getbasetemp() / "documented.jsonl"
    path.write_bytes(content)
    tape = read_tape(path)
    kept, missing = as_documented(content.removeprefix(b"\xef\xbb\xbf"))
    # a header with a strange field is kept among the records
    numbers = [record.seq for record in tape.records if getattr(record, "kind", "") != "header"]
    if content.isascii():
        assert (kept, missing) == (numbers, tape.missing)
    # msgspec does not look into a field it does not know, so ours also takes a line that is invalid UTF-8 only there
    assert set(kept) <= set(numbers)
