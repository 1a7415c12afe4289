"""Who was first, on imported records: by its own cause, by time, by the agent's stops; else unknown."""

import pytest

from tests.diagnose.lab import PEER_CLOSED, WATCHDOG, Node, answer, causes, raised, roles


def one_node(ranks=4, **fields):
    """A node with that many running ranks, of process ids 200 and up."""
    return Node(**fields).join(0).start(1, range(ranks), range(200, 200 + ranks))


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("first", [0, 1, 3])
def test_the_one_the_agent_names_was_first_and_those_it_signalled_were_stopped(first, timed):
    """A single failed rank is certain, wherever its line stands after the SIGTERMs."""
    node = one_node(timed=timed).stop(20, *(200 + r for r in range(4) if r != first)).failed(21, first, 200 + first, 7)
    said = answer(node.agent(22))
    cause = said["attempts"][0]["cause"]
    assert ("exit_code", first, first, 200 + first, 7, "certain") == tuple(
        cause[key] for key in ("kind", "rank", "local_rank", "pid", "exit_code", "confidence")
    )
    assert {r: "first" if r == first else "stopped" for r in range(4)} == roles(said["attempts"][0])
    assert ["SIGTERM"] * 3 == [r["signal"] for r in said["attempts"][0]["ranks"] if r["rank"] != first]
    assert "failed" == said["state"]


@pytest.mark.parametrize("code", [-11, -9, -7, -8])
def test_a_crash_comes_before_its_victims(code):
    """A signal that needs no peer is the cause when the others say that a peer went away; not certain without times."""
    node = one_node().failed(43, 0, 200)
    for rank in range(4):
        own = rank == 2
        node.ended(
            43, rank, 200 + rank, code if own else 1, None if own else raised("RuntimeError", PEER_CLOSED, at=41)
        )
    said = answer(node.agent(44))
    assert [("signal", 2)] == causes(said)
    assert "likely" == said["attempts"][0]["cause"]["confidence"]
    assert {0: "collateral", 1: "collateral", 2: "first", 3: "collateral"} == roles(said["attempts"][0])


def test_an_exception_comes_before_its_victims_even_when_its_file_is_younger():
    """Error files have whole seconds: a victim's may carry the same second or an earlier look."""
    node = one_node(2)
    node.ended(9, 0, 200, 1, raised("RuntimeError", PEER_CLOSED, at=7))
    node.ended(
        9,
        1,
        201,
        1,
        raised("ZeroDivisionError", "division by zero", (("/srv/a.py", 3), ("/srv/b.py", 44)), at=7),
        local_rank=1,
    )
    said = answer(node.agent(9))
    assert [("exception", 1)] == causes(said)
    cause = said["attempts"][0]["cause"]
    assert ("ZeroDivisionError", "division by zero", "/srv/b.py:44") == (
        cause["error_type"],
        cause["message"],
        cause["location"],
    )
    assert {0: "collateral", 1: "first"} == roles(said["attempts"][0])


def test_independent_failures_in_the_same_second_have_no_first():
    """Two ranks with causes of their own in one second: both are named, neither is guessed."""
    node = one_node(2)
    node.ended(9, 0, 200, 1, raised("KeyError", "'a'", at=7)).ended(
        9, 1, 201, 1, raised("ValueError", "b", at=7), local_rank=1
    )
    said = answer(node.agent(9))
    cause = said["attempts"][0]["cause"]
    assert ("exception", None, None, "likely") == (
        cause["kind"],
        cause["rank"],
        cause["error_type"],
        cause["confidence"],
    )
    assert {0: "independent", 1: "independent"} == roles(said["attempts"][0])


def test_independent_failures_seconds_apart_have_a_first():
    """Whole seconds that do not overlap on one host prove an order."""
    node = one_node(2)
    node.ended(9, 0, 200, 1, raised("KeyError", "'a'", at=7)).ended(
        9, 1, 201, 1, raised("ValueError", "b", at=3), local_rank=1
    )
    said = answer(node.agent(9))
    assert [("exception", 1)] == causes(said)
    assert {0: "independent", 1: "first"} == roles(said["attempts"][0])
    assert "2026-02-28T19:05:03.000Z" == said["attempts"][0]["cause"]["time"]


def test_the_same_error_on_every_rank_is_told_without_a_first():
    """A missing module hits all ranks alike: what it was is known, who was first is not."""
    node = one_node(3)
    for rank in range(3):
        node.ended(
            9, rank, 200 + rank, 1, raised("ModuleNotFoundError", "No module named 'apex'", at=5), local_rank=rank
        )
    cause = answer(node.agent(9))["attempts"][0]["cause"]
    assert ("exception", None, "ModuleNotFoundError", "No module named 'apex'") == tuple(
        cause[key] for key in ("kind", "rank", "error_type", "message")
    )


def test_codes_without_words_prove_nothing():
    """Ranks that all exit with 1 and say nothing: failed, unknown who was first."""
    node = one_node(2).ended(9, 0, 200, 1).ended(9, 1, 201, 1, local_rank=1)
    said = answer(node.agent(9))
    assert [("exit_code", None)] == causes(said)
    assert "unknown" == said["attempts"][0]["cause"]["confidence"]
    assert {0: "unknown", 1: "unknown"} == roles(said["attempts"][0])


