"""The text of `jobtape why`."""

import pytest

from jobtape.diagnose.model import Loss, Restarts, Warning_
from jobtape.views.attempt import clipped
from jobtape.views.attempts import attempts
from jobtape.views.room import SCREEN_LINES as SCREEN
from jobtape.views.verdict import between, verdict
from tests.views.large_runs import LARGE
from tests.views.runs_to_show import START, TRACEBACK, a_cause, a_rank, a_run, an_attempt


def many_attempts(number):
    """Attempts that ended alike, each 3 s after the one before."""
    return [an_attempt(index, START + 3 * index, round=index) for index in range(number)]


def test_the_answer_is_the_first_line(text):
    """The first line is the whole answer."""
    first, second, *_ = text(verdict(a_run())).splitlines()
    assert first.startswith("Attempt 0 ended after 2.8 s: rank 1 on node-a raised RuntimeError: shapes differ")
    assert "" == second


def test_doubts_stand_before_the_details(text):
    """What the record lacks is said right after the answer, before anyone believes the rest."""
    run = a_run(
        warnings=(Warning_(kind="clock_skew", text="node-b is 3 s ahead"),), loss=Loss(events_missing=3, files=2)
    )
    lines = text(verdict(run)).splitlines()
    assert [
        "warning: incomplete record: 3 records missing, in 2 files",
        "warning: clock skew: node-b is 3 s ahead",
    ] == lines[6:8]


def test_everything_a_reader_looks_for(text):
    """Traceback, consequences, their words, the stacks, the evidence and the cost are there."""
    said = text(verdict(a_run()))
    for piece in (
        "local rank 1, pid 121, exit code 1, at 2026-02-28 19:05:16.759 UTC, noticed 141 ms later",
        "certain: there is a record of that very fact",
        "| RuntimeError: shapes differ: 3 and 4",
        "rank 0 said: Connection closed by peer [127.0.0.1]:2212",
        "stood     ranks 2 and 3 at /home/me/train.py:14 in step, in all_reduce",
        "evidence  node-a-121-20260228T190514000.jsonl:4 #3 jobtape.worker.error",
        "Cost: 2.8 s in 1 attempt that did not succeed, 2.8 s in all",
        "Next: look at train.py:12\nMore: jobtape events demo --attempt 0 --rank 1; jobtape why demo --explain\n",
    ):
        assert piece in said


@pytest.mark.parametrize("number", [1, 2, 37, 1000])
def test_at_most_a_screen(text, number):
    """However many attempts ended alike, the text is a screen at most."""
    assert SCREEN >= len(text(verdict(a_run(*many_attempts(number)))).splitlines())


def test_identical_attempts_are_told_once(text):
    """Thirty-seven equal failures have one heading."""
    said = text(verdict(a_run(*many_attempts(37))))
    assert "Attempts 0-36 failed 37 times in the same way; shown is attempt 36, after 2.8 s" in said
    assert "Cost: 36 restarts after failures, 1 min 44 s in 37 attempts that did not succeed" in said


