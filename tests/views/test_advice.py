"""What to look at next."""

import pytest

from jobtape.views.advice import advice, look
from tests.views.runs_to_show import START, a_cause, a_run, an_attempt


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "look at train.py:12"),
        ({"location": None}, "look at the traceback"),
        ({"error_type": "torch.OutOfMemoryError"}, "the GPU's memory ran out at train.py:12"),
        ({"kind": "signal", "signal": "SIGSEGV"}, "look at where rank 1 stood, and for a core dump"),
        ({"kind": "signal", "signal": "SIGKILL"}, "look who sent SIGKILL: the kernel's log on node-a at 2026-02-28"),
        ({"kind": "exit_code", "exit_code": 3}, "look in the script for what exits with 3"),
        ({"kind": "exit_code", "exit_code": 1}, "look at what rank 1 printed last (an exit code of 1"),
        ({"kind": "node_lost", "rank": None, "pid": None}, "look at node-a itself"),
        ({"kind": "node_lost", "rank": None, "pid": 7}, "look what ended torchrun's own process on node-a"),
        ({"rank": None, "ranks": (1, 2)}, "look at what these ranks share"),
        ({"kind": "unknown", "evidence": ()}, "look at the workers' own output; run under torchrun --event-log"),
        (
            {"kind": "stall", "rank": None, "ranks": (4, 5), "reason": "paused_node"},
            "look at where ranks 4 and 5 stood",
        ),
        ({"kind": "preempted", "signal": "SIGTERM"}, "nothing is wrong with the job: queue it again"),
        (
            {"kind": "preempted", "signal": "SIGINT"},
            "nothing on the record is wrong with the job: a terminal or a person",
        ),
        ({"kind": "of later"}, "look at the workers' own output"),
    ],
)
def test_where_to_look(fields, said):
    """Each kind of cause leads somewhere."""
    assert look(a_cause(**fields)).startswith(said)


def test_a_job_that_was_recorded_is_not_told_to_record():
    """The hint at a recording is for imports."""
    assert "look at the workers' own output" == look(a_cause(kind="unknown"))


def test_commands_that_can_be_typed():
    """The next commands name the run, the attempt and the rank; a name that a shell would read is left out."""
    look, more = advice(a_run())
    assert ("look at train.py:12", "jobtape events demo --attempt 0 --rank 1; jobtape why demo --explain") == (
        look,
        more,
    )
    for name in ("a; rm -rf ~", "--full", "x" * 200, ""):
        assert (look, "") == advice(a_run(run_id=name))


def test_restarts_do_not_help():
    """After several equal failures that is said; on one host with changing ranks the host is named."""
    attempts = [an_attempt(n, START + n) for n in range(3)]
    assert advice(a_run(*attempts))[0].startswith("3 times in a row, so another restart is not likely to help: look at")
    nodes = ("node-a", "node-b")
    attempts = [an_attempt(n, START + n, cause=a_cause(rank=n), nodes=nodes) for n in range(3)]
    assert advice(a_run(*attempts))[0].startswith("3 times in a row on one host, whatever the rank: look at node-a and")


@pytest.mark.parametrize("state", ["succeeded", "running"])
def test_nothing_to_do(state):
    """A run that went well or still goes needs no advice."""
    assert ("", "") == advice(a_run(state=state))


def test_victims_lead_to_an_earlier_cause():
    """Where the last failure is only a victim's, the last cause that is known is looked at as well."""
    victim = an_attempt(1, cause=a_cause(reason="first_victim", confidence="suspected", location="train.py:2"))
    look_at, more = advice(a_run(an_attempt(0), victim))
    assert look_at.startswith("those who failed only lost a peer")
    assert look_at.endswith("; attempt 0 says more: look at train.py:12")
    assert "--attempt 0" in more
    assert "says more" not in advice(a_run(victim))[0]


def test_an_exception_of_which_there_is_only_the_message():
    """No traceback is pointed at where none is on the record, as in torchtitan's logs."""
    said = an_attempt(cause=a_cause(kind="exception", location=None, traceback=None, time=None))
    assert advice(a_run(said))[0].startswith("look at what rank 1 printed before it: the record has its message and no")


def test_nothing_is_known():
    """A run without attempts or causes leads nowhere."""
    assert ("", "") == advice(a_run(an_attempt(cause=None)))
    assert ("", "") == advice(a_run(attempts=(), started=None, ended=None))


def test_what_could_not_start_again_is_not_the_question():
    """The failure of the workers is looked at, not the rendezvous that could not form after it."""
    futile = an_attempt(1, outcome="incomplete", ranks=(), cause=a_cause(kind="rendezvous_closed", rank=None))
    assert "look at train.py:12" == advice(a_run(an_attempt(0), futile))[0]
