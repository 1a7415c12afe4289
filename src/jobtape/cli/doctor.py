"""``jobtape doctor``: is recording on, where to, how fast, what was lost."""

from __future__ import annotations

import os

import click

from jobtape.cli.options import dir_option, json_option, print_json


@click.command("doctor", epilog="Example: jobtape doctor --dir /scratch/tapes")
@dir_option
@json_option
def command(directory: str | None, as_json: bool) -> int:
    """Is recording on in this environment, where to, how fast, and what was lost on the tapes that are there.

    It writes a scratch run to the directory, to see that it can and how long that takes, and removes it again.

    The exit code is 1 when something is wrong; each problem says what to do about it.
    """
    from jobtape.cli.checkup import checkup
    from jobtape.tape.shelf import shelf_dir
    from jobtape.views.findings import findings, findings_json

    found = list(checkup(shelf_dir(directory), os.environ))
    if as_json:
        print_json(findings_json(found))
    else:
        from jobtape.views.page import show

        show(findings(found))
    return 1 if any(each.state == "problem" for each in found) else 0
