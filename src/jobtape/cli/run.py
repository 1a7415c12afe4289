"""``jobtape run``: torchrun with recording on, and one line an attempt as it goes."""

from __future__ import annotations

import sys
from typing import Any

import click

from jobtape.errors import JobtapeError

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
def command(args: tuple[str, ...]) -> None:
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
    torchrun.main(words)


def _print_attempt(attempt: Any) -> None:
    """Say in one line how an attempt of this node's agent ended."""
    print(attempt_line(attempt), file=sys.stderr, flush=True)


def attempt_line(attempt: Any) -> str:
    """The line of an attempt: its number, how long it took, and the first of its workers to fail."""
    duration_s = (attempt.ended_s or attempt.started_s) - attempt.started_s
    head = f"jobtape: attempt {attempt.number}"
    if attempt.state == "SUCCEEDED":
        return f"{head} succeeded after {duration_s:.1f} s"
    first = attempt.first_failure
    if first is None:
        return f"{head} was stopped after {duration_s:.1f} s ({_REASONS.get(attempt.stop_reason, attempt.stop_reason)})"
    how = first["signal"] or f"exit code {first['exit_code']}"
    return f"{head} failed after {duration_s:.1f} s: rank {first['rank']} (pid {first['pid']}) ended with {how}"


_REASONS = {
    "membership": "nodes joined or left",
    "agent_signal": "the agent received a signal",
    "shutdown": "the agent shut down",
    None: "no reason known",
}
