"""``jobtape why``: what ended each attempt of a run."""

from __future__ import annotations

import click

from jobtape.cli.options import dir_option, json_option, print_json, run_argument

GOOD = frozenset({"running", "succeeded"})
"""States of a run for which the exit code is 0."""


@click.command("why", epilog="Example: jobtape why resnet-31 --full")
@run_argument
@click.option(
    "--full", is_flag=True, help="Everything: whole tracebacks and stacks, every attempt, rank and reference."
)
@dir_option
@json_option
def command(run: str | None, full: bool, directory: str | None, as_json: bool) -> int:
    """What ended each attempt of a run, who was first, what followed from it, how sure that is, and on what evidence.

    RUN is a run id, the name of its directory, the unique beginning of either, or "latest", which is the default.

    The exit code is 0 when the run succeeded or is still running, and 1 when it did not or nobody can say.
    """
    from jobtape.cli.tapes import diagnosed, find

    answer = diagnosed(find(directory, run))
    if as_json:
        from jobtape.diagnose.model import to_json

        print_json(to_json(answer))
    else:
        from jobtape.views.page import show
        from jobtape.views.verdict import verdict

        show(verdict(answer, full=full))
    return 0 if answer.state in GOOD else 1
