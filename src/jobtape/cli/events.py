"""``jobtape events``: the records of a run, filtered."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

import click

from jobtape.cli.options import dir_option, json_option, run_argument, write_json

if TYPE_CHECKING:
    from jobtape.cli.sift import Placed
    from jobtape.tape.reader import TapeFile
    from jobtape.tape.shelf import ShelfRun

KINDS = ("header", "event", "rdzv", "loss", "close", "other")


@click.command("events", epilog="Example: jobtape events latest --rank 1 --name 'jobtape.worker.*'")
@run_argument
@click.option("--rank", "ranks", type=click.IntRange(0), multiple=True, metavar="N", help="Of this rank; repeatable.")
@click.option("--host", "hosts", multiple=True, metavar="GLOB", help="Of hosts named so; repeatable.")
@click.option("--name", "names", multiple=True, metavar="GLOB", help="Of this event name; repeatable.")
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Of this kind; repeatable.")
@click.option("--source", "sources", type=click.Choice(["AGENT", "WORKER"], case_sensitive=False), multiple=True,
              help="From agents or from workers.")  # fmt: skip
@click.option("--attempt", type=click.IntRange(min=0), metavar="N",
              help="From the start of attempt N, as numbered by why and show, to the start of the next.")  # fmt: skip
@click.option("--since", metavar="TIME", help="Not before: '2026-02-17 09:30:00', '09:30' (local), or unix seconds.")
@click.option("--until", metavar="TIME", help="Not after.")
@click.option("--grep", metavar="REGEX", help="With a text in it that the regular expression matches.")
@click.option("--file", "references", multiple=True, metavar="FILE[:LINE]",
              help="Standing there, as the evidence of why names it; repeatable.")  # fmt: skip
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N, the first ones.")
@dir_option
@json_option
def command(
    run: str | None,
    ranks: tuple[int, ...],
    hosts: tuple[str, ...],
    names: tuple[str, ...],
    kinds: tuple[str, ...],
    sources: tuple[str, ...],
    attempt: int | None,
    since: str | None,
    until: str | None,
    grep: str | None,
    references: tuple[str, ...],
    limit: int | None,
    directory: str | None,
    as_json: bool,
) -> int:
    """The records of a run in the order of their times, one a line; options narrow them down, and all must hold.

    RUN is as for "jobtape why". With --json each line is a JSON object, the record with its "file", "line" and "time".

    The exit code is 1 when there is no such record.
    """
    from jobtape.cli.sift import Wanted, first_time, in_order, sift
    from jobtape.cli.tapes import find
    from jobtape.tape.shelf import read_run

    pattern = regex(grep)
    places = tuple(placed_at(text) for text in references)
    found = find(directory, run)
    files = read_run(found)
    first_ns = first_time(files)
    since_ns, _ = time_option("--since", since, first_ns)
    _, until_ns = time_option("--until", until, first_ns)
    if attempt is not None:
        start, end = span_of(found, files, attempt)
        since_ns = start if since_ns is None else max(since_ns, start)
        until_ns = end if until_ns is None else min(until_ns, end) if end is not None else until_ns
    wanted = Wanted(
        frozenset(ranks), hosts, names, frozenset(kinds), frozenset(source.upper() for source in sources),
        since_ns, until_ns, pattern, places,
    )  # fmt: skip
    return print_records(islice(sift(in_order(files), wanted), limit), as_json)


def print_records(records: islice[Placed], as_json: bool) -> int:
    """Print them; the exit code says whether there were any."""
    from jobtape.views.page import Printer
    from jobtape.views.records import line, record_json

    printer = None if as_json else Printer()
    any_printed = False
    for each in records:
        any_printed = True
        if printer is None:
            write_json(record_json(each.record, each.kind, each.file, each.line))
        else:
            printer.part(line(each.record, each.header, each.file, each.line))
    if not any_printed:
        click.echo("jobtape: no such record; leave out an option to see more", err=True)
    return 0 if any_printed else 1


def regex(text: str | None) -> re.Pattern[str] | None:
    """The regular expression of --grep."""
    if text is None:
        return None
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        advice = "put \\ before characters that are special in a regular expression"
        raise click.BadParameter(f"{error}; {advice}", param_hint="--grep") from None


def placed_at(text: str) -> tuple[str, int, int]:
    """The place --file names."""
    from jobtape.cli.sift import reference

    place = reference(text)
    if not place[0]:
        raise click.BadParameter("expected FILE, FILE:LINE or FILE:LINE-LINE", param_hint="--file")
    return place


def time_option(option: str, text: str | None, first_ns: int | None) -> tuple[int | None, int | None]:
    """The first and the last moment that an option's time may mean."""
    from jobtape.cli.times import moments

    if text is None:
        return None, None
    try:
        return moments(text, first_ns)
    except (ValueError, OverflowError, OSError) as error:
        raise click.BadParameter(f"{text!r}: {error}", param_hint=option) from None


def span_of(run: ShelfRun, files: list[TapeFile], index: int) -> tuple[int, int | None]:
    """When an attempt started and the next one did; None for the end when there is no next one."""
    from jobtape.cli.tapes import living
    from jobtape.diagnose.reconstruct import diagnose

    attempts = diagnose(files, alive=living(files), run_id=run.run_id).attempts
    chosen = next((each for each in attempts if each.index == index), None)
    if chosen is None:
        there = f"attempts 0-{len(attempts) - 1}" if attempts else "no attempt"
        raise click.BadParameter(f"the run has {there}", param_hint="--attempt")
    if chosen.started is None:
        raise click.BadParameter(f"when attempt {index} started is not on the tape", param_hint="--attempt")
    later = [each.started for each in attempts if each.index > index and each.started is not None]
    return int(chosen.started * 1e9), int(min(later) * 1e9) if later else None
