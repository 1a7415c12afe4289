"""Files as they really are: damaged, with fields from elsewhere, and with texts that look like records."""

import json

from jobtape.diagnose.model import to_json
from jobtape.diagnose.reconstruct import diagnose
from jobtape.importers import import_files
from jobtape.tape.shelf import find_run, read_run
from tests.cases.agent_log import AgentLog, causes, error_file, outcomes, restarts, roles, warning_kinds, why


def failing(style="glog", message="bad row", ranks=2, **more):
    """One node whose rank 1 raises a ValueError with that message."""
    log = AgentLog("box-2", 210, style=style, **more).attempt(1, list(range(ranks)))
    others = [rank for rank in range(ranks) if rank != 1]
    log.stops(60, *others).names(60.1, 1, 1)
    states = dict.fromkeys(others, ("FAILED", -15, None))
    states[1] = ("FAILED", 1, error_file("ValueError", message, 59))
    return log.ends(60.2, dict(sorted(states.items()))).returns(60.3)


def written(tmp_path, log, data):
    """Ask about a file of these bytes."""
    path = tmp_path / f"{log.host}.log"
    path.write_bytes(data)
    import_files([path], tmp_path / "shelf", "UTC")
    return to_json(diagnose(read_run(find_run(tmp_path / "shelf", log.run_id)), run_id=log.run_id))


def test_a_block_of_nuls_in_the_middle_of_a_record(tmp_path):
    """A file system lost a block within one START record; the failure after it is intact."""
    log = failing("time", ranks=3)
    lines = [line.encode() for line in log.lines]
    torn = next(n for n, line in enumerate(lines) if b'"global_rank": 2' in line and b'"START"' in line)
    lines[torn] = lines[torn][:40] + bytes(4096) + lines[torn][200:]
    answer = written(tmp_path, log, b"\n".join(lines) + b"\n")
    assert [("exception", 1)] == causes(answer)
    assert "damaged_file" in warning_kinds(answer)
    assert 1 <= answer["loss"]["damaged_lines"]


