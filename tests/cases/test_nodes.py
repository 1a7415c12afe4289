"""Jobs of several nodes: silence, preemption, newcomers, trouble at the end, and nobody who came."""

import pytest

from tests.cases.agent_log import (
    PEER_CLOSED,
    WATCHDOG,
    AgentLog,
    causes,
    error_file,
    in_one_file,
    outcomes,
    restarts,
    roles,
    seconds_of,
    warning_kinds,
    why,
)

STORE_GONE = "failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?"


def nodes(count=2, ranks=1, styles=("glog",), **more):
    """Agents that have started their workers in round 0."""
    made = []
    for number in range(count):
        log = AgentLog(f"n{number}", 700 + number, style=styles[number % len(styles)], **more)
        mine = list(range(number * ranks, (number + 1) * ranks))
        made.append(log.attempt(1 + 0.01 * number, mine, 0, number, count, count * ranks))
    return made


def test_a_node_falls_silent_and_the_others_time_out(tmp_path):
    """n2 stops at 40 s in the middle of its heartbeats; the watchdogs of the others give up at 640 s."""
    a, b, c = nodes(3, 2)
    for log in (a, b):
        log.beats(5, 640).names(641, min(log.pids), -6)
        words = {rank: error_file("RuntimeError", WATCHDOG.format(rank=rank), 640) for rank in log.pids}
        log.ends(641.2, {rank: ("FAILED", -6, words[rank]) for rank in log.pids}).returns(641.4)
    c.beats(5, 40)
    answer = why(tmp_path, a, b, c)
    cause = answer["attempts"][0]["cause"]
    assert ("node_lost", None, True) == (cause["kind"], cause["rank"], cause["host"].startswith("n2"))
    assert 40 <= seconds_of(cause["time"]) <= 45.5
    assert {"collateral"} == {roles(answer["attempts"][0])[rank] for rank in range(4)}


def test_a_silent_node_and_a_job_that_goes_on_without_it(tmp_path):
    """n1 is lost; n0 restarts alone and ends well."""
    a, b = nodes(2, styles=("time", "glog"))
    b.beats(5, 30)
    a.beats(5, 100).fails(101, 0, 1, left=3)
    a.attempt(140, [0], 1, 0, 1).succeeds(200)
    answer = why(tmp_path, a, b)
    assert ["failed", "succeeded"] == outcomes(answer)
    assert ("node_lost", (1, 0, 0)) == (answer["attempts"][0]["cause"]["kind"], restarts(answer))
    assert answer["attempts"][0]["cause"]["confidence"] in ("suspected", "likely")


def test_a_node_that_speaks_after_the_failure_is_not_the_silent_one(tmp_path):
    """n1's records end too, but long after rank 0 had raised: rank 0 was first."""
    a, b = nodes(2)
    own = error_file("ValueError", "bad batch", 60)
    a.names(61, 0, 1).ends(61.2, {0: ("FAILED", 1, own)}).returns(61.4)
    b.beats(5, 90)
    answer = why(tmp_path, a, b)
    assert [("exception", 0)] == causes(answer)


def test_a_preempted_node_and_a_requeue_under_the_same_id(tmp_path):
    """Both agents get SIGTERM; an hour later the job comes back on other hosts and ends well: one run."""
    a, b = nodes(2)
    a.signalled(60)
    b.signalled(60.3)
    later = [AgentLog(f"m{number}", 90 + number) for number in range(2)]
    for number, log in enumerate(later):
        log.attempt(3660, [number], 0, number, 2, 2).succeeds(3900)
    answer = why(tmp_path, a, b, *later)
    assert ["stopped", "succeeded"] == outcomes(answer)
    assert ("preempted", "SIGTERM") == tuple(answer["attempts"][0]["cause"][key] for key in ("kind", "signal"))
    assert ("succeeded", (0, 0, 1), 4) == (answer["state"], restarts(answer), answer["nodes"])


