"""No value makes a view raise, or write what a terminal may act on."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from jobtape.diagnose.comparison import compare
from jobtape.diagnose.model import Attempt, Cause, HostClock, Loss, RankOutcome, Restarts, Run, Warning_
from jobtape.views.attempts import attempts, run_json
from jobtape.views.difference import difference, difference_json
from jobtape.views.explanation import explained, explanation
from jobtape.views.page import make_console, show
from jobtape.views.reasons import REASONS
from jobtape.views.room import SCREEN_LINES
from jobtape.views.runs import RunRow, row_json, table
from jobtape.views.sentence import sentence
from jobtape.views.verdict import verdict
from tests.views.test_page import Terminal

some_text = st.one_of(st.text(max_size=40), st.sampled_from(["\x1b[2J", "\u202e", "a\nb", "x" * 500, "node-7", "[/]"]))
maybe_text = st.none() | some_text
number = st.integers(0, 30)
maybe_number = st.none() | number
# As far as 64 bits of nanoseconds go, which is what a tape holds.
maybe_time = st.none() | st.floats(-9.2e9, 9.2e9) | st.floats(1.7e9, 1.8e9)
code = st.none() | st.integers(-64, 255)

outcome = st.builds(
    RankOutcome,
    rank=number,
    host=some_text,
    role=st.sampled_from(["first", "collateral", "stopped", "independent", "unknown", "of later"]),
    exit_code=code,
    signal=maybe_text,
    message=maybe_text,
    pid=maybe_number,
    started=maybe_time,
    ended=maybe_time,
    error_type=maybe_text,
    location=maybe_text,
    stack=maybe_text,
    note=maybe_text,
    step=maybe_number,
)
cause = st.builds(
    Cause,
    kind=st.sampled_from(
        ["exception", "signal", "exit_code", "oom_kill", "stall", "node_lost", "preempted", "rendezvous_timeout",
         "rendezvous_closed", "agent_error", "left_early", "unknown", "of later"]
    ),
    rank=maybe_number,
    local_rank=maybe_number,
    host=maybe_text,
    pid=maybe_number,
    exit_code=code,
    signal=maybe_text,
    error_type=maybe_text,
    message=maybe_text,
    location=maybe_text,
    traceback=maybe_text,
    time=maybe_time,
    detected=maybe_time,
    confidence=st.sampled_from(["certain", "likely", "suspected", "unknown", "of later"]),
    evidence=st.lists(some_text, max_size=8).map(tuple),
    stack=maybe_text,
    note=maybe_text,
    ranks=st.lists(number, max_size=3).map(tuple),
    reason=st.sampled_from(["", "a reason of later", *REASONS]),
)  # fmt: skip
attempt = st.builds(
    Attempt,
    index=number,
    outcome=st.sampled_from(
        ["succeeded", "failed", "stopped", "membership", "incomplete", "lost", "running", "unknown", "of later"]
    ),
    round=maybe_number,
    world_size=maybe_number,
    nodes=st.lists(some_text, max_size=5).map(tuple),
    started=maybe_time,
    ended=maybe_time,
    cause=st.none() | cause,
    ranks=st.lists(outcome, max_size=6).map(tuple),
)
run = st.builds(
    Run,
    run_id=some_text,
    state=st.sampled_from(["running", "succeeded", "failed", "stopped", "lost", "unknown", "of later"]),
    started=maybe_time,
    ended=maybe_time,
    nodes=number,
    world_size=maybe_number,
    restarts=st.builds(Restarts, failure=number, membership=number, preemption=number),
    attempts=st.lists(attempt, max_size=5).map(tuple),
    warnings=st.lists(st.builds(Warning_, kind=some_text, text=some_text), max_size=7).map(tuple),
    loss=st.builds(Loss, events_missing=number, damaged_lines=number, files=number),
    clocks=st.lists(
        st.builds(
            HostClock,
            host=some_text,
            offset_s=st.none() | st.floats(-4000, 4000),
            bound_s=st.none() | st.floats(0, 4000),
            steady=st.booleans(),
        ),
        max_size=3,
    ).map(tuple),
)


def lines_of(page, width):
    """A page as it comes to a terminal of that width."""
    stream = Terminal()
    show(page, stream, {"COLUMNS": str(width)})
    assert width == make_console(stream, {"COLUMNS": str(width)}).width
    return stream.getvalue().removesuffix("\n").split("\n")


@settings(max_examples=150)
@given(run, st.sampled_from([20, 40, 80, 200]), st.booleans())
def test_any_run_can_be_shown(told, width, full):
    """Whatever the values, every view of a run makes printable lines, and a first sentence."""
    assert sentence(told).isprintable()
    page = verdict(told, full=full, width=width)
    explained(page, explanation(told, full=full))
    for each in (page, attempts(told, full=full, width=width), table([RunRow("name", "id", told)], now=0.0)):
        assert all(line.isprintable() for line in lines_of(each, width))


@settings(max_examples=100)
@given(run, st.sampled_from([80, 100, 200]))
def test_any_run_is_a_screen(told, width):
    """Whatever the values, nothing is longer than a screen unless everything is asked for."""
    for view in (verdict, attempts):
        assert SCREEN_LINES >= len(lines_of(view(told, width=width), width))


@settings(max_examples=60)
@given(run, run, st.sampled_from([40, 80, 200]), st.booleans())
def test_any_two_runs_can_be_compared(one, other, width, full):
    """Whatever the values, a comparison is printable and JSON, and a run fails as itself or nobody can say."""
    told = compare(one, other, {"torch": "2.9"}, {"command": "train.py"})
    lines = lines_of(difference(told, one, other, (one.run_id, "b"), full=full, width=width), width)
    assert all(line.isprintable() for line in lines)
    if width >= 80 and not full:
        assert SCREEN_LINES >= len(lines)
    json.dumps(difference_json(told, ("a", "b")), allow_nan=False)
    assert compare(one, one).same in (True, None)


@settings(max_examples=50)
@given(run)
def test_any_run_is_json(told):
    """Whatever the values, what programs get is JSON."""
    assert all(passage.text for passage in explanation(told))
    json.dumps([run_json(told), row_json(RunRow("name", "id", told))], allow_nan=False)
