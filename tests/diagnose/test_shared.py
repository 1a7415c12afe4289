"""Ranks that fail alike at the same time: what they share is the cause, and none of them."""

import pytest

from tests.diagnose.lab import PEER_CLOSED, Node, answer, causes, roles
from tests.diagnose.live import Agent


def running(ranks=2):
    """An agent with running workers of process ids 200 and up."""
    return Agent().start(1, range(ranks), range(200, 200 + ranks))


def test_a_script_that_is_not_there():
    """Python exits with 2 on both ranks, 30 ms apart: neither is to blame."""
    said = answer(running().exit(2, 200, 2).exit(2.03, 201, 2).ended(2.1, failed=[0, 1]).close(3))
    cause = said["attempts"][0]["cause"]
    assert ("exit_code", None, 2, "node-a", "certain", "2026-02-28T19:05:02.000Z") == tuple(
        cause[k] for k in ("kind", "rank", "exit_code", "host", "confidence", "time")
    )
    assert {0: "independent", 1: "independent"} == roles(said["attempts"][0])
    assert [True, True] == [any(f"rank {rank} " in line for line in cause["evidence"]) for rank in (0, 1)]


def test_the_same_error_on_all_ranks():
    """A file that none of them finds: the error is told once, with no rank."""
    agent = running().exit(2, 200, 1).exit(2.4, 201, 1).ended(2.5, failed=[0, 1]).close(3)
    tapes = [
        agent.worker(200 + rank).error(1.9 + rank / 2, "FileNotFoundError", "/data/x", "/srv/a.py:3") for rank in (0, 1)
    ]
    said = answer(agent, *tapes)
    cause = said["attempts"][0]["cause"]
    assert ("exception", None, "FileNotFoundError", "/data/x", "/srv/a.py:3") == tuple(
        cause[k] for k in ("kind", "rank", "error_type", "message", "location")
    )
    assert {0: "independent", 1: "independent"} == roles(said["attempts"][0])


def test_their_victims_are_consequences():
    """A third rank that loses its peers is collateral, and a fourth that was stopped stays so."""
    agent = running(4).exit(2, 200, 2).exit(2.01, 201, 2).exit(2.3, 202, 1).stop(2.4, 203).ended(2.5).close(3)
    said = answer(agent, agent.worker(202).error(2.2, "RuntimeError", PEER_CLOSED))
    assert [("exit_code", None)] == causes(said)
    assert {0: "independent", 1: "independent", 2: "collateral", 3: "stopped"} == roles(said["attempts"][0])


@pytest.mark.parametrize(
    ("second_at", "code", "other"), [(4.0, 2, 2), (2.03, 2, 3), (2.03, 1, 1)], ids=["late", "other code", "code 1"]
)
def test_ranks_that_are_not_alike(second_at, code, other):
    """Later, with another code, or with the 1 that victims exit with too: the first one is named."""
    said = answer(running().exit(2, 200, code).exit(second_at, 201, other).ended(5, failed=[0, 1]).close(6))
    assert [("exit_code", 0)] == causes(said)


def test_a_rank_that_was_stopped_is_not_alike():
    """The agent had sent it a signal before it exited with the same code."""
    agent = running().exit(2, 200, 2)
    agent.own(2.1, "worker.stop", attempt=0, rank=1, local_rank=1, pid=201, signal="SIGTERM", reason="failure")
    said = answer(agent.exit(2.2, 201, 2, stopped=True).ended(2.3, failed=[0]).close(3))
    assert [("exit_code", 0)] == causes(said)
    assert {0: "first", 1: "stopped"} == roles(said["attempts"][0])


def test_a_crowd_of_thousands():
    """Ranks of one file are found by their numbers: what each says is told of it, and of no other."""
    many = 3000
    node = Node().join(0)
    for rank in range(many):
        node.failed(40, rank, 1000 + rank, 2 + rank % 7)
    for rank in range(many):
        node.ended(50, rank, 1000 + rank, 2 + rank % 7, local_rank=rank)
    ranks = answer(node)["attempts"][0]["ranks"]
    assert [(rank, 2 + rank % 7) for rank in range(many)] == [(r["rank"], r["exit_code"]) for r in ranks]