def test_a_preempted_node_whose_peer_speaks_louder(tmp_path):
    """n1 is told to stop at 60 s; n0 fails at 62 s with a lost peer, and restarts alone."""
    a, b = nodes(2, 2)
    b.signalled(60)
    a.fails(62, 0, 1, others=[1])
    a.attempt(95, [0, 1], 1, 0, 1, 2).succeeds(200)
    answer = why(tmp_path, a, b)
    cause = answer["attempts"][0]["cause"]
    assert ("preempted", True, "SIGTERM") == (cause["kind"], cause["host"].startswith("n1"), cause["signal"])
    assert ("succeeded", (0, 0, 1)) == (answer["state"], restarts(answer))


def test_a_failure_before_the_agent_is_told_to_stop(tmp_path):
    """Rank 1 failed at 50 s; the scheduler's SIGTERM at 60 s is not what ended attempt 0."""
    log = AgentLog("solo", 70).attempt(1, [0, 1]).fails(50, 1, 1, others=[0])
    log.attempt(55, [0, 1], 1).signalled(60)
    answer = why(tmp_path, log)
    assert [("exit_code", 1), ("preempted", None)] == causes(answer)
    assert (["failed", "stopped"], "stopped") == (outcomes(answer), answer["state"])


def test_ctrl_c_is_a_stop(tmp_path):
    """SIGINT from a terminal: the run was stopped, no rank failed."""
    log = AgentLog("laptop", 70, style="bracket").attempt(1, [0, 1]).signalled(20, 2)
    answer = why(tmp_path, log)
    assert ("stopped", ["stopped"]) == (answer["state"], outcomes(answer))
    assert "SIGINT" == answer["attempts"][0]["cause"]["signal"]


def test_exit_barrier_that_one_agent_waited_for_in_vain(tmp_path):
    """All workers ended well; the barrier's error is a warning."""
    a, b = nodes(2)
    a.log(100, "[default] worker group successfully finished. Waiting 300 seconds for other agents to finish.", "I")
    a.log(400, "Error waiting on exit barrier. Elapsed: 300.05 seconds", "E", "agent/server/api.py:1009")
    a.ends(400.1, {0: ("SUCCEEDED", 0, None)}).returns(400.2)
    b.succeeds(100)
    answer = why(tmp_path, a, b)
    assert ("succeeded", [None]) == (answer["state"], causes(answer))
    assert "teardown" in warning_kinds(answer)


def test_an_agent_that_fails_after_its_workers_succeeded(tmp_path):
    """The store's host left first; the other agent raises while it shuts down."""
    a, b = nodes(2)
    a.succeeds(100)
    b.log(100, "[default] worker group successfully finished. Waiting 300 seconds for other agents to finish.", "I")
    b.ends(100.1, {1: ("SUCCEEDED", 0, None)}).raises(101, "RendezvousConnectionError", message=STORE_GONE)
    answer = why(tmp_path, a, b)
    assert ("succeeded", [None], (0, 0, 0)) == (answer["state"], causes(answer), restarts(answer))
    assert "teardown" in warning_kinds(answer)


def test_sigterm_while_waiting_at_the_exit_barrier(tmp_path):
    """The scheduler ends the job while one agent waits for the other, whose workers had succeeded as well."""
    a, b = nodes(2)
    a.succeeds(100)
    b.log(100.5, "[default] worker group successfully finished. Waiting 300 seconds for other agents to finish.", "I")
    b.ends(100.6, {1: ("SUCCEEDED", 0, None)})
    b.event(130, "FAILED", raw_error="torch.distributed.elastic.multiprocessing.api.SignalException: got signal: 15")
    answer = why(tmp_path, a, b)
    assert ("succeeded", [None]) == (answer["state"], causes(answer))