def test_a_chosen_exit_code_is_suspected_before_the_1_of_any_exception():
    """A script that exits with 3 chose to; its peer's 1 may be a consequence."""
    node = one_node(2).ended(9, 0, 200, 1).ended(9, 1, 201, 3, local_rank=1)
    cause = answer(node.agent(9))["attempts"][0]["cause"]
    assert ("exit_code", 1, 3, "suspected") == (cause["kind"], cause["rank"], cause["exit_code"], cause["confidence"])


def test_events_alone_tell_whom_the_agent_stopped():
    """Without log lines a SIGTERM beside another failure was the agent's, and a SIGKILL then too."""
    node = one_node(3).ended(9, 0, 200, -15).ended(9, 1, 201, 3, local_rank=1).ended(9, 2, 202, -9, local_rank=2)
    said = answer(node.agent(9))
    assert [("exit_code", 1)] == causes(said)
    assert {0: "stopped", 1: "first", 2: "stopped"} == roles(said["attempts"][0])


def test_a_lone_sigkill_is_a_signal_and_no_word_of_memory():
    """Without the kernel's word a SIGKILL is a SIGKILL."""
    node = one_node(2).stop(9, 200).failed(9, 1, 201, -9).ended(9, 0, 200, -15).ended(9, 1, 201, -9, local_rank=1)
    cause = answer(node.agent(9))["attempts"][0]["cause"]
    assert ("signal", 1, "SIGKILL", -9, None) == tuple(
        cause[k] for k in ("kind", "rank", "signal", "exit_code", "message")
    )


def test_a_worker_killed_from_outside_is_not_called_stopped():
    """SIGTERM to a worker that the agent did not send, beside ones that it did."""
    node = one_node(2).stop(9, 200).failed(9, 1, 201, -15).ended(9, 0, 200, -15).ended(9, 1, 201, -15, local_rank=1)
    said = answer(node.agent(9))
    assert [("signal", 1)] == causes(said)
    assert {0: "stopped", 1: "first"} == roles(said["attempts"][0])


def test_a_victim_alone_is_suspected_at_most():
    """A rank whose only error is that its peer went away, and no other failure on the record."""
    node = one_node(2).stop(9, 201).failed(9, 0, 200).ended(9, 0, 200, 1, raised("RuntimeError", PEER_CLOSED, at=8))
    cause = answer(node.ended(9, 1, 201, -15, local_rank=1).agent(9))["attempts"][0]["cause"]
    assert ("exception", 0, "suspected") == (cause["kind"], cause["rank"], cause["confidence"])


def test_victims_without_a_culprit_blame_nobody():
    """Several victims and nothing else: the cause is not on the record."""
    node = one_node(3)
    for rank in range(3):
        node.ended(9, rank, 200 + rank, 1, raised("RuntimeError", PEER_CLOSED, at=8), local_rank=rank)
    said = answer(node.agent(9))
    assert [("unknown", None)] == causes(said)
    assert {"collateral"} == set(roles(said["attempts"][0]).values())


def test_a_rank_without_signal_or_failure_had_left():
    """The agent signals whoever still runs; the one it did not signal and that did not fail had ended before."""
    node = one_node(3).stop(9, 201).failed(9, 0, 200).ended(9, 0, 200, 1, raised("RuntimeError", PEER_CLOSED, at=8))
    node.ended(9, 1, 201, -15, local_rank=1).ended(9, 2, 202, state="TERMINATED", local_rank=2, error="null")
    said = answer(node.agent(9))
    assert [("left_early", 2)] == causes(said)
    assert {0: "collateral", 1: "stopped", 2: "first"} == roles(said["attempts"][0])
    assert "suspected" == said["attempts"][0]["cause"]["confidence"]


def test_watchdogs_point_at_the_rank_that_had_none():
    """Every rank but one times out in a collective: the silent one is suspected of a stall."""
    node = one_node(3).stop(1810, 202)
    for rank in (0, 1):
        node.ended(1811, rank, 200 + rank, 1, raised("DistBackendError", WATCHDOG, at=1808), local_rank=rank)
    said = answer(node.ended(1811, 2, 202, -15, local_rank=2).agent(1811))
    assert [("stall", 2)] == causes(said)
    assert "suspected" == said["attempts"][0]["cause"]["confidence"]
    assert {0: "collateral", 1: "collateral", 2: "first"} == roles(said["attempts"][0])


