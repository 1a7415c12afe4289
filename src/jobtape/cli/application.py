"""The group of commands, loaded one at a time, and the one place where an error becomes a line and an exit code."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from jobtape.errors import JobtapeError
from jobtape.views.escape import visible

COMMANDS = {
    "run": ("run", "Run a job under torchrun with recording on."),
    "ls": ("ls", "Which runs are there."),
    "why": ("why", "What ended each attempt of a run, and who was first."),
    "show": ("show", "The run attempt by attempt."),
    "time": ("time", "Where the wall time of a run went."),
    "events": ("events", "The records of a run, filtered."),
    "import": ("import_", "Put foreign records onto a tape."),
    "doctor": ("doctor", "Is recording on, where to, how fast, what was lost."),
}
"""Name of a command -> its module here, and its one line in the list of commands."""

EPILOG = "Example: jobtape why"

WRONG_USE = 2
INTERRUPTED = 130
PIPE_CLOSED = 141
"""What a shell reports of a command that SIGINT or SIGPIPE ended."""


class PipeClosed(Exception):
    """The reader of stdout has gone; click would make an exit code of 1 of it, which here is an answer."""


class Commands(click.Group):
    """The commands of jobtape; the module of one is imported when that one is asked for."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a reader of the pipe who has had enough is told from other errors before click sees it."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise PipeClosed from error

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names, in the order in which a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """The command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"jobtape.cli.{COMMANDS[cmd_name][0]}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """The list of commands in the help, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def show_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    """Print the version and leave."""
    if value and not ctx.resilient_parsing:
        from jobtape import __version__

        click.echo(f"jobtape {__version__}")
        ctx.exit()


@click.group(cls=Commands, invoke_without_command=True, epilog=EPILOG)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version, help="Print the version."
)
@click.help_option("--help", help="Print this help.")
@click.pass_context
def jobtape(ctx: click.Context) -> None:
    """The flight recorder of elastic training jobs: what failed first, on which rank and node, and what it cost."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run_application(argv: Sequence[str] | None) -> int:
    """Run the command line; return the exit code.

    Raises:
        Exception: an unexpected one, with JOBTAPE_DEBUG set.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:  # closed by the shell: the exit code is the answer
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for the life of the process
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = jobtape.main(args=words, prog_name="jobtape", standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as error:
        return complain(usage_line(error))
    except click.ClickException as error:
        return complain(error.format_message())
    except click.Abort:
        return INTERRUPTED
    except JobtapeError as error:
        return complain(str(error))
    except (BrokenPipeError, PipeClosed):
        drop_output()
        return PIPE_CLOSED
    except Exception as error:
        if os.environ.get("JOBTAPE_DEBUG"):
            raise
        if isinstance(error, OSError) and error.filename is None:
            drop_output()
            return complain(f"cannot write the answer: {error.strerror}; make room, or send it elsewhere")
        return complain(f"unexpected {type(error).__name__}: {error}; JOBTAPE_DEBUG=1 shows where")
    return code if isinstance(code, int) else 0


def drop_output() -> None:
    """Send what stdout still holds nowhere: the interpreter would try again, and complain, when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def usage_line(error: click.UsageError) -> str:
    """What was wrong with the words on the command line, and where to read how they go."""
    command = error.ctx.command_path if error.ctx is not None else "jobtape"
    message = error.format_message().strip().rstrip(".")
    return f"{message[:1].lower()}{message[1:]}; see {command} --help"


def complain(message: str) -> int:
    """Say on stderr, in one line, what happened; the exit code for that."""
    text = f"jobtape: {visible(' '.join(message.split()))}"
    with contextlib.suppress(OSError, ValueError, AttributeError):
        click.echo(text, err=True)
    return WRONG_USE
