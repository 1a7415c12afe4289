"""Finding runs on a shelf."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobtape.errors import AmbiguousRun, RunNotFound, TapeError
from jobtape.tape.header import this_process
from jobtape.tape.names import safe_name
from jobtape.tape.records import Header, encode
from jobtape.tape.shelf import find_run, list_runs, read_run, shelf_dir
from jobtape.tape.writer import Writer

from .test_names import HOSTILE


def record(shelf: Path, run_id: str, *, name: str | None = None, second: int = 0, files: int = 1) -> Path:
    """A run whose first record is so many seconds after a fixed time."""
    directory = shelf / (safe_name(run_id) if name is None else name)
    for index in range(files):
        header = this_process(run_id, "worker")
        header.time_ns = (1_700_000_000 + second) * 10**9
        header.pid = 100 + index
        Writer(directory, header).close("exit")
    return directory


@pytest.mark.parametrize(
    ("given", "variable", "expected"), [("a", "b", "a"), (None, "b", "b"), (None, None, "jobtape")]
)
def test_where_the_shelf_is(
    given: str | None, variable: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory named, else the environment's, else ./jobtape."""
    if variable:
        monkeypatch.setenv("JOBTAPE_DIR", variable)
    assert Path(expected) == shelf_dir(given)


def test_runs_are_listed_oldest_first(tmp_path: Path) -> None:
    """By their first record, whatever their names are."""
    record(tmp_path, "a", second=20)
    record(tmp_path, "c", second=10, files=3)
    record(tmp_path, "b", second=30)
    assert [("c", 3), ("a", 1), ("b", 1)] == [(run.name, len(run.files)) for run in list_runs(tmp_path)]
    assert "b" == find_run(tmp_path).name == find_run(tmp_path, "latest").name
    assert 1_700_000_010 * 10**9 == list_runs(tmp_path)[0].started_ns


@pytest.mark.parametrize("run_id", HOSTILE)
def test_a_hostile_run_id_is_shown_as_it_was(run_id: str, tmp_path: Path) -> None:
    """And found by itself, except for `latest`, which is the newest run."""
    record(tmp_path, "other", second=10)
    record(tmp_path, run_id, second=5)
    shown = run_id.encode("utf-8", "backslashreplace").decode()
    runs = {run.run_id: run for run in list_runs(tmp_path)}
    assert {"other", shown} == set(runs)
    assert tmp_path == runs[shown].path.parent
    found = find_run(tmp_path, shown)
    assert ("other" if run_id == "latest" else shown) == found.run_id
    assert runs[shown].name == find_run(tmp_path, runs[shown].name).name


def test_a_run_is_found_by_a_unique_prefix(tmp_path: Path) -> None:
    """Of its id or of its directory's name."""
    record(tmp_path, "train-7b")
    record(tmp_path, "Läufe/1", name="weird~123")
    assert "train-7b" == find_run(tmp_path, "tra").name
    assert "weird~123" == find_run(tmp_path, "wei").name
    assert "weird~123" == find_run(tmp_path, "Läu").name


def test_an_exact_name_goes_before_a_longer_one(tmp_path: Path) -> None:
    """`job` is itself, not a prefix of `job-2`."""
    record(tmp_path, "job", second=0)
    record(tmp_path, "job-2", second=9)
    assert "job" == find_run(tmp_path, "job").name


def test_of_runs_with_one_id_the_newest_is_meant(tmp_path: Path) -> None:
    """torch's default id is `none` for every launch; each has its directory."""
    record(tmp_path, "none", name="none-20260101T000000-aaaa", second=5)
    record(tmp_path, "none", name="none-20260101T000009-bbbb", second=9)
    record(tmp_path, "none", name="none-20260101T000001-cccc", second=1)
    assert "none-20260101T000009-bbbb" == find_run(tmp_path, "none").name
    assert "none-20260101T000009-bbbb" == find_run(tmp_path, "no").name
    assert "none-20260101T000001-cccc" == find_run(tmp_path, "none-20260101T000001").name


def test_an_ambiguous_prefix_lists_what_it_fits(tmp_path: Path) -> None:
    """One line that says what to do."""
    for number in range(8):
        record(tmp_path, f"job-{number}", second=number)
    with pytest.raises(AmbiguousRun) as caught:
        find_run(tmp_path, "job")
    assert "job fits 8 runs: job-7, job-6, job-5, job-4, job-3 and 3 more; give more of the name" == str(caught.value)
    assert tuple(f"job-{number}" for number in range(8)) == caught.value.matches


@pytest.mark.parametrize("text", ["zzz", "", "../job-1", "job-1/", "/", "\x1b[2J\n", "x" * 5000, "a\0b"])
def test_a_run_that_is_not_there(text: str, tmp_path: Path) -> None:
    """One line that names what is there, harmless to a terminal."""
    record(tmp_path, "job-1")
    with pytest.raises(RunNotFound) as caught:
        find_run(tmp_path, text)
    assert "there are: job-1; `jobtape ls` shows all" in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_shelf_that_is_missing_or_empty(tmp_path: Path) -> None:
    """What to do stands in the error."""
    advice = "record a job with `torchrun --event-log-handler=tape …`, or name the directory with --dir or JOBTAPE_DIR"
    for directory in (tmp_path, tmp_path / "missing"):
        with pytest.raises(TapeError) as caught:
            find_run(directory)
        assert (f"no tape in {directory}: {advice}", str(directory)) == (str(caught.value), caught.value.path)
    assert [] == list_runs(tmp_path)


