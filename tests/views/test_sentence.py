"""The answer in one sentence."""

import pytest

from jobtape.diagnose.model import Restarts
from jobtape.views.sentence import blame, sentence
from tests.views.runs_to_show import START, a_cause, a_rank, a_run, an_attempt


def test_one_failed_attempt():
    """The rank, the node, the error, the place, what followed and when."""
    expected = (
        "Attempt 0 ended after 2.8 s: rank 1 on node-a raised RuntimeError: shapes differ: 3 and 4 at train.py:12;"
        " rank 0 failed 41 ms later as a consequence, and ranks 2 and 3 were stopped by the agent."
    )
    assert expected == sentence(a_run())


def test_many_attempts_that_ended_alike():
    """Thirty-seven equal failures are one sentence, also when their messages differ in numbers alone."""
    attempts = [
        an_attempt(index, START + 3 * index, cause=a_cause(START + 3 * index, message=f"port {29500 + index} in use"))
        for index in range(37)
    ]
    said = sentence(a_run(*attempts))
    assert said.startswith("All 37 attempts ended the same way, each after 2.8 s: rank 1 on node-a raised RuntimeError")


def test_last_of_several_attempts():
    """The attempt that ended the run is the answer."""
    other = an_attempt(0, cause=a_cause(kind="signal", signal="SIGKILL", exit_code=-9, error_type=None, message=None))
    said = sentence(a_run(other, an_attempt(1, START + 10)))
    assert said.startswith("Attempt 1, the last of 2, ended after 2.8 s: rank 1 on node-a raised RuntimeError")


def test_the_last_attempts_ended_alike():
    """Several equal failures at the end are told together."""
    other = an_attempt(0, cause=None)
    said = sentence(a_run(other, an_attempt(1), an_attempt(2)))
    assert said.startswith("The run failed: its last 2 attempts ended the same way, each after 2.8 s: rank 1")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"confidence": "likely"}, "most likely rank 1 on node-a raised"),
        ({"confidence": "suspected"}, "perhaps rank 1 on node-a raised"),
        ({"kind": "signal", "signal": "SIGSEGV"}, "rank 1 on node-a crashed with SIGSEGV (segmentation fault)"),
        ({"kind": "signal", "signal": "SIGKILL"}, "rank 1 on node-a was killed by SIGKILL"),
        ({"kind": "exit_code", "exit_code": 3}, "rank 1 on node-a exited with code 3"),
        ({"kind": "oom_kill"}, "rank 1 on node-a was killed by the kernel because memory ran out"),
        ({"kind": "left_early"}, "rank 1 on node-a left early, with exit code 0, while others still worked"),
        ({"kind": "stall"}, "rank 1 on node-a stopped making progress"),
        ({"kind": "node_lost", "rank": None, "pid": None}, "node-a fell silent"),
        (
            {"kind": "node_lost", "rank": None, "pid": 7},
            "the agent on node-a vanished without an end, while other processes of its host went on",
        ),
        (
            {"kind": "exit_code", "rank": None, "ranks": (0, 1), "exit_code": 2},
            "ranks 0 and 1 on node-a exited with code 2",
        ),
        (
            {"kind": "signal", "rank": None, "ranks": (0, 1), "signal": "SIGKILL"},
            "ranks 0 and 1 on node-a were killed by SIGKILL",
        ),
        ({"kind": "node_lost", "rank": None, "pid": None, "host": "gpu7"}, "node gpu7 fell silent"),
        ({"kind": "node_lost", "rank": None, "pid": None, "host": None}, "a node fell silent"),
        (
            {"kind": "unknown", "reason": "vanished_rank", "location": "train.py:8"},
            "rank 1 on node-a ended without a word: its tape has no end, and last stood at train.py:8",
        ),
        (
            {"kind": "unknown", "location": "train.py:8"},
            "rank 1 on node-a failed at train.py:8, and the record does not",
        ),
        (
            {"kind": "unknown", "rank": None, "ranks": (4, 5), "reason": "several_silent"},
            "a collective timed out; ranks 4 and 5 said nothing of it, and nothing tells who was waited for",
        ),
        (
            {"kind": "stall", "rank": None, "ranks": (4, 5), "reason": "named_absent", "host": None},
            "ranks 4 and 5 did not come to where the others waited",
        ),
        ({"kind": "preempted", "rank": None}, "the agent on node-a was told to stop from outside (preempted)"),
        (
            {"kind": "preempted", "rank": None, "signal": "SIGTERM"},
            "the agent on node-a got SIGTERM: it was told to stop from outside (preempted)",
        ),
        (
            {"kind": "left_early", "location": "train.py:8"},
            "rank 1 on node-a left early at train.py:8, with exit code 0, while others still worked",
        ),
        ({"kind": "agent_error", "rank": None}, "the agent on node-a failed itself"),
        ({"kind": "rendezvous_timeout", "rank": None, "host": None}, "the rendezvous timed out before enough nodes"),
        ({"kind": "rendezvous_closed", "rank": None, "host": None}, "the rendezvous was closed"),
        (
            {"kind": "exit_code", "rank": None, "local_rank": None},
            "a rank on node-a (which one is not recorded) exited",
        ),
        ({"kind": "unknown", "rank": None, "message": None}, "the record does not say which rank was first or why"),
        ({"kind": "a kind of later"}, "rank 1 on node-a failed, and the record does not say why"),
    ],
)
def test_every_kind_of_cause(fields, said):
    """Each kind is told in words, hedged by its confidence."""
    assert blame(a_cause(**{"location": None, "error_type": None, **fields})).startswith(said)


