"""Import of DLRover's training events."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobtape.importers import dlrover as importer
from jobtape.importers.process_failures import failure_metadata, read_failures
from tests.importers.lines import written
from tests.importers.sources import TRACE, brought, brought_or_refused, dlrover, failed, rendezvous, step

AGENT = [
    dlrover("09:30:00.000001", "dlrover-agent", "#agent_start", "INSTANT", {"params": {"nproc_per_node": 2}}),
    rendezvous("09:30:03.000001", 1),
    failed("09:31:30.000001"),
    rendezvous("09:31:33.000001", 2),
    dlrover("09:35:33.000001", "dlrover-agent", "#process_succeeded", "INSTANT", {"node_rank": 0}),
    dlrover("09:35:34.000001", "dlrover-agent", "#agent_exit", "INSTANT", {"success": True}),
]


def trainer(rank):
    """The lines of a rank's two processes: three steps and a failure, then five steps, a checkpoint and an end."""
    before = [line for n in range(3) for line in step(30, 40 + 2 * n, n + 1, pid=201 + rank)]
    after = [line for n in range(5) for line in step(31, 40 + 2 * n, n + 1, pid=301 + rank)]
    saved = [
        dlrover("09:32:01.0", "AtorchTrainerV2", "#save", "BEGIN", {"global_step": 5}, pid=301 + rank, span="k"),
        dlrover("09:32:11.0", "AtorchTrainerV2", "#save", "END", {"global_step": 5}, pid=301 + rank, span="k"),
        dlrover("09:32:12.0", "AtorchTrainerV2", "#finish", "INSTANT", pid=301 + rank),
    ]
    return before + after + saved


@pytest.fixture
def job(tmp_path):
    """A node's directory of events: the agent and rank 0 in one file, as DLRover writes them, and rank 1."""
    folder = tmp_path / "llama" / "events"
    folder.mkdir(parents=True)
    written(folder / "events_0.log", *AGENT, *trainer(0))
    written(folder / "events_1.log", *trainer(1))
    return folder


def test_a_restarted_job(tmp_path, job):
    """Attempts, the rank that failed and why, steps of every rank, and the end are known."""
    found = brought(tmp_path, job)
    run = found.run
    assert ("succeeded", 1, 1) == (run.state, run.nodes, run.restarts.failure)
    first, second = run.attempts
    assert ("failed", "exception", 1, "pod-0", "bad", 1, 202, 0) == (
        first.outcome,
        first.cause.kind,
        first.cause.rank,
        first.cause.host,
        first.cause.message,
        first.cause.exit_code,
        first.cause.pid,
        first.round,
    )
    assert ("succeeded", 2, [5, 5]) == (second.outcome, second.world_size, [rank.step for rank in second.ranks])
    assert [3, 3] == [rank.step for rank in first.ranks]
    assert [f"{job}: the records name no run; imported as run 'llama'"] == found.report.warnings


def test_what_the_events_become(tmp_path, job):
    """Spans have the time account's names, what is foreign has its own, and every content is kept."""
    found = brought(tmp_path, job)
    names = {record.name for record in found.records}
    assert {"step", "checkpoint_save", "jobtape.attempt.start", "jobtape.worker.failure", "jobtape.launch.end"} <= names
    assert "dlrover.dlrover-agent.agent_start" in names
    (end,) = [
        r
        for r in found.records
        if r.name == "checkpoint_save" and r.origin.startswith("events_1") and "span.outcome" in r.metadata
    ]
    assert ("end", "k", "ok", 10.0, 5, 1) == (
        end.metadata["span.phase"],
        end.metadata["span.id"],
        end.metadata["span.outcome"],
        end.metadata["span.duration_s"],
        end.metadata["global_step"],
        end.metadata["rank"],
    )


def test_trainers_alone(tmp_path):
    """Without an agent's file a rank that is seen again begins the next attempt."""
    for rank in (0, 1):
        written(tmp_path / f"events_{rank}.log", *trainer(rank))
    run = brought(tmp_path, tmp_path / "events_0.log", tmp_path / "events_1.log").run
    assert [2, 2] == [len(attempt.ranks) for attempt in run.attempts]
    assert ["unknown", "succeeded"] == [attempt.outcome for attempt in run.attempts][
        -2:
    ] or "membership" == run.attempts[0].outcome


def test_an_exception_of_a_trainer(tmp_path):
    """What its exception hook wrote is the worker's own word; of ranks 0 to 2 there is no record."""
    stack = TRACE.format("RuntimeError: boom").splitlines(keepends=True)
    lines = [
        *step(30, 40, 1, pid=7),
        dlrover("09:30:45.25", "ErrorReporter", "exception", "INSTANT", {"stack": stack, "pid": 7}, pid=7),
    ]
    (attempt,) = brought(tmp_path, written(tmp_path / "events_3_7.log", *lines)).run.attempts
    assert ("exception", 3, "RuntimeError", "boom", "likely") == (
        attempt.cause.kind,
        attempt.cause.rank,
        attempt.cause.error_type,
        attempt.cause.message,
        attempt.cause.confidence,
    )


def test_restart_for_new_nodes(tmp_path):
    """A restart for membership is no failure."""
    lines = [
        rendezvous("09:30:03.0", 1),
        dlrover(
            "09:31:30.0", "dlrover-agent", "#process_restart_membership", "INSTANT", {"node_rank": 0, "failures": "{}"}
        ),
        rendezvous("09:31:33.0", 2),
    ]
    run = brought(tmp_path, written(tmp_path / "events_0.log", *lines)).run
    assert ("membership", 1, 0) == (run.attempts[0].outcome, run.restarts.membership, run.restarts.failure)


