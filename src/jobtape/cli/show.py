"""``jobtape show``: the run attempt by attempt."""

from __future__ import annotations

import os
import sys

import click

from jobtape.cli.options import dir_option, json_option, print_json, run_argument


@click.command("show", epilog="Example: jobtape show latest --full")
@run_argument
@click.option("--full", is_flag=True, help="A row for every worker, whatever their number, and every attempt.")
@dir_option
@json_option
def command(run: str | None, full: bool, directory: str | None, as_json: bool) -> int:
    """The run attempt by attempt: its nodes, its workers, when they ran and how each of them ended.

    RUN is as for "jobtape why", and so is what --json prints, with "duration_s" and "workers" added to each attempt.
    """
    from jobtape.cli.tapes import diagnosed, find

    found = diagnosed(find(directory, run))
    if as_json:
        from jobtape.views.attempts import run_json

        print_json(run_json(found))
    else:
        from jobtape.views.attempts import attempts
        from jobtape.views.page import columns, show

        show(attempts(found, full=full, width=columns(sys.stdout, os.environ)))
    return 0
