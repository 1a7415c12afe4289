"""Agents as causes: preemption, silent nodes, rounds that never form, agents that fail, and trouble at the end."""

import pytest

from tests.diagnose.lab import PEER_CLOSED, WATCHDOG, Node, answer, causes, raised, roles


def kinds(said):
    """The kinds of the warnings."""
    return [warning["kind"] for warning in said["warnings"]]


def pair(**fields):
    """Two nodes of one rank each, running in round 0."""
    a = Node("node-a", 10, **fields).join(0, 0, 0, 2).start(1, [0], [20], world=2)
    b = Node("node-b", 11, **fields).join(0.2, 0, 1, 2).start(1.2, [1], [21], world=2)
    return a, b


@pytest.mark.parametrize(("number", "name"), [(15, "SIGTERM"), (2, "SIGINT")])
def test_a_signal_to_the_only_agent_stops_the_run(number, name):
    """Nothing failed before: the run was stopped, for certain."""
    node = (
        Node()
        .join(0)
        .start(1, [0, 1], [20, 21])
        .signalled(30, number)
        .stop(30, 20, 21, signal=name)
        .signal_exception(31, number)
    )
    said = answer(node)
    cause = said["attempts"][0]["cause"]
    assert ("preempted", None, name, "certain", "node-a") == tuple(
        cause[k] for k in ("kind", "rank", "signal", "confidence", "host")
    )
    assert ("stopped", "stopped", "2026-02-28T19:05:30.000Z") == (
        said["state"],
        said["attempts"][0]["outcome"],
        cause["time"],
    )
    assert {0: "stopped", 1: "stopped"} == roles(said["attempts"][0])


def test_the_signal_is_read_from_the_agents_error_too():
    """Without log lines AGENT FAILED names the signal."""
    said = answer(Node(timed=False).join(0).start(1, [0], [20]).signal_exception(31))
    assert ([("preempted", None)], "stopped") == (causes(said), said["state"])


def test_a_preempted_node_is_the_cause_of_what_its_peers_suffer():
    """One agent is told to stop; the other node's rank fails, its agent finds the rendezvous closed: consequences."""
    a, b = pair()
    b.signalled(60).stop(60, 21).signal_exception(61)
    a.failed(63.5, 0, 20, 1).again(63.5, 3).rdzv(
        64, "The node 'node-a_10_0' attempts to join the next round of the rendezvous 'job'."
    )
    a.rendezvous_error(64.2, "RendezvousClosedError")
    said = answer(a, b)
    assert ["preempted", "rendezvous_closed"] == [c["cause"]["kind"] for c in said["attempts"]]
    assert ("node-b", {0: "collateral", 1: "stopped"}) == (
        said["attempts"][0]["cause"]["host"],
        roles(said["attempts"][0]),
    )
    assert ("stopped", {"failure": 0, "membership": 0, "preemption": 1}) == (said["state"], said["restarts"])


def test_a_failure_before_the_signal_stays_the_cause():
    """The scheduler ends the agents after a rank has failed: the rank was first."""
    node = Node().join(0).start(1, [0, 1], [20, 21]).failed(30, 1, 21, 1).signalled(31).stop(31, 20)
    node.ended(32, 0, 20, -15).ended(32, 1, 21, 1, raised("ValueError", "x", at=29), local_rank=1).signal_exception(32)
    said = answer(node)
    assert ([("exception", 1)], "failed") == (causes(said), said["state"])


@pytest.mark.parametrize("words", [True, False])
def test_a_silent_node_comes_before_those_who_waited_for_it(words):
    """Half an hour after a node's last heartbeat another one gives up a collective; the job goes on without it."""
    a, b = pair()
    b.beats(6, 27)
    a.beats(6, 1820)
    if words:
        a.log(1820, "worker_output", rank=0, message=f"torch.distributed.DistBackendError: {WATCHDOG}", traceback="")
    a.failed(1820.5, 0, 20).again(1820.5, 3).join(1850, 1, 0, 1).start(1851, [0], [30], world=1).succeeded(
        1900, [0], [30]
    )
    said = answer(a, b)
    first = said["attempts"][0]
    assert [("node_lost", None), None] == causes(said)
    assert ("node-b", "2026-02-28T19:05:31.000Z") == (first["cause"]["host"], first["cause"]["time"])
    assert ("likely" if words else "suspected", "2026-02-28T19:35:20.500Z") == (
        first["cause"]["confidence"],
        first["cause"]["detected"],
    )
    assert ("failed", "collateral", "unknown") == (first["outcome"], roles(first)[0], roles(first)[1])
    assert ({"failure": 1, "membership": 0, "preemption": 0}, "succeeded") == (said["restarts"], said["state"])


def test_a_node_that_outlived_the_failure_is_not_its_cause():
    """Records that end after the failure are a log that was cut, not a node that was lost."""
    a, b = pair()
    a.failed(30, 0, 20, 1).ended(30, 0, 20, 1).agent(31)
    said = answer(a, b.beats(6, 400))
    assert [("exit_code", 0)] == causes(said)


