"""Attempts and restarts of a job: from rounds, counters and launches, each restart counted once."""

import pytest

from tests.diagnose.lab import Node, answer, causes


def outcomes(said):
    """Round and outcome of each attempt."""
    return [(a["round"], a["outcome"]) for a in said["attempts"]]


def restarts(said):
    """Failure, membership and preemption restarts."""
    return tuple(said["restarts"][kind] for kind in ("failure", "membership", "preemption"))


@pytest.mark.parametrize("limit", [1, 3, 12])
def test_a_loop_on_one_node(limit):
    """A rank that fails in every attempt until the limit: limit + 1 attempts, limit restarts."""
    node = Node()
    for attempt in range(limit + 1):
        t, pid = attempt * 20, 200 + attempt * 10
        node.join(t, attempt).start(t + 1, [0, 1], [pid, pid + 1]).stop(t + 9, pid).failed(t + 10, 1, pid + 1)
        if attempt < limit:
            node.again(t + 10, limit - attempt, limit)
    node.ended(t + 11, 0, pid, -15).ended(t + 11, 1, pid + 1, 1, local_rank=1).agent(t + 11)
    said = answer(node)
    assert [(n, "failed") for n in range(limit + 1)] == outcomes(said)
    assert [("exit_code", 1)] * (limit + 1) == causes(said)
    assert ((limit, 0, 0), "failed", 1) == (restarts(said), said["state"], said["nodes"])
    assert [201 + n * 10 for n in range(limit + 1)] == [a["cause"]["pid"] for a in said["attempts"]]


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("rendezvous", [True, False])
def test_counters_alone_tell_of_failures(timed, rendezvous):
    """Without log lines a counter that rises between two starts tells of a failure nobody explains."""
    node = Node(timed=timed)
    for attempt in range(3):
        if rendezvous:
            node.join(attempt * 20, attempt)
        node.start(attempt * 20 + 1, [0, 1], [200 + attempt * 10, 201 + attempt * 10], restarts=attempt)
    said = answer(node.succeeded(60, [0, 1], [220, 221]))
    rounds = [0, 1, 2] if rendezvous else [None] * 3
    assert list(zip(rounds, ["failed", "failed", "succeeded"], strict=True)) == outcomes(said)
    assert [("unknown", None), ("unknown", None), None] == causes(said)
    assert (2, 0, 0) == restarts(said)


def test_six_rounds_with_counters_at_zero_are_five_membership_restarts():
    """A counter that does not rise means that nodes joined or left."""
    node = Node()
    for attempt in range(6):
        node.join(attempt * 20, attempt).start(attempt * 20 + 1, [0], [200 + attempt])
    said = answer(node.succeeded(130, [0], [205]))
    assert ["membership"] * 5 + ["succeeded"] == [a["outcome"] for a in said["attempts"]]
    assert ((0, 5, 0), [None] * 6) == (restarts(said), causes(said))


def test_two_nodes_that_fail_twice_each_make_four_restarts():
    """Counters of agents do not count for the job: rounds do."""
    a, b = Node("node-a", 10), Node("node-b", 11)
    for attempt in range(5):
        t = attempt * 20
        a.join(t, attempt, 0, 2).start(t + 1, [0], [200 + attempt], world=2)
        b.join(t, attempt, 1, 2).start(t + 1, [1], [300 + attempt], world=2)
        if attempt < 4:
            failing, pid = (a, 200 + attempt) if attempt % 2 == 0 else (b, 300 + attempt)
            failing.failed(t + 10, 0, pid, 1).again(t + 10, 3 - failing.restarts)
            other, waiting = (b, 300 + attempt) if failing is a else (a, 200 + attempt)
            other.log(t + 11, "membership", role="default", waiting=1, group_rank=0).stop(t + 11, waiting)
    a.succeeded(100, [0], [204])
    b.succeeded(100, [1], [304])
    said = answer(a, b)
    assert (4, 0, 0) == restarts(said)
    assert [("exit_code", 0), ("exit_code", 1), ("exit_code", 0), ("exit_code", 1), None] == causes(said)
    assert ({"first", "stopped"}, 2) == ({r["role"] for r in said["attempts"][0]["ranks"]}, said["nodes"])


def test_two_nodes_that_both_count_three_make_three_restarts():
    """Last words of two nodes: the same restarts, counted by both."""
    nodes = [Node("node-a", 10), Node("node-b", 11)]
    for rank, node in enumerate(nodes):
        node.restarts, node.world, node.group_rank, node.size = 3, 2, rank, 2
        node.ended(None, rank, 200 + rank).agent(None)
    said = answer(*nodes)
    assert ((3, 0, 0), "failed", 2, 4) == (restarts(said), said["state"], said["nodes"], len(said["attempts"]))


