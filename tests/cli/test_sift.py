"""Records in order, and which are asked for."""

from pathlib import Path

import pytest

from jobtape.cli.sift import Placed, Wanted, in_order, is_wanted, ranks_of, reference, texts_of
from jobtape.tape.reader import TapeFile
from jobtape.tape.records import EventRecord, Header


def an_event(seq, time_ns, **metadata):
    """An event of the tape."""
    return EventRecord(seq=seq, time_ns=time_ns, name=f"n{seq}", source="AGENT", metadata=metadata)


def test_records_without_times_keep_their_place():
    """What has no time stays behind its predecessor in the file."""
    first = TapeFile(Path("a.jsonl"), None, [an_event(1, 10), an_event(2, None), an_event(3, 30)], [2, 3, 4])
    second = TapeFile(Path("b.jsonl"), None, [an_event(1, None), an_event(2, 20)], [2, 3])
    assert [("a.jsonl", 2), ("a.jsonl", 3), ("b.jsonl", 2), ("b.jsonl", 3), ("a.jsonl", 4)] == [
        (placed.file, placed.line) for placed in in_order([first, second])
    ]


@pytest.mark.parametrize(
    ("metadata", "ranks"),
    [
        ({"rank": 3}, {3}),
        ({"global_rank": "3"}, {3}),
        ({"rank": [3]}, {3}),
        ({"ranks": [0, 1]}, {0, 1}),
        ({"rank": None}, {7}),
        ({"rank": True}, {7}),
        ({}, {7}),
    ],
)
def test_ranks_of_a_record(metadata, ranks):
    """The ranks a record names, else that of its writer."""
    header = Header(role="worker", ranks={"RANK": "7"})
    assert ranks == ranks_of(Placed(1, header, "f", 1, an_event(1, 1, **metadata)))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a.jsonl", ("a.jsonl", 0, 1 << 53)),
        ("a.jsonl:7", ("a.jsonl", 7, 7)),
        ("a.jsonl:7-9", ("a.jsonl", 7, 9)),
        ("/x/y/a.jsonl:7", ("a.jsonl", 7, 7)),
        ("a.jsonl:7 #6 jobtape.worker.exit: rank 1", ("a.jsonl", 7, 7)),
        ("my file.log:7 #6 rank 1", ("my file.log", 7, 7)),
        ("node-a.log:12", ("node-a.log", 12, 12)),
    ],
)
def test_references(text, place):
    """Files, lines and ranges, with whatever follows in the evidence."""
    assert place == reference(text)


def test_place_in_the_imported_file():
    """A record is found by where it stood before it was imported."""
    record = EventRecord(seq=1, time_ns=None, origin="node-a.log:12")
    placed = Placed(None, None, "node-a-import-01234567.jsonl", 2, record)
    assert [True, False, True] == [
        is_wanted(placed, Wanted(references=(place,)))
        for place in (("node-a.log", 12, 12), ("node-a.log", 13, 13), ("node-a-import-01234567.jsonl", 0, 99))
    ]


def test_texts_of_nested_values():
    """Every text in a value can be looked for, and key=value too."""
    assert ["a", "b=1", "c=x", "x", "d", "2"] == list(texts_of([{"a": {"b": 1, "c": "x"}, "d": None}, 2]))
