"""Import of torchtitan's structured logs."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.importers.lines import written
from tests.importers.sources import brought, brought_or_refused, titan

ERROR = "[step 2] {}_error: RuntimeError: CUDA error: an illegal memory access"


def steps(rank=0, count=3, first=1, at=0.0):
    """The lines of some steps of two seconds, with the wait for a batch in each."""
    lines = [titan("training_start", at, 0, rank=rank, kind="instant")]
    for number in range(first, first + count):
        begin, seq = at + 2 * (number - first + 1), len(lines)
        lines += [
            titan("step_start", begin, seq, rank=rank, step=number),
            titan("fetching_batch_start", begin, seq + 1, rank=rank, step=number),
            titan("fetching_batch_end", begin + 0.25, seq + 2, rank=rank, step=number, value=250.0),
            titan("step_end", begin + 1.5, seq + 3, rank=rank, step=number, value=1500.0),
        ]
    return lines


def crash(rank, number, at):
    """The lines of an exception that leaves a step."""
    return [
        titan("step_start", at, 100, rank=rank, step=number),
        titan("fwd_bwd_start", at + 0.25, 101, rank=rank, step=number),
        titan("fwd_bwd_error", at + 0.5, 102, rank=rank, step=number, message=ERROR.format("fwd_bwd")),
        titan("fwd_bwd_end", at + 0.5, 103, rank=rank, step=number, value=250.0),
        titan("step_error", at + 0.75, 104, rank=rank, step=number, message=ERROR.format("step")),
        titan("step_end", at + 0.75, 105, rank=rank, step=number, value=750.0),
    ]


def name(rank, mark="ABC123"):
    """A file's name as torchtitan gives it."""
    return f"training.global_rank_{rank}.20260217-093000-{mark}.jsonl"


def test_steps_and_an_exception(tmp_path):
    """Every rank's steps are known; the exception that was a rank's last word is likely what ended it."""
    folder = tmp_path / "job" / "structured_logs"
    folder.mkdir(parents=True)
    written(folder / name(0), *steps(0))
    written(folder / name(1), *steps(1), *crash(1, 4, 8.0))
    found = brought(tmp_path, folder)
    (attempt,) = found.run.attempts
    assert (
        "failed",
        "exception",
        1,
        "node-a",
        "RuntimeError",
        "CUDA error: an illegal memory access",
        "likely",
        901,
    ) == (
        attempt.outcome,
        attempt.cause.kind,
        attempt.cause.rank,
        attempt.cause.host,
        attempt.cause.error_type,
        attempt.cause.message,
        attempt.cause.confidence,
        attempt.cause.pid,
    )
    assert [3, 3] == [rank.step for rank in attempt.ranks]
    assert "job" == found.report.runs[0][0]
    assert 1771320608.5 == attempt.cause.time


def test_an_exception_that_was_caught(tmp_path):
    """An exception after which the process went on ended nothing, and a log that ends says nothing of an end."""
    lines = [*steps(0, 1), *crash(0, 2, 8.0), titan("step_start", 10.0, 106, step=3)]
    run = brought(tmp_path, written(tmp_path / name(0), *lines)).run
    assert [("unknown", None)] == [(attempt.outcome, attempt.cause) for attempt in run.attempts]


def test_what_the_records_become(tmp_path):
    """Spans have the time account's names and the rest its own; what torchtitan wrote is kept, the finest time too."""
    lines = [*steps(0, 1), titan("metric_value", 4.0, 9, kind="instant", event_name="loss", value=2.5, mine={"a": 1})]
    records = brought(tmp_path, written(tmp_path / name(0), *lines)).records
    assert [
        "torchtitan.training_start", "step", "data_wait", "data_wait", "step", "torchtitan.metric_value",
    ] == [record.name for record in records]  # fmt: skip
    begin, end = records[1].metadata, records[4].metadata
    assert ("begin", "1", None, 1) == (begin["span.phase"], begin["span.id"], begin["span.parent"], begin["step"])
    assert ("end", "1", "ok", 1.5) == (end["span.phase"], end["span.id"], end["span.outcome"], end["span.duration_s"])
    assert "1" == records[2].metadata["span.parent"]
    assert ({"a": 1}, "loss", "trainer.py:1:train") == tuple(
        records[5].metadata[key] for key in ("mine", "event_name", "caller")
    )
    assert 1771320603_500_000_000 == records[4].time_ns