@pytest.mark.parametrize("signal", ["SIGINT", "SIGHUP", "SIGQUIT"])
def test_a_person_who_stops_a_job_is_no_preemption(signal):
    """The signal is named, and only SIGTERM is called a preemption."""
    said = blame(a_cause(kind="preempted", rank=None, signal=signal, error_type=None, message=None, location=None))
    assert f"the agent on node-a got {signal}: it was told to stop from outside" == said


def test_no_cause():
    """A failure nobody can explain is said plainly."""
    expected = "Attempt 0 ended after 2.8 s in failure, and the record does not say which rank was first or why."
    assert expected == sentence(a_run(an_attempt(cause=None, ranks=())))


def test_error_type_is_said_once():
    """A message that begins with the type is not given it again."""
    said = blame(a_cause(message="RuntimeError: boom", location=None))
    assert "rank 1 on node-a raised RuntimeError: boom" == said


def test_only_the_first_line_of_a_message():
    """A message of many lines is cut to its first."""
    said = blame(a_cause(message="boom\nforged: all is well", location=None))
    assert "rank 1 on node-a raised RuntimeError: boom …" == said


def test_long_hostile_message():
    """200 kB with escapes make one bounded, printable line."""
    said = sentence(a_run(an_attempt(cause=a_cause(message="\x1b[2J\u202e" * 50_000))))
    assert said.isprintable()
    assert len(said) < 2000


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("succeeded", "The run succeeded after 2.8 s."),
        ("running", "The run is still running, attempt 0 since 2026-02-28 19:05:14 UTC."),
        ("stopped", "The run was stopped after 2.8 s, and the record does not say why."),
        (
            "lost",
            "The run was lost after 2.8 s: its record breaks off without an end, and no process of it is left here.",
        ),
        ("unknown", "The record does not say how the run ended; it covers 2.8 s."),
    ],
)
def test_every_state(state, said, monkeypatch):
    """Each state of a run has its own first sentence."""
    monkeypatch.setenv("TZ", "UTC")
    assert said == sentence(a_run(an_attempt(outcome=state, cause=None, ranks=()), state=state))


@pytest.mark.parametrize("state", ["succeeded", "running", "failed", "stopped", "lost", "unknown", "of later"])
def test_run_without_attempts(state):
    """A run that never started anything has an answer too."""
    said = sentence(a_run(state=state, attempts=(), started=None, ended=None, restarts=Restarts()))
    assert said.endswith(".")


def test_attempts_that_never_formed():
    """What ended the last attempt with workers is the answer; what could not start again follows from it."""
    closed = a_cause(kind="rendezvous_closed", rank=None, host=None, message=None, location=None)
    futile = an_attempt(1, outcome="incomplete", ranks=(), cause=closed)
    said = sentence(a_run(an_attempt(), futile))
    assert said.startswith("Attempt 0 ended after 2.8 s: rank 1 on node-a raised")
    assert said.endswith("; attempt 1 never got its workers started: the rendezvous was closed.")


def test_success_after_failures():
    """A success tells what ended the attempts before it."""
    membership = an_attempt(1, outcome="membership", cause=None)
    run = a_run(
        an_attempt(), membership, an_attempt(2, outcome="succeeded", cause=None), state="succeeded", ended=START + 60
    )
    expected = (
        "The run succeeded after 1 min 00 s, in attempt 2; attempt 0 ended because rank 1 on node-a raised"
        " RuntimeError: shapes differ: 3 and 4 at train.py:12; attempt 1 ended because nodes joined or left."
    )
    assert expected == sentence(run)


def test_earlier_attempts_of_which_nothing_is_known():
    """That nobody knows is not given as a reason."""
    unknown = a_cause(kind="unknown", rank=None, error_type=None, message=None, location=None)
    said = sentence(a_run(an_attempt(0, cause=unknown), an_attempt(1)))
    assert said.endswith("; attempt 0 ended, and the record does not say which rank was first or why.")


