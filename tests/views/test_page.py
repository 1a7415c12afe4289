"""Lines and tables, on terminals and in pipes."""

import io
import os
import pty

import pytest

from jobtape.views.page import Grid, Page, columns, show, wants_color

LONG = "word " * 60


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        """It is one."""
        return True


def a_page(*rows):
    """A page with a coloured line and a table."""
    page = Page()
    page.line(("red", "red"), " and plain")
    page.grid(Grid(["RUN", "STATE", "N"], rows or [["a", ("failed", "red"), "1"], ["bb", "ok", "20"]], frozenset([2])))
    return page


def printed(page, stream, **environ):
    """What `show` writes to the stream."""
    show(page, stream, environ)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("stream", "environ", "colored"),
    [
        (io.StringIO, {}, False),
        (io.StringIO, {"FORCE_COLOR": "1"}, True),
        (io.StringIO, {"FORCE_COLOR": "0"}, False),
        (io.StringIO, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (Terminal, {"TERM": "xterm"}, True),
        (Terminal, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal, {"TERM": "xterm", "NO_COLOR": ""}, True),
        (Terminal, {"TERM": "dumb"}, False),
        (Terminal, {}, False),
    ],
)
def test_color(stream, environ, colored):
    """Colour is for terminals; NO_COLOR wins over FORCE_COLOR."""
    assert (colored, colored) == (
        wants_color(stream(), environ),
        "\x1b[" in printed(a_page(), stream(), **environ),
    )


def test_columns_of_a_real_terminal():
    """A terminal's width is its own, unless COLUMNS says otherwise."""
    leader, follower = pty.openpty()
    try:
        with os.fdopen(follower, "w") as stream:
            os.set_blocking(leader, False)
            import fcntl
            import struct
            import termios

            fcntl.ioctl(stream, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 77, 0, 0))
            assert (77, 40) == (columns(stream, {}), columns(stream, {"COLUMNS": "40"}))
    finally:
        os.close(leader)


def test_a_line_in_a_pipe_is_a_line():
    """Nothing is wrapped or cut where there is no width."""
    page = Page()
    page.line(LONG, indent=4)
    assert "    " + LONG.rstrip() + "\n" == printed(page, io.StringIO())


def test_wrapped_lines_keep_their_indentation():
    """What does not fit goes on further in."""
    page = Page()
    page.line("aaaa " * 10, indent=2, hang=3)
    lines = printed(page, io.StringIO(), COLUMNS="30").splitlines()
    assert ["  aaaa aaaa aaaa aaaa aaaa", "     aaaa aaaa aaaa aaaa aaaa"] == lines


def test_quotes_keep_their_bar():
    """Every part of a quoted line stands behind the bar, and nothing of it is lost."""
    page = Page()
    page.quote(["    " + "x" * 50, "y"], 2)
    lines = printed(page, io.StringIO(), COLUMNS="40").splitlines()
    assert all(line.startswith("  | ") for line in lines)
    assert "    " + "x" * 50 + "y" == "".join(line[4:] for line in lines)


def test_table_in_a_pipe():
    """Columns are aligned with spaces alone and no line ends with one."""
    expected = "red and plain\nRUN  STATE    N\na    failed   1\nbb   ok      20\n"
    assert expected == printed(a_page(), io.StringIO())


def test_table_on_a_terminal_has_a_rule():
    """A terminal gets a line below the headings."""
    assert "───" in printed(a_page(), Terminal(), COLUMNS="80")


def test_table_too_wide_becomes_blocks():
    """Where the table does not fit, each row is told in lines that do."""
    page = a_page(["a-long-name" * 3, "failed", "1"])
    lines = printed(page, io.StringIO(), COLUMNS="40").splitlines()
    assert ["red and plain", "a-long-name" * 3, "  state failed; n 1"] == lines


def test_a_column_that_may_be_wrapped():
    """A long last column is wrapped within the table before the table is given up."""
    page = Page()
    page.grid(Grid(["RANK", "SAID"], [["1", "word " * 12], ["2", "-"]], wraps=1))
    assert ["RANK  SAID", "1     " + ("word " * 7).strip(), "      " + ("word " * 5).strip(), "2     -"] == printed(
        page, io.StringIO(), COLUMNS="42"
    ).splitlines()


@pytest.mark.parametrize("width", [20, 24, 40, 80, 133])
def test_no_line_is_wider_than_the_place(width):
    """Whatever the width, lines, quotes and tables keep to it."""
    page = a_page(["run" * 30, ("failed", "red"), "1"], ["日本語" * 20, "ok", "2"])
    page.line("word " * 50 + "x" * 100, indent=9, hang=7)
    page.quote(["z" * 100, "漢字" * 40], 9)
    from rich.cells import cell_len

    lines = printed(page, Terminal(), COLUMNS=str(width)).splitlines()
    assert width >= max(cell_len(line) for line in lines)


def test_data_is_no_markup():
    """Square brackets and emoji names are text."""
    page = Page()
    page.line("[bold]x[/bold] :smile: [link=http://x]y[/link] [/]")
    page.grid(Grid(["[red]H"], [["[bold]x[/bold] :smile:"]]))
    expected = "[bold]x[/bold] :smile: [link=http://x]y[/link] [/]\n[red]H\n[bold]x[/bold] :smile:\n"
    assert expected == printed(page, io.StringIO())


def test_one_empty_line_at_a_time():
    """Empty lines do not add up, and none stands first."""
    page = Page()
    page.blank()
    page.line("a")
    page.blank()
    page.blank()
    page.line("b")
    assert "a\n\nb\n" == printed(page, io.StringIO())
