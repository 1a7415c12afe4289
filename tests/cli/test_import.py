"""`jobtape import` on what torchelastic leaves behind."""

import json
import os

import pytest

METADATA = {
    "run_id": "old-job",
    "global_rank": 0,
    "group_rank": 0,
    "worker_id": "0",
    "role": "default",
    "hostname": "node-a",
    "state": "FAILED",
    "total_run_time": 12,
    "rdzv_backend": "static",
    "raw_error": None,
    "agent_restarts": 0,
    "metadata": '{"group_world_size": 1, "local_rank": [0], "exit_code": [1], "worker_pid": [9]}',
}
EVENT = {"name": "torchelastic.worker.status.FAILED", "source": "WORKER", "timestamp": 0, "metadata": METADATA}


@pytest.fixture
def log(tmp_path):
    """A file with one event, a foreign line and a torn one."""
    path = tmp_path / "node-a.log"
    path.write_text(f"{json.dumps(EVENT)}\nhello\n{json.dumps(EVENT)[:100]}\n")
    return path


def test_import_and_ask(jobtape, log, tmp_path):
    """What was imported can be asked about, by the command that the import names."""
    shelf = tmp_path / "tapes"
    done = jobtape("import", "--format", "torchelastic", log, "--dir", shelf)
    assert (0, "") == (done.code, done.err)
    assert [
        f"Imported 1 record of 1 run from 1 file into {shelf}.",
        "Skipped 1 other line.",
        "warning: 1 line damaged; what stood there is lost",
        "run old-job: 1 record; see jobtape why old-job",
    ] == done.out.splitlines()
    assert "failed" == json.loads(jobtape("why", "old-job", "--json", "--dir", shelf).out)["state"]


def test_json(jobtape, log, tmp_path):
    """Programs get the counts."""
    told = json.loads(jobtape("import", log, "--dir", tmp_path / "tapes", "--json").out)
    assert ([{"run_id": "old-job", "name": "old-job", "records": 1}], 1, 1, 1, 1) == (
        told["runs"], told["files"], told["records"], told["damaged"], told["foreign"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--format", "dltrain"], "'torchelastic'"),
        (["--format", "dlrover"], "no dlrover record in"),
        (["--tz", "Mars/Olympus"], "Mars/Olympus"),
        (["--tz", "\x1b"], "\\x1b"),
    ],
)
def test_bad_values(jobtape, log, tmp_path, options, said):
    """A format or zone nobody knows is named in one line."""
    done = jobtape("import", log, *options, "--dir", tmp_path / "tapes")
    assert (2, "", 1) == (done.code, done.out, done.err.count("\n"))
    assert said in done.err


def test_no_file(jobtape):
    """Without a file there is nothing to do."""
    done = jobtape("import")
    assert (2, 1) == (done.code, done.err.count("\n"))
    assert "see jobtape import --help" in done.err


@pytest.mark.parametrize("kind", ["missing", "directory", "fifo", "empty", "foreign", "binary"])
def test_files_that_are_none(jobtape, tmp_path, kind):
    """What cannot be read, or holds no record, is named in one line, and nobody waits for a FIFO."""
    path = tmp_path / f"{kind}.log"
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind != "missing":
        path.write_bytes({"empty": b"", "foreign": b"hello\n" * 10, "binary": bytes(range(256)) * 100}[kind])
    done = jobtape("import", path, "--dir", tmp_path / "tapes")
    assert (2, "", 1) == (done.code, done.out, done.err.count("\n"))
    assert path.name in done.err


def test_shelf_that_cannot_be_made(jobtape, log, tmp_path):
    """A file in place of the directory of tapes is named."""
    (tmp_path / "tapes").write_text("x")
    done = jobtape("import", log, "--dir", tmp_path / "tapes")
    assert (2, 1) == (done.code, done.err.count("\n"))
    assert "tapes" in done.err


def test_formats_are_found_out_and_said(jobtape, log, tmp_path):
    """Without --format each file is read as what it is: a line a format for people, a field a file for programs."""
    error = tmp_path / "old-job_ab12cd34" / "attempt_0" / "1" / "error.json"
    error.parent.mkdir(parents=True)
    error.write_text('{"message": "boom"}')
    done = jobtape("import", log, error.parents[2], "--dir", tmp_path / "tapes")
    assert (0, "") == (done.code, done.err)
    assert [f"Read as torchelastic: {log}.", f"Read as error-files: {error}."] == [
        line for line in done.out.splitlines() if line.startswith("Read as")
    ]
    told = json.loads(jobtape("import", log, error, "--dir", tmp_path / "tapes", "--json").out)
    assert [{"file": str(log), "format": "torchelastic"}, {"file": str(error), "format": "error-files"}] == told[
        "formats"
    ]
    assert ["old-job"] == [run["run_id"] for run in told["runs"]]


def test_nothing_is_of_a_known_format(jobtape, tmp_path):
    """One line names what is known."""
    (tmp_path / "x.log").write_text("hello\n")
    done = jobtape("import", tmp_path / "x.log", "--dir", tmp_path / "tapes")
    assert (2, "", 1) == (done.code, done.out, done.err.count("\n"))
    assert all(name in done.err for name in ("torchelastic", "error-files", "dlrover", "nvrx", "torchtitan"))