def test_attempts_that_left_no_trace_are_counted():
    """A log whose beginning is lost: earlier rounds are there as unknown, and the agent's count names the failures."""
    node = Node().join(100, 4).start(101, [0], [200], restarts=2)
    said = answer(node.succeeded(120, [0], [200]))
    assert ["failed", "failed", "unknown", "unknown", "succeeded"] == [a["outcome"] for a in said["attempts"]]
    assert (2, 0, 0) == restarts(said)


def test_a_hostile_counter_does_not_fill_memory():
    """A billion restarts are not listed."""
    node = Node()
    node.restarts, node.world = 1_000_000_000, 1
    said = answer(node.ended(5, 0, 200, 1).agent(6))
    assert 1 == len(said["attempts"])


def test_a_restart_that_nobody_finished_is_lost():
    """The agent said that it would restart its workers, and its records end."""
    node = Node().join(0).start(1, [0, 1], [200, 201]).stop(9, 200).failed(10, 1, 201).again(10, 3)
    said = answer(node)
    assert ("lost", [(0, "failed")]) == (said["state"], outcomes(said))


def test_scale_up_is_a_membership_restart():
    """Healthy workers are stopped to let a third node in: no cause, no failure."""
    a, b, c = Node("edge-1", 10), Node("edge-2", 11), Node("edge-3", 12)
    for rank, node in enumerate((a, b)):
        node.join(0, 0, rank, 2).start(1, [rank], [200], world=2)
        node.log(30, "membership", role="default", waiting=1, group_rank=rank).stop(30, 200)
    c.wants(29, 1, "wait list")
    for rank, node in enumerate((a, b, c)):
        node.join(32, 1, rank, 3).start(33, [rank], [300], world=3).succeeded(60, [rank], [300])
    said = answer(a, b, c)
    assert [(0, "membership"), (1, "succeeded")] == outcomes(said)
    assert ((0, 1, 0), [None, None], 3, 3) == (restarts(said), causes(said), said["nodes"], said["world_size"])
    assert ["stopped", "stopped"] == [r["role"] for r in said["attempts"][0]["ranks"]]
    assert [["edge-1", "edge-2"], ["edge-1", "edge-2", "edge-3"]] == [a["nodes"] for a in said["attempts"]]


def test_all_nodes_in_one_file():
    """Somebody collected the nodes' lines in one file, by time: the agents are told apart by host and process id."""
    a, b = Node("node-a", 10), Node("node-b", 10)
    a.join(0, 0, 0, 2).start(1, [0, 1], [20, 21], world=4)
    b.join(0.1, 0, 1, 2).start(1.1, [2, 3], [30, 31], world=4)
    b.stop(30, 31).failed(30.1, 0, 30, 5).ended(30.2, 2, 30, 5).ended(30.2, 3, 31, -15, local_rank=1).agent(30.3)
    a.stop(32, 20, 21).ended(32.1, 0, 20, -15).ended(32.1, 1, 21, -15, local_rank=1).agent(32.2)
    # Log lines name no host: the workers' process ids tell whose they are.
    apart = answer(a, b)
    both = Node("node-a", 10)
    both.records = a.records[:-5] + b.records + a.records[-5:]
    together = answer(both)
    assert [("exit_code", 2)] == causes(together)
    for key in ("state", "nodes", "world_size", "restarts"):
        assert apart[key] == together[key]
    assert [r["rank"] for r in together["attempts"][0]["ranks"]] == [0, 1, 2, 3]


def test_an_agent_replaced_on_its_host_continues_the_file():
    """A new process of the same host in the same file is another agent of the same node, in a launch of its own."""
    node = Node("node-a", 10).join(0).start(1, [0], [20]).signalled(50).stop(50, 20).signal_exception(51)
    node.pid = 77
    node.join(100, 0).start(101, [0], [80]).succeeded(150, [0], [80])
    said = answer(node)
    assert [(0, "stopped"), (0, "succeeded")] == outcomes(said)
    assert ((0, 0, 1), 1, "succeeded") == (restarts(said), said["nodes"], said["state"])


