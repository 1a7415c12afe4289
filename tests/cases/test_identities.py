"""Which agent is which, and which attempts belong together, where names and numbers do not tell."""

from tests.cases.agent_log import AgentLog, causes, in_one_file, outcomes, restarts, warning_kinds, why


def test_three_containers_of_one_name_and_one_process_id(tmp_path):
    """Every container is called trainer and its agent is process 1: the files and the group ranks tell them apart."""
    logs = [AgentLog("trainer", 1, style="time").attempt(1, [rank], 0, rank, 3, 3).succeeds(60) for rank in range(3)]
    answer = why(tmp_path, *logs, names=["c0.jsonl", "c1.jsonl", "c2.jsonl"])
    assert ("succeeded", 3, 3, 1) == (answer["state"], answer["nodes"], answer["world_size"], len(answer["attempts"]))
    assert 3 == len(set(answer["attempts"][0]["nodes"]))


def test_two_agents_on_one_host(tmp_path):
    """Two agents of one job on one machine are two nodes of the job."""
    a, b = AgentLog("big", 100), AgentLog("big", 200)
    for number, log in enumerate((a, b)):
        log.attempt(1, [2 * number, 2 * number + 1], 0, number, 2, 4)
    a.fails(60, 1, 7, others=[0], left=0, restart=False).ends(60.5, {0: ("FAILED", -15, None), 1: ("FAILED", 7, None)})
    b.names(62, 3, 1).ends(62.5, {2: ("FAILED", 1, None), 3: ("FAILED", 1, None)})
    a.returns(61), b.returns(63)
    answer = why(tmp_path, a, b, names=["a.log", "b.log"])
    assert (2, [("exit_code", 1)]) == (answer["nodes"], causes(answer))


def test_an_agent_with_a_new_process_id_rejoins_in_a_later_round(tmp_path):
    """n1's agent died in round 0 and a new one came in round 2; between them n0 ran alone."""
    a, b = AgentLog("n0", 10), AgentLog("n1", 11)
    a.attempt(1, [0], 0, 0, 2, 2).beats(5, 60).fails(61, 0, 1)
    b.attempt(1, [1], 0, 1, 2, 2).beats(5, 30)
    a.attempt(90, [0], 1, 0, 1, 1).membership(150)
    again = AgentLog("n1", 99)
    a.attempt(160, [0], 2, 0, 2, 2).succeeds(200)
    again.attempt(160, [1], 2, 1, 2, 2).succeeds(200)
    answer = why(tmp_path, a, in_one_file("n1", b, again))
    assert ["failed", "membership", "succeeded"] == outcomes(answer)
    assert ((1, 1, 0), 2, [2, 1, 2]) == (
        restarts(answer),
        answer["nodes"],
        [attempt["world_size"] for attempt in answer["attempts"]],
    )


def test_three_launches_of_one_run(tmp_path):
    """The scheduler queued the job again twice after failures: three attempts, two failure restarts."""
    logs = []
    for number in range(3):
        log = AgentLog(f"h{number}", 50 + number).attempt(1000.0 * number + 1, [0, 1])
        if number < 2:
            log.fails(1000.0 * number + 60, 1, 3, others=[0], left=0, limit=0, restart=False)
            log.ends(1000.0 * number + 60.2, {0: ("FAILED", -15, None), 1: ("FAILED", 3, None)})
            log.returns(1000.0 * number + 60.4)
        else:
            log.succeeds(2300)
        logs.append(log)
    answer = why(tmp_path, *logs)
    assert (["failed", "failed", "succeeded"], (2, 0, 0), "succeeded") == (
        outcomes(answer),
        restarts(answer),
        answer["state"],
    )


def test_three_launches_in_one_file_without_times(tmp_path):
    """The same log was appended to by three launches, and no line has a time: the ends of the agents tell."""
    logs = []
    for number in range(3):
        log = AgentLog("h0", 50 + number, style="bare").attempt(1, [0])
        if number < 2:
            log.fails(60, 0, 3, left=0, limit=0, restart=False).ends(60, {0: ("FAILED", 3, None)}).returns(60)
        else:
            log.succeeds(60)
        logs.append(log)
    answer = why(tmp_path, in_one_file("h0", *logs))
    assert (["failed", "failed", "succeeded"], (2, 0, 0)) == (outcomes(answer), restarts(answer))
    assert {None} == {attempt["started"] for attempt in answer["attempts"]}


def test_a_round_that_was_never_completed(tmp_path):
    """After a failure two agents wait for a third; the scheduler ends the job meanwhile."""
    a, b = AgentLog("n0", 10), AgentLog("n1", 11)
    for number, log in enumerate((a, b)):
        log.attempt(1, [number], 0, number, 2, 2)
    a.fails(60, 0, 1), b.membership(61)
    for log in (a, b):
        log.waits(65, 1).event(95, "FAILED", raw_error="SignalException: Process 10 got signal: 15")
    answer = why(tmp_path, a, b)
    assert ["failed", "incomplete"] == outcomes(answer)
    assert [("exit_code", 0), ("preempted", None)] == causes(answer)
    assert ("stopped", (1, 0, 0), 1) == (answer["state"], restarts(answer), answer["attempts"][1]["round"])


def test_an_agent_that_never_started_workers(tmp_path):
    """The third node of a job of two waited as a spare and was told to stop at the end: no part of any attempt."""
    a, b, spare = AgentLog("n0", 10), AgentLog("n1", 11), AgentLog("n2", 12)
    for number, log in enumerate((a, b)):
        log.attempt(1, [number], 0, number, 2, 2).succeeds(60)
    spare.waits(2, 1).event(61, "FAILED", raw_error="SignalException: Process 12 got signal: 15")
    answer = why(tmp_path, a, b, spare)
    assert ("succeeded", ["succeeded"], (0, 0, 0)) == (answer["state"], outcomes(answer), restarts(answer))
    assert 2 == len(answer["attempts"][0]["nodes"])


def test_a_world_that_split_and_was_started_anew(tmp_path):
    """Each of two agents ran alone in a world of one; a second launch put them together."""
    a, b = AgentLog("n0", 10).attempt(1, [0]).signalled(50), AgentLog("n1", 11).attempt(1, [0]).signalled(50)
    c, d = AgentLog("n0", 20), AgentLog("n1", 21)
    for number, log in enumerate((c, d)):
        log.attempt(100, [number], 0, number, 2, 2).succeeds(200)
    answer = why(tmp_path, in_one_file("n0", a, c), in_one_file("n1", b, d))
    assert [1, 1, 2] == [attempt["world_size"] for attempt in answer["attempts"]]
    assert ("succeeded", 2) == (answer["state"], answer["nodes"])


def test_one_of_two_nodes_left_no_records(tmp_path):
    """Only one node's log was kept: the answer says that another one was there."""
    a = AgentLog("n0", 10).attempt(1, [0, 1], 0, 0, 2, 4).succeeds(60)
    answer = why(tmp_path, a)
    assert "missing_node" in warning_kinds(answer)
    assert 4 == answer["world_size"]


def test_a_log_whose_beginning_was_rotated_away(tmp_path):
    """The first record is a START in round 3 of an agent that had restarted failed workers twice."""
    log = AgentLog("n0", 10, restarts=2).attempt(1, [0, 1], 3).fails(60, 0, 1, others=[1], left=1)
    log.attempt(70, [0, 1], 4).succeeds(99)
    answer = why(tmp_path, log)
    assert [3, 4] == [attempt["round"] for attempt in answer["attempts"]][-2:]
    assert (3, 1) == (answer["restarts"]["failure"], len([c for c in causes(answer) if c == ("exit_code", 0)]))
