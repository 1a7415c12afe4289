"""Import of NVRx's cycle files, cycle logs and its own log."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobtape.importers import nvrx
from jobtape.importers.nodelists import MOST, host_names
from tests.importers.lines import written
from tests.importers.sources import brought, brought_or_refused, cycle

HEAD = "2026-02-17 09:39:59,500 [ERROR] [node01] [workload:None(None) infra:0(0)] "
FAILED = HEAD + "api.py:12 failed (exitcode: 1) local_rank: 1 (pid: 77) of binary: /usr/bin/python"
NOTICED = (
    HEAD
    + "profiling.py:12   - Cycle: 0 Event: failure_detected Node: node01_4_0 Rank: 0 Time: 2026-02-17 09:39:59.400 UTC"
)


def test_cycles(tmp_path):
    """Cycles are attempts with their nodes and times; how they ended nobody says."""
    cycle(tmp_path / "nvrx", 0, "09:30:00.1", "09:40:00.2")
    cycle(tmp_path / "nvrx", 1, "09:41:00", "09:50:00")
    last = cycle(tmp_path / "nvrx", 2, "09:51:00")
    (tmp_path / "nvrx" / "cycle_info.991.current").symlink_to(last.name)
    found = brought(tmp_path, tmp_path / "nvrx")
    assert [("991", 3)] == [(run_id, count) for run_id, _, count in found.report.runs]
    assert [("unknown", 0, ("node01", "node02"))] * 1 == [(a.outcome, a.round, a.nodes) for a in found.run.attempts[:1]]
    assert [1771320600.1, 1771321260.0, 1771321860.0] == [a.started for a in found.run.attempts]
    assert [1771321200.2, 1771321800.0, None] == [a.ended for a in found.run.attempts]
    assert ("unknown", 2, 0) == (found.run.state, found.run.nodes, found.run.restarts.failure)


def test_fields_are_kept(tmp_path):
    """Unfolded nodes stand beside the fields as they were, unknown ones among them."""
    (record,) = brought(tmp_path, cycle(tmp_path, 0, "09:30:00", colour="red")).records
    assert (["node01", "node02"], ["node03"], "node[01-02]", "red", 0) == (
        record.metadata["nodes"],
        record.metadata["standby"],
        record.metadata["active_nodes"],
        record.metadata["colour"],
        record.metadata["cycle"],
    )


def test_failures_of_the_launchers_log(tmp_path):
    """The launcher's lines say which worker of which node failed, and when that was noticed."""
    cycle(tmp_path / "nvrx", 0, "09:30:00", "09:40:00")
    cycle(tmp_path / "nvrx", 1, "09:41:00", "09:50:00")
    log = written(tmp_path / "nvrx_log_node01.log", "hello", FAILED, NOTICED, NOTICED)
    found = brought(tmp_path, tmp_path / "nvrx", log)
    assert 2 == found.report.foreign
    first, second = found.run.attempts
    assert ("failed", "node01", 1, 1) == (
        first.outcome,
        first.cause.host,
        first.cause.local_rank,
        first.cause.exit_code,
    )
    assert ("unknown", 1) == (second.outcome, found.run.restarts.failure)


def test_cycle_log(tmp_path):
    """What a rank printed in a cycle is its word; on which of two nodes it was is not known."""
    cycle(tmp_path, 0, "09:30:00", "09:40:00")
    log = written(
        tmp_path / "train_cycle0.log",
        " 0: epoch 1",
        *(
            f" 5: {line}"
            for line in ("Traceback (most recent call last):", '  File "t.py", line 3, in f', "ValueError: bad")
        ),
        " 0: more",
    )
    found = brought(tmp_path, tmp_path / "cycle_info.991.0.0", log)
    assert ["nvrx", "nvrx"] == [name for _, name in found.report.formats]
    assert ["991"] == [run_id for run_id, _, _ in found.report.runs]
    (told,) = [record for record in found.records if record.name == "nvrx.worker_output"]
    assert (0, 5, "ValueError: bad") == (told.metadata["cycle"], told.metadata["rank"], told.metadata["message"])
    assert [(5, "", "unknown")] == [(r.rank, r.host, r.role) for r in found.run.attempts[0].ranks]


def test_a_cycle_file_that_was_closed_since_replaces(tmp_path):
    """Importing a cycle's file again when its end is known does not make two of it."""
    brought(tmp_path, cycle(tmp_path, 0, "09:30:00"))
    found = brought(tmp_path, cycle(tmp_path, 0, "09:30:00", "09:40:00", generation="2"))
    assert [1771321200.0] == [attempt.ended for attempt in found.run.attempts]
    assert 1 == len(found.records)


def test_job_that_slurm_restarted(tmp_path):
    """Each start of the job by Slurm counts its cycles from 0 anew."""
    cycle(tmp_path / "n", 0, "09:30:00", "09:40:00")
    cycle(tmp_path / "n", 0, "10:30:00", "10:40:00", attempt_index=1)
    run = brought(tmp_path, tmp_path / "n").run
    assert [0, 0] == [attempt.round for attempt in run.attempts]


@pytest.mark.parametrize(
    "change", [{"cycle_start_time": 7}, {"cycle_start_time": "soon"}, {"active_nodes": 3, "job_id": 1}]
)
def test_damaged_cycle_files(tmp_path, change):
    """A time that is none is none, and a field of another type makes nothing raise."""
    path = cycle(tmp_path, 0, "09:30:00")
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    found = brought_or_refused(tmp_path, path, format_="nvrx")
    assert found is None or "active_nodes" in change or [None] == [a.started for a in found.run.attempts]


def test_node_lists():
    """Slurm's node lists are unfolded, and what is none stays as it is."""
    assert ["a1", "a2", "b3"] == host_names("a[1-2],b3")
    assert ["n01x", "n02x"] == host_names("n[01-02]x")
    assert [f"r{r}n{n}" for r in (1, 2) for n in (7, 8)] == host_names("r[1-2]n[7-8]")
    assert ["n[1-x]", "n["] == host_names("n[1-x],n[")[:2]
    assert [f"n[0-{MOST}]"] == host_names(f"n[0-{MOST}]")
    assert [] == host_names("")


@settings(max_examples=80, deadline=None)
@given(
    data=st.lists(
        st.sampled_from([FAILED, NOTICED, " 1: Traceback (most recent call last):", " 1: ValueError: x"]).map(
            str.encode
        )
        | st.binary(max_size=80),
        max_size=10,
    ),
    name=st.sampled_from(["t_cycle3.log", "nvrx_log_a.log", "cycle_info.1.0.0"]),
)
def test_no_bytes_make_the_import_raise(tmp_path_factory, data, name):
    """Whatever a file holds, the import ends well or says what is wrong, and the diagnosis answers."""
    folder = tmp_path_factory.mktemp("any")
    (folder / name).write_bytes(b"\n".join(data))
    brought_or_refused(folder, folder / name, format_="nvrx")


@given(text=st.text(alphabet="n[]-,019", max_size=30))
def test_no_node_list_is_too_long(text):
    """A list never unfolds to more names than may be."""
    assert len(host_names(text)) <= MOST


def test_lines_that_are_of_nvrx():
    """Its log is known by its prefix and its profiling lines, and nothing else is."""
    known = [FAILED.encode(), NOTICED.partition("profiling.py:12 ")[2].encode()]
    assert [True, True, False, False] == [nvrx.fits(line) for line in [*known, b" 0: hello", b"[workload:"]]
