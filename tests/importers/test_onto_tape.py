"""Foreign records on the shelf: runs, names, counts, and importing again."""

import json
import stat
import subprocess
import sys

import pytest

from jobtape.errors import ImportFailed
from jobtape.importers import import_files
from jobtape.tape.shelf import find_run, read_run
from tests.importers.lines import FAILED_LINE, block, event, glog, imported, rdzv, written


def runs_of(tapes):
    """For each tape file its run, and the lines its records came from."""
    return {
        tape.header.run_id: [int(r.origin.rpartition(":")[2]) for r in tape.records if hasattr(r, "origin")]
        for tape in tapes
    }


def test_tape_file_of_an_import(tmp_path):
    """Header, sequence and close are those of a tape, and say where it came from."""
    shelf = imported(tmp_path, event(time=1794404220.5), event(time=1794404219.5), "other", b"\xff")
    (tape,) = shelf.tapes
    header = tape.header
    assert ("job-7", "node-a", "records", "import") == (header.run_id, header.host, header.host_from, header.role)
    assert (1794404219500000000, "node-a.log") == (header.time_ns, header.source_file)
    assert [1, 2, 3, 4, 5] == [record.seq for record in tape.records]
    close = tape.records[-1]
    assert ("imported", 2, 1) == (close.reason, close.recorded, close.lost)
    assert (1, 1) == (shelf.losses["damaged_line"].count, shelf.losses["foreign_line"].count)
    assert "node-a.log:4" == shelf.losses["damaged_line"].detail
    assert "node-a-import-" == tape.path.name[:14]
    assert 0o700 == stat.S_IMODE(tape.path.parent.stat().st_mode)
    assert 0o600 == stat.S_IMODE(tape.path.stat().st_mode)


def test_lines_belong_to_the_run_around_them(tmp_path):
    """A line that names no run is of the run before it, at the start of a file of the first one."""
    failed = [glog(FAILED_LINE, time=f"0217 09:30:0{second}.019000") for second in range(3)]
    shelf = imported(
        tmp_path,
        failed[0],
        event(run_id="a"),
        failed[1],
        rdzv(run_id="b"),
        failed[2],
        event(run_id=None),
        "x",
        event(run_id="a"),
    )
    assert {"a": [1, 2, 3, 8], "b": [4, 5, 6]} == runs_of(shelf.tapes)
    assert [("a", "a", 4), ("b", "b", 3)] == shelf.report.runs
    assert (7, 1) == (shelf.report.records, shelf.report.foreign)


def test_console_goes_to_the_run_of_the_events(tmp_path):
    """The console log of a job, which names no run, joins the events that are imported with it."""
    files = [written(tmp_path / "b.events", event()), written(tmp_path / "a.console", glog(FAILED_LINE))]
    report = import_files(files, tmp_path / "shelf", "UTC")
    assert ([("job-7", "job-7", 2)], []) == (report.runs, report.warnings)


def test_console_alone_is_a_run_of_its_name(tmp_path):
    """A console log that no run is known for is called by its file's name, with a warning."""
    shelf = imported(tmp_path, glog(FAILED_LINE), name="big job.console.log")
    assert "big job.console" == shelf.report.runs[0][0]
    assert ["its records name no run; imported as run 'big job.console'"] == [
        text.partition(": ")[2] for text in shelf.report.warnings
    ]


def test_hostile_run_ids_are_kept_off_the_path(tmp_path):
    """Whatever a run is called, its directory lies on the shelf and its id is found as it was."""
    hostile = ["../../x", "/etc", "", ".", "a\nb", "x" * 300, "run \u2028 id", "latest", "\ud800"]
    shelf = imported(tmp_path, *(event(run_id=run_id) for run_id in hostile))
    assert {tmp_path / "shelf"} == {tape.path.parent.parent for tape in shelf.tapes}
    assert len(hostile) == len(shelf.tapes)
    assert {*hostile[:-1], "\\ud800"} == {tape.header.run_id for tape in shelf.tapes}


def test_importing_again_replaces(tmp_path):
    """The same content again leaves one tape file."""
    lines = [event(), glog(FAILED_LINE)]
    first = imported(tmp_path, *lines)
    again = imported(tmp_path, *lines, tz="+01:00")
    assert [tape.path for tape in first.tapes] == [tape.path for tape in again.tapes]
    assert 2 == len(again.records)


@pytest.mark.parametrize("run_id", ["job-7", "none"])
def test_importing_a_file_that_has_grown_replaces(tmp_path, run_id):
    """A log imported while the job ran and again after leaves one tape file, with all of it."""
    lines = [event(rank=rank, run_id=run_id) for rank in range(8)]
    cut = block((0, 1, "text")).split("\n")
    imported(tmp_path, *lines, cut[0])
    imported(tmp_path, *lines, *cut[:-3])
    grown = imported(tmp_path, *lines, *cut, event("FAILED", run_id=run_id))
    assert (1, 10) == (len(grown.tapes), len(grown.records))


def test_other_file_of_the_same_name_stays(tmp_path):
    """Two nodes' logs that have the same name are two files."""
    imported(tmp_path, *(event(rank=rank) for rank in range(8)))
    both = imported(tmp_path, *(event(rank=rank) for rank in range(4, 12)))
    assert 2 == len(both.tapes)


def test_same_content_twice_is_imported_once(tmp_path):
    """A copy among the files does not double the events."""
    files = [written(tmp_path / name, event()) for name in ("a.log", "copy.log")]
    report = import_files(files, tmp_path / "shelf", "UTC")
    assert (1, 2, 1) == (report.records, report.files, len(list((tmp_path / "shelf").glob("*/*"))))
    assert [f"{files[1]}: same content as {files[0]}, imported once"] == report.warnings


