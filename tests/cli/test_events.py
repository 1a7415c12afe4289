"""`jobtape events`: order, filters, references."""

import json

import pytest


@pytest.fixture
def names(jobtape, shelf):
    """The names (or kinds) of the records that options leave."""

    def ask(*options, run="demo"):
        done = jobtape("events", run, "--dir", shelf, "--json", *options)
        assert (True, "" if done.code == 0 else "jobtape: no such record; leave out an option to see more\n") == (
            done.code in {0, 1},
            done.err,
        )
        return [record.get("name") or record["kind"] for record in map(json.loads, done.out.splitlines())]

    return ask


ALL = [
    "header", "jobtape.launch.start", "jobtape.attempt.start", "header", "jobtape.worker.error", "close",
    "jobtape.worker.exit", "jobtape.worker.stop", "jobtape.worker.exit", "jobtape.attempt.end",
    "jobtape.launch.end", "close",
]  # fmt: skip


def test_everything_in_the_order_of_time(names):
    """Without an option every record of every file is there, by time."""
    assert ALL == names()


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (["--limit", "2"], ALL[:2]),
        (["--kind", "close"], ["close", "close"]),
        (["--kind", "close", "--kind", "header"], ["header", "header", "close", "close"]),
        (["--name", "jobtape.launch.*"], ["jobtape.launch.start", "jobtape.launch.end"]),
        (["--source", "worker"], ["jobtape.worker.error"]),
        (["--rank", "0"], ["jobtape.attempt.start", "jobtape.worker.stop", "jobtape.worker.exit"]),
        (["--rank", "1", "--kind", "event"], ["jobtape.attempt.start", "jobtape.worker.error", "jobtape.worker.exit"]),
        (["--host", "node-?", "--name", "*.error"], ["jobtape.worker.error"]),
        (["--host", "node-b"], []),
        (["--grep", "shapes? differ"], ["jobtape.worker.error"]),
        (["--grep", "reason=failure"], ["jobtape.worker.stop"]),
        (["--attempt", "0", "--name", "*.end"], ["jobtape.attempt.end", "jobtape.launch.end"]),
        (["--since", "2001-01-01", "--until", "2001-01-02T00:00Z"], []),
        (["--since", "2001-01-01", "--name", "*.end"], ["jobtape.attempt.end", "jobtape.launch.end"]),
        (["--until", "1000000000"], []),
    ],
)
def test_filters(names, options, left):
    """Each option narrows the records down, and all must hold."""
    assert left == names(*options)


def test_text_has_time_place_and_reference(jobtape, shelf):
    """A line for people says when, who, what and where it stands; the reference finds it again."""
    line = jobtape("events", "demo", "--dir", shelf, "--name", "*.error").out.rstrip("\n")
    assert " UTC  node-a rank 1  jobtape.worker.error error_type=RuntimeError " in line
    reference = line.rpartition("[")[2].rstrip("]")
    assert line == jobtape("events", "demo", "--dir", shelf, "--file", reference).out.rstrip("\n")


def test_printed_times_are_understood(jobtape, shelf, names):
    """A time as printed can be given back."""
    line = jobtape("events", "demo", "--dir", shelf, "--name", "*.launch.end").out
    printed = line.partition("  ")[0]
    assert ["jobtape.launch.end"] == names("--since", printed, "--kind", "event")[-1:]


def test_json_has_place_and_time(jobtape, shelf):
    """A record's line, file and UTC time stand beside its own fields."""
    record = json.loads(jobtape("events", "demo", "--dir", shelf, "--json", "--name", "*.error").out)
    path = shelf / "demo" / record["file"]
    assert (record["seq"], record["metadata"]) == tuple(
        json.loads(path.read_text().splitlines()[record["line"] - 1])[key] for key in ("seq", "metadata")
    )
    assert record["time"].endswith("Z")


def test_nothing_left(jobtape, shelf):
    """No such record is an answer: exit code 1."""
    done = jobtape("events", "demo", "--dir", shelf, "--name", "nosuch")
    assert (1, "", "jobtape: no such record; leave out an option to see more\n") == (done.code, done.out, done.err)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--grep", "("], "--grep"),
        (["--since", "yesterday"], "--since"),
        (["--until", "2026-13-45"], "--until"),
        (["--since", "2026-01-01 10:00 XYZ"], "unknown zone"),
        (["--rank", "-1"], "--rank"),
        (["--rank", "one"], "--rank"),
        (["--kind", "spam"], "--kind"),
        (["--source", "nobody"], "--source"),
        (["--attempt", "7"], "the run has attempts 0-0"),
        (["--limit", "0"], "--limit"),
        (["--file", ""], "--file"),
    ],
)
def test_bad_values(jobtape, shelf, options, said):
    """A value that means nothing is named in one line."""
    done = jobtape("events", "demo", "--dir", shelf, *options)
    assert (2, "", 1) == (done.code, done.out, done.err.count("\n"))
    assert said in done.err
