"""``jobtape ls``: which runs are there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from jobtape.cli.options import dir_option, json_option, print_json

if TYPE_CHECKING:
    from jobtape.views.runs import RunRow


@click.command("ls", epilog="Example: jobtape ls --limit 10")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the N newest runs.")
@dir_option
@json_option
def command(limit: int | None, directory: str | None, as_json: bool) -> int:
    """Which runs are there: state, start, duration, nodes, world size, restarts, productive share; the newest last.

    A productive share of "-" is not known: the tape says nothing of steps.
    """
    from jobtape.errors import TapeError
    from jobtape.tape.shelf import list_runs, shelf_dir
    from jobtape.views.runs import row_json, table

    shelf = shelf_dir(directory)
    runs = list_runs(shelf)
    if not runs:
        raise TapeError(
            f"no runs in {shelf}; record one with torchrun --event-log-handler=tape, or name a directory with --dir",
            path=str(shelf),
        )
    rows = [row(run) for run in (runs[-limit:] if limit else runs)]
    if as_json:
        print_json([row_json(each) for each in rows])
    else:
        from jobtape.views.page import show

        show(table(rows, now=time.time(), hidden=len(runs) - len(rows)))
    return 0


def row(run: object) -> RunRow:
    """What the list says of one run; of one that cannot be read, that."""
    from jobtape.cli.tapes import told
    from jobtape.diagnose.account import account_of
    from jobtape.errors import TapeError
    from jobtape.tape.shelf import ShelfRun
    from jobtape.views.runs import RunRow

    assert isinstance(run, ShelfRun)
    try:
        story = told(run)
        return RunRow(run.name, run.run_id, story.run, productive_share=account_of(story).productive_share)
    except TapeError as error:
        return RunRow(run.name, run.run_id, None, str(error))