def test_an_exception_beats_a_silent_node():
    """A rank that failed of its own cause needs no lost node to explain it."""
    a, b = pair()
    a.beats(6, 60).ended(60, 0, 20, 1, raised("ValueError", "bad", at=59)).agent(61)
    said = answer(a, b.beats(6, 20))
    assert [("exception", 0)] == causes(said)


def test_records_that_end_without_an_end_are_lost():
    """A lone agent whose records stop: lost, suspected."""
    said = answer(Node().join(0).start(1, [0, 1], [20, 21]).beats(6, 60))
    assert ("lost", "lost", "suspected") == (
        said["state"],
        said["attempts"][0]["outcome"],
        said["attempts"][0]["cause"]["confidence"],
    )
    assert ["unknown", "unknown"] == [r["role"] for r in said["attempts"][0]["ranks"]]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("RendezvousTimeoutError", "rendezvous_timeout"),
        ("RendezvousClosedError", "rendezvous_closed"),
        ("RendezvousConnectionError", "agent_error"),
    ],
)
def test_a_rendezvous_that_never_forms(error, kind):
    """No worker was started: an incomplete attempt without ranks."""
    said = answer(Node("head-0", 60).wants(0).beats(5, 120).rendezvous_error(120, error))
    first = said["attempts"][0]
    assert (kind, None, "head-0", []) == (
        first["cause"]["kind"],
        first["cause"]["rank"],
        first["cause"]["host"],
        first["ranks"],
    )
    assert ("incomplete", "failed", None, 1, 120.0) == (
        first["outcome"],
        said["state"],
        said["world_size"],
        said["nodes"],
        said["wall_s"],
    )
    assert (
        f"torch.distributed.elastic.rendezvous.api.{error}" == first["cause"]["error_type"]
        or error == first["cause"]["error_type"]
    )


def test_two_nodes_that_wait_in_vain_are_one_attempt():
    """Two of three nodes came and both gave up."""
    nodes = [Node(host, 60).wants(0).rendezvous_error(120, "RendezvousTimeoutError") for host in ("h-0", "h-1")]
    said = answer(*nodes)
    assert (1, 2, ["h-0", "h-1"]) == (len(said["attempts"]), said["nodes"], said["attempts"][0]["nodes"])
    assert ("rendezvous_timeout", None) == (said["attempts"][0]["cause"]["kind"], said["attempts"][0]["cause"]["host"])


def test_stopped_while_it_waited_for_others():
    """A signal in the rendezvous: incomplete and stopped."""
    said = answer(Node().wants(0).signalled(50).signal_exception(51))
    assert ([("preempted", None)], "incomplete", "stopped") == (
        causes(said),
        said["attempts"][0]["outcome"],
        said["state"],
    )


def test_a_round_that_formed_without_starting_workers():
    """The store fails while ranks are assigned, after a peer has vanished: the peer, suspected."""
    a = Node("node-a", 10).join(0, 0, 0, 2)
    a.agent(
        120,
        "FAILED",
        'Traceback (most recent call last):\n  File "/venv/lib/python3.11/site-packages/torch/x.py", line 3, in y\n'
        "torch.distributed.DistStoreError: wait timeout after 60000ms, keys: /role_info/1\n",
    )
    b = Node("node-b", 11).join(0, 0, 1, 2)
    said = answer(a, b)
    assert ([("node_lost", None)], "node-b", "suspected") == (
        causes(said),
        said["attempts"][0]["cause"]["host"],
        said["attempts"][0]["cause"]["confidence"],
    )
    assert ("incomplete", []) == (said["attempts"][0]["outcome"], said["attempts"][0]["ranks"])


def test_a_spare_that_was_never_needed():
    """A node that waited in vain while the job ran to its end is a warning, not an attempt."""
    a, b = pair()
    spare = Node("node-c", 12).wants(5, 1, "wait list").beats(5, 60).rendezvous_error(61, "RendezvousClosedError")
    said = answer(a.succeeded(60, [0], [20]), b.succeeded(60, [1], [21]), spare)
    assert ("succeeded", 1, 2, ["spare_error"]) == (said["state"], len(said["attempts"]), said["nodes"], kinds(said))


def test_trouble_at_the_exit_barrier_is_teardown():
    """All workers ended well; what the agents meet afterwards is a warning."""
    a, b = pair()
    b.log(60, "group_succeeded", role="default").log(
        60, "barrier_failed", elapsed_s=0.1, error="DistNetworkError: reset"
    )
    b.ended(60, 1, 21, state="SUCCEEDED").agent(60)
    b.says(60, "has failed to shutdown", "FAILED", " due to an error of type RendezvousConnectionError.")
    a.log(62, "group_succeeded", role="default").log(362, "barrier_failed", elapsed_s=300.0, error="x")
    a.ended(362, 0, 20, state="SUCCEEDED").agent(362)
    said = answer(a, b)
    assert ("succeeded", [None], {"teardown"}) == (said["state"], causes(said), set(kinds(said)))
    assert "2026-02-28T19:06:02.000Z" == said["attempts"][0]["ended"]


