"""No value makes a view raise, or write what a terminal may act on."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from jobtape.diagnose.model import Attempt, Cause, Loss, RankOutcome, Restarts, Run, Warning_
from jobtape.views.attempts import attempts, run_json
from jobtape.views.page import make_console, show
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
)


@settings(max_examples=150)
@given(run, st.sampled_from([20, 40, 80, 200]), st.booleans())
def test_any_run_can_be_shown(told, width, full):
    """Whatever the values, every view of a run makes printable lines, and a first sentence."""
    assert sentence(told).isprintable()
    for page in (verdict(told, full=full), attempts(told, full=full), table([RunRow("name", "id", told)], now=0.0)):
        stream = Terminal()
        show(page, stream, {"COLUMNS": str(width)})
        lines = stream.getvalue().split("\n")
        assert all(line.isprintable() for line in lines)
        assert width == make_console(stream, {"COLUMNS": str(width)}).width


@settings(max_examples=50)
@given(run)
def test_any_run_is_json(told):
    """Whatever the values, what programs get is JSON."""
    json.dumps([run_json(told), row_json(RunRow("name", "id", told))], allow_nan=False)
