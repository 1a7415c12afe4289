"""Restarts of a job, counted once: loops, budgets, membership, and what only counters tell of."""

from tests.cases.agent_log import AgentLog, causes, outcomes, restarts, roles, why


def test_two_nodes_that_each_fail_twice_make_four_failure_restarts(tmp_path):
    """Each agent's counter says 2, and the job was restarted four times."""
    a, b = AgentLog("node-a", 410), AgentLog("node-b", 510)
    for round_ in range(5):
        t = 100.0 * round_
        a.attempt(t + 1, [0, 1], round_, 0, 2, 4)
        b.attempt(t + 1, [2, 3], round_, 1, 2, 4)
        culprit, other = (a, b) if round_ % 2 == 0 else (b, a)
        if round_ < 4:
            rank = min(culprit.pids)
            culprit.fails(t + 60, rank, 1, others=[rank + 1], left=3 - round_ // 2)
            other.membership(t + 61)
    a.succeeds(470), b.succeeds(470.2)
    answer = why(tmp_path, a, b)
    assert (4, 0, 0) == restarts(answer)
    assert ("succeeded", 5) == (answer["state"], len(answer["attempts"]))
    assert [("exit_code", 0), ("exit_code", 2)] * 2 == causes(answer)[:4]


def test_two_nodes_that_both_count_three_make_three(tmp_path):
    """When the workers of both nodes fail in each attempt, both counters say 3 and three restarts were made."""
    a, b = AgentLog("node-a", 410), AgentLog("node-b", 510)
    for round_ in range(4):
        t = 100.0 * round_
        a.attempt(t + 1, [0], round_, 0, 2, 2)
        b.attempt(t + 1, [1], round_, 1, 2, 2)
        a.fails(t + 60, 0, 1, left=3 - round_, restart=round_ < 3)
        b.fails(t + 60.4, 1, 1, left=3 - round_, restart=round_ < 3)
    for log, rank in ((a, 0), (b, 1)):
        log.ends(361, {rank: ("FAILED", 1, None)}).returns(361.1)
    answer = why(tmp_path, a, b)
    assert (3, 0, 0) == restarts(answer)
    assert ["failed"] * 4 == outcomes(answer)


def test_six_rounds_with_every_counter_at_zero_are_five_membership_restarts(tmp_path):
    """Nodes that come one after the other restart the workers without any failure."""
    a = AgentLog("node-a", 410)
    others = [AgentLog(f"node-{number}", 500 + number) for number in range(5)]
    for round_ in range(6):
        t = 50.0 * round_
        present = [a, *others[:round_]]
        for group_rank, log in enumerate(present):
            log.attempt(t + 1, [group_rank], round_, group_rank, len(present), len(present))
        for log in present:
            log.membership(t + 45) if round_ < 5 else log.succeeds(t + 45)
    answer = why(tmp_path, a, *others)
    assert (0, 5, 0) == restarts(answer)
    assert ["membership"] * 5 + ["succeeded"] == outcomes(answer)
    assert (6, 6) == (answer["nodes"], answer["world_size"])
    assert [1, 2, 3, 4, 5, 6] == [attempt["world_size"] for attempt in answer["attempts"]]


def test_loop_of_one_rank_in_bracket_style(tmp_path):
    """Three attempts fail on the same rank with a chosen exit code; the fourth ends well."""
    log = AgentLog("gpu-1", 900, style="bracket")
    for round_ in range(3):
        log.attempt(60.0 * round_ + 1, [0, 1, 2], round_)
        log.fails(60.0 * round_ + 40, 1, 17, others=[0, 2], left=3 - round_)
    log.attempt(181, [0, 1, 2], 3).succeeds(220)
    answer = why(tmp_path, log)
    assert [("exit_code", 1)] * 3 + [None] == causes(answer)
    assert {0: "stopped", 1: "first", 2: "stopped"} == roles(answer["attempts"][0])
    assert ("succeeded", (3, 0, 0)) == (answer["state"], restarts(answer))
    assert 17 == answer["attempts"][2]["cause"]["exit_code"]


def test_loop_whose_rank_changes(tmp_path):
    """Each attempt has its own culprit: rank 0 raises, rank 3 is killed, rank 2 exits."""
    log = AgentLog("gpu-1", 900)
    codes = [(0, 1), (3, -9), (2, 4)]
    for round_, (rank, code) in enumerate(codes):
        log.attempt(60.0 * round_ + 1, [0, 1, 2, 3], round_)
        others = [other for other in range(4) if other != rank]
        log.fails(60.0 * round_ + 40, rank, code, others=others, left=2 - round_, limit=2, restart=round_ < 2)
    states = {0: ("FAILED", -15, None), 1: ("FAILED", -15, None), 2: ("FAILED", 4, None), 3: ("FAILED", -15, None)}
    log.ends(161, states).returns(161.2)
    answer = why(tmp_path, log)
    assert [("exit_code", 0), ("signal", 3), ("exit_code", 2)] == causes(answer)
    assert ("failed", (2, 0, 0)) == (answer["state"], restarts(answer))


def test_loop_without_rendezvous_records(tmp_path):
    """torchrun's static rendezvous records no rounds; the agent's own starts are counted."""
    log = AgentLog("solo", 77, style="bracket")
    for number in range(3):
        log.starts(30.0 * number + 1, [0, 1])
        log.fails(30.0 * number + 20, 0, 2, others=[1], left=2 - number, limit=2, restart=number < 2)
    log.ends(81, {0: ("FAILED", 2, None), 1: ("FAILED", -15, None)}).returns(81.2)
    answer = why(tmp_path, log)
    assert (2, 0, 0) == restarts(answer)
    assert [None, None, None] == [attempt["round"] for attempt in answer["attempts"]]
    assert [("exit_code", 0)] * 3 == causes(answer)


def test_only_the_last_words_of_an_agent_that_had_restarted_twice(tmp_path):
    """A rotated log: only the last attempt's end is left, and the counter says that two attempts failed before it."""
    log = AgentLog("pod-3", 1, style="bare", restarts=2)
    log.pids, log.world_size = {0: 31, 1: 32}, 2
    log.ends(0, {0: ("FAILED", None, None), 1: ("FAILED", 9, None)}).returns(0)
    answer = why(tmp_path, log)
    assert ("failed", (2, 0, 0)) == (answer["state"], restarts(answer))
    last = answer["attempts"][-1]
    assert (3, "failed", None, None) == (len(answer["attempts"]), last["outcome"], last["started"], answer["wall_s"])


def test_only_the_last_words_of_a_job_that_ended_well(tmp_path):
    """One attempt is left of three; the earlier ones are counted, not told."""
    log = AgentLog("pod-4", 1, style="time", restarts=2)
    log.pids, log.world_size = {0: 31}, 1
    log.ends(500, {0: ("SUCCEEDED", 0, None)}).returns(500.2)
    answer = why(tmp_path, log)
    assert ("succeeded", (2, 0, 0)) == (answer["state"], restarts(answer))
    assert ["unknown", "unknown", None] == [a["cause"] and a["cause"]["kind"] for a in answer["attempts"]]


def test_only_the_agents_last_word(tmp_path):
    """`AGENT SUCCEEDED` alone only says that `agent.run()` returned: neither success nor failure is on the record."""
    log = AgentLog("pod-5", 1, style="bare", restarts=0).returns(0)
    answer = why(tmp_path, log)
    assert "unknown" == answer["state"]
    assert [] == [a for a in answer["attempts"] if a["outcome"] in ("failed", "succeeded")]
