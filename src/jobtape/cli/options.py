"""What several commands have in common: their options, and the JSON they print."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def dir_option(function: F) -> F:
    """``--dir DIR``: the directory of tapes."""
    return click.option(
        "--dir",
        "directory",
        metavar="DIR",
        callback=not_empty,
        help="Directory of tapes. [default: $JOBTAPE_DIR, else ./jobtape]",
    )(function)


def not_empty(_context: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty directory, which is a variable that was not set more often than it is meant."""
    if value == "":
        raise click.BadParameter("the directory's name is empty; leave --dir out for the default")
    return value


def json_option(function: F) -> F:
    """``--json``: for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def run_argument(function: F) -> F:
    """``[RUN]``: which run."""
    return click.argument("run", required=False, metavar="[RUN]")(function)


def print_json(value: object) -> None:
    """Print a value as JSON in ASCII, indented; NaN has no business in it."""
    write_json(value, indent=1)


def write_json(value: object, *, indent: int | None = None) -> None:
    """Write a value as one JSON text and a line feed."""
    separators = None if indent else (",", ":")
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, indent=indent, separators=separators)
    # The one character of ASCII that json leaves bare and a terminal may act on.
    sys.stdout.write(text.replace("\x7f", "\\u007f") + "\n")
