"""A user's own rows of what victims say: which are taken, what is wrong with the others, and what they change."""

import time

import pytest

from jobtape.diagnose.added_signatures import added_signatures
from jobtape.diagnose.failure_text import failure_text
from jobtape.diagnose.model import to_json
from jobtape.diagnose.reconstruct import diagnose
from jobtape.diagnose.signatures import Added, Signature, has_words, row_of
from tests.diagnose.lab import Node, raised

ROW = {"text": "stage * vanished", "says": "peer gone", "library": "ours", "source": "link.cc"}


def test_a_row_as_it_is_written():
    """A whole row, and one with nothing but what it needs."""
    added = added_signatures({"signature": [ROW, {"text": "gave up waiting", "says": "timeout"}]}, "signatures.toml")
    assert (
        Signature("stage * vanished", "ours", "peer gone", "link.cc"),
        Signature("gave up waiting", "yours", "timeout", "signatures.toml"),
    ) == added.rows
    assert () == added.mistakes


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("x", "it is no table"),
        ({**ROW, "regex": "x"}, "'regex' is no key of a row; those are text, says, library and source"),
        ({**ROW, "text": 7}, "its values must be texts in quotes"),
        ({"says": "timeout"}, "its text needs 5 characters or more, without *"),
        ({**ROW, "text": "*a * b*"}, "its text needs 5 characters or more, without *"),
        ({**ROW, "text": "word\nword"}, "its text must be one line of at most 500 characters"),
        ({**ROW, "text": "w" * 501}, "its text must be one line of at most 500 characters"),
        ({**ROW, "says": "unclear"}, 'says must be "peer gone" or "timeout"'),
        ({"text": "some words"}, 'says must be "peer gone" or "timeout"'),
    ],
)
def test_a_row_that_cannot_be_used_is_left_out_and_told(row, says):
    """The other rows still count."""
    added = added_signatures({"signature": [row, ROW]}, "s.toml")
    assert (1, (f"s.toml: row 1 is left out: {says}",)) == (len(added.rows), added.mistakes)


@pytest.mark.parametrize("data", [None, [], 3, {"signature": {}}, {"signature": "x"}, {"signatures": []}, {7: 8}])
def test_a_file_of_another_shape_is_told(data):
    """Nothing that a TOML file can hold makes it raise."""
    added = added_signatures(data, "s.toml")
    assert () == added.rows
    assert added.mistakes
    assert all(mistake.startswith("s.toml") for mistake in added.mistakes)


def test_more_rows_than_anybody_writes_are_cut():
    """The first ones count, and the cut is told."""
    added = added_signatures({"signature": [ROW] * 501}, "s.toml")
    assert (500, ("s.toml has 501 rows; the first 500 are used",)) == (len(added.rows), added.mistakes)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("stage * vanished", True),
        ("stage 3 vanished", True),
        ("*stage**3 v*", True),
        ("vanished * stage", False),
        ("stage * again", False),
        ("***", False),
        ("", False),
        (".* vanished", False),
    ],
)
def test_words_with_stars(words, found):
    """A star is any words of one line, and nothing else means anything but itself."""
    assert found is has_words("note\nstage 3 vanished\nagain", words)


def test_hostile_words_take_no_time():
    """Stars in plenty in a text that almost fits."""
    began = time.perf_counter()
    assert not has_words("a" * 4000, "*a" * 240 + "b")
    assert time.perf_counter() - began < 1


def test_a_users_row_counts_in_errors_of_every_type_and_first():
    """An error class of one's own is what such a row is for, and it may say better what a built-in row says too."""
    added = Added((Signature("PeerGone: stage * vanished", "ours", "peer gone", "x"),))
    assert "ours" == row_of(failure_text("my.PeerGone", "stage 3 vanished"), added).library
    assert row_of(failure_text("my.PeerGone", "stage 3 vanished")) is None
    again = Added((Signature("NCCL communicator was aborted", "ours", "timeout", "x"),))
    assert "ours" == row_of(failure_text("RuntimeError", "NCCL communicator was aborted on rank 0."), again).library


def job():
    """One rank raises, and another one says in words of its own that a peer is gone, a second earlier."""
    node = Node().join(0).start(1, [0, 1], [20, 21])
    node.ended(9, 0, 20, 1, raised("my.PeerGone", "stage 1 vanished", at=5))
    return node.ended(9, 1, 21, 1, raised("ValueError", "bad row", at=7), local_rank=1).agent(9)


def test_the_verdict_with_and_without_a_row():
    """Without it the error that was raised first is the cause; with it that error is a victim's."""
    rows = added_signatures({"signature": [{"text": "stage * vanished", "says": "peer gone"}]}, "s.toml")
    blamed = [
        [(r["rank"], r["role"]) for r in to_json(diagnose([job().file()], added=added))["attempts"][0]["ranks"]]
        for added in (Added(), rows)
    ]
    assert [[(0, "first"), (1, "independent")], [(0, "collateral"), (1, "first")]] == blamed


def test_mistakes_are_warnings_of_the_answer():
    """What is wrong with the file stands in the answer, whatever the verdict is."""
    said = to_json(diagnose([job().file()], added=Added((), ("s.toml: row 1 is left out: x",))))
    assert {"kind": "signature_file", "text": "s.toml: row 1 is left out: x"} in said["warnings"]
