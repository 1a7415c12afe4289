"""Live tapes: what agents and workers write about themselves, exact within a host."""

import pytest

from tests.diagnose.lab import PEER_CLOSED, answer, causes, diagnosed, roles
from tests.diagnose.live import Agent


def running(ranks=2, **fields):
    """An agent with running workers of process ids 200 and up."""
    return Agent(**fields).start(1, range(ranks), range(200, 200 + ranks))


def test_the_order_of_errors_on_one_host_is_exact():
    """41 ms are enough: the first failure is certain, the peer's is its consequence."""
    agent = running().exit(5.2, 201, 1).exit(5.25, 200, 1).ended(5.3, failed=[1, 0]).close(6)
    first = agent.worker(201).error(5.0, "ValueError", "bad row", "/srv/train.py:9").close(5.1)
    victim = agent.worker(200).error(5.041, "RuntimeError", PEER_CLOSED, "/srv/train.py:20").close(5.2)
    said = answer(victim, agent, first)
    cause = said["attempts"][0]["cause"]
    assert ("exception", 1, 201, 1, "ValueError", "bad row", "/srv/train.py:9", "certain") == tuple(
        cause[k] for k in ("kind", "rank", "pid", "exit_code", "error_type", "message", "location", "confidence")
    )
    assert "2026-02-28T19:05:05.000Z" == cause["time"]
    assert {0: "collateral", 1: "first"} == roles(said["attempts"][0])
    assert ("failed", 1, 2, 5.0) == (said["state"], said["nodes"], said["world_size"], said["wall_s"] - 1.0)


def test_a_failed_worker_that_was_slow_to_end_is_still_first():
    """The interpreter of the first rank hangs at its end, its victim exits at once, and the agent stops the first."""
    agent = running().exit(5.5, 200, 1).stop(5.6, 201).ended(5.7, failed=[0]).close(6)
    first = agent.worker(201).error(5.0, "ValueError", "bad row")
    victim = agent.worker(200).error(5.1, "RuntimeError", PEER_CLOSED)
    said = answer(agent, first, victim)
    assert [("exception", 1)] == causes(said)
    assert {0: "collateral", 1: "first"} == roles(said["attempts"][0])


def test_an_error_after_the_agents_signal_is_a_stop():
    """What a worker raises on being stopped is not a failure of its own."""
    agent = (
        running()
        .exit(5, 201, 3)
        .own(5.1, "worker.stop", attempt=0, rank=0, local_rank=0, pid=200, signal="SIGTERM", reason="failure")
    )
    agent.exit(5.3, 200, 1, stopped=True).ended(5.4, failed=[1]).close(6)
    stopped = agent.worker(200).error(5.2, "KeyboardInterrupt", "")
    said = answer(agent, stopped, agent.worker(201).exit_call(4.9, 3).close(5))
    assert [("exit_code", 1)] == causes(said)
    assert {0: "stopped", 1: "first"} == roles(said["attempts"][0])


@pytest.mark.parametrize("call", ["sys.exit", "os._exit"])
def test_exit_codes_have_the_line_that_chose_them(call):
    """A script that ends itself says where."""
    agent = running().exit(5, 201, 3).stop(5.1, 200).ended(5.2, failed=[1]).close(6)
    said = answer(agent, agent.worker(201).exit_call(4.9, 3, call, "/srv/train.py:77", "no data").close(5))
    cause = said["attempts"][0]["cause"]
    assert ("exit_code", 1, 3, "/srv/train.py:77", "no data", None, "certain") == tuple(
        cause[k] for k in ("kind", "rank", "exit_code", "location", "message", "error_type", "confidence")
    )
    assert any(f"called {call}(3)" in line for line in cause["evidence"])


@pytest.mark.parametrize(("kills", "kind"), [(1, "oom_kill"), (0, "signal"), (None, "signal")])
def test_an_out_of_memory_kill_needs_the_kernels_word(kills, kind):
    """SIGKILL is called what it is unless the kernel counted."""
    agent = running().exit(5, 201, -9, oom_kills=kills).stop(5.1, 200).ended(5.2, failed=[1]).close(6)
    cause = answer(agent)["attempts"][0]["cause"]
    assert (kind, 1, "SIGKILL", -9, "certain") == tuple(
        cause[k] for k in ("kind", "rank", "signal", "exit_code", "confidence")
    )


def test_a_sigkill_of_the_agents_is_no_out_of_memory_kill():
    """The agent kills who does not end in time; the kernel's counter may have risen for another reason."""
    agent = (
        running()
        .exit(5, 201, 3)
        .own(5.1, "worker.stop", attempt=0, rank=0, local_rank=0, pid=200, signal="SIGKILL", reason="failure")
    )
    said = answer(agent.exit(35, 200, -9, stopped=True, oom_kills=1).ended(35, failed=[1]).close(36))
    assert [("exit_code", 1)] == causes(said)
    assert {0: "stopped", 1: "first"} == roles(said["attempts"][0])