def test_many_attempts_before():
    """Of many the ones that ended the same way are counted, the commonest other way is told, and the rest counted."""
    kinds = ["ValueError", "RuntimeError", "ValueError", "KeyError", "ValueError", "RuntimeError"]
    said = sentence(a_run(*(an_attempt(n, cause=a_cause(error_type=kind)) for n, kind in enumerate(kinds))))
    expected = (
        "; of the 5 before it, 1 ended the same way; 3 ended because rank 1 on node-a raised ValueError: shapes differ:"
        " 3 and 4 at train.py:12; 1 ended in 1 other way."
    )
    assert said.endswith(expected)


def test_consequences_of_many_ranks():
    """Ranks are told as ranges; those whose times are not known have no times."""
    ranks = (*(a_rank(n, "collateral", exit_code=1, ended=None) for n in range(2, 1000)), a_rank(1000, "independent"))
    said = sentence(a_run(an_attempt(ranks=ranks)))
    assert said.endswith("; ranks 2-999 failed as a consequence, and rank 1000 failed too, of its own cause.")


def test_collateral_before_the_cause_has_no_time():
    """Clocks that contradict each other do not make a negative time."""
    ranks = (a_rank(0, "collateral", ended=START - 5),)
    assert sentence(a_run(an_attempt(ranks=ranks))).endswith("; rank 0 failed as a consequence.")


def test_ranks_that_failed_alike_are_told_once():
    """Those whom the cause names are not told again as failed of their own cause."""
    ranks = tuple(a_rank(rank, "independent", exit_code=2) for rank in range(3))
    alike = a_cause(
        kind="exit_code", rank=None, ranks=(0, 1), exit_code=2, error_type=None, message=None, location=None
    )
    expected = (
        "Attempt 0 ended after 2.8 s: ranks 0 and 1 on node-a exited with code 2; rank 2 failed too, of its own cause."
    )
    assert expected == sentence(a_run(an_attempt(cause=alike, ranks=ranks)))


FUTILE = {"kind": "agent_error", "rank": None, "error_type": None, "location": None, "message": "store is gone."}


def test_a_change_of_membership_after_which_nothing_started():
    """Nodes joined, and the workers never came back: both are told, and the sentence has one full stop."""
    membership = an_attempt(0, outcome="membership", cause=None, ranks=())
    futile = an_attempt(1, outcome="incomplete", ranks=(), cause=a_cause(**FUTILE))
    expected = (
        "Attempt 0 ended after 2.8 s because nodes joined or left; attempt 1 never got its workers started:"
        " the agent on node-a failed itself: store is gone."
    )
    assert expected == sentence(a_run(membership, futile))


def test_a_failure_then_a_change_of_membership_after_which_nothing_started():
    """What ended the attempt before the change of membership is told too."""
    membership = an_attempt(1, outcome="membership", cause=None, ranks=())
    futile = an_attempt(2, outcome="incomplete", ranks=(), cause=a_cause(**FUTILE))
    said = sentence(a_run(an_attempt(), membership, futile))
    assert said.startswith("Attempt 1, the last of 2, ended after 2.8 s because nodes joined or left; attempt 0 ended")


def test_a_stop_while_nodes_joined():
    """A run that was stopped between two groups of workers is not said to have stopped for no known reason."""
    membership = an_attempt(0, outcome="membership", cause=None, ranks=())
    stop = a_cause(kind="preempted", rank=None, signal="SIGINT", error_type=None, message=None, location=None)
    said = sentence(a_run(membership, an_attempt(1, outcome="incomplete", ranks=(), cause=stop), state="stopped"))
    expected = (
        "The run was stopped after 2.8 s: attempt 0 ended because nodes joined or left; attempt 1 never got its"
        " workers started: the agent on node-a got SIGINT: it was told to stop from outside."
    )
    assert expected == said


@pytest.mark.parametrize(("message", "end"), [("gone.", "gone."), ("loading...", "loading..."), (".", "RuntimeError.")])
def test_one_full_stop(message, end):
    """A message that has a full stop of its own gets no second one."""
    said = sentence(a_run(an_attempt(cause=a_cause(message=message, location=None), ranks=())))
    assert said.endswith(f" {end}")


def test_a_long_location_keeps_its_line():
    """Of a long path the front goes."""
    said = blame(a_cause(message="boom", location=f"/opt/{'deep/' * 40}train.py:12"))
    assert said.startswith("rank 1 on node-a raised RuntimeError: boom at …/deep/")
    assert said.endswith("/train.py:12")
