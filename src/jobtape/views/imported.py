"""The text of ``jobtape import``: what came onto the tape, and what did not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jobtape.views.escape import brief, visible
from jobtape.views.groups import count
from jobtape.views.page import Page

if TYPE_CHECKING:
    from jobtape.importers.onto_tape import ImportReport

SHOWN_RUNS = 20
SHOWN_FILES = 3


def imported(report: ImportReport, shelf: Path) -> Page:
    """What an import did."""
    page = Page()
    page.line(
        f"Imported {count(report.records, 'record')} of {count(len(report.runs), 'run')}"
        f" from {count(report.files, 'file')} into {visible(str(shelf))}."
    )
    if report.guessed:
        for name in dict.fromkeys(name for _, name in report.formats):
            files = [file for file, its in report.formats if its == name]
            page.line(f"Read as {name}: {_listed(files)}.")
    if report.passed_over:
        page.line(f"Passed over {count(report.passed_over, 'file')} of no known format.")
    if report.foreign:
        page.line(f"Skipped {count(report.foreign, 'other line')}.")
    if report.damaged:
        page.line(("warning: ", "yellow"), f"{count(report.damaged, 'line')} damaged; what stood there is lost")
    for text in report.warnings:
        page.line(("warning: ", "yellow"), brief(text, 400))
    for run_id, name, records in report.runs[:SHOWN_RUNS]:
        page.line(
            (f"run {brief(run_id, 100) or '(no id)'}", "bold"),
            f": {count(records, 'record')}; see jobtape why {visible(name)}",
        )
    if len(report.runs) > SHOWN_RUNS:
        page.line(f"and {count(len(report.runs) - SHOWN_RUNS, 'more run')}; jobtape ls shows them")
    return page


def _listed(files: list[str]) -> str:
    """Some files by name, or how many there are."""
    if len(files) > SHOWN_FILES:
        return count(len(files), "file")
    return ", ".join(visible(file) for file in files)