def test_jobs_without_a_run_id_are_kept_apart(tmp_path):
    """Imports of jobs that have torch's default run id are different runs, the files of one import are one."""
    names = [
        [written(tmp_path / f"{job}{node}", event(rank=node, run_id="none", job=job)) for node in (0, 1)]
        for job in "ab"
    ]
    for files in names:
        import_files(files, tmp_path / "shelf", "UTC")
    directories = sorted((tmp_path / "shelf").iterdir())
    assert [2, 2] == [len(list(directory.iterdir())) for directory in directories]
    assert 2 == len(read_run(find_run(tmp_path / "shelf", "none")))


def test_most_frequent_host_is_the_files(tmp_path):
    """The host is the one the records name most, whoever else is mentioned."""
    lines = [
        event(),
        rdzv(hostname="node-b"),
        rdzv(hostname="node-b"),
        event(source="LAUNCHER"),
        event(source="LAUNCHER"),
    ]
    assert "node-b" == imported(tmp_path, *lines).tapes[0].header.host


def test_many_damaged_lines_are_counted_and_some_named(tmp_path):
    """The loss record names the first damaged lines and counts all."""
    loss = imported(tmp_path, event(), *[b"\xff"] * 50).losses["damaged_line"]
    assert (50, True) == (loss.count, loss.detail.endswith("node-a.log:21, and 30 more"))


def test_record_too_long_for_a_tape_is_counted(tmp_path, monkeypatch):
    """What would be damage to the tape's reader is not written."""
    monkeypatch.setattr("jobtape.importers.onto_tape.MAX_LINE_BYTES", 1000)
    shelf = imported(tmp_path, event(), event(text="x" * 1000))
    assert (1, 1) == (len(shelf.records), shelf.losses["damaged_line"].count)


def test_large_imports_spill_to_disk(tmp_path, monkeypatch):
    """More records than are held in memory come out the same."""
    monkeypatch.setattr("jobtape.importers.onto_tape.IN_MEMORY", 1000)
    shelf = imported(tmp_path, *(event(rank=rank) for rank in range(100)))
    assert list(range(100)) == [record.metadata["global_rank"] for record in shelf.records]


def test_unwritable_shelf_says_what_to_do(tmp_path):
    """A shelf that is a file, or a run's directory that is a link, is one line that names the way out."""
    source = written(tmp_path / "a.log", event())
    with pytest.raises(ImportFailed, match=r"cannot write to .*--dir or JOBTAPE_DIR"):
        import_files([source], source)
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / "job-7").symlink_to(tmp_path)
    with pytest.raises(ImportFailed, match=r"cannot write to .*a link, which is not followed"):
        import_files([source], tmp_path / "shelf")
    assert [] == list(tmp_path.glob("*.jsonl"))


def test_full_disk_while_reading_is_an_import_that_failed(tmp_path):
    """Running out of space, here by the limit of a file's size, is told in one line and leaves nothing."""
    source = written(tmp_path / "a.log", *(event(rank=rank, text="x" * 10_000) for rank in range(600)))
    code = (
        "import resource, signal, sys; from pathlib import Path; from jobtape.importers import import_files\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "import_files([sys.argv[1]], Path(sys.argv[2]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, source, tmp_path / "shelf"],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ImportFailed: cannot write to" in done.stderr.splitlines()[-1]
    assert ["a.log"] == [path.name for path in tmp_path.iterdir()]


def test_failed_import_leaves_nothing(tmp_path):
    """No shelf appears when there was nothing to put onto it, and no temporary file stays."""
    with pytest.raises(ImportFailed):
        import_files([written(tmp_path / "a.log", "text")], tmp_path / "shelf")
    assert ["a.log"] == [path.name for path in tmp_path.iterdir()]
    imported(tmp_path, event())
    assert [] == list((tmp_path / "shelf").rglob(".*"))


def test_records_are_strict_json(tmp_path):
    """Each line of the tape is strict JSON, whatever the record held."""
    shelf = imported(tmp_path, event(loss=float("nan"), text="\ud800"))

    def refuse(name):
        raise ValueError(name)

    for line in shelf.tapes[0].path.read_bytes().splitlines():
        json.loads(line, parse_constant=refuse)


def test_lines_shipped_twice_are_one_record(tmp_path):
    """A line that carries its own time and comes again word for word is foreign; one without a time is kept."""
    timed, bare = event(time=1794404220.5), event("FAILED")
    shelf = imported(tmp_path, timed, glog(FAILED_LINE), bare, timed, glog(FAILED_LINE), bare)
    assert {"job-7": [1, 2, 3, 6]} == runs_of(shelf.tapes)
    assert 2 == shelf.losses["foreign_line"].count


def test_a_line_without_a_run_belongs_to_the_run_of_its_process(tmp_path):
    """In a file of several runs the process a log line names decides, not which record stands before it."""
    shelf = imported(tmp_path, rdzv(run_id="a"), rdzv(run_id="b", pid=1790), glog(FAILED_LINE))
    assert {"a": [1, 3], "b": [2]} == runs_of(shelf.tapes)


def test_the_same_content_under_another_name_replaces_it(tmp_path):
    """A log that was renamed since its first import is not counted twice."""
    shelf = tmp_path / "shelf"
    for name in ("a.log", "b.log"):
        written(tmp_path / name, event(time=1794404220.5), event("FAILED", time=1794404221.5))
        import_files([tmp_path / name], shelf, "UTC")
    assert ["b"] == [path.name.partition("-import-")[0] for path in shelf.glob("*/*.jsonl")]