def test_a_signal_after_success_is_teardown():
    """The agent is stopped while it waits for the others at the end."""
    node = Node().join(0).start(1, [0], [20])
    node.log(60, "group_succeeded", role="default").signalled(70).signal_exception(70)
    said = answer(node)
    assert ("succeeded", [None], ["teardown"]) == (said["state"], causes(said), kinds(said))


def test_an_agent_that_raises_while_its_workers_run():
    """An error of torchrun's own with healthy workers."""
    frame = '  File "/srv/launch.py", line 7, in go\n    x()\n'
    trace = f"Traceback (most recent call last):\n{frame}OSError: [Errno 28] No space left on device\n"
    said = answer(Node().join(0).start(1, [0], [20]).agent(60, "FAILED", trace))
    cause = said["attempts"][0]["cause"]
    assert ("agent_error", "OSError", "[Errno 28] No space left on device", "/srv/launch.py:7") == tuple(
        cause[k] for k in ("kind", "error_type", "message", "location")
    )
    assert ("failed", "failed") == (said["state"], said["attempts"][0]["outcome"])


def test_a_node_without_a_log_is_said_to_be_missing():
    """One file of a job of two nodes: whom its victim lost may be there, and no rank of this one is blamed."""
    a, _ = pair()
    said = answer(
        a.stop(30).failed(30, 0, 20, 1).ended(30, 0, 20, 1, raised("RuntimeError", PEER_CLOSED, at=29)).agent(31)
    )
    assert "missing_node" in kinds(said)
    cause = said["attempts"][0]["cause"]
    assert ("unknown", None, "unknown") == tuple(cause[key] for key in ("kind", "rank", "confidence"))


@pytest.mark.parametrize("skew", [-3000.0, -20.0, 20.0, 3000.0])
def test_a_clock_that_is_off_is_corrected_and_told(skew):
    """Who was first is found on corrected times, and no attempt ends before it starts."""
    a = Node("node-a", 10).join(0, 0, 0, 2).start(1, [0], [20], world=2)
    b = Node("node-b", 11, skew=skew).join(0.4, 0, 1, 2).start(1.4, [1], [21], world=2)
    a.ended(40, 0, 20, 1, raised("KeyError", "'late'", at=38)).agent(41)
    b.ended(21, 1, 21, 1, raised("ValueError", "early", at=20 + skew)).agent(41)
    said = answer(a, b)
    assert ([("exception", 1)], ["clock_skew"]) == (causes(said), kinds(said))
    assert 38 < said["wall_s"] < 45
    assert {0: "independent", 1: "first"} == roles(said["attempts"][0])


def test_clocks_that_agree_need_no_word():
    """Two nodes that see a round complete within seconds: no warning, and times as they stand."""
    a, b = pair()
    said = answer(a.succeeded(60, [0], [20]), b.succeeded(60, [1], [21]))
    assert ([], 60.0, {"events_missing": 0, "damaged_lines": 0, "files": 2}) == (
        said["warnings"],
        said["wall_s"],
        said["loss"],
    )


def test_two_agents_of_one_name():
    """Containers that share host name and process id are told apart by their ranks, and that is said."""
    a = Node("localhost", 7).join(0, 0, 0, 2).start(1, [0], [20], world=2).succeeded(60, [0], [20])
    b = Node("localhost", 7).join(0, 0, 1, 2).start(1, [1], [20], world=2).succeeded(60, [1], [20])
    b.name = "other.jsonl"
    said = answer(a, b)
    assert (2, 1, ["ambiguous_node"]) == (said["nodes"], len(said["attempts"]), kinds(said))


def test_a_node_that_was_slow_once_has_no_clock_that_is_off():
    """One late join among several rounds is not a skew."""
    a, b = Node("node-a", 10), Node("node-b", 11)
    for attempt, late in enumerate((9.0, 0.3)):
        t = attempt * 60
        a.join(t, attempt, 0, 2).start(t + 1, [0], [20 + attempt], world=2)
        b.join(t + late, attempt, 1, 2).start(t + late + 1, [1], [20 + attempt], world=2)
    said = answer(a.succeeded(120, [0], [21]), b.succeeded(120, [1], [21]))
    assert ([], 120.0) == (kinds(said), said["wall_s"])


def test_an_exit_code_that_a_script_chose_beats_a_silent_node():
    """A peer that is lost makes Python exit with 1, not with 7."""
    a, b = pair()
    a.beats(6, 60).stop(60).failed(60, 0, 20, 7).ended(60, 0, 20, 7).agent(61)
    assert [("exit_code", 0)] == causes(answer(a, b.beats(6, 20)))
