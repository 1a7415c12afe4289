"""``jobtape why``: what ended each attempt of a run."""

from __future__ import annotations

import os
import sys

import click

from jobtape.cli.options import dir_option, json_option, print_json, run_argument

GOOD = frozenset({"running", "succeeded"})
"""States of a run for which the exit code is 0."""


@click.command("why", epilog="Example: jobtape why resnet-31 --explain")
@run_argument
@click.option(
    "--full", is_flag=True, help="Everything: whole tracebacks and stacks, every attempt, rank and reference."
)
@click.option("--explain", is_flag=True, help="Say in words how each verdict was reached and what the terms mean.")
@click.option(
    "--diff", nargs=2, metavar="RUN_A RUN_B", help="What differed between the failures of two runs, instead of one run."
)
@dir_option
@json_option
def command(
    run: str | None, full: bool, explain: bool, diff: tuple[str, str] | None, directory: str | None, as_json: bool
) -> int:
    """What ended each attempt of a run, who was first, what followed from it, how sure that is, and on what evidence.

    RUN is a run id, the name of its directory, the unique beginning of either, or "latest", which is the default.

    The exit code is 0 when the run succeeded or is still running, and 1 when it did not or nobody can say. With --diff
    it is 0 when both runs failed in the same way or neither did, and 1 when they did not or nobody can say.
    """
    if diff is not None:
        if run is not None or explain:
            raise click.UsageError("--diff takes two runs and neither a third one nor --explain")
        return compared(directory, diff, full=full, as_json=as_json)
    from jobtape.cli.tapes import diagnosed, find

    answer = diagnosed(find(directory, run))
    if as_json:
        from jobtape.diagnose.model import to_json

        told = to_json(answer)
        if explain:
            from jobtape.views.explanation import explanation

            told["explanation"] = [passage.text for passage in explanation(answer, full=full)]
        print_json(told)
    else:
        from jobtape.views.page import columns, show
        from jobtape.views.verdict import verdict

        page = verdict(answer, full=full, width=columns(sys.stdout, os.environ))
        if explain:
            from jobtape.views.explanation import explained, explanation

            explained(page, explanation(answer, full=full))
        show(page)
    return 0 if answer.state in GOOD else 1


def compared(directory: str | None, names: tuple[str, str], *, full: bool, as_json: bool) -> int:
    """Print what differed between the failures of two runs; 0 when they failed in the same way."""
    from jobtape.cli.environment import environment
    from jobtape.cli.tapes import diagnosed, find
    from jobtape.diagnose.comparison import compare
    from jobtape.views.difference import difference, difference_json
    from jobtape.views.page import columns, show

    one, other = (find(directory, name) for name in names)
    a, b = diagnosed(one), diagnosed(other)
    told = compare(a, b, environment(one), environment(other))
    if as_json:
        print_json(difference_json(told, (one.name, other.name)))
    else:
        width = columns(sys.stdout, os.environ)
        show(difference(told, a, b, (one.name, other.name), full=full, width=width))
    return 0 if told.same else 1
