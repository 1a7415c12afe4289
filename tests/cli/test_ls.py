"""`jobtape ls` and `jobtape show` on tapes."""

import json

from tests.cli.tapes_to_read import record_failed_run


def test_runs_with_the_newest_last(jobtape, shelf):
    """A line a run, oldest first."""
    done = jobtape("ls", "--dir", shelf)
    assert (0, "", ["RUN", "good", "demo"]) == (
        done.code,
        done.err,
        [line.split()[0] for line in done.out.splitlines()],
    )


def test_only_the_newest(jobtape, shelf):
    """--limit keeps the newest and says that there are others."""
    done = jobtape("ls", "--dir", shelf, "--limit", "1")
    assert ["1 older run not shown", "RUN", "demo"] == [line.split("  ")[0].strip() for line in done.out.splitlines()]


def test_bad_limit(jobtape, shelf):
    """A limit is a number from 1."""
    for value in ("0", "-1", "many"):
        done = jobtape("ls", "--dir", shelf, "--limit", value)
        assert (2, 1) == (done.code, done.err.count("\n"))
        assert "--limit" in done.err


def test_json_list(jobtape, shelf):
    """Programs get a list with the contract's facts."""
    runs = json.loads(jobtape("ls", "--dir", shelf, "--json").out)
    assert [("good", "succeeded", 1, 0), ("demo", "failed", 2, 0)] == [
        (run["run_id"], run["state"], run["world_size"], run["restarts"]["failure"]) for run in runs
    ]


def test_hostile_run_ids(jobtape, shelf):
    """Ids that are no file names are shown as they were, made harmless."""
    for run_id in ("../..", "/", "a\nb", "x" * 300, "größe", "\x1b[2J"):
        record_failed_run(shelf, run_id)
    done = jobtape("ls", "--dir", shelf)
    assert (0, 9) == (done.code, len(done.out.splitlines()))
    assert all(line.isprintable() for line in done.out.splitlines())
    ids = {run["run_id"] for run in json.loads(jobtape("ls", "--dir", shelf, "--json").out)}
    assert {"../..", "/", "a\nb", "x" * 300, "größe", "\x1b[2J"} <= ids


def test_damaged_run_among_others(jobtape, shelf):
    """One run that cannot be read does not hide the others."""
    for path in (shelf / "demo").glob("*.jsonl"):
        path.write_bytes(b"\0" * 100)
    done = jobtape("ls", "--dir", shelf)
    assert (0, "") == (done.code, done.err)
    assert {"good", "demo"} <= {line.split()[0] for line in done.out.splitlines()}


def test_narrow(jobtape, shelf):
    """Forty columns are enough."""
    assert 40 >= max(map(len, jobtape("ls", "--dir", shelf, COLUMNS="40").out.splitlines()))


def test_show_attempt_by_attempt(jobtape, shelf):
    """Each attempt with its workers, and exit code 0 whatever became of the run."""
    done = jobtape("show", "demo", "--dir", shelf)
    assert (0, "") == (done.code, done.err)
    assert "RuntimeError: shapes differ" in done.out
    assert ["1", "0"] == [line.split()[0] for line in done.out.splitlines()[-2:]]


def test_show_json(jobtape, shelf):
    """What why says, with each worker's own facts."""
    attempt = json.loads(jobtape("show", "demo", "--dir", shelf, "--json").out)["attempts"][0]
    assert [(0, -15), (1, 1)] == sorted((worker["rank"], worker["exit_code"]) for worker in attempt["workers"])
