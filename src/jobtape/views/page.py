"""Lines and tables, and how they come to a terminal, a pipe or a file.

A view builds a `Page`; `show` prints it. On a terminal (or where COLUMNS is set) lines are wrapped with their
indentation kept; elsewhere a line is a line, however long, so that nothing is lost to ``grep``. Colour is for
terminals; NO_COLOR turns it off, and FORCE_COLOR turns it on in a pipe too. All is `rich.text.Text`, so data is never
read as markup.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, get_character_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

UNBOUNDED = 1_000_000
"""Columns of something that has none."""

NARROW = 24
"""With fewer columns left than this, indentation gives way."""

Piece = str | tuple[str, str]
"""Text, or text and a style of `rich`."""


@dataclass(frozen=True)
class Line:
    """One line before it is wrapped; the parts after the first stand `hang` columns further in, `mark` before each."""

    text: Text
    indent: int = 0
    hang: int = 0
    mark: str = ""


@dataclass(frozen=True)
class Grid:
    """A table: its headings, its rows, which columns hold numbers, and which one may be wrapped, if any."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Piece]]
    numbers: frozenset[int] = frozenset()
    indent: int = 0
    wraps: int = -1


@dataclass
class Page:
    """What a view has to say, from top to bottom."""

    parts: list[Line | Grid] = field(default_factory=list)

    def line(self, *pieces: Piece, indent: int = 0, hang: int = 2) -> None:
        """Add a line."""
        self.parts.append(Line(Text.assemble(*pieces), indent, hang))

    def quote(self, lines: Sequence[str], indent: int, style: str = "") -> None:
        """Add lines that are not ours, each behind a bar so that none can pass for ours."""
        self.parts += [Line(Text(line, style), indent, 0, "| ") for line in lines]

    def grid(self, grid: Grid) -> None:
        """Add a table; one too wide for the place becomes a short block a row."""
        self.parts.append(grid)

    def height(self, width: int) -> int:
        """How many lines it takes where lines are `width` columns wide."""
        console = make_console(io.StringIO(), {"COLUMNS": str(width)})
        return sum(1 for part in self.parts for _ in lines_of(part, console, ruled=True))

    def cut(self, lines: int, width: int, last: str) -> Page:
        """As much of it as takes fewer lines than that, and what to say of the rest."""
        kept = Page()
        for part in self.parts:
            kept.parts.append(part)
            if kept.height(width) >= lines:
                kept.parts.pop()
                break
        kept.line(last)
        return kept

    def blank(self) -> None:
        """Add an empty line, unless there is one or nothing yet."""
        if self.parts and not (isinstance(self.parts[-1], Line) and not self.parts[-1].text.plain):
            self.parts.append(Line(Text()))


