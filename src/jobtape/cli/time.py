"""``jobtape time``: where the wall time of a run went."""

from __future__ import annotations

import click

from jobtape.cli.options import dir_option, json_option, print_json, run_argument


@click.command("time", epilog="Example: jobtape time resnet-31 --by rank")
@run_argument
@click.option(
    "--by", type=click.Choice(["attempt", "node", "rank"]), help="Compare attempts, nodes or ranks one by one."
)
@dir_option
@json_option
def command(run: str | None, by: str | None, directory: str | None, as_json: bool) -> int:
    """Where the wall time of a run went, and what its restarts cost.

    RUN is as for "jobtape why". Every moment belongs to one category, and together they are the wall time. Steps and
    spans that the job records, with jobtape.events.emit("step", step=N) and jobtape.events.span("checkpoint_save"),
    tell productive time from the rest.

    The exit code is 0, and 1 when the record has no times.
    """
    from jobtape.cli.tapes import find, told
    from jobtape.diagnose.account import account_of

    story = told(find(directory, run))
    account = account_of(story, each=as_json or by in ("node", "rank"))
    if as_json:
        from jobtape.views.time import time_json

        print_json(time_json(account))
    else:
        from jobtape.views.page import show
        from jobtape.views.time import time_page

        show(time_page(story.run, account, by or ""))
    return 1 if account.wall_ns is None else 0
