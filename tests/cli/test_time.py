"""``jobtape time``: where the wall time went."""

import json
from pathlib import Path

import pytest


def test_a_bar_a_table_and_the_attempts(jobtape, shelf):
    """The text says how long the run took, what for, and what its restarts cost."""
    done = jobtape("time", "demo", "--dir", shelf)
    assert (0, "") == (done.code, done.err)
    assert "of wall time" in done.out
    assert "CATEGORY" in done.out
    assert "workers were up; nothing finer is known" in done.out


@pytest.mark.parametrize("by", ["attempt", "node", "rank"])
def test_one_by_one(jobtape, shelf, by):
    """A row for each attempt, node or rank."""
    done = jobtape("time", "demo", "--by", by, "--dir", shelf)
    assert (0, by.upper()) == (done.code, next(word for word in done.out.split() if word == by.upper()))


@pytest.mark.parametrize("run", ["demo", "good"])
def test_json_follows_the_schema(jobtape, shelf, run):
    """What programs get is what the published schema says, and sums to the wall time."""
    jsonschema = pytest.importorskip("jsonschema")
    done = jobtape("time", run, "--json", "--dir", shelf)
    schema = Path(__file__).resolve().parents[2] / "docs" / "time.schema.json"
    said = json.loads(done.out)
    jsonschema.validate(said, json.loads(schema.read_text()))
    assert 0.001 >= abs(sum(said["categories"].values()) - said["wall_s"])


def test_wrong_use(jobtape, shelf):
    """An unknown run, or a way to split that there is not, is one line."""
    assert (2, 1) == (jobtape("time", "nobody", "--dir", shelf).code, jobtape("time", "x", "--by", "y").err.count("\n"))
