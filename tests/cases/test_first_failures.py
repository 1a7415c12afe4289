"""Who was first on one node: SIGTERMs before the failure's name, kills, crashes behind their victims."""

from tests.cases.agent_log import PEER_CLOSED, WATCHDOG, AgentLog, causes, error_file, roles, seconds_of, why


def job(ranks=4, style="glog", **more):
    """One node whose workers were started a minute ago."""
    return AgentLog("box-1", 300, style=style, **more).attempt(1, list(range(ranks)))


def ended(log, t, states):
    """The last attempt is over: the workers' states, and the agent returned."""
    return log.ends(t, states).returns(t + 0.1)


def test_sigterms_come_before_the_name_of_the_failed(tmp_path):
    """The stopped took nine seconds to go, and only then was the failed one named."""
    log = job().stops(60, 0, 1, 3)
    log.names(69, 2, 1).will_restart(69.1, 1, 2)
    log.attempt(75, [0, 1, 2, 3], 1).succeeds(120)
    answer = why(tmp_path, log)
    assert ("exit_code", 2) == causes(answer)[0]
    assert {0: "stopped", 1: "stopped", 2: "first", 3: "stopped"} == roles(answer["attempts"][0])


def test_a_stopped_rank_that_raised_in_its_handler_is_no_cause(tmp_path):
    """Rank 0 turned the agent's SIGTERM into an error of its own, two seconds later: still stopped."""
    log = job(2).stops(60, 0)
    log.names(62.5, 1, 3)
    late = error_file("SystemError", "interrupted by SIGTERM", 62)
    ended(log, 62.6, {0: ("FAILED", 1, late), 1: ("FAILED", 3, None)})
    answer = why(tmp_path, log)
    assert ("exit_code", 1) == causes(answer)[0]
    assert {0: "stopped", 1: "first"} == roles(answer["attempts"][0])


def test_the_error_file_is_older_than_the_sigterm_to_its_rank(tmp_path):
    """Rank 1 had raised at 57 s and was slow to die; the agent's SIGTERM at 60 s hit a rank that had failed."""
    log = job(3).stops(60, 0, 1)
    log.names(60.2, 2, 1)
    first = error_file("ValueError", "bad shape", 57)
    victim = error_file("RuntimeError", PEER_CLOSED, 59)
    states = {0: ("FAILED", -15, None), 1: ("FAILED", -15, first), 2: ("FAILED", 1, victim)}
    answer = why(tmp_path, ended(log, 60.3, states))
    assert [("exception", 1)] == causes(answer)
    assert "collateral" == roles(answer["attempts"][0])[2]


def test_kill_of_the_lowest_rank(tmp_path):
    """SIGKILL from outside is a signal; nothing says that the kernel's memory killer sent it."""
    log = job(8, style="bracket").fails(60, 0, -9, others=range(1, 8), left=1, limit=1)
    log.attempt(70, list(range(8)), 1).succeeds(99)
    answer = why(tmp_path, log)
    cause = answer["attempts"][0]["cause"]
    assert ("signal", "SIGKILL", -9, 0, "certain") == tuple(
        cause[key] for key in ("kind", "signal", "exit_code", "rank", "confidence")
    )


def test_kill_whose_victim_speaks_louder(tmp_path):
    """Rank 3 was killed; rank 0 says that a peer went away, with a traceback and the lower rank."""
    log = job().stops(60, 1, 2)
    log.names(60.1, 0, 1)
    victim = error_file("RuntimeError", PEER_CLOSED, 59)
    states = {0: ("FAILED", 1, victim), 1: ("FAILED", -15, None), 2: ("FAILED", -15, None), 3: ("FAILED", -9, None)}
    answer = why(tmp_path, ended(log, 60.2, states))
    assert [("signal", 3)] == causes(answer)
    assert {0: "collateral", 1: "stopped", 2: "stopped", 3: "first"} == roles(answer["attempts"][0])


def test_a_sigkill_after_a_sigterm_is_the_agents(tmp_path):
    """Rank 2 did not go on SIGTERM and was killed by its agent 30 s later: it is no first failure."""
    log = job(3).stops(60, 0, 2)
    said = f"Unable to shutdown process {log.pids[2]} via 15, forcefully exiting via 9"
    log.log(90, said, file="multiprocessing/api.py:1040")
    log.names(90.1, 1, 5)
    states = {0: ("FAILED", -15, None), 1: ("FAILED", 5, None), 2: ("FAILED", -9, None)}
    answer = why(tmp_path, ended(log, 90.2, states))
    assert [("exit_code", 1)] == causes(answer)
    assert "stopped" == roles(answer["attempts"][0])[2]