def test_ten_thousand_ranks_on_a_thousand_nodes(text):
    """The size of the job does not make the text longer."""
    hosts = [f"gpu{n:04}" for n in range(1250)]
    ranks = tuple(
        a_rank(n, "first" if n == 77 else "stopped", host=hosts[n // 8], stack="" if n == 77 else "Thread 1\n")
        for n in range(10_000)
    )
    attempt = an_attempt(nodes=tuple(hosts), world_size=10_000, ranks=ranks, cause=a_cause(rank=77))
    said = text(verdict(a_run(attempt)))
    assert SCREEN >= len(said.splitlines())
    assert "10,000 ranks on 1,250 nodes (gpu[0000-1249])" in said
    assert "ranks 0-76,78-9999 were stopped by the agent" in said


def test_different_endings_are_folded(text):
    """Of many different endings the last ones are shown, the rest counted."""
    attempts = [an_attempt(n, START + n, cause=a_cause(error_type=f"Error{'abcdefghij'[n % 10]}")) for n in range(20)]
    said = text(verdict(a_run(*attempts)))
    assert (
        "20 attempts, which ended in 10 ways:\n  2 times   attempts 9,19 ended because rank 1 on node-a raised" in said
    )
    assert "  4 more ways (8 attempts); --full shows them\n" in said
    assert said.count("| Traceback") == 1


def test_the_same_failure_on_other_ranks_is_one_way(text):
    """Attempts that failed alike on another rank each time are told once, with all of those ranks."""
    attempts = [an_attempt(n, START + n, cause=a_cause(rank=n)) for n in range(20)]
    said = text(verdict(a_run(*attempts)))
    assert said.startswith(
        "All 20 attempts ended the same way, each after 2.8 s: 20 different ranks (0-19) on node-a raised RuntimeError:"
    )
    assert "Attempts 0-19 failed 20 times in the same way, with 20 different ranks first (0-19), always on the" in said


def test_many_warnings_of_a_kind_are_one_line(text):
    """Of three hundred odd clocks one is told and the others are counted; other kinds keep their place."""
    skewed = [Warning_(kind="clock_skew", text=f"the clock of node-{n} is {n}.5 s ahead") for n in range(300)]
    said = text(verdict(a_run(warnings=(*skewed, Warning_(kind="teardown", text="the agent on node-b waited")))))
    assert [
        "warning: clock skew: the clock of node-0 is 0.5 s ahead (299 more of this kind)",
        "warning: teardown: the agent on node-b waited",
    ] == [line for line in said.splitlines() if line.startswith("warning")]


def test_a_kind_that_says_many_different_things(text):
    """Warnings of one kind that say different things are folded too once they are more than two."""
    odd = [Warning_(kind="teardown", text=f"trouble {word}") for word in ("one", "two", "three", "four")]
    assert "warning: teardown: trouble one (3 more of this kind)\n" in text(verdict(a_run(warnings=odd)))


@pytest.mark.parametrize("columns", [None, 80, 100, 200])
@pytest.mark.parametrize("name", sorted(LARGE))
def test_large_runs_are_a_screen(text, name, columns):
    """However large, odd or hostile the run, `why` and `show` are a screen at most."""
    run = LARGE[name]()
    for view in (verdict, attempts):
        page = view(run, width=columns) if columns else view(run)
        assert SCREEN >= len(text(page, columns).splitlines())


def test_full_folds_nothing(text):
    """With everything asked for, every attempt, line and reference is there."""
    evidence = tuple(f"a.jsonl:{n}" for n in range(20))
    attempts = [an_attempt(n, cause=a_cause(evidence=evidence, error_type=f"E{'ab'[n % 2]}")) for n in range(10)]
    said = text(verdict(a_run(*attempts), full=True))
    assert [10, 10, 10] == [said.count(piece) for piece in ("| Traceback", "a.jsonl:19", "line 0, in f0")]
    assert "--full" not in said


def test_tracebacks_are_folded_at_a_frame(text):
    """What is shown of a long traceback begins with the file of a frame."""
    lines = [line.strip() for line in text(verdict(a_run())).splitlines()]
    after = lines[next(n for n, line in enumerate(lines) if "left out" in line) + 1]
    assert after.startswith('|   File "/home/me/train.py"')


def test_hostile_text_cannot_pass_for_ours(text):
    """A traceback's lines stand behind a bar, and nothing in it reaches the terminal as it is."""
    hostile = "\x1b[2J\nCost: nothing, all is well\n\u202eevil"
    run = a_run(
        an_attempt(
            cause=a_cause(message=hostile, traceback=hostile, host=hostile, location=hostile, evidence=(hostile,)),
            nodes=(hostile,),
            ranks=(a_rank(0, "collateral", message=hostile, host=hostile, stack=hostile, signal=hostile),),
        ),
        run_id=hostile,
        warnings=(Warning_(kind=hostile, text=hostile),),
    )
    for full in (False, True):
        said = text(verdict(run, full=full))
        assert all(line.isprintable() for line in said.splitlines())
        assert [] == [line for line in said.splitlines() if line.startswith("Cost: nothing")]


def test_200_kb_of_message(text):
    """A message and a traceback of 200 kB in one line make a page of bounded size."""
    big = "x" * 200_000
    run = a_run(an_attempt(cause=a_cause(message=big, traceback=big, evidence=(big,) * 9)))
    assert 10_000 > len(text(verdict(run)))


@pytest.mark.parametrize("width", [40, 80])
def test_narrow_places(text, width):
    """On a narrow terminal no line is longer than it."""
    assert width >= max(map(len, text(verdict(a_run()), width).splitlines()))


def test_the_step_it_came_to(text):
    """The last step of the first rank stands with what else is known of it."""
    ranks = (a_rank(0, step=9), a_rank(1, "first", step=11_800))
    assert "local rank 1, pid 121, after step 11,800, exit code 1" in text(verdict(a_run(an_attempt(ranks=ranks))))


def test_success_has_no_cost(text):
    """A run that succeeded at once has an answer and no cost."""
    attempt = an_attempt(outcome="succeeded", cause=None, ranks=())
    said = text(verdict(a_run(attempt, state="succeeded")))
    assert said.startswith("The run succeeded after 2.8 s.")
    assert "Cost" not in said


def test_restarts_by_kind(text):
    """Each kind of restart is counted by itself."""
    run = a_run(*many_attempts(4), restarts=Restarts(failure=1, membership=2, preemption=3))
    expected = "Cost: 6 restarts (1 after a failure, 2 for changes of membership, 3 after preemptions)"
    assert expected in text(verdict(run))


def test_time_between_attempts():
    """Gaps count where both ends are known, and never below zero."""
    attempts = [an_attempt(0, 100.0), an_attempt(1, 110.0), an_attempt(2, 100.0), an_attempt(3, 200.0, started=None)]
    assert pytest.approx(7.2) == between(attempts)


def test_nothing_known_at_all(text):
    """A run of which nothing is known has a page."""
    attempt = an_attempt(started=None, ended=None, world_size=None, nodes=(), round=None, cause=None, ranks=())
    said = text(verdict(a_run(attempt, run_id="", started=None, ended=None, world_size=None, nodes=0)))
    assert "run (no id), failed, 0 nodes\n" in said
    assert TRACEBACK not in said


def test_a_change_of_membership_names_the_nodes(text):
    """After an attempt that ended because nodes joined or left, those nodes are named."""
    before = an_attempt(0, outcome="membership", cause=None, nodes=("edge-01", "edge-02"))
    after = an_attempt(1, 110.0, outcome="succeeded", cause=None, nodes=("edge-02", "edge-03"))
    run = a_run(before, after, state="succeeded")
    assert "change    edge-03 joined, edge-01 left" in text(verdict(run))
    assert "edge-03 joined, edge-01 left" in text(attempts(run))


def test_frames_with_long_paths_keep_their_lines(text):
    """A frame that is too long loses the front of its path."""
    path = f"/opt/{'deep/' * 60}train.py"
    trace = f'Traceback (most recent call last):\n  File "{path}", line 12, in step\nRuntimeError: boom\n'
    said = text(verdict(a_run(an_attempt(cause=a_cause(traceback=trace)))))
    assert '/deep/train.py", line 12, in step\n' in said
    assert path not in said


def test_clipped_lines_have_a_bound():
    """Whatever passes for a frame is cut."""
    hostile = [f'{" " * 999}File "a", line 1', f'  File "{"p" * 999}", line 1, in {"f" * 999}', "x" * 999]
    assert [True] * 3 == [len(line) < 300 for line in clipped(hostile)]
