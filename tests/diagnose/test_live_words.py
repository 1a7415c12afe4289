"""What live tapes say beside how a process ended: the same error on several ranks, errors in threads, waits."""

import pytest

from tests.diagnose.lab import answer, causes, diagnosed, roles
from tests.diagnose.live import Agent


def running(ranks=2):
    """An agent with running workers of process ids 200 and up."""
    return Agent().start(1, range(ranks), range(200, 200 + ranks))


@pytest.mark.parametrize("slow", [200, 201])
def test_the_same_error_is_the_same_however_the_process_ended(slow):
    """Both ranks raise the same error at once; one hangs on its way out and is stopped: neither was first."""
    quick = 401 - slow
    agent = running().exit(5.3, quick, 1).stop(5.4, slow).ended(5.6, failed=[quick - 200]).close(6)
    tapes = [agent.worker(pid).error(5 + pid / 10_000, "OSError", "no /data", "/srv/a.py:3") for pid in (200, 201)]
    said = answer(agent, *tapes)
    cause = said["attempts"][0]["cause"]
    assert ("exception", None, "OSError", "no /data", "/srv/a.py:3", "certain") == tuple(
        cause[k] for k in ("kind", "rank", "error_type", "message", "location", "confidence")
    )
    assert {0: "independent", 1: "independent"} == roles(said["attempts"][0])


def test_other_words_of_one_that_was_stopped_are_another_error():
    """Errors that differ are told apart, also when the agent stopped one of the two."""
    agent = running().exit(5.3, 201, 1).stop(5.4, 200).ended(5.6, failed=[1]).close(6)
    tapes = [agent.worker(pid).error(5 + pid / 10_000, "OSError", f"no /data/{pid}") for pid in (200, 201)]
    assert [("exception", 0)] == causes(answer(agent, *tapes))


@pytest.mark.parametrize("call", ["sys.exit", "os._exit"])
def test_what_a_thread_raised_is_told_beside_the_exit_code(call):
    """A thread's error did not end the process, but it may be why it then exited."""
    agent = running().exit(5, 201, 3).stop(5.1, 200).ended(5.2, failed=[1]).close(6)
    tape = agent.worker(201).error(
        4.5, "KeyError", "'x'", f"/opt/{'deep/' * 40}load.py:7", "thread_error", thread="loader"
    )
    (attempt,) = diagnosed(agent, tape.exit_call(4.9, 3, call, "/srv/train.py:77").close(5)).attempts
    cause = attempt.cause
    assert ("exit_code", 3, "/srv/train.py:77") == (cause.kind, cause.exit_code, cause.location)
    assert cause.note.startswith("a thread (loader) had raised KeyError: 'x' at …")
    assert cause.note.endswith("/deep/load.py:7 before")
    assert [None, cause.note] == [rank.note for rank in attempt.ranks]
    assert 1 == sum(": 'x'" in reference and "a thread of rank 1" in reference for reference in cause.evidence)


def test_a_thread_error_after_the_exit_call_is_not_said_to_be_before():
    """Threads may outlive the call that ends the process."""
    agent = running(1).exit(5, 200, 3).ended(5.2, failed=[0]).close(6)
    tape = agent.worker(200).exit_call(4.5, 3).error(4.9, "KeyError", "'x'", "a.py:7", "thread_error", thread=7)
    (attempt,) = diagnosed(agent, tape.close(5)).attempts
    assert "a thread had raised KeyError: 'x' at a.py:7" == attempt.cause.note


@pytest.mark.parametrize(
    ("duration_ms", "took"),
    [(6500.0, 6.5), (0, 0.0), (9e8, 7.0), (-1, 7.0), ("6500", 7.0), (None, 7.0), (1e300, 7.0), (True, 7.0)],
)
def test_a_static_rendezvous_that_cannot_connect_began_before_its_event(duration_ms, took):
    """The event comes when the waiting is over and says how long it was; it did not begin before its agent did."""
    agent = Agent().event(
        "torchelastic.worker.status.RENDEZVOUS",
        "AGENT",
        7.0,
        hostname="node-a",
        state="RENDEZVOUS",
        agent_restarts=0,
        duration_ms=duration_ms,
    )
    agent.close(7.0, "error", error_type="DistNetworkError", message="timed out.", traceback="", location="a.py:3")
    (attempt,) = diagnosed(agent).attempts
    assert ("incomplete", "agent_error", took) == (attempt.outcome, attempt.cause.kind, round(attempt.duration_s, 3))
