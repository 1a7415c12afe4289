"""``jobtape import``: foreign records onto a tape."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jobtape.cli.options import dir_option, json_option, print_json

if TYPE_CHECKING:
    from jobtape.importers import ImportReport

FORMATS = ("auto", "torchelastic", "error-files", "dlrover", "nvrx", "torchtitan")
"""Names of formats; ``auto`` finds out of each file which it is."""


@click.command("import", epilog="Example: jobtape import node-a.log node-b.log /tmp/torchelastic_k2/")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="auto",
    show_default=True,
    help="What wrote the files: torchelastic (torch's events, the console of torchrun), error-files (error.json, "
    "torchrun's --log-dir), dlrover (events_*.log), nvrx (cycle files and logs), torchtitan (structured JSONL).",
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

    A FILE may be a directory: what is of a known format in it is read. Lines that are no records are skipped and
    counted. Importing a file again replaces what was imported from it.
    """
    from jobtape.importers import import_files
    from jobtape.tape.shelf import shelf_dir

    shelf = shelf_dir(directory)
    report: ImportReport = import_files(files, shelf, tz, format_)
    if as_json:
        print_json(
            {
                "dir": str(shelf),
                "runs": [{"run_id": run_id, "name": name, "records": n} for run_id, name, n in report.runs],
                "files": report.files,
                "formats": [{"file": file, "format": name} for file, name in report.formats],
                "passed_over": report.passed_over,
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