def wants_color(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether to colour what is written there: NO_COLOR, then FORCE_COLOR, then whether it is a terminal."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in {"", "0"}:
        return True
    return stream.isatty() and environ.get("TERM", "dumb") not in {"dumb", "unknown"}


def columns(stream: TextIO, environ: Mapping[str, str]) -> int:
    """How wide lines may be there: COLUMNS, the terminal's width, or as long as they like."""
    given = environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and int(given) > 0:
        return max(int(given), 20)
    if stream.isatty():
        try:
            return max(os.get_terminal_size(stream.fileno()).columns, 20)
        except (OSError, ValueError):
            return 80
    return UNBOUNDED


class PlainConsole(Console):
    """A console that leaves it to the command line what becomes of a pipe without a reader; rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        """Pass it on."""
        raise BrokenPipeError


def make_console(stream: TextIO, environ: Mapping[str, str]) -> Console:
    """The console that writes to a stream as the environment asks."""
    color = wants_color(stream, environ)
    return PlainConsole(
        file=stream,
        force_terminal=color,
        force_interactive=False,
        color_system="standard" if color else None,
        no_color=not color,
        width=columns(stream, environ),
        height=100,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
    )


class Printer:
    """Prints the parts of a page one by one.

    Args:
        stream: where to; stdout when None.
        environ: the environment that decides colour and width; that of this process when None.
    """

    def __init__(self, stream: TextIO | None = None, environ: Mapping[str, str] | None = None) -> None:
        self.stream = sys.stdout if stream is None else stream
        self.console = make_console(self.stream, os.environ if environ is None else environ)
        self.ruled = self.stream.isatty()

    def part(self, part: Line | Grid) -> None:
        """Print a line or a table."""
        for text in lines_of(part, self.console, ruled=self.ruled):
            text.rstrip()
            self.console.print(text, soft_wrap=True)


def show(page: Page, stream: TextIO | None = None, environ: Mapping[str, str] | None = None) -> None:
    """Print a page; the arguments are those of `Printer`."""
    printer = Printer(stream, environ)
    for part in page.parts:
        printer.part(part)


def lines_of(part: Line | Grid, console: Console, *, ruled: bool) -> Iterator[Text]:
    """The lines of a part as they fit the console."""
    if isinstance(part, Line):
        yield from wrapped(part, console)
        return
    table = Table(
        box=SIMPLE_HEAD if ruled else None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 2, 0, 0)
    )
    for number, heading in enumerate(part.headings):
        wraps = number == part.wraps
        table.add_column(
            Text(heading),
            justify="right" if number in part.numbers else "left",
            no_wrap=not wraps,
            overflow="fold",
            min_width=NARROW if wraps else None,
        )
    for row in part.rows:
        table.add_row(*(Text.assemble(cell) for cell in row))
    room = console.width - part.indent
    natural = console.measure(table, options=console.options.update(width=UNBOUNDED)).maximum
    if min(natural, least_width(part)) <= room:
        for line in console.render_lines(table, console.options.update(width=min(natural, room)), pad=False):
            yield Text(" " * part.indent).append_text(
                Text.assemble(*((segment.text, segment.style or "") for segment in line if not segment.control))
            )
        return
    for first, *rest in part.rows:
        yield from wrapped(Line(Text.assemble(first), part.indent, 4), console)
        told: list[Piece] = []
        for heading, cell in zip(part.headings[1:], rest, strict=True):
            if (cell if isinstance(cell, str) else cell[0]) not in {"", "-"}:
                told += ["; " if told else "", (f"{heading.lower()} ", "dim"), cell]
        yield from wrapped(Line(Text.assemble(*told), part.indent + 2, 2), console)


def least_width(grid: Grid) -> int:
    """The columns a table takes when the one that may be wrapped is as narrow as it may be."""
    widths = [
        max(cell_len(cell if isinstance(cell, str) else cell[0]) for cell in column)
        for column in zip(grid.headings, *grid.rows, strict=True)
    ]
    return sum(NARROW if number == grid.wraps else width for number, width in enumerate(widths)) + 2 * len(widths) - 2


def wrapped(line: Line, console: Console) -> Iterator[Text]:
    """A line cut to the console's width, each part with the line's indentation and mark."""
    if not line.text.plain and not line.mark:
        yield Text()
        return
    first, later = line.indent, line.indent + line.hang
    if console.width - later - len(line.mark) < NARROW:
        first, later = min(first, 2), min(later, 4)
    if first + len(line.mark) + line.text.cell_len <= console.width:
        yield Text(" " * first).append(line.mark, "dim").append_text(line.text)
        return
    # All parts get the width of the later ones, the first as well: rich wraps to one width.
    room = console.width - later - len(line.mark)
    if line.mark:  # a quote is cut anywhere: its spaces mean something
        parts = [Text(part, line.text.style) for part in cut(line.text.plain, room)]
    else:
        parts = list(line.text.wrap(console, room, overflow="fold"))
    for number, part in enumerate(parts):
        yield Text(" " * (later if number else first)).append(line.mark, "dim").append_text(part)


def cut(text: str, room: int) -> Iterator[str]:
    """A text in pieces of at most `room` columns, none of it left out."""
    start = width = 0
    for number, char in enumerate(text):
        size = get_character_cell_size(char)
        if width + size > room:
            yield text[start:number]
            start, width = number, 0
        width += size
    yield text[start:]
