"""What a file is read as: found out from its content, in directories too, and said."""

import os

import pytest

from jobtape.errors import ImportFailed
from jobtape.importers import formats
from jobtape.importers.formats import EXPECTED, READERS, Guess, guess
from tests.importers.lines import block, event, glog, imported, written
from tests.importers.sources import brought, cycle, dlrover, error_file, titan

DLROVER = dlrover("09:30:00.5", "dlrover-agent", "#agent_exit", "INSTANT", {"success": True})
FAILED = glog("failed (exitcode: 1) local_rank: 1 (pid: 1785) of binary: python")
JOINED = "The node 'n1_7_0' has joined round 0 of the rendezvous 'job-7' as rank 0 in a world of size 1."
NVRX = "2026-02-17 09:31:28,500 [INFO] [node-a] [workload:0(0) infra:0(0)] launcher.py:12 Stopping workers..."


@pytest.mark.parametrize(
    ("lines", "format_"),
    [
        ([event()], "torchelastic"),
        (["hello"] * 3000 + [FAILED], "torchelastic"),
        ([block((1, 1, "text"))], "torchelastic"),
        ([glog("[default] Rendezvous complete for workers. Result:")], "torchelastic"),
        ([glog(JOINED, writer="torch/distributed/elastic/rendezvous/dynamic_rendezvous.py:1")], "torchelastic"),
        (
            ["slurmstepd: error: *** JOB 812 ON n1 CANCELLED AT 2026-02-17T09:31:28 DUE TO TIME LIMIT ***"],
            "torchelastic",
        ),
        ([DLROVER], "dlrover"),
        (["[default0]:" + DLROVER], "dlrover"),
        ([titan("step_end", 1.0, 1)], "torchtitan"),
        ([NVRX], "nvrx"),
        (['{"message": {"message": "boom"}}'], "error-files"),
        (["hello"], None),
        ([], None),
        ([b"\0\xff" * 100], None),
        (['{"a": 1}'], None),
    ],
)
def test_content_tells(tmp_path, lines, format_):
    """The name of a file plays no part."""
    assert Guess(format_) == guess(written(tmp_path / "x", *lines))


def test_cycle_files_and_logs(tmp_path):
    """A cycle file is known by its fields, a cycle log by its name and the ranks before its lines."""
    assert "nvrx" == guess(cycle(tmp_path, 0, "09:30:00").rename(tmp_path / "copy.json")).format
    assert "nvrx" == guess(written(tmp_path / "a_cycle3.log", " 0: hello", "12: hello")).format
    assert guess(written(tmp_path / "b_cycle3.log", "hello")).format is None


def test_most_lines_win_and_the_others_are_said(tmp_path):
    """A file of two formats is read as what most of its lines are, of equals as the first known one."""
    assert Guess("dlrover", ("torchelastic",)) == guess(written(tmp_path / "a", DLROVER, FAILED, DLROVER))
    assert Guess("torchelastic", ("dlrover",)) == guess(written(tmp_path / "b", DLROVER, FAILED))
    report = brought(tmp_path, tmp_path / "b").report
    assert f"{tmp_path}/b: read as torchelastic; it holds lines of dlrover too" == report.warnings[0]


def test_directory_of_everything(tmp_path):
    """What is of a known format is read, the rest is counted, and links are not followed."""
    root = tmp_path / "all"
    error_file(root / "torchelastic_k2" / "job-7_ab12cd34", 0, 1, "ValueError: bad")
    written(root / "node-a.log", event(time=1771320600.0))
    written(root / "notes.txt", "hello")
    written(root / "weights.pt", event())
    for name, line in (("events_0.log", DLROVER), ("t.jsonl", titan("step_end", 1.0, 1))):
        written(root / name, line)
    cycle(root / "nvrx", 0, "09:30:00")
    (root / "again").symlink_to(root / "nvrx")
    (root / "linked.log").symlink_to(root / "node-a.log")
    found = brought(tmp_path, root)
    assert set(READERS) == {name for _, name in found.report.formats}
    assert (5, 1) == (found.report.files, found.report.passed_over)
    # torch's run id goes before what other programs call the job, and before none.
    assert ["job-7"] == [run_id for run_id, _, _ in found.report.runs]


def test_one_format_of_a_directory(tmp_path):
    """A format that is named leaves the others in a directory alone."""
    (tmp_path / "d").mkdir()
    written(tmp_path / "d" / "a.log", event())
    written(tmp_path / "d" / "events_0.log", DLROVER)
    report = brought(tmp_path, tmp_path / "d", format_="dlrover").report
    assert [(f"{tmp_path}/d/events_0.log", "dlrover")] == report.formats
    assert 1 == report.passed_over


def test_tapes_and_the_shelf_are_left_alone(tmp_path):
    """An import of a directory does not import what imports have made."""
    imported(tmp_path, event())
    tape = next((tmp_path / "shelf").glob("*/*.jsonl"))
    assert Guess(None) == guess(tape)
    again = brought(tmp_path, tmp_path)
    assert [f"{tmp_path}/node-a.log"] == [path for path, _ in again.report.formats]
    assert 0 == again.report.passed_over


def test_one_file_named_twice(tmp_path):
    """A file that is named and lies in a directory that is named is read once."""
    path = written(tmp_path / "node-a.log", event())
    assert 1 == brought(tmp_path, path, tmp_path, path).report.files


def test_nothing_fits(tmp_path):
    """One line names the formats that are known."""
    path = written(tmp_path / "x.log", "hello")
    with pytest.raises(ImportFailed) as failure:
        brought(tmp_path, path)
    assert all(name in str(failure.value) for name in EXPECTED)
    assert "\n" not in str(failure.value)
    with pytest.raises(ImportFailed, match=r"no torchtitan record in .*expected JSONL.*check --format"):
        brought(tmp_path, path, format_="torchtitan")


def test_directories_are_bounded(tmp_path, monkeypatch):
    """A directory of too many files is refused, and one too deep is not looked into."""
    deep = tmp_path.joinpath("deep", *"abcdefghijklmnopqrst")
    deep.mkdir(parents=True)
    written(deep / "a.log", event())
    with pytest.raises(ImportFailed, match="no record of a known format"):
        brought(tmp_path, tmp_path / "deep")
    monkeypatch.setattr(formats, "MOST_FILES", 3)
    with pytest.raises(ImportFailed, match="more than 3 files"):
        brought(tmp_path, tmp_path / "deep")


def test_files_in_a_directory_that_cannot_be_read(tmp_path):
    """A FIFO or a broken link in a directory is no reason to wait or to fail."""
    written(tmp_path / "node-a.log", event())
    os.mkfifo(tmp_path / "b.log")
    (tmp_path / "c.log").symlink_to("nowhere")
    assert 1 == brought(tmp_path, tmp_path).report.files


def test_every_format_of_the_command_is_one_that_is_read():
    """The command's choices are the readers."""
    from jobtape.cli.import_ import FORMATS

    assert ["auto", *READERS] == list(FORMATS) == ["auto", *EXPECTED]