def test_a_file_whose_last_record_is_torn(tmp_path):
    """The disk was full: the last line ends in the middle of rank 1's error."""
    log = AgentLog("box-2", 210, style="time").attempt(1, [0, 1]).fails(60, 1, 1, others=[0], left=0, restart=False)
    log.ends(60.2, {0: ("FAILED", -15, None), 1: ("FAILED", 1, error_file("ValueError", "bad", 59))})
    data = "\n".join(log.lines).encode()
    answer = written(tmp_path, log, data[: -len(log.lines[-1]) // 2])
    assert [("exit_code", 1)] == causes(answer)
    assert "damaged_file" in warning_kinds(answer)


def test_two_records_on_one_line(tmp_path):
    """Two processes wrote to one file without a lock: both records count."""
    log = failing("time")
    joined = [*log.lines[:-3], log.lines[-3] + log.lines[-2], log.lines[-1]]
    answer = written(tmp_path, log, "\n".join(joined).encode() + b"\n")
    assert ([("exception", 1)], {0: "stopped", 1: "first"}) == (causes(answer), roles(answer["attempts"][0]))


def test_a_file_with_windows_line_ends_and_a_byte_order_mark(tmp_path):
    """Somebody opened the log in an editor: nothing of it is lost."""
    log = failing("glog")
    answer = written(tmp_path, log, b"\xef\xbb\xbf" + "\r\n".join(log.lines).encode() + b"\r\n")
    assert [("exception", 1)] == causes(answer)


def test_a_rendezvous_record_that_lost_its_host(tmp_path):
    """One byte of a key is gone: the agent with that process id is no other one for it."""
    log = failing("time")
    lost = next(n for n, line in enumerate(log.lines) if "has joined round" in line)
    log.lines[lost] = log.lines[lost].replace('"hostname"', '"h\ufffdstname"')
    answer = why(tmp_path, log)
    assert ([("exception", 1)], 1, set()) == (causes(answer), answer["nodes"], warning_kinds(answer))


def test_fields_of_a_shipper_around_every_record(tmp_path):
    """A log shipper added top-level fields with torch's own names inside: they change nothing."""
    log = failing("time")
    shipped = [
        json.dumps(
            {**json.loads(line), "kubernetes": {"pod": "p", "state": "FAILED"}, "level": "error", "exit_code": 9}
        )
        if line[:1] == "{"
        else line
        for line in log.lines
    ]
    log.lines = shipped
    answer = why(tmp_path, log)
    assert ([("exception", 1)], (0, 0, 0)) == (causes(answer), restarts(answer))


def test_records_of_an_unknown_source_change_nothing(tmp_path):
    """A site's own launcher writes events of its own, with states and counters that look like torch's."""
    log = AgentLog("box-2", 210, style="time").attempt(1, [0, 1])
    for t in (5, 20):
        log.event(t, "FAILED", "LAUNCHER", raw_error="node check", agent_restarts=7)
    log.succeeds(60)
    answer = why(tmp_path, log)
    assert ("succeeded", [None], (0, 0, 0)) == (answer["state"], causes(answer), restarts(answer))


def test_a_run_id_with_everything_in_it(tmp_path):
    """Slashes, dots, quotes, an escape character and a very long tail: one run, found by its id."""
    run_id = "../team a/λ:\x1b[31m'\"" + "x" * 300
    log = failing("time", run_id=run_id)
    answer = why(tmp_path, log, run_id=run_id)
    assert (run_id, [("exception", 1)]) == (answer["run_id"], causes(answer))


def forged(run_id="job-1"):
    """Lines that look like torch's, of another failure."""
    other = AgentLog("evil", 666, run_id=run_id).attempt(1, [0, 1, 2]).fails(2, 0, -9)
    other.ends(3, {0: ("FAILED", -9, None), 1: ("FAILED", 1, None), 2: ("FAILED", 1, None)}).signalled(4)
    return other.lines


def test_forged_lines_in_an_error_file(tmp_path):
    """The message of rank 1 holds a whole log of another failure; it is one message."""
    message = "bad row\n" + "\n".join(forged()) + "\u2028" + "\u0085".join(forged("other-run"))
    answer = why(tmp_path, failing("glog", message))
    assert ([("exception", 1)], ["failed"]) == (causes(answer), outcomes(answer))
    assert [0, 1] == [rank["rank"] for rank in answer["attempts"][0]["ranks"]]
    assert "evil" not in json.dumps(answer["attempts"][0]["nodes"])


def test_forged_lines_behind_a_workers_label(tmp_path):
    """torchrun --tee labels what a worker prints; a whole forged log behind the label is a worker's word."""
    log = AgentLog("box-2", 210).attempt(1, [0, 1])
    log.raw(*[f"[default1]:{line}" for line in forged()], *[f"[rank0]: {line}" for line in forged("other-run")])
    log.succeeds(60)
    answer = why(tmp_path, log)
    assert ("succeeded", [None], 1) == (answer["state"], causes(answer), answer["nodes"])


def test_forged_lines_in_the_closing_block(tmp_path):
    """torchrun prints the text of the error behind two blanks, line by line: all of it is text."""
    log = failing("glog")
    quoted = [f"  {line}" for line in forged()]
    rule = "=" * 60
    log.raw(rule, "train.py FAILED", "-" * 60, "Failures:", "  <NO_OTHER_FAILURES>", "-" * 60)
    log.raw("Root Cause (first observed failure):", "[0]:", "  time      : 2026-04-09_08:00:59", "  host      : box-2")
    log.raw("  rank      : 1 (local_rank: 1)", f"  exitcode  : 1 (pid: {log.pids[1]})", "  error_file: /tmp/e.json")
    log.raw("  traceback : Traceback (most recent call last):", *quoted, "  ValueError: bad row", "  ", rule)
    answer = why(tmp_path, log)
    assert ([("exception", 1)], 1, {0: "stopped", 1: "first"}) == (
        causes(answer),
        answer["nodes"],
        roles(answer["attempts"][0]),
    )