def test_a_restart_begins_the_next_attempt(tmp_path):
    """A rank's second file is its next attempt, with its steps as they are numbered."""
    written(tmp_path / name(0), *steps(0, 2))
    written(
        tmp_path / name(0, "DEF456"), *(line.replace('"pid": 900', '"pid": 950') for line in steps(0, 2, 3, at=60.0))
    )
    run = brought(tmp_path, tmp_path / name(0), tmp_path / name(0, "DEF456")).run
    assert [2, 4] == [attempt.ranks[0].step for attempt in run.attempts]


def test_columns_of_the_earlier_form(tmp_path):
    """The form in columns says the same."""
    fields = json.loads(titan("step_end", 2.0, 7, step=3, value=5.0))
    columns = {
        "int": {k: v for k, v in fields.items() if isinstance(v, int)},
        "normal": {k: v for k, v in fields.items() if isinstance(v, str)},
        "double": {k: v for k, v in fields.items() if isinstance(v, float)},
        "normvector": {"step_tags": ["gc"]},
    }
    (record,) = brought(tmp_path, written(tmp_path / name(0), json.dumps(columns))).records
    assert ("step", 3, ["gc"], 0.005) == (
        record.name, record.metadata["step"], record.metadata["step_tags"], record.metadata["span.duration_s"],
    )  # fmt: skip


def test_other_parts_of_the_job_are_no_ranks_of_it(tmp_path):
    """A generator's rank 0 is not the training's."""
    written(tmp_path / name(0), *steps(0))
    written(
        tmp_path / "gen.jsonl", *(line.replace('"training"', '"generator"').replace("900", "70") for line in steps(0))
    )
    run = brought(tmp_path, tmp_path / name(0), tmp_path / "gen.jsonl").run
    assert [1] == [len(attempt.ranks) for attempt in run.attempts]


def test_whole_seconds_stay(tmp_path):
    """Without finer fields the time is the whole second; without any there is none."""
    fields = json.loads(titan("step_end", 2.25, 7))
    lines = [{k: v for k, v in fields.items() if k not in ("time_us", "time_ms")}]
    lines.append({k: v for k, v in lines[0].items() if k != "time"} | {"seq_id": 8})
    records = brought(tmp_path, written(tmp_path / name(0), *map(json.dumps, lines))).records
    assert [1771320602_000_000_000, None] == [record.time_ns for record in records]


def test_damage_and_foreign_lines(tmp_path):
    """Torn lines are counted, other lines and repeated ones passed over."""
    line = titan("step_end", 2.0, 7, step=1)
    path = written(tmp_path / name(0), line, line[:80], "hello", '{"a": 1}', line, b"\0\0" + titan("x", 3, 8).encode())
    found = brought(tmp_path, path)
    assert (2, 2, 3) == (found.report.records, found.report.damaged, found.report.foreign)


@settings(max_examples=80, deadline=None)
@given(
    data=st.lists(
        st.sampled_from([*steps(0, 2), *crash(0, 4, 9.0)]).map(str.encode)
        | st.binary(max_size=80)
        | st.sampled_from(steps(0, 1)).flatmap(lambda s: st.integers(0, len(s)).map(lambda n: s[:n].encode()))
        | st.fixed_dictionaries(
            {
                "log_type_name": st.sampled_from(["step_end", "_end", "x_error", "end"]),
                "rank": st.just(1),
                "seq_id": st.none(),
            },
            optional={
                k: st.none() | st.integers() | st.text() | st.lists(st.none())
                for k in ("step", "value", "task_name", "time_us", "pid", "source")
            },
        ).map(lambda fields: json.dumps(fields).encode()),
        max_size=12,
    )
)
def test_no_bytes_make_the_import_raise(tmp_path_factory, data):
    """Whatever a file holds, the import ends well or says what is wrong, and the diagnosis answers."""
    folder = tmp_path_factory.mktemp("any")
    (folder / "t.jsonl").write_bytes(b"\n".join(data))
    brought_or_refused(folder, folder / "t.jsonl", format_="torchtitan")


@pytest.mark.parametrize("field", ["global_rank", "host_name", "pid", "source", "local_rank"])
def test_fields_that_are_missing(tmp_path, field):
    """A record without one of the fields that say who wrote it is kept."""
    fields = json.loads(titan("step_end", 2.0, 7, step=1))
    del fields[field]
    assert 1 == brought(tmp_path, written(tmp_path / name(0), json.dumps(fields))).report.records