def test_a_shelf_that_is_a_file(tmp_path: Path) -> None:
    """It is named, and so is what would do."""
    (tmp_path / "file").write_text("")
    with pytest.raises(TapeError, match="is a file, not a directory of runs: name the directory with --dir"):
        list_runs(tmp_path / "file")


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    """Other directories, other files, links and pipes; a tape under another name counts."""
    directory = record(tmp_path, "job-1")
    (tmp_path / "file.jsonl").write_bytes(encode(Header(run_id="x")))
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "train.jsonl").write_text('{"text": "hello"}\n')
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(directory)
    (directory / "notes.txt").write_text("")
    (directory / "metrics.jsonl").write_text('{"loss": 1}\n')
    (directory / "subdirectory.jsonl").mkdir()
    os.mkfifo(directory / "pipe-1-20260101T000000000.jsonl")
    (directory / "link-1-20260101T000000000.jsonl").symlink_to(next(directory.glob("*.jsonl")))
    (directory / "copied.jsonl").write_bytes(encode(Header(run_id="job-1", host="b", time_ns=5)) + b"\n")
    (run,) = list_runs(tmp_path)
    assert ["copied.jsonl"] == [path.name for path in run.files if path.name[:4] in ("copi", "link", "pipe", "metr")]
    assert 2 == len(run.files)


def test_a_tape_without_a_readable_header_is_still_a_run(tmp_path: Path) -> None:
    """Its name says what it is; its run is then called as its directory."""
    (tmp_path / "job-1").mkdir()
    (tmp_path / "job-1" / "node-a-17-20260101T000000000.jsonl").write_bytes(b"")
    (run,) = list_runs(tmp_path)
    assert ("job-1", "job-1", None) == (run.name, run.run_id, run.started_ns)
    assert 1 == len(read_run(run))


def test_an_import_without_times_is_ordered_by_its_file(tmp_path: Path) -> None:
    """Its header has no time; it is the latest when it was made last."""
    record(tmp_path, "old", second=0)
    (tmp_path / "imported").mkdir()
    path = tmp_path / "imported" / "node-a-import-0123abcd.jsonl"
    path.write_bytes(encode(Header(run_id="imported", role="import")) + b"\n")
    assert "imported" == find_run(tmp_path).name
    os.utime(path, (5, 5))
    assert "old" == find_run(tmp_path).name


def test_a_file_that_vanished_is_named_among_the_damage(tmp_path: Path) -> None:
    """The others are read; when none can be, that is the error."""
    record(tmp_path, "job-1", files=2)
    (run,) = list_runs(tmp_path)
    run.files[0].unlink()
    gone, there = read_run(run)
    assert (None, True) == (gone.header, there.closed)
    assert "No such file" in gone.damage[0].reason
    run.files[1].unlink()
    with pytest.raises(TapeError, match="No such file"):
        read_run(run)


def test_a_run_of_somebody_else(tmp_path: Path) -> None:
    """A directory that may not be read is left out of the list, and named when it is asked for."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    record(tmp_path, "mine")
    record(tmp_path, "theirs")
    for path in (tmp_path, *tmp_path.parents[:-1]):
        if not path.stat().st_mode & 0o005:
            path.chmod(path.stat().st_mode | 0o055)
    for path in tmp_path.glob("mine/*"):
        path.chmod(0o644)
    (tmp_path / "mine").chmod(0o755)
    script = """
import os, sys
from jobtape.tape.shelf import list_runs, find_run
os.seteuid(12345)
print([run.name for run in list_runs(sys.argv[1])])
for name in ("theirs", "other"):
    try:
        find_run(sys.argv[1], name)
    except Exception as error:
        print(type(error).__name__, error)
"""
    out = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True).stdout
    listed, theirs, other = out.splitlines()
    assert "['mine']" == listed
    assert f"TapeError cannot read {tmp_path / 'theirs'}: Permission denied" == theirs
    assert other.startswith("RunNotFound no run other")


def test_only_runs_of_somebody_else(tmp_path: Path) -> None:
    """Runs that may not be read are not the same as no runs: the reader is told whose rights it takes."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    record(tmp_path, "one")
    record(tmp_path, "two")
    for path in (tmp_path, *tmp_path.parents[:-1]):
        if not path.stat().st_mode & 0o005:
            path.chmod(path.stat().st_mode | 0o055)
    script = """
import os, sys
from jobtape.tape.shelf import list_runs, find_run
os.seteuid(12345)
for function in (list_runs, find_run):
    try:
        function(sys.argv[1])
    except Exception as error:
        print(type(error).__name__, error)
"""
    out = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True).stdout
    said = (
        f"TapeError cannot read {tmp_path / 'one'} and 1 more: Permission denied; "
        "read them as the user who recorded them"
    )
    assert [said, said] == out.splitlines()


def test_many_runs_are_listed_quickly(tmp_path: Path) -> None:
    """Only headers are read: three hundred runs with a megabyte each."""
    for number in range(300):
        directory = tmp_path / f"job-{number}"
        directory.mkdir()
        path = directory / "node-a-17-20260101T000000000.jsonl"
        path.write_bytes(encode(Header(run_id=f"job-{number}", time_ns=number)) + b"\n")
        os.truncate(path, 1_000_000)
    began = time.monotonic()
    assert 300 == len(list_runs(tmp_path))
    assert time.monotonic() - began < 2
