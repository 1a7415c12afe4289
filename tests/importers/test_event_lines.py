"""The JSON of torchelastic's records."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobtape.importers import event_lines
from jobtape.tape.records import encode
from jobtape.tape.values import decode_value
from tests.importers import lines


def record(line, time_ns=None):
    """The tape's record of a line of JSON, as it reads after it was encoded."""
    fields, end = event_lines.decode_object(line)
    assert (len(line), True) == (end, event_lines.is_record(fields))
    made = event_lines.to_record(fields, time_ns, "a.log:1")
    encode(made)
    return made


def test_event_keeps_torchs_fields():
    """An event's own fields stand where the tape has them, unknown ones in extra."""
    made = record(lines.event("FAILED", rank=3, schema=4, hint=None))
    assert ("torchelastic.worker.status.FAILED", "WORKER", 0) == (made.name, made.source, made.timestamp)
    assert (3, {"schema": 4, "hint": None}, "a.log:1") == (made.metadata["global_rank"], made.extra, made.origin)


def test_rendezvous_event_keeps_torchs_fields():
    """A rendezvous event's own fields stand where the tape has them, unknown ones in extra."""
    made = record(lines.rdzv("joined round 0", zone="b", local_id=None))
    assert ("job-7", "joined round 0", "node-a", 1780) == (made.run_id, made.message, made.hostname, made.pid)
    assert ("RUNNING", 0, None, {"zone": "b"}) == (made.node_state, made.rank, made.local_id, made.extra)


def test_source_that_torch_does_not_know_stays():
    """A site's own source is kept."""
    assert "LAUNCHER" == record(lines.event(source="LAUNCHER")).source


@pytest.mark.parametrize(
    ("time", "expected"), [(1794404220.2042, 1794404220204200000), (1794404220, 1794404220000000000)]
)
def test_arrival_time_is_exact_and_wins(time, expected):
    """The top-level time is the arrival time, to the microsecond, and is no field of its own then."""
    made = record(lines.event(time=time), 5)
    assert (expected, {}) == (made.time_ns, made.extra)


@pytest.mark.parametrize("time", [0, -1.5, 1e300, "1794404220", True, None, [1], 1794404220204])
def test_what_is_no_arrival_time_stays_a_field(time):
    """A time that cannot be one is not believed, and not lost."""
    made = record(lines.event(time=time), 5)
    assert (5, {"time": time}) == (made.time_ns, made.extra)


def test_timestamp_is_a_time_only_where_there_is_no_other():
    """torch's 0 is none; a plausible one in milliseconds counts when nothing says when the line arrived."""
    assert record(lines.event(timestamp=0)).time_ns is None
    assert 1794404220204000000 == record(lines.event(timestamp=1794404220204)).time_ns
    assert 5 == record(lines.event(timestamp=1794404220204), 5).time_ns
    assert record(lines.event(timestamp=12345)).time_ns is None


def test_fields_of_another_type_go_to_extra():
    """What torch would not write in a field is kept under its name, beside the field."""
    made = record(lines.event(timestamp="noon"))
    assert (0, {"timestamp": "noon"}) == (made.timestamp, made.extra)
    made = record(lines.rdzv(pid="x", rank=2**70, hostname=None, master_endpoint=3, source=["s"]))
    assert (0, None, "", "AGENT") == (made.pid, made.rank, made.hostname, made.source)
    assert {"pid": "x", "master_endpoint": 3, "source": ["s"]} == {k: v for k, v in made.extra.items() if k != "rank"}


def test_values_that_strict_json_cannot_hold():
    """NaN, infinities, huge integers and lone surrogates, as Python's json writes them, come through."""
    line = (
        '{"name": "n", "source": "AGENT", "metadata": {"a": NaN, "b": -Infinity, "c": 1e999, "d": %d, "e": "\\ud800"}}'
    )
    made = record(line % 10**30)
    back = decode_value(json.loads(encode(made.metadata)))
    assert back["a"] != back["a"]
    assert (float("-inf"), float("inf"), 10**30, "\ud800") == (back["b"], back["c"], back["d"], back["e"])


def test_number_of_a_million_digits_is_kept_as_text():
    """An integer that Python refuses to convert does not cost the record."""
    made = record('{"name": "n", "source": "AGENT", "metadata": {"a": %s}}' % ("9" * 1_000_000))
    assert 1_000_000 == len(made.metadata["a"])


def test_equal_keys_are_both_kept():
    """torch writes {1: …, "1": …} with two equal keys."""
    made = record('{"name": "n", "source": "AGENT", "metadata": {"1": "a", "1": "b", "1": "c"}}')
    assert {"1": "a", "1#2": "b", "1#3": "c"} == made.metadata


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        '{"name": "n"}',
        '{"name": "n", "source": "AGENT", "metadata": "text"}',
        '{"name": 1, "source": "AGENT", "metadata": {}}',
        '{"name": "n", "source": null, "metadata": {}}',
        '{"log": "{\\"name\\": \\"n\\"}", "stream": "stderr"}',
    ],
)
def test_other_objects_are_no_records(line):
    """An object without an event's fields, or with a record inside a string, is none."""
    assert not event_lines.is_record(event_lines.decode_object(line)[0])


@pytest.mark.parametrize("text", ["", "[1]", "12", '{"name": ', "{" * 100_000, '{"a":' * 100_000, "{'a': 1}"])
def test_what_is_no_object(text):
    """Other JSON, broken JSON and JSON nested without end is no object."""
    assert event_lines.decode_object(text) is None


def test_run_and_host_of_a_record():
    """A run id may be a number in metadata; hosts are those of agents and workers."""
    assert ["7", None, None, "job-7"] == [
        event_lines.run_id_of(json.loads(line))
        for line in (lines.event(run_id=7), lines.event(run_id=None), lines.event(run_id=True), lines.rdzv())
    ]
    assert ["node-a", None, "node-a"] == [
        event_lines.host_of(record(line)) for line in (lines.event(), lines.event(source="LAUNCHER"), lines.rdzv())
    ]


def test_records_behind_a_torn_one_are_found():
    """A record that begins behind a torn one is found; one that is quoted inside a string is not."""
    whole = lines.event("FAILED")
    quoting = lines.event(raw_error=whole)
    found, nothing_else = event_lines.find_records(quoting[:-3] + whole)
    assert ([json.loads(whole)], False) == ([fields for fields, _ in found], nothing_else)
    assert ([], False) == event_lines.find_records(quoting[:-3])


def test_two_records_on_a_line():
    """Two processes may have written their lines into one; nothing is lost then."""
    text = lines.event(rank=0) + lines.event(rank=1) + " "
    found, nothing_else = event_lines.find_records(text)
    assert ([0, 1], True) == ([fields["metadata"]["global_rank"] for fields, _ in found], nothing_else)


def test_torn_records_are_told_from_other_text():
    """The start or the end of a record is damage; a line of a log is not."""
    whole = lines.rdzv()
    assert [True, True, False, False] == [
        event_lines.looks_torn(text) for text in (whole[:50], whole[20:], "{'loss': 1.5}", f"bad row {whole}")
    ]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    ),
    st.sampled_from([*json.loads(lines.rdzv()), "source", "timestamp", "time", "metadata"]),
)
def test_any_value_in_any_field_is_survived(value, field):
    """A record with anything in one of its fields is a record that can be written, or none."""
    for line in (lines.event(), lines.rdzv()):
        fields = {**json.loads(line), field: value}
        decoded, _ = event_lines.decode_object(json.dumps(fields))
        if event_lines.is_record(decoded):
            encode(event_lines.to_record(decoded, None, "a.log:1"))