def test_a_crash_has_its_python_stack():
    """faulthandler's text tells where."""
    agent = running().exit(5, 201, -11, core=True).stop(5.1, 200).ended(5.2, failed=[1]).close(6)
    crash = agent.worker(201).stood(
        ("/usr/lib/python3.11/ctypes/__init__.py", 519, "string_at"),
        ("/srv/train.py", 11, "main"),
        fatal="Segmentation fault",
    )
    cause = answer(agent, crash)["attempts"][0]["cause"]
    assert ("signal", "SIGSEGV", "/srv/train.py:11") == (cause["kind"], cause["signal"], cause["location"])


def test_who_hung_is_told_by_where_it_stood():
    """The only rank that did not wait in a collective when the others timed out; suspected."""
    timeout = "[transport/tcp/unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation to complete"
    agent = running(3).exit(11.1, 200, 1).stop(11.2, 201, 202).ended(11.5, failed=[0]).close(12)
    waiting = ("/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 3252, "all_reduce")
    wrapper = (
        "/venv/lib/python3.11/site-packages/torch/distributed/elastic/multiprocessing/errors/__init__.py",
        367,
        "wrapper",
    )
    tapes = [
        agent.worker(200).error(11.0, "RuntimeError", timeout).close(11.1),
        agent.worker(201).stood(waiting, ("/srv/train.py", 20, "step"), wrapper),
        agent.worker(202).stood(("/srv/data.py", 31, "load"), ("/srv/train.py", 19, "step"), wrapper),
    ]
    said = answer(agent, *tapes)
    cause = said["attempts"][0]["cause"]
    assert ("stall", 2, "/srv/data.py:31", "suspected") == tuple(
        cause[k] for k in ("kind", "rank", "location", "confidence")
    )
    assert {0: "collateral", 1: "stopped", 2: "first"} == roles(said["attempts"][0])


def test_a_rank_that_left_early_with_code_0():
    """It ended well while the others still needed it."""
    agent = running(3).exit(4, 202, 0).exit(5.1, 200, 1).stop(5.2, 201).ended(5.3, failed=[0]).close(6)
    victim = agent.worker(200).error(5.0, "RuntimeError", PEER_CLOSED).close(5.1)
    said = answer(agent, victim, agent.worker(202).exit_call(3.9, 0).close(4))
    cause = said["attempts"][0]["cause"]
    assert ("left_early", 2, 0, "likely") == tuple(cause[k] for k in ("kind", "rank", "exit_code", "confidence"))
    assert {0: "collateral", 1: "stopped", 2: "first"} == roles(said["attempts"][0])


def test_a_rank_that_left_early_and_was_slow_to_end():
    """Its call of sys.exit counts: torch keeps the process for a second after it."""
    agent = running().exit(6, 201, 0).exit(7, 200, 1).ended(7.1, failed=[0]).close(8)
    victim = agent.worker(200).error(5.0, "RuntimeError", PEER_CLOSED).close(5.1)
    said = answer(agent, victim, agent.worker(201).exit_call(3.9, 0, location="/srv/train.py:8").close(4))
    cause = said["attempts"][0]["cause"]
    assert ("left_early", 1, 0, "/srv/train.py:8", "2026-02-28T19:05:03.900Z", "likely") == tuple(
        cause[k] for k in ("kind", "rank", "exit_code", "location", "time", "confidence")
    )
    assert {0: "collateral", 1: "first"} == roles(said["attempts"][0])
    assert "called sys.exit(0)" in cause["evidence"][0]


def test_a_rank_that_ran_to_its_end_early():
    """Without a call the close of its tape tells when it left."""
    agent = running().exit(6, 201, 0).exit(7, 200, 1).ended(7.1, failed=[0]).close(8)
    victim = agent.worker(200).error(5.0, "RuntimeError", PEER_CLOSED).close(5.1)
    cause = answer(agent, victim, agent.worker(201).close(4))["attempts"][0]["cause"]
    assert ("left_early", 1, "2026-02-28T19:05:04.000Z") == (cause["kind"], cause["rank"], cause["time"])


def test_restarts_of_torchruns_static_rendezvous():
    """No rendezvous speaks: attempts come from the agents' own starts, and both agents' starts belong together."""
    a = Agent("node-a", 10, boot="boot-a").start(1, [0], [200], group_rank=0, size=2, world=2)
    b = Agent("node-b", 11, boot="boot-b", boot_s=70.0).start(1.2, [1], [200], group_rank=1, size=2, world=2)
    tapes = []
    for attempt in range(2):
        t = 10 * attempt
        b.exit(t + 5, 200 + attempt, 1).ended(t + 5, failed=[1])
        a.exit(t + 6, 200 + attempt, 1).ended(t + 6, failed=[0])
        tapes.append(b.worker(200 + attempt).error(t + 4.9, "KeyError", "'gone'").close(t + 5))
        tapes.append(a.worker(200 + attempt).error(t + 5.5, "RuntimeError", PEER_CLOSED).close(t + 6))
        if attempt == 0:
            a.start(t + 10, [0], [201], group_rank=0, size=2, world=2)
            b.start(t + 10, [1], [201], group_rank=1, size=2, world=2)
    said = answer(a.close(20), b.close(20), *tapes)
    assert [("exception", 1)] * 2 == causes(said)
    assert [None, None] == [attempt["round"] for attempt in said["attempts"]]
    assert ([0, 1], 2, {"failure": 1, "membership": 0, "preemption": 0}) == (
        [a["index"] for a in said["attempts"]],
        said["nodes"],
        said["restarts"],
    )
    assert "likely" == said["attempts"][0]["cause"]["confidence"], "two hosts' clocks prove no half second"


def test_torchs_events_and_the_agents_own_are_one_attempt():
    """torch's START events stand before the agent's record of the same workers."""
    agent = Agent()
    for rank in range(2):
        metadata = {
            "run_id": "job",
            "global_rank": rank,
            "group_rank": 0,
            "worker_id": str(200 + rank),
            "hostname": "localhost",
        }
        inner = f'{{"group_world_size": 1, "local_rank": [{rank}], "role_rank": [{rank}], "role_world_size": [2]}}'
        agent.event("torchelastic.worker.status.START", "WORKER", 1, **metadata, metadata=inner, agent_restarts=0)
    agent.start(1.1, [0, 1], [200, 201], round_=0).exit(9, 200, 0).exit(9, 201, 0).ended(9, "SUCCEEDED").close(
        9.5, "succeeded"
    )
    said = answer(agent)
    assert (1, "succeeded", 0, [0, 1], "node-a") == (
        len(said["attempts"]),
        said["state"],
        said["attempts"][0]["round"],
        [r["rank"] for r in said["attempts"][0]["ranks"]],
        said["attempts"][0]["ranks"][0]["host"],
    )


def test_a_running_job():
    """Alive: running, without an end, and no cause."""
    agent = running()
    said = answer(agent, alive=[agent.name])
    assert ("running", "running", None, None) == (
        said["state"],
        said["attempts"][0]["outcome"],
        said["attempts"][0]["cause"],
        said["attempts"][0]["ended"],
    )


def test_a_running_job_has_no_end():
    """What runs has neither an end nor a wall time."""
    agent = running()
    said = answer(agent, alive=[agent.name])
    assert (None, None) == (said["ended"], said["wall_s"])


def test_a_running_job_after_a_failure():
    """The attempt that failed has its cause, the one that runs has none."""
    agent = running().exit(5, 201, 1).stop(5.1, 200).ended(5.2, failed=[1]).start(6, [0, 1], [300, 301])
    said = answer(agent, alive=[agent.name])
    assert (["failed", "running"], "running", 1) == (
        [a["outcome"] for a in said["attempts"]],
        said["state"],
        said["restarts"]["failure"],
    )


def test_a_killed_agent_leaves_orphans():
    """Its tape stops, its workers' go on: lost, and a warning about who lived on."""
    agent = running()
    said = answer(agent, agent.worker(200).close(30), agent.worker(201))
    assert ("lost", "node_lost", "suspected") == (
        said["state"],
        said["attempts"][0]["cause"]["kind"],
        said["attempts"][0]["cause"]["confidence"],
    )
    assert ["orphan_workers"] == [w["kind"] for w in said["warnings"]]
    assert "2026-02-28T19:05:30.000Z" == said["attempts"][0]["ended"]


def test_a_killed_agent_is_not_a_lost_node():
    """Its workers wrote after it: the agent vanished, and their own ends are on record."""
    agent = running()
    run = diagnosed(agent, agent.worker(200).close(30), agent.worker(201).exit_call(29, 0).close(29.5))
    attempt = run.attempts[0]
    expected = "ranks 0 and 1 went on without it and came to their own end"
    assert ("node_lost", 100, expected) == (attempt.cause.kind, attempt.cause.pid, attempt.cause.note)
    assert [(None, 29.0), (0, 28.0)] == [(r.exit_code, r.ended - attempt.started) for r in attempt.ranks]


def test_a_lost_node_has_no_later_records():
    """Workers that wrote no more than their agent prove nothing: the node is lost."""
    agent = running()
    cause = answer(agent, agent.worker(200), agent.worker(201))["attempts"][0]["cause"]
    assert ("node_lost", "node-a", None) == (cause["kind"], cause["host"], cause["pid"])


def test_one_agent_killed_while_the_other_goes_on():
    """The node is lost, its peer's failure a consequence, and the next round has one node."""
    a = Agent("node-a", 10).start(1, [0], [200], 0, 0, 2, world=2)
    b = Agent("node-b", 11, boot="boot-b").start(1, [1], [201], 0, 1, 2, world=2)
    a.exit(20, 200, 1).ended(20, failed=[0])
    victim = a.worker(200).error(19.5, "RuntimeError", PEER_CLOSED).close(20)
    a.start(25, [0], [300], 1, 0, 1).exit(40, 300, 0).ended(40, "SUCCEEDED").close(41, "succeeded")
    said = answer(a, b, victim, b.worker(201))
    assert (["node_lost", None], "node-b", "likely") == (
        [c["cause"] and c["cause"]["kind"] for c in said["attempts"]],
        said["attempts"][0]["cause"]["host"],
        said["attempts"][0]["cause"]["confidence"],
    )
    assert ({0: "collateral", 1: "unknown"}, "succeeded", 2) == (
        roles(said["attempts"][0]),
        said["state"],
        said["nodes"],
    )


@pytest.mark.parametrize(("signal", "number"), [("SIGTERM", -15), ("SIGINT", -2)])
def test_a_signal_to_the_whole_process_group(signal, number):
    """A terminal or a scheduler signals agent and workers at once: workers that die of it did not fail."""
    agent = (
        running()
        .exit(5, 200, number)
        .own(5.001, "agent.signal", signal=signal)
        .exit(5.1, 201, 1)
        .ended(5.2)
        .close(6, "signal")
    )
    interrupted = agent.worker(201)
    if signal == "SIGINT":
        interrupted.error(5.0, "KeyboardInterrupt", "")
        said = answer(agent, interrupted)
        assert ([("preempted", None)], "stopped") == (causes(said), said["state"])
    else:
        said = answer(agent.stop(5.05, 201))
        assert "preempted" == said["attempts"][0]["cause"]["kind"]
    assert "stopped" == roles(said["attempts"][0])[0]


def test_membership_on_live_tapes():
    """The agent says why it stops healthy workers."""
    agent = (
        Agent().start(1, [0], [200], round_=0).membership(20).stop(20, 200, reason="membership").ended(20.5, "STOPPED")
    )
    agent.start(22, [0], [300], round_=1, restarts=0, size=1).exit(40, 300, 0).ended(40, "SUCCEEDED").close(
        41, "succeeded"
    )
    said = answer(agent)
    assert ([None, None], ["membership", "succeeded"], 1) == (
        causes(said),
        [a["outcome"] for a in said["attempts"]],
        said["restarts"]["membership"],
    )


@pytest.mark.parametrize("message", ["", "nproc_per_node must be positive"])
def test_a_launch_that_fails_before_it_joins(message):
    """An attempt without ranks, also where the error has no text of its own: its type and place tell enough."""
    frame = '  File "/srv/launch.py", line 109, in check\n    raise AssertionError\n'
    made_up = '  File "<string>", line 19, in __init__\n'
    trace = f"Traceback (most recent call last):\n{made_up}{frame}{made_up}AssertionError\n"
    error = {"error_type": "AssertionError", "message": message, "traceback": trace, "location": "<string>:19"}
    agent = Agent().close(2, "error", **error)
    said = answer(agent)
    attempt = said["attempts"][0]
    assert ("failed", 1, "incomplete", [], 1) == (
        said["state"],
        len(said["attempts"]),
        attempt["outcome"],
        attempt["ranks"],
        said["nodes"],
    )
    assert ("agent_error", "AssertionError", message or None, "/srv/launch.py:109", "certain") == tuple(
        attempt["cause"][k] for k in ("kind", "error_type", "message", "location", "confidence")
    )
    assert trace == attempt["cause"]["traceback"]


def test_a_wrapper_between_agent_and_worker():
    """A shell script has the process id the agent knows; the python under it is found by rank and restart."""
    agent = running(1).exit(9, 200, 1).ended(9, failed=[0]).close(10)
    python = agent.worker(200, start=2)
    python.header.pid, python.header.parent_pid = 999, 200
    said = answer(agent, python.error(8, "ValueError", "x").close(9))
    assert [("exception", 0)] == causes(said)


def test_wall_clock_jumps_do_not_turn_time_back():
    """The monotonic clock orders a host's records when its wall clock is set back by an hour meanwhile."""
    agent = running()
    agent.skew = -3600.0
    agent.exit(5, 201, 1).stop(5.1, 200).ended(5.2, failed=[1]).close(6)
    said = answer(agent)
    assert (6.0, "2026-02-28T19:05:05.000Z") == (said["wall_s"], said["attempts"][0]["cause"]["time"])
