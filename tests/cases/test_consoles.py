"""torchrun's console and nothing else: what it does not say is not made up, and what it says is not lost."""

import json

import pytest

from jobtape.diagnose.account import account_of, seconds
from jobtape.diagnose.reading import read_facts
from jobtape.diagnose.reconstruct import story_of
from jobtape.importers import import_files
from jobtape.tape.shelf import find_run, read_run
from tests.cases.agent_log import PEER_CLOSED, AgentLog, causes, outcomes, restarts, roles, warning_kinds, why
from tests.importers.lines import block

AGENT = "agent/server/api.py:942"


def console(pid=4100):
    """The console of one node; nothing on it says when workers were started, nor how large the world is."""
    return AgentLog("c", pid)


def raised(rank, kind="ValueError", said="bad row", label=None):
    """An uncaught exception as torch prints it."""
    mark = f"[rank{rank}]: " if label is None else label
    trace = ("Traceback (most recent call last):", '  File "/srv/t.py", line 3, in main', "    step()")
    return [f"{mark}{line}" for line in (*trace, f"{kind}: {said}")]


def failing(t, *pids, rank=None, code=1, local_rank=1, kind="ValueError", said="bad row"):
    """A node's lines when a worker fails: the first process id is its, the others are stopped."""
    log = console().raw(*(raised(rank, kind, said) if rank is not None else ()))
    for pid in pids[1:]:
        log.log(t, f"Sending process {pid} closing signal SIGTERM")
    named = f"failed (exitcode: {code}) local_rank: {local_rank} (pid: {pids[0]}) of binary: /usr/bin/python"
    return log.log(t + 0.2, named, "E", "multiprocessing/api.py:1002").lines


def ended_well(t):
    """The line of an agent whose workers ended well."""
    said = "[default] worker group successfully finished. Waiting 300 seconds for other agents to finish."
    return console().log(t, said, "I", AGENT).lines


def test_a_success_of_which_no_start_is_on_the_record(tmp_path):
    """The agent says that its workers ended well: some were started."""
    log = console().log(1, "[default] Rendezvous'ing worker group", "I", AGENT).raw(*ended_well(90))
    answer = why(tmp_path, log, run_id="0-c")
    assert ("succeeded", ["succeeded"], [None]) == (answer["state"], outcomes(answer), causes(answer))


def test_a_success_after_a_failure_is_another_attempt(tmp_path):
    """No line tells of the restart; workers that failed did not end well as well."""
    log = console().raw(*failing(60, 12, 11, rank=1), *ended_well(120))
    answer = why(tmp_path, log, run_id="0-c")
    assert ("succeeded", ["failed", "succeeded"], (1, 0, 0)) == (answer["state"], outcomes(answer), restarts(answer))
    assert "partial_failure" not in warning_kinds(answer)


@pytest.mark.parametrize(("speakers", "rank"), [((9,), 9), ((9, 10), None)], ids=["one", "two"])
def test_whose_exception_it_was_before_any_rank_is_named(tmp_path, speakers, rank):
    """The one rank that printed an uncaught exception is the one worker that the agent names; of two nothing tells."""
    log = console().raw(*(line for speaker in speakers for line in raised(speaker))).raw(*failing(60, 12, 11))
    answer = why(tmp_path, log, run_id="0-c")
    cause = answer["attempts"][0]["cause"]
    expected = ("exception", rank, "ValueError", "likely") if rank is not None else ("exit_code", None, None)
    assert expected == tuple(cause[key] for key in ("kind", "rank", "error_type", "confidence")[: len(expected)])


def test_an_exception_is_not_given_to_a_worker_that_ended_otherwise(tmp_path):
    """Rank 9 raised; the worker that the agent names was killed."""
    log = console().raw(*failing(60, 12, 11, rank=9, code=-9))
    assert [("signal", None)] == causes(why(tmp_path, log, run_id="0-c"))


def test_a_victim_on_the_only_node_with_a_console(tmp_path):
    """Rank 2 lost a peer that left no record: it is collateral, and nobody is blamed."""
    log = console().raw(*failing(60, 12, 11, rank=2, local_rank=0, kind="RuntimeError", said=PEER_CLOSED))
    log.raw(*block((2, 1, "To enable traceback see: …")).replace("(pid: 2172)", "(pid: 12)").splitlines())
    answer = why(tmp_path, log, run_id="0-c")
    assert ([("unknown", None)], {2: "collateral"}) == (causes(answer), roles(answer["attempts"][0]))


def test_a_wordless_exit_beside_ranks_without_a_record_is_not_certain(tmp_path):
    """Rank 10 exited with 1 and said nothing; nothing is known of the ranks of other nodes."""
    log = console().raw(*failing(60, 2180, 11, 13), *block((10, 1, "To enable traceback see: …")).splitlines())
    cause = why(tmp_path, log, run_id="0-c")["attempts"][0]["cause"]
    assert ("exit_code", 10, "suspected") == tuple(cause[key] for key in ("kind", "rank", "confidence"))


def test_every_line_coloured_as_a_whole(tmp_path):
    """A viewer put colours around each line: the traceback, the closing block and the times are read all the same."""
    lines = [*failing(60, 2171, 11, rank=1), *block((1, 1, "To enable traceback see: …")).splitlines()]
    plain = why(tmp_path, console().raw(*lines), run_id="0-c")
    (tmp_path / "coloured").mkdir()
    coloured = why(tmp_path / "coloured", console().raw(*(f"\x1b[31m{line}\x1b[0m" for line in lines)), run_id="0-c")
    assert [("exception", 1)] == causes(plain)
    assert json.dumps(plain["attempts"]) == json.dumps(coloured["attempts"])


def test_time_between_failures_of_which_no_start_is_known(tmp_path):
    """Three failures a minute apart: that the job took that long to restart is not on the record."""
    lines = [line for number in range(3) for line in failing(60 * (number + 1), 12 + 10 * number, 11 + 10 * number)]
    (tmp_path / "c.log").write_text("\n".join(lines) + "\n")
    import_files([tmp_path / "c.log"], tmp_path / "shelf", "UTC")
    account = account_of(story_of([read_facts(tape) for tape in read_run(find_run(tmp_path / "shelf", "c"))]))
    spent = {name: round(value, 3) for name, value in seconds(account.sums).items() if value}
    assert {"unattributed": 120.0, "teardown": 0.2} == spent
