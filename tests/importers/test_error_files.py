"""Import of torch's error files and of torchrun's log directory."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobtape.errors import ImportFailed
from jobtape.importers import error_files
from tests.importers.lines import API, event, glog, written
from tests.importers.sources import TRACE, brought, brought_or_refused, error_file

ROOT = "torchelastic_k2/resnet-31_ab12cd34"
GONE = "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:2"


def test_tree_of_two_nodes(tmp_path):
    """Attempts come from the path, local ranks too; which rank and host it was none of it says."""
    error_file(tmp_path / "a" / ROOT, 0, 1, "FloatingPointError: loss is nan")
    error_file(tmp_path / "b" / "torchelastic_x9/resnet-31_zz99yy88", 0, 3, GONE, 1771320623)
    error_file(tmp_path / "a" / ROOT, 1, 0, "ValueError: bad row", 1771320722)
    found = brought(tmp_path, tmp_path / "a", tmp_path / "b")
    assert [("resnet-31", "resnet-31", 3)] == found.report.runs
    assert ("resnet-31", "failed", 2, 1) == (
        found.run.run_id,
        found.run.state,
        found.run.nodes,
        found.run.restarts.failure,
    )
    told = [(a.cause.kind, a.cause.rank, a.cause.local_rank, a.cause.host, a.cause.message) for a in found.run.attempts]
    assert [("exception", None, 1, None, "loss is nan"), ("exception", None, 0, None, "bad row")] == told
    assert ["FloatingPointError", "ValueError"] == [a.cause.error_type for a in found.run.attempts]
    assert 2 == len(found.run.attempts[0].nodes)


def test_whole_seconds_and_unknown_fields_stay(tmp_path):
    """The time is the file's whole second, and what torch does not write is kept."""
    path = error_file(tmp_path / ROOT, 0, 1, "ValueError: bad", errorCode=-9, mine=[1])
    (record,) = brought(tmp_path, path).records
    assert 1771320622 * 10**9 == record.time_ns
    assert ("torchelastic.log.error_file", 0, 1, -9) == (
        record.name,
        record.metadata["attempt"],
        record.metadata["local_rank"],
        record.metadata["exit_code"],
    )
    assert [1] == record.metadata["raw_error"]["message"]["mine"]
    assert "resnet-31_ab12cd34/attempt_0/1/error.json:1" == record.origin


@pytest.mark.parametrize(
    ("content", "said", "damaged"),
    [
        ('{"message": "boom"}', "boom", 0),
        ('\n {"message": "boom", "timestamp": 1771320622}\n', "boom", 0),
        ('{"message": {"message": "boom"}}', "boom", 0),
        ('{"message": {"message": "Value\\u2028Error: boom", "extraInfo": {"py_ca', "Value\u2028Error: boom", 1),
        ('{"message": {"message": "boom", "extraInfo": {"timestamp": "soon"}}}', "boom", 0),
    ],
)
def test_single_files(tmp_path, content, said, damaged):
    """A file alone says what failed, whole or torn; a time that is none is none."""
    found = brought(tmp_path, written(tmp_path / "error.json", content), format_="error-files")
    assert (1, damaged) == (found.report.records, found.report.damaged)
    assert said in json.dumps(found.records[0].metadata, ensure_ascii=False)
    assert ["failed"] == [attempt.outcome for attempt in found.run.attempts]


def test_what_is_no_error_file(tmp_path):
    """An empty file and other JSON are no error files, and nothing is written."""
    for number, content in enumerate((b"", b"{}", b'{"level": "info", "message": "hello"}')):
        path = written(tmp_path / f"{number}.json", content)
        assert not error_files.fits(content)
        with pytest.raises(ImportFailed, match="no record"):
            brought(tmp_path, path)
    assert not (tmp_path / "shelf").exists()