def test_scale_down_by_agreement_after_scale_up(tmp_path):
    """A third node comes, and later leaves in good order: two membership restarts, no failure."""
    a, b = nodes(2)
    c = AgentLog("n9", 790)
    a.membership(50), b.membership(50.1)
    for number, log in enumerate((a, b, c)):
        log.attempt(60, [number], 1, number, 3, 3)
    a.membership(90), b.membership(90.1)
    c.signalled(89)
    for number, log in enumerate((a, b)):
        log.attempt(100, [number], 2, number, 2, 2).succeeds(150)
    answer = why(tmp_path, a, b, c)
    assert ("membership", "succeeded") == (outcomes(answer)[0], outcomes(answer)[2])
    assert 1 == answer["restarts"]["membership"]
    assert [2, 3, 2] == [attempt["world_size"] for attempt in answer["attempts"]]


def test_scale_up_in_the_middle_of_a_failure_loop(tmp_path):
    """Attempt 0 fails, attempt 1 ends for a newcomer, attempt 2 succeeds: one restart of each kind."""
    a, b = AgentLog("n0", 700), AgentLog("n1", 701)
    a.attempt(1, [0]).fails(30, 0, 1)
    a.attempt(35, [0], 1).membership(60)
    a.attempt(70, [0], 2, 0, 2, 2).succeeds(99)
    b.attempt(70, [1], 2, 1, 2, 2).succeeds(99)
    answer = why(tmp_path, a, b)
    assert (1, 1, 0) == restarts(answer)
    assert ["failed", "membership", "succeeded"] == outcomes(answer)


@pytest.mark.parametrize(
    ("noticed", "code", "printed", "outcome"),
    [
        (53, 1, "", "membership"),
        (50.4, 1, PEER_CLOSED, "membership"),
        (48, 1, "", "failed"),
        (48, 1, PEER_CLOSED, "failed"),
        (53, 7, "", "failed"),
    ],
    ids=["wordless", "victim", "wordless-before", "victim-before", "chosen-code"],
)
def test_a_worker_fails_while_another_agent_restarts_for_a_newcomer(tmp_path, noticed, code, printed, outcome):
    """n1's worker loses its peer before its own agent has looked: what ended the attempt is the change at 50 s."""
    a, b = nodes(2)
    a.membership(50)
    if printed:
        trace = ("Traceback (most recent call last):", '  File "t.py", line 3, in f', f"RuntimeError: {printed}")
        b.raw(*(f"[rank1]: {line}" for line in trace))
    b.names(noticed, 1, code).will_restart(noticed + 0.1, 2, 3)
    for number, log in enumerate((a, b, AgentLog("n9", 790))):
        log.attempt(60, [number], 1, number, 3, 3).succeeds(120)
        logs = (a, b, log)
    answer = why(tmp_path, *logs)
    assert [outcome, "succeeded"] == outcomes(answer)
    assert ((0, 1, 0) if outcome == "membership" else (1, 0, 0)) == restarts(answer)
    assert outcome == "failed" or roles(answer["attempts"][0])[1] == "collateral"


@pytest.mark.parametrize(("raised_at", "kind"), [(60, "agent_error"), (80, "unknown")])
def test_an_agent_fails_of_its_own_cause_and_a_worker_elsewhere_loses_its_peer(tmp_path, raised_at, kind):
    """n1's agent ran out of descriptors and rank 0 lost rank 1; what rank 0 lost before does not follow from that."""
    a, b = nodes(2)
    a.names(61, 0, 1).ends(61.2, {0: ("FAILED", 1, error_file("RuntimeError", PEER_CLOSED, 60))}).returns(61.4)
    b.raises(raised_at, "OSError", "builtins", "[Errno 24] Too many open files")
    answer = why(tmp_path, a, b)
    assert [(kind, None)] == causes(answer)
    assert "collateral" == roles(answer["attempts"][0])[0]


