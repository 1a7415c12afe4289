"""`jobtape why --explain` and `jobtape why --diff` on tapes."""

import json
from pathlib import Path

import pytest

from tests.cli.tapes_to_read import record_failed_run, record_live_run

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "why.schema.json"


def test_explanation(jobtape, shelf):
    """After the answer: how it was reached and what its words mean; the exit code stays that of the answer."""
    plain, done = jobtape("why", "demo", "--dir", shelf), jobtape("why", "demo", "--dir", shelf, "--explain")
    assert (1, "", True) == (done.code, done.err, done.out.startswith(plain.out))
    added = done.out.removeprefix(plain.out)
    for piece in (
        "Attempt 0: rank 1 on node-a raised RuntimeError: shapes differ at train.py:12\n",
        "2. did a rank fail of its own cause? Yes, and that decided\n",
        "because     One rank alone failed of its own cause",
        "What the words mean\n",
    ):
        assert piece in added


def test_explanation_as_json(jobtape, shelf):
    """Programs get it as texts beside the answer, and only when they ask for it."""
    jsonschema = pytest.importorskip("jsonschema")
    answer = json.loads(jobtape("why", "demo", "--dir", shelf, "--json", "--explain").out)
    jsonschema.validate(answer, json.loads(SCHEMA.read_text()), format_checker=jsonschema.FormatChecker())
    assert [True, True] == [isinstance(text, str) and bool(text) for text in answer["explanation"]]
    assert "explanation" not in json.loads(jobtape("why", "demo", "--dir", shelf, "--json").out)


@pytest.mark.parametrize("words", [["good"], ["live"], ["empty"]])
def test_explanation_of_runs_without_a_failure(jobtape, shelf, words):
    """A run that succeeded, that still runs, or that has not begun, is explained as well."""
    writer = record_live_run(shelf)
    record_failed_run(shelf, "empty", attempts=0)
    done = jobtape("why", *words, "--dir", shelf, "--explain")
    assert ("", True) == (done.err, "What the words mean\n" in done.out)
    writer.close("launch_end")


@pytest.mark.parametrize(
    ("message", "code", "answer"),
    [("shapes differ", 0, "in the same way: RuntimeError."), ("loss is nan", 1, "in different ways.")],
)
def test_difference(jobtape, shelf, message, code, answer):
    """The exit code and the first line say whether two runs failed in the same way; the table says what differs."""
    record_failed_run(shelf, "other", attempts=3, message=message)
    done = jobtape("why", "--diff", "demo", "other", "--dir", shelf)
    assert (code, "", f"The two runs failed {answer}") == (done.code, done.err, done.out.split("\n")[0])
    rows = [line.split() for line in done.out.splitlines()]
    assert ["DIFFERS", "demo", "other"] in rows
    assert ["attempts", "1", "3"] in rows


def test_difference_as_json(jobtape, shelf):
    """Programs get every fact of both, the environment's too."""
    record_failed_run(shelf, "other")
    done = jobtape("why", "--diff", "demo", "other", "--dir", shelf, "--json")
    answer = json.loads(done.out)
    assert (0, True, ["demo", "other"]) == (done.code, answer["same"], answer["runs"])
    facts = {fact["what"]: fact for fact in answer["facts"]}
    assert {"what": "command", "a": "train.py", "b": "train.py", "same": True} == facts["command"]
    assert {"what": "python", "a": "3.11.0", "b": "3.11.0", "same": True} == facts["python"]


def test_difference_to_a_run_that_succeeded(jobtape, shelf):
    """A failure and none are not the same; two runs without a failure are."""
    done = jobtape("why", "--diff", "demo", "good", "--dir", shelf)
    assert (1, True) == (done.code, done.out.startswith("Only one of the two runs has a failure on the record.\n"))
    assert 0 == jobtape("why", "--diff", "good", "good", "--dir", shelf).code


@pytest.mark.parametrize(
    "words",
    [
        ["--diff", "demo"],
        ["good", "--diff", "demo", "good"],
        ["--diff", "demo", "good", "--explain"],
        ["--diff", "demo", "nobody"],
    ],
)
def test_wrong_use(jobtape, shelf, words):
    """One run, a third run, an explanation of a difference and a run that is not there are wrong use."""
    done = jobtape("why", *words, "--dir", shelf)
    assert (2, "", 1) == (done.code, done.out, len(done.err.splitlines()))


def test_hostile_messages_in_both(jobtape, shelf):
    """Escapes and 200 kB of text reach no terminal in either form."""
    record_failed_run(shelf, "hostile", message="\x1b[2J\u202e\x85boom\n" + "x" * 200_000)
    for words in (["hostile", "--explain"], ["--diff", "hostile", "demo"], ["--diff", "hostile", "demo", "--full"]):
        done = jobtape("why", *words, "--dir", shelf)
        assert all(line.isprintable() for line in done.out.split("\n"))