def test_output_of_a_worker_in_the_log_directory(tmp_path):
    """The last exception of a worker's output is kept as its words; nothing in it is an agent's line."""
    folder = tmp_path / ROOT / "attempt_0" / "1"
    folder.mkdir(parents=True)
    lines = [
        "hello",
        event(),
        TRACE.format("KeyError: 1"),
        "[rank5]: " + TRACE.format("ValueError: x").replace("\n", "\n[rank5]: "),
    ]
    written(folder / "stderr.log", *lines)
    (record,) = brought(tmp_path, tmp_path / ROOT).records
    assert ("torchelastic.log.output_error", 5, 1) == (
        record.name,
        record.metadata["rank"],
        record.metadata["local_rank"],
    )
    assert record.metadata["message"].startswith("ValueError: x")


def test_with_the_console_of_the_same_run(tmp_path):
    """Console and error files are one run: the error file adds its words to the worker that the console names."""
    log = written(
        tmp_path / "node-a.log",
        event(run_id="resnet-31", rank=0, time=1771320600.0),
        glog("failed (exitcode: 1) local_rank: 1 (pid: 1785) of binary: python", "0217 09:31:28.0", API, "E"),
        mtime=1771400000,
    )
    error_file(tmp_path / "logs" / ROOT, 0, 1, "ValueError: bad row", 1771320687)
    found = brought(tmp_path, log, tmp_path / "logs")
    assert ["resnet-31"] == [run_id for run_id, _, _ in found.report.runs]
    assert [("node-a.log", "torchelastic"), ("error.json", "error-files")] == [
        (path.rpartition("/")[2], name) for path, name in found.report.formats
    ]
    (attempt,) = found.run.attempts
    assert ("exception", "ValueError", "bad row", 1) == (
        attempt.cause.kind,
        attempt.cause.error_type,
        attempt.cause.message,
        attempt.cause.exit_code,
    )


def test_again_and_with_more(tmp_path):
    """The same tree with another attempt replaces what was imported of it."""
    error_file(tmp_path / ROOT, 0, 1, "ValueError: a")
    brought(tmp_path, tmp_path / ROOT)
    error_file(tmp_path / ROOT, 1, 1, "ValueError: b", 1771320700)
    found = brought(tmp_path, tmp_path / ROOT)
    assert (1, 2, 2) == (len(found.tapes), len(found.records), len(found.run.attempts))


def test_same_words_of_two_ranks_are_two(tmp_path):
    """Ranks that write the same into their files in the same second are told apart by their places."""
    for local_rank in (0, 1):
        error_file(tmp_path / ROOT, 0, local_rank, "ValueError: same")
    assert 2 == len(brought(tmp_path, tmp_path / ROOT).records)


@pytest.mark.parametrize(
    ("path", "run_id"),
    [
        ("x/job_1_a_bcdefgh1/attempt_3/2/error.json", "job_1_a"),
        ("x/renamed/attempt_3/2/error.json", None),
        ("x/job_abcdefgh/attempt_x/2/error.json", None),
        ("x/job_abcdefgh/error.json", None),
    ],
)
def test_run_id_only_where_the_path_has_torchs_shape(tmp_path, path, run_id):
    """The run id is what stands before the random suffix; a path of another shape has none."""
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text('{"message": "boom"}')
    named = brought(tmp_path, file).report.runs[0][0]
    assert run_id == named if run_id else named in ("error", "renamed")


@settings(max_examples=60, deadline=None)
@given(content=st.binary(max_size=400) | st.text(max_size=200).map(lambda s: b'{"message": ' + json.dumps(s).encode()))
def test_no_bytes_make_the_import_raise(tmp_path_factory, content):
    """Whatever a file holds, the import ends well or says what is wrong."""
    folder = tmp_path_factory.mktemp("any")
    (folder / "error.json").write_bytes(content)
    for format_ in ("error-files", "auto"):
        brought_or_refused(folder, folder / "error.json", format_=format_)