def test_an_agent_that_comes_again_on_the_same_host(tmp_path):
    """n1's agent is killed and started anew; it rejoins in round 1 with the same process id, as containers do."""
    a, b = nodes(2)
    b.beats(5, 30)
    a.beats(5, 60).fails(61, 0, 1)
    again = AgentLog("n1", 701)
    for number, log in enumerate((a, again)):
        log.attempt(90, [number], 1, number, 2, 2).succeeds(120)
    answer = why(tmp_path, a, in_one_file("n1", b, again))
    assert (["failed", "succeeded"], 2, (1, 0, 0)) == (outcomes(answer), answer["nodes"], restarts(answer))
    assert "node_lost" == answer["attempts"][0]["cause"]["kind"]


def test_two_clean_nodes_in_one_file(tmp_path):
    """Somebody collected the logs of both nodes in one file, line by line."""
    a, b = nodes(2, 2, styles=("time",))
    a.succeeds(60), b.succeeds(60.2)
    mixed = AgentLog("both")
    mixed.lines = [line for pair in zip(a.lines, b.lines, strict=True) for line in pair]
    answer = why(tmp_path, mixed)
    assert ("succeeded", 2, 4, set()) == (answer["state"], answer["nodes"], answer["world_size"], warning_kinds(answer))


def test_five_clean_nodes_without_any_time(tmp_path):
    """Bare records: everything is known but when."""
    made = nodes(5, styles=("bare",))
    for log in made:
        log.succeeds(60)
    answer = why(tmp_path, *made)
    assert ("succeeded", 5, 5, None, None) == (
        answer["state"],
        answer["nodes"],
        answer["world_size"],
        answer["wall_s"],
        answer["started"],
    )
    assert 1 == len(answer["attempts"])


def test_a_clean_job_of_two_attempts_of_membership_in_mixed_styles(tmp_path):
    """Each node wrote in another style; the zone is the same."""
    a, b = nodes(2, styles=("time", "bracket"))
    a.membership(30), b.membership(30.1)
    c = AgentLog("n2", 702, style="glog")
    for number, log in enumerate((a, b, c)):
        log.attempt(40, [number], 1, number, 3, 3).succeeds(80)
    answer = why(tmp_path, a, b, c)
    assert ("succeeded", (0, 1, 0)) == (answer["state"], restarts(answer))


def test_nobody_came_twice(tmp_path):
    """Two launches of one run id both wait in vain: two attempts without ranks, none to blame."""
    first = AgentLog("head", 10).waits(0, 0).raises(120, "RendezvousTimeoutError")
    second = AgentLog("head", 11).waits(300, 0).raises(420, "RendezvousTimeoutError")
    answer = why(tmp_path, in_one_file("head", first, second))
    assert ["incomplete", "incomplete"] == outcomes(answer)
    assert [("rendezvous_timeout", None)] * 2 == causes(answer)
    assert "failed" == answer["state"]


def test_too_few_came(tmp_path):
    """Two of four nodes waited and timed out within a second of one another: one attempt."""
    a, b = AgentLog("n0", 10).waits(0, 0), AgentLog("n1", 11).waits(3, 0)
    a.raises(120, "RendezvousTimeoutError"), b.raises(120.8, "RendezvousTimeoutError")
    answer = why(tmp_path, a, b)
    assert [("rendezvous_timeout", None)] == causes(answer)
    assert ([], "incomplete") == (answer["attempts"][0]["ranks"], answer["attempts"][0]["outcome"])


def test_a_restart_for_which_nobody_came_back(tmp_path):
    """Attempt 0 fails for a lost node; the next rendezvous times out: two attempts, one failure restart."""
    a, b = nodes(2)
    b.beats(5, 30)
    a.beats(5, 60).fails(61, 0, 1)
    a.waits(62, 1).raises(182, "RendezvousTimeoutError")
    answer = why(tmp_path, a, b)
    assert ["node_lost", "rendezvous_timeout"] == [kind for kind, _ in causes(answer)]
    assert ("failed", (1, 0, 0)) == (answer["state"], restarts(answer))


