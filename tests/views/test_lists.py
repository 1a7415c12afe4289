"""The text of `jobtape ls`, `jobtape import` and `jobtape doctor`."""

import json
from pathlib import Path

from jobtape.diagnose.model import Loss
from jobtape.importers.onto_tape import ImportReport
from jobtape.views.findings import Finding, findings, findings_json
from jobtape.views.imported import imported
from jobtape.views.runs import RunRow, row_json, table
from tests.views.runs_to_show import START, a_run

NOW = START + 3600


def test_runs_in_a_pipe(text):
    """One line a run, with headings."""
    expected = (
        "RUN   STATE   STARTED (UTC)        DURATION  NODES  WORLD  RESTARTS  PRODUCTIVE\n"
        "demo  failed  2026-02-28 19:05:14     2.8 s      1      4         0           -\n"
    )
    assert expected == text(table([RunRow("demo", "demo", a_run())], now=NOW))


def test_a_running_run_lasts_until_now(text):
    """The last record of a run that is still going is not its end."""
    run = a_run(state="running", ended=START + 5)
    assert "1 h 00 min" in text(table([RunRow("demo", "demo", run)], now=NOW))


def test_hostile_run_ids_are_shown_with_the_name_to_ask_for(text):
    """The directory's name comes first, as it can be typed; the id is shown as it was, escaped."""
    said = text(table([RunRow("x~0cfd1c96cb", "../..\x1b[2J\n", a_run())], now=NOW))
    assert "x~0cfd1c96cb (../..\\x1b[2J)" in said


def test_trouble_with_a_run_is_said_below(text):
    """An unreadable run and one with losses are named."""
    rows = [
        RunRow("bad", "bad", None, "cannot read bad/x.jsonl"),
        RunRow("demo", "demo", a_run(loss=Loss(damaged_lines=2))),
    ]
    assert ["warning: bad: cannot read bad/x.jsonl", "warning: demo: incomplete record; jobtape why says more"] == text(
        table(rows, now=NOW)
    ).splitlines()[3:]


def test_run_of_the_list_as_json():
    """A readable run and an unreadable one."""
    assert ("failed", "unknown", None) == (
        row_json(RunRow("demo", "demo", a_run()))["state"],
        row_json(RunRow("bad", "bad", None, "why"))["state"],
        row_json(RunRow("demo", "demo", a_run()))["productive_share"],
    )
    json.dumps(row_json(RunRow("demo", "demo", a_run())), allow_nan=False)


def test_import_says_what_to_do_next(text):
    """What came, what did not, and the command that tells about it, quoted for a shell."""
    report = ImportReport(
        runs=[("a b", "a_b~0123456789", 5)], files=2, records=5, damaged=1, foreign=3, warnings=["x: nothing in it"]
    )
    assert [
        "Imported 5 records of 1 run from 2 files into tapes.",
        "Skipped 3 other lines.",
        "warning: 1 line damaged; what stood there is lost",
        "warning: x: nothing in it",
        "run a b: 5 records; see jobtape why a_b~0123456789",
    ] == text(imported(report, Path("tapes"))).splitlines()


def test_findings_begin_with_the_answer(text):
    """Problems are counted and named first, and each says what to do."""
    found = [Finding("torch", "ok", "torch 2.13.0"), Finding("space", "problem", "3 MiB free", "make room")]
    assert [
        "1 problem: space.",
        "",
        "ok      torch: torch 2.13.0",
        "problem space: 3 MiB free",
        "        -> make room",
    ] == text(findings(found)).splitlines()


def test_no_problem(text):
    """Without a problem the answer is yes."""
    found = [Finding("torch", "ok", "torch 2.13.0")]
    assert "Recording works here." == text(findings(found)).splitlines()[0]
    assert {
        "ok": True,
        "findings": [{"check": "torch", "state": "ok", "text": "torch 2.13.0", "do": ""}],
    } == findings_json(found)