@pytest.mark.parametrize("timed", [True, False])
def test_a_requeued_job_is_one_run(timed):
    """Two launches of two nodes with the same run id, rounds from 0 again: four agents, two attempts."""
    first = [Node("node-a", 10, timed=timed), Node("node-b", 11, timed=timed)]
    second = [Node("node-a", 60, timed=timed), Node("node-b", 61, timed=timed)]
    for rank, node in enumerate(first):
        node.join(0, 0, rank, 2).start(1, [rank], [200 + rank], world=2).signalled(50).stop(
            50, 200 + rank
        ).signal_exception(51)
    for rank, node in enumerate(second):
        node.join(900, 0, rank, 2).start(901, [rank], [300 + rank], world=2).succeeded(950, [rank], [300 + rank])
    said = answer(first[0], second[0], first[1], second[1])
    assert [(0, "stopped"), (0, "succeeded")] == outcomes(said)
    assert ((0, 0, 1), 2) == (restarts(said), said["nodes"])
    assert ["preempted", None] == [a["cause"] and a["cause"]["kind"] for a in said["attempts"]]


def test_a_split_world_is_two_worlds():
    """Two agents of one run, each alone in a world of one in round 0, are not one attempt of two ranks."""
    said = answer(
        Node("node-a", 10).join(0).start(1, [0], [20]).succeeded(30, [0], [20]),
        Node("node-b", 11).join(2).start(3, [0], [21]).succeeded(40, [0], [21]),
    )
    assert [(0, "succeeded"), (0, "succeeded")] == outcomes(said)
    assert (2, [["node-a"], ["node-b"]]) == (said["nodes"], [a["nodes"] for a in said["attempts"]])


def test_the_same_log_imported_twice_counts_once():
    """A log that was imported again when it had grown is one agent's."""
    short = Node("node-a", 10).join(0).start(1, [0, 1], [20, 21])
    whole = Node("node-a", 10).join(0).start(1, [0, 1], [20, 21]).stop(9, 20).failed(10, 1, 21).agent(11)
    short.name = "copy.jsonl"
    said = answer(short, whole)
    assert (1, 1, "failed") == (said["nodes"], len(said["attempts"]), said["state"])


def test_console_output_kept_beside_the_events():
    """Log lines of another file are about the workers whose process ids they name."""
    events = Node("node-a", 10).join(0, 0).start(1, [0, 1], [20, 21])
    events.join(20, 1).start(21, [0, 1], [30, 31], restarts=1).succeeded(60, [0, 1], [30, 31])
    console = Node("", 0).log(9, "worker_output", rank=1, message="RuntimeError: boom", traceback="")
    console.stop(9, 20).failed(10, 1, 21)
    console.name = "console.jsonl"
    said = answer(console, events)
    assert [("exception", 1), None] == causes(said)
    assert {0: "stopped", 1: "first"} == {r["rank"]: r["role"] for r in said["attempts"][0]["ranks"]}


def test_console_output_alone():
    """Nothing but log lines: each stop of workers is an attempt's end; the rank is not guessed from the local one."""
    console = Node("", 0, timed=False).stop(1, 20).failed(1, 1, 21).stop(2, 31).failed(2, 0, 30, -11)
    console.log(
        3,
        "root_cause",
        entrypoint="t.py",
        failures=[
            {
                "rank": 4,
                "local_rank": 0,
                "pid": 30,
                "exit_code": -11,
                "error_file": "<N/A>",
                "time_s": None,
                "message": "",
                "first": True,
            },
        ],
    )
    said = answer(console)
    assert [("exit_code", None), ("signal", 4)] == causes(said)
    assert ((1, 0, 0), "failed") == (restarts(said), said["state"])


def test_a_requeued_job_with_a_missing_log():
    """Two launches minutes apart on other hosts, the first without its second node's log: nobody fills that place."""
    first = (
        Node("node-a", 10).join(0, 0, 0, 2).start(1, [0], [20], world=2).signalled(50).stop(50, 20).signal_exception(51)
    )
    second = [Node("node-c", 12), Node("node-d", 13)]
    for rank, node in enumerate(second):
        node.join(300, 0, rank, 2).start(301, [rank], [30], world=2).succeeded(350, [rank], [30])
    said = answer(second[1], first, second[0])
    assert [["node-a"], ["node-c", "node-d"]] == [attempt["nodes"] for attempt in said["attempts"]]


@pytest.mark.parametrize("timed", [True, False])
def test_a_second_try_in_the_same_file(timed):
    """Nobody came, the launcher was started again, and then the job ran: two attempts of one host."""
    node = Node("head", 60, timed=timed).wants(0).rendezvous_error(120, "RendezvousTimeoutError")
    node.pid = 61
    node.join(200).start(201, [0], [70]).succeeded(250, [0], [70])
    said = answer(node)
    assert [(0, "incomplete"), (0, "succeeded")] == outcomes(said)
    assert ((1, 0, 0), "succeeded", 1) == (restarts(said), said["state"], said["nodes"])
