"""``jobtape import``: foreign records onto a tape."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jobtape.cli.options import dir_option, json_option, print_json

if TYPE_CHECKING:
    from jobtape.importers.onto_tape import ImportReport

IMPORTERS = {"torchelastic": "jobtape.importers.torchelastic"}
"""Name of a format -> the module that reads it."""


@click.command("import", epilog="Example: jobtape import --format torchelastic node-a.log node-b.log")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "format_",
    type=click.Choice(list(IMPORTERS)),
    default="torchelastic",
    show_default=True,
    help="What wrote the records: torchelastic's events and the log of its agents, in one file or one a node.",
)
@click.option(
    "--tz",
    metavar="ZONE",
    help='Zone of times that name none: "UTC", "Europe/Paris" or "+02:00". [default: this machine\'s zone]',
)
@dir_option
@json_option
def command(files: tuple[Path, ...], format_: str, tz: str | None, directory: str | None, as_json: bool) -> int:
    """Put foreign records onto a tape, so that every other command can answer about them.

    Lines that are no records are skipped and counted. Importing a file again replaces what was imported from it.
    """
    from jobtape.tape.shelf import shelf_dir

    shelf = shelf_dir(directory)
    report: ImportReport = import_module(IMPORTERS[format_]).import_files(files, shelf, tz)
    if as_json:
        print_json(
            {
                "dir": str(shelf),
                "runs": [{"run_id": run_id, "name": name, "records": n} for run_id, name, n in report.runs],
                "files": report.files,
                "records": report.records,
                "damaged": report.damaged,
                "foreign": report.foreign,
                "warnings": list(report.warnings),
            }
        )
    else:
        from jobtape.views.imported import imported
        from jobtape.views.page import show

        show(imported(report, shelf))
    return 0