def test_a_crash_behind_three_victims_of_nccl(tmp_path):
    """Rank 3 died of SIGBUS; the others' watchdogs gave up ten minutes later, rank 0 first."""
    log = job().names(660, 0, -6)
    victims = {rank: error_file("RuntimeError", WATCHDOG.format(rank=rank), 659) for rank in range(3)}
    states = {rank: ("FAILED", -6, victims[rank]) for rank in range(3)}
    answer = why(tmp_path, ended(log, 660.2, {**states, 3: ("FAILED", -7, None)}))
    assert [("signal", 3)] == causes(answer)
    assert "SIGBUS" == answer["attempts"][0]["cause"]["signal"]
    assert {0: "collateral", 1: "collateral", 2: "collateral", 3: "first"} == roles(answer["attempts"][0])


def test_a_crash_behind_a_victim_that_was_noticed_first(tmp_path):
    """The agent names the victim; the crash is only in the last states."""
    log = job(2, style="time").fails(60, 0, 1, restart=False)
    states = {0: ("FAILED", 1, error_file("RuntimeError", PEER_CLOSED, 58)), 1: ("FAILED", -11, None)}
    answer = why(tmp_path, ended(log, 60.2, states))
    cause = answer["attempts"][0]["cause"]
    assert (1, "SIGSEGV", "likely") == (cause["rank"], cause["signal"], cause["confidence"])


def test_an_abort_of_its_own_behind_victims_of_the_store(tmp_path):
    """Rank 1 hit an assertion of the driver; the others lost the store. An abort with words of its own is no victim."""
    log = job(3).names(60, 0, 1)
    store = "failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?"
    own = error_file("RuntimeError", "CUDA error: device-side assert triggered", 55)
    states = {
        0: ("FAILED", 1, error_file("torch.distributed.DistNetworkError", store, 56)),
        1: ("FAILED", -6, own),
        2: ("FAILED", 1, error_file("torch.distributed.DistNetworkError", store, 56)),
    }
    answer = why(tmp_path, ended(log, 60.2, states))
    cause = answer["attempts"][0]["cause"]
    assert (1, "RuntimeError", "SIGABRT") == (cause["rank"], cause["error_type"], cause["signal"])
    assert 55 <= seconds_of(cause["time"]) <= 56


def test_two_ranks_fail_of_their_own_causes_in_the_same_second(tmp_path):
    """Whole seconds cannot tell which was first: no rank is named, and each failed independently."""
    log = job(4).stops(60, 0, 3).names(60.1, 1, 1)
    states = {
        0: ("FAILED", -15, None),
        1: ("FAILED", 1, error_file("KeyError", "'labels'", 58)),
        2: ("FAILED", 1, error_file("ZeroDivisionError", "division by zero", 58)),
        3: ("FAILED", -15, None),
    }
    answer = why(tmp_path, ended(log, 60.2, states))
    assert None is answer["attempts"][0]["cause"]["rank"]
    assert ("independent", "independent") == tuple(roles(answer["attempts"][0])[rank] for rank in (1, 2))


def test_two_ranks_fail_of_their_own_causes_seconds_apart(tmp_path):
    """Rank 2 raised at 50 s, rank 1 at 55 s, and the agent looked at 60 s: the older one was first."""
    log = job(3).names(60, 1, 1)
    states = {
        0: ("FAILED", -15, None),
        1: ("FAILED", 1, error_file("KeyError", "'labels'", 55)),
        2: ("FAILED", 1, error_file("ZeroDivisionError", "division by zero", 50)),
    }
    answer = why(tmp_path, ended(log, 60.2, states))
    assert [("exception", 2)] == causes(answer)
    assert "independent" == roles(answer["attempts"][0])[1]


def test_early_exit_with_code_0_while_the_others_wait(tmp_path):
    """Rank 2 left with code 0; the others lost it. torch's last states say SUCCEEDED of nobody else."""
    log = job(3).stops(60, 1).names(60.1, 0, 1)
    states = {
        0: ("FAILED", 1, error_file("RuntimeError", PEER_CLOSED, 58)),
        1: ("FAILED", -15, None),
        2: ("FAILED", 0, None),
    }
    answer = why(tmp_path, ended(log, 60.2, states))
    cause = answer["attempts"][0]["cause"]
    assert ("left_early", 2, 0) == (cause["kind"], cause["rank"], cause["exit_code"])
    assert cause["confidence"] in ("likely", "suspected")


def test_the_only_rank_that_no_watchdog_ended_had_left_with_code_0(tmp_path):
    """It is not said to have stalled: its record says that it ended well."""
    log = job(3).names(660, 0, -6)
    words = {rank: error_file("RuntimeError", WATCHDOG.format(rank=rank), 659) for rank in range(2)}
    states = {rank: ("FAILED", -6, words[rank]) for rank in range(2)}
    cause = why(tmp_path, ended(log, 660.2, {**states, 2: ("SUCCEEDED", 0, None)}))["attempts"][0]["cause"]
    assert ("left_early", 2, 0) == (cause["kind"], cause["rank"], cause["exit_code"])