def test_ranks_are_global_on_every_node():
    """A failure on the second node has its global and its local rank, and the first node's rank is its victim."""
    a = Node("node-a", 10).join(0, 0, 0, 2).start(1, [0, 1], [20, 21], world=4)
    b = Node("node-b", 10).join(0, 0, 1, 2).start(1, [2, 3], [20, 21], world=4)
    b.stop(30, 20).failed(30, 1, 21, 1).ended(30, 2, 20, -15).ended(
        30, 3, 21, 1, raised("ValueError", "bad", at=29), local_rank=1
    )
    a.stop(31, 21).failed(31, 0, 20, 1).ended(31, 0, 20, 1, raised("RuntimeError", PEER_CLOSED, at=30)).ended(
        31, 1, 21, -15, local_rank=1
    )
    said = answer(a.agent(32), b.agent(32))
    cause = said["attempts"][0]["cause"]
    assert ("exception", 3, 1, "node-b", 21) == tuple(cause[k] for k in ("kind", "rank", "local_rank", "host", "pid"))
    assert {0: "collateral", 1: "stopped", 2: "stopped", 3: "first"} == roles(said["attempts"][0])
    assert (2, 4, ["node-a", "node-b"]) == (said["nodes"], said["world_size"], said["attempts"][0]["nodes"])


def test_independent_failures_on_two_hosts_need_more_than_a_second_to_be_ordered():
    """Between hosts an order within the clocks' bound is not claimed."""

    def job(gap):
        a = (
            Node("node-a", 10)
            .join(0, 0, 0, 2)
            .start(1, [0], [20], world=2)
            .ended(30, 0, 20, 1, raised("KeyError", "'a'", at=20))
        )
        b = Node("node-b", 11).join(0, 0, 1, 2).start(1, [1], [21], world=2)
        b.ended(30, 1, 21, 1, raised("ValueError", "b", at=20 + gap))
        return answer(a.agent(31), b.agent(31))["attempts"][0]["cause"]["rank"]

    assert (None, 0) == (job(2), job(8))


@pytest.mark.parametrize(
    ("raw", "kind", "error_type", "message"),
    [
        ('{"message": "plain words"}', "exception", None, "plain words"),
        ('{"message": "ValueError: short"}', "exception", "ValueError", "short"),
        ('{"message": {"message": "my.pkg.BadThing: x: y", "extraInfo": {}}}', "exception", "my.pkg.BadThing", "x: y"),
        ('{"message": {"message": "<NONE>"}}', "exit_code", None, None),
        ('{"message": "<NONE>", "errorTraits": {"category": "x"}}', "exit_code", None, None),
        ('{"message": {"message": "Signal 9 (SIGKILL) received by PID 7"}}', "exit_code", None, None),
        ("not json at all", "exception", None, "not json at all"),
        ("{broken", "exit_code", None, None),
        ("[1, 2]", "exception", None, "[1, 2]"),
        ('{"message": 7}', "exit_code", None, None),
        ('{"message": {"message": "E1: a", "extraInfo": {"timestamp": "soon"}}}', "exception", "E1", "a"),
    ],
)
def test_forms_of_torchs_error_file(raw, kind, error_type, message):
    """Whatever form the error data has, what it says is read and what torch puts in place of nothing is not."""
    node = one_node(1).ended(9, 0, 200, 1, raw)
    cause = answer(node.agent(9))["attempts"][0]["cause"]
    assert (kind, error_type, message) == (cause["kind"], cause["error_type"], cause["message"])


@pytest.mark.parametrize(("world", "rank"), [(1, 0), (4, None)])
def test_one_failed_rank_among_ranks_that_nobody_tells_of(world, rank):
    """The last line of an old log: in a world of one that rank failed; in a larger one nothing says who was first."""
    node = Node(timed=False)
    node.world = world
    cause = answer(node.ended(None, 0, 97).agent(None))["attempts"][0]["cause"]
    assert ("unknown", rank, None, "unknown") == tuple(cause[k] for k in ("kind", "rank", "exit_code", "confidence"))


def test_the_only_failed_rank_beside_ranks_that_were_terminated():
    """torch's TERMINATED says that a rank was stopped: the one that is FAILED is the one."""
    node = one_node(3).ended(9, 1, 201, local_rank=1)
    for rank in (0, 2):
        node.ended(9, rank, 200 + rank, state="TERMINATED", error="null", local_rank=rank)
    said = answer(node.agent(9))
    assert [("unknown", 1)] == causes(said)
    assert {0: "stopped", 1: "first", 2: "stopped"} == roles(said["attempts"][0])


@pytest.mark.parametrize(("later_s", "confidence"), [(0.9, "suspected"), (9.9, "likely")])
def test_a_plain_one_elsewhere_follows_a_chosen_code(later_s, confidence):
    """Of two nodes without words, the rank with a code a script must choose was first when it was noticed first.

    It is likely when the other one was noticed later by more than the clocks can be off.
    """
    one = Node("hpc-a")
    two = Node("hpc-b", pid=200)
    one.join(0, rank=0, size=2).start(1, [0], [20], world=2).failed(10 + later_s, 0, 20, 1)
    one.ended(20, 0, 20, 1).agent(20)
    two.join(0, rank=1, size=2).start(1, [1], [30], world=2).failed(10, 0, 30, 255).ended(10, 1, 30, 255).agent(10)
    (attempt,) = answer(one, two)["attempts"]
    assert ("exit_code", 1, 255, confidence) == tuple(
        attempt["cause"][key] for key in ("kind", "rank", "exit_code", "confidence")
    )
    assert {0: "collateral", 1: "first"} == roles(attempt)