def test_a_late_comer_meets_a_closed_rendezvous(tmp_path):
    """The job has ended well; whoever comes after that meets RendezvousClosedError, and is no failure of the run."""
    a, b = nodes(2)
    a.succeeds(60), b.succeeds(60.1)
    late = AgentLog("n7", 77).waits(70, 1).raises(71, "RendezvousClosedError")
    answer = why(tmp_path, a, b, late)
    assert ("succeeded", [None]) == (answer["state"], causes(answer)[:1])
    assert (0, 0, 0) == restarts(answer)


def test_a_rendezvous_that_was_closed_before_anybody_started(tmp_path):
    """A stale store says closed: the only agent fails at once."""
    only = AgentLog("n0", 10).waits(0, 0).raises(1, "RendezvousClosedError")
    answer = why(tmp_path, only)
    assert [("rendezvous_closed", None)] == causes(answer)
    assert ("failed", []) == (answer["state"], answer["attempts"][0]["ranks"])


def test_a_spare_that_never_got_a_place(tmp_path):
    """Three came for a job of at most two: the third waits until its timeout, the job ends well."""
    a, b = nodes(2)
    spare = AgentLog("n8", 88).waits(2, 1)
    spare.raises(602, "RendezvousTimeoutError")
    a.succeeds(700), b.succeeds(700.1)
    answer = why(tmp_path, a, b, spare)
    assert ("succeeded", [None], 2) == (answer["state"], causes(answer), answer["attempts"][0]["world_size"])
    assert "spare_error" in warning_kinds(answer)


def test_split_worlds(tmp_path):
    """Two agents of one run id each formed a world of one: two launches, and neither is the other's node."""
    a, b = AgentLog("n0", 10), AgentLog("n1", 11)
    a.attempt(1, [0]).succeeds(60)
    b.attempt(1.5, [0]).fails(40, 0, 3, left=0, limit=0, restart=False)
    b.ends(40.2, {0: ("FAILED", 3, None)}).returns(40.4)
    answer = why(tmp_path, a, b)
    assert {"succeeded", "failed"} == set(outcomes(answer))
    assert {1} == {attempt["world_size"] for attempt in answer["attempts"]}
    assert {1} == {len(attempt["nodes"]) for attempt in answer["attempts"]}


def test_two_failures_on_two_nodes_within_the_clocks_doubt(tmp_path):
    """Each node's rank raised an error of its own within the same second: no order is claimed."""
    a, b = nodes(2)
    a.names(61, 0, 1).ends(61.2, {0: ("FAILED", 1, error_file("KeyError", "'x'", 60))}).returns(61.4)
    b.names(61, 1, 1).ends(61.2, {1: ("FAILED", 1, error_file("OSError", "No space left on device", 60))}).returns(61.4)
    answer = why(tmp_path, a, b)
    assert None is answer["attempts"][0]["cause"]["rank"]
    assert {0: "independent", 1: "independent"} == roles(answer["attempts"][0])


def test_a_clock_that_is_an_hour_ahead(tmp_path):
    """n1's clock is an hour ahead; its rank lost a peer after n0's rank had raised, whatever its clock says."""
    a = AgentLog("n0", 700)
    b = AgentLog("n1", 701, clock_s=-3600)
    for number, log in enumerate((a, b)):
        log.attempt(1, [number], 0, number, 2, 2)
    a.names(61, 0, 1).ends(61.2, {0: ("FAILED", 1, error_file("KeyError", "'x'", 60))}).returns(61.4)
    words = error_file("RuntimeError", PEER_CLOSED, 60 - 3600)
    b.names(61.5, 1, 1).ends(61.6, {1: ("FAILED", 1, words)}).returns(61.8)
    answer = why(tmp_path, a, b)
    assert [("exception", 0)] == causes(answer)
    assert "clock_skew" in warning_kinds(answer)
    assert 0 <= answer["wall_s"] <= 70
