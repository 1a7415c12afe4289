"""Records one by one, as text and as JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobtape.tape.records import CloseRecord, EventRecord, Header, LossRecord, Other, RdzvRecord
from jobtape.views.page import Page
from jobtape.views.records import line, record_json

WHEN = 1772305514_250_000_000
HEADER = Header(
    time_ns=WHEN, run_id="demo", host="node-a", pid=7, role="worker", ranks={"RANK": "3"}, command=["train.py"]
)

RECORDS = {
    "header": (HEADER, "header role=worker pid=7 command=train.py RANK=3"),
    "event": (
        EventRecord(seq=1, time_ns=WHEN, name="epoch", source="WORKER", metadata={"n": 3, "said": "a b", "none": None}),
        'epoch n=3 said="a b"',
    ),
    "rdzv": (
        RdzvRecord(seq=2, time_ns=WHEN, name="x.py:join", message="joined", hostname="node-b", node_state="RUNNING"),
        "x.py:join state=RUNNING message=joined",
    ),
    "loss": (LossRecord(seq=3, time_ns=WHEN, reason="write_failed", count=9), "loss reason=write_failed count=9"),
    "close": (CloseRecord(seq=4, time_ns=WHEN, reason="exit", recorded=3), "close reason=exit recorded=3 lost=0"),
    "other": (Other(seq=5, time_ns=WHEN, kind="span", fields={"a": 1}), "unknown kind span a=1"),
}


def said(record, text, header=HEADER):
    """A record's line as it comes to a pipe."""
    page = Page()
    page.parts.append(line(record, header, "f.jsonl", 7))
    return text(page).rstrip("\n")


@pytest.mark.parametrize("kind", RECORDS)
def test_each_kind_for_people(text, kind):
    """When, who, what, and where it stands."""
    record, what = RECORDS[kind]
    who = "node-b agent" if kind == "rdzv" else "node-a rank 3"
    assert f"2026-02-28 19:05:14.250 UTC  {who}  {what}  [f.jsonl:7]" == said(record, text)


@pytest.mark.parametrize("kind", RECORDS)
def test_each_kind_for_programs(kind):
    """The place, the time in UTC, the kind and the record's fields."""
    told = json.loads(json.dumps(record_json(RECORDS[kind][0], kind, "f.jsonl", 7), allow_nan=False))
    assert ("f.jsonl", 7, "2026-02-28T19:05:14.250Z", "span" if kind == "other" else kind, WHEN) == (
        told["file"],
        told["line"],
        told["time"],
        told["kind"],
        told["time_ns"],
    )


def test_without_header_and_time(text):
    """A record of which little is known is shown all the same."""
    record = EventRecord(seq=1, time_ns=None)
    assert "time not recorded  ? ?  (no name)  [f.jsonl:7]" == said(record, text, header=None)


def test_values_that_json_lacks():
    """NaN is written as on the tape, so that the line stays JSON."""
    record = EventRecord(seq=1, time_ns=None, metadata={"loss": float("nan")})
    told = json.dumps(record_json(record, "event", "f", 1), allow_nan=False)
    assert {"loss": {"$float": "nan"}} == json.loads(told)["metadata"]


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.floats(), st.integers(), st.lists(st.text()), st.none())))
def test_any_metadata(metadata):
    """Whatever a record holds, its line is printable and its JSON is JSON."""
    record = EventRecord(seq=1, time_ns=WHEN, name="n", source="WORKER", metadata=metadata)
    assert line(record, HEADER, "f", 1).text.plain.isprintable()
    json.loads(json.dumps(record_json(record, "event", "f", 1), allow_nan=False))


def test_metadata_with_a_dollar_is_not_a_form():
    """`metadata` itself is never an encoded form, whatever its keys are called; its values may be."""
    record = EventRecord(seq=1, time_ns=None, name="a", source="AGENT", metadata={"$x": 1, "b": float("nan")})
    assert {"$x": 1, "b": {"$float": "nan"}} == record_json(record, "event", "f", 1)["metadata"]
