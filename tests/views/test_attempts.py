"""The text and the JSON of `jobtape show`."""

import json

import pytest

from jobtape.views.attempts import attempts, run_json
from tests.views.runs_to_show import START, a_cause, a_rank, a_run, an_attempt


def test_workers_that_ended_alike_share_a_row(text):
    """Role, end, time and words of each group of workers, the first failure on top."""
    rows = [line.split("  ") for line in text(attempts(a_run())).splitlines() if line.startswith("  ")]
    table = [[cell.strip() for cell in row if cell.strip()] for row in rows[1:]]
    assert [
        ["RANK", "NODE", "PID", "ROLE", "END", "RAN", "SAID"],
        ["1", "node-a", "121", "first", "exit 1", "2.8 s", "RuntimeError: shapes differ: 3 and 4"],
        ["0", "node-a", "120", "collateral", "exit 1", "2.8 s", "Connection closed by peer [127.0.0.1]:2212"],
        ["2,3", "node-a", "-", "stopped", "SIGTERM", "2.8 s", "-"],
    ] == table


def test_what_else_is_known_of_a_rank(text):
    """A rank's note stands in its row, and tells it from ranks without one."""
    ranks = (a_rank(1, exit_code=3, note="core dumped"), a_rank(2, exit_code=3), a_rank(3, exit_code=3))
    said = text(attempts(a_run(an_attempt(ranks=ranks))))
    rows = [line.split() for line in said.splitlines() if "stopped" in line]
    assert [["1", ["(core", "dumped)"]], ["2,3", ["s", "-"]]] == [[row[0], row[-2:]] for row in rows]


def test_time_until_the_next_attempt(text):
    """What a restart took stands between two attempts."""
    run = a_run(an_attempt(0), an_attempt(1, START + 10, cause=a_cause(error_type="ValueError")))
    assert "\n7.2 s until the next attempt started\n" in text(attempts(run))


def test_full_has_a_row_a_worker(text):
    """With everything asked for, each worker and each attempt is there."""
    run = a_run(*(an_attempt(index) for index in range(10)))
    said = text(attempts(run, full=True))
    assert (10, 10) == (said.count("\nAttempt "), said.count("  123  "))


def test_many_different_workers_are_counted(text):
    """Of workers that all ended differently a dozen are shown."""
    ranks = tuple(a_rank(n, "independent", exit_code=n) for n in range(1, 100))
    assert "87 more ranks; --full shows them" in text(attempts(a_run(an_attempt(ranks=ranks))))


def test_many_different_attempts_are_counted(text):
    """Of attempts that all ended differently the last ones are shown."""
    run = a_run(*(an_attempt(n, cause=a_cause(error_type=f"E{'abcdefghijklmnopqrst'[n]}")) for n in range(20)))
    lines = text(attempts(run)).splitlines()
    assert "8 earlier attempts not shown; --full shows them" == lines[3]
    assert lines[4].startswith("Attempt 8 ended because rank 1 on node-a raised Ei: shapes differ")


def test_running_workers(text):
    """A worker that has not ended yet is running."""
    attempt = an_attempt(outcome="running", cause=None, ended=None, ranks=(a_rank(0, "unknown", ended=None),))
    assert "running" in text(attempts(a_run(attempt, state="running"))).splitlines()[-1]


@pytest.mark.parametrize(
    ("cause", "fields", "said"),
    [
        ({"kind": "node_lost", "pid": None}, {}, "lost"),
        ({"kind": "node_lost", "pid": 7}, {}, "left alone"),
        ({"kind": "node_lost", "pid": 7}, {"exit_code": 0}, "ended well"),
        ({"kind": "node_lost", "host": "node-b"}, {}, "-"),
        ({}, {}, "-"),
    ],
)
def test_workers_of_which_little_is_known(text, cause, fields, said):
    """A worker whose node or agent vanished, or that ended well, has a word for it where its role is unknown."""
    attempt = an_attempt(cause=a_cause(**cause), ranks=(a_rank(0, "unknown", **fields), a_rank(1, exit_code=3)))
    header, row, *_ = text(attempts(a_run(attempt))).splitlines()[-3:]
    assert said == row[header.index("ROLE") : header.index("END")].strip()


def test_narrow_place(text):
    """Forty columns are enough to read it."""
    assert 40 >= max(map(len, text(attempts(a_run()), 40).splitlines()))


def test_json_adds_durations_and_workers():
    """The answer of why, with each attempt's duration and all that is known of its workers."""
    told = json.loads(json.dumps(run_json(a_run()), allow_nan=False))
    attempt = told["attempts"][0]
    assert (2.8, 4, "2026-02-28T19:05:14.000Z") == (
        attempt["duration_s"],
        len(attempt["workers"]),
        attempt["workers"][0]["started"],
    )