def test_failure_that_names_nobody(tmp_path):
    """Where the failures cannot be read the attempt has failed all the same, and nobody is blamed."""
    lines = [
        rendezvous("09:30:03.0", 1),
        dlrover(
            "09:31:30.0",
            "dlrover-agent",
            "#process_fail",
            "INSTANT",
            {"node_rank": 0, "failures": "{0: object at 0x1}"},
        ),
    ]
    (attempt,) = brought(tmp_path, written(tmp_path / "events_0.log", *lines)).run.attempts
    assert ("failed", None) == (attempt.outcome, attempt.cause and attempt.cause.rank)


def test_network_check_is_no_attempt(tmp_path):
    """The rendezvous before the network check starts no workers of the job."""
    lines = [rendezvous("09:30:01.0", 1, kind="network-check"), rendezvous("09:30:03.0", 1)]
    assert 1 == len(brought(tmp_path, written(tmp_path / "events_0.log", *lines)).run.attempts)


def test_master_names_the_job(tmp_path, job):
    """The master's job name is the run of all files imported with it."""
    master = dlrover("09:29:00.0", "dlrover-master", "#job_train", "BEGIN", {"job_name": "llama-7b"}, pid=1)
    found = brought(tmp_path, job, written(tmp_path / "events_master.log", master))
    assert ["llama-7b"] == [run_id for run_id, _, _ in found.report.runs]
    assert [] == found.report.warnings


def test_objects_and_lines_without_a_process(tmp_path):
    """Events as JSON objects, and those of earlier versions without a process id, mean the same."""
    fields = {"event_id": "a", "event_time": "2026-02-17T09:30:00.5", "target": "AtorchTrainerV2", "name": "#step"}
    lines = [
        json.dumps({**fields, "event_type": "BEGIN", "content": {"global_step": 1}, "pid": "9", "node": "x"}),
        json.dumps({**fields, "event_type": "END", "content": {"global_step": 2}, "pid": 9}),
    ]
    found = brought(tmp_path, written(tmp_path / "events_4_9.log", *lines))
    assert [("begin", {"node": "x"}), ("end", {})] == [(r.metadata["span.phase"], r.extra) for r in found.records]
    assert [({"RANK": "4"}, 9)] == [(tape.header.ranks, tape.header.pid) for tape in found.tapes]
    old = "[2026-02-17T09:30:00.5] [322] [AtorchTrainerV2] [#log] [INSTANT] {}"
    assert (None, "322") == importer.read_events(old)[0][0][1:3]


def test_local_time_needs_the_zone(tmp_path):
    """Times without a zone are read in that of --tz, those with one as they stand."""
    lines = [dlrover("09:30:00.5", "T", "#log", "INSTANT"), dlrover("09:30:01+00:00", "T", "#log", "INSTANT", {"b": 1})]
    path = written(tmp_path / "events_0.log", *lines)
    first, second = brought(tmp_path, path, tz="America/New_York").records
    assert (1771338600_500_000_000, 1771320601_000_000_000) == (first.time_ns, second.time_ns)


def test_damage_and_foreign_lines(tmp_path):
    """Torn lines are counted and whole ones in them kept; other lines are passed over; repeated ones too."""
    whole = dlrover("09:30:00.5", "T", "#log", "INSTANT", {"text": "ein \u2028 Wort"})
    other = dlrover("09:30:01.5", "T", "#log", "INSTANT", {"n": 2})
    path = written(tmp_path / "events_0.log", whole, "hello", whole[:60], whole[:60] + other, whole, b"\xff\xfe[")
    found = brought(tmp_path, path)
    assert [{"text": "ein \u2028 Wort"}, {"n": 2}] == [
        {k: v for k, v in r.metadata.items() if k in ("text", "n")} for r in found.records
    ]
    assert (2, 3) == (found.losses["damaged_line"].count, found.losses["foreign_line"].count)


def test_failures_are_read_and_nothing_is_run():
    """torch's failures as Python writes them are read; calls and other things in their place are not."""
    text = "{1: ProcessFailure(local_rank=1, pid=12, exitcode=-9, error_file='<N/A>', message='Signal 9', timestamp=5)}"
    assert {"rank": 1, "local_rank": 1, "pid": 12, "exit_code": -9, "message": "Signal 9"} == failure_metadata(
        1, read_failures(text)[1]
    )
    for hostile in ("{1: __import__('os').system('x')}", "{1: ProcessFailure(pid=open('/x'))}", "{" * 10_000, "{1:", 7):
        assert {} == {k: v for k, v in read_failures(hostile).items() if v}


@settings(max_examples=80, deadline=None)
@given(
    data=st.lists(
        st.sampled_from([*AGENT, *trainer(0)[:6], failed("09:31:30.0", code=-11)]).map(str.encode)
        | st.binary(max_size=80)
        | st.sampled_from(AGENT).flatmap(lambda s: st.integers(0, len(s)).map(lambda n: s[n:].encode())),
        max_size=12,
    )
)
def test_no_bytes_make_the_import_raise(tmp_path_factory, data):
    """Whatever a file holds, the import ends well or says what is wrong, and the diagnosis answers."""
    folder = tmp_path_factory.mktemp("any")
    (folder / "events_0.log").write_bytes(b"\n".join(data))
    brought_or_refused(folder, folder / "events_0.log", format_="dlrover")
