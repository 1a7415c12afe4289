"""``jobtape run``: torchrun with recording on, and one line an attempt as it goes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from jobtape.errors import JobtapeError
from jobtape.views.escape import visible

_HELP = """Run a job under torchrun and record it.

    ARGS are torchrun's own, script and its arguments included; what the job prints and the exit code are torchrun's.

    \b
    Example:
      jobtape run --nproc-per-node=4 --max-restarts=3 train.py --lr 0.1
    """


@click.command(
    "run",
    help=_HELP,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    add_help_option=True,
)
@click.argument("args", nargs=-1, type=click.UNPROCESSED, required=True)
def command(args: tuple[str, ...]) -> int:
    """Run torchrun's main in this process, so that its exit code, signals and output are its own."""
    try:
        import torch.distributed.run as torchrun
    except ImportError as error:
        raise JobtapeError(f"torch cannot be imported ({error}); install torch >= 2.4 in this environment") from None

    from jobtape.capture import agent, hook

    hook.activate()  # torch has called it already, unless TORCH_DEVICE_BACKEND_AUTOLOAD=0
    agent.listeners.append(_print_attempt)
    words = list(args)
    if not any(word.partition("=")[0] in ("--event-log-handler", "--event_log_handler") for word in words):
        words.insert(0, "--event-log-handler=tape")
    sys.argv = ["torchrun", *words]
    try:
        torchrun.main(words)
    except Exception as error:  # noqa: BLE001 - what the interpreter would do with it under torchrun
        if error.__traceback__ is not None:
            error.__traceback__ = error.__traceback__.tb_next
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    finally:
        _print_place()
    return 0


def _print_place() -> None:
    from jobtape.capture import agent

    launch = agent.current()
    if launch is not None and launch.directory is not None:
        click.echo(visible(f"jobtape: recorded in {launch.directory}; `jobtape why` tells what happened"), err=True)


def _print_attempt(attempt: Any) -> None:
    """Say in one line how an attempt of this node's agent ended."""
    from jobtape.capture import agent

    launch = agent.current()
    click.echo(attempt_line(attempt, launch.tape.path if launch is not None else None), err=True)


def attempt_line(attempt: Any, agent_tape: Path | None) -> str:
    """The line of an attempt: its number, how long it took, and the first of its workers to fail.

    Args:
        attempt: a `jobtape.capture.attempt.Attempt` whose workers have all ended.
        agent_tape: the agent's file; beside it the worker's own word on its error is looked up.
    """
    duration_s = (attempt.ended_s or attempt.started_s) - attempt.started_s
    head = f"jobtape: attempt {attempt.number}"
    if attempt.state == "SUCCEEDED":
        return f"{head} succeeded after {duration_s:.1f} s"
    first = attempt.first_failure
    if first is None:
        return f"{head} was stopped after {duration_s:.1f} s ({_REASONS.get(attempt.stop_reason, attempt.stop_reason)})"
    how = first["signal"] or f"exit code {first['exit_code']}"
    error = _own_error(agent_tape, first["pid"]) if agent_tape is not None else None
    if error is not None:
        how += f": {error['error_type']}: {str(error['message'])[:200]} at {error['location']}"
    return visible(
        f"{head} failed after {duration_s:.1f} s: rank {first['rank']} (pid {first['pid']}) ended with {how}"
    )


def _own_error(agent_tape: Path, pid: int) -> dict[str, Any] | None:
    from jobtape.tape.reader import read_tape

    host = agent_tape.name.rsplit("-", 2)[0]
    for path in sorted(agent_tape.parent.glob(f"{host}-{pid}-*.jsonl"))[-1:]:
        for record in reversed(read_tape(path).records):
            if getattr(record, "name", "") == "jobtape.worker.error":
                metadata: dict[str, Any] = record.metadata  # type: ignore[union-attr]
                return metadata
    return None


_REASONS = {
    "membership": "nodes joined or left",
    "agent_signal": "the agent received a signal",
    "shutdown": "the agent shut down",
    None: "no reason known",
}
