"""The answer in one sentence a tired person understands: what ended the run, who was first, what followed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobtape.diagnose.likeness import ending_of
from jobtape.views.clock import duration, moment
from jobtape.views.endings import Ending, endings, firsts, several, ways, which
from jobtape.views.escape import brief, brief_place, visible
from jobtape.views.groups import count, node_names, ranges, rank_phrase

if TYPE_CHECKING:
    from jobtape.diagnose.model import Attempt, Cause, Run

MESSAGE_LIMIT = 200
SHORT_MESSAGE = 80
HEDGES = {"certain": "", "likely": "most likely ", "suspected": "perhaps ", "unknown": "perhaps "}
SIGNAL_WORDS = {
    "SIGSEGV": "crashed with SIGSEGV (segmentation fault)",
    "SIGABRT": "aborted (SIGABRT)",
    "SIGBUS": "crashed with SIGBUS (bus error)",
    "SIGFPE": "crashed with SIGFPE (arithmetic error)",
    "SIGILL": "crashed with SIGILL (illegal instruction)",
}


def sentence(run: Run, limit: int = MESSAGE_LIMIT) -> str:
    """The answer about a run.

    Args:
        run: what the tape means.
        limit: characters told of what the first rank said.

    Returns:
        One sentence, made safe for a terminal.
    """
    told = answer(run, limit)
    return told if told.endswith(".") else f"{told}."


def answer(run: Run, limit: int) -> str:
    """The answer about a run; a full stop may still be missing."""
    if not run.attempts:
        return NO_ATTEMPT.get(run.state, NO_ATTEMPT["unknown"])
    last = run.attempts[-1]
    if run.state == "succeeded":
        return f"The run succeeded{after(run.wall_s)}{in_attempt(run, last)}{earlier(run.attempts)}"
    if run.state == "running":
        since = f" since {moment(last.started)}" if last.started is not None else ""
        return f"The run is still running, attempt {last.index}{since}{earlier(run.attempts)}"
    attempts, futile = apart(run.attempts)
    last = attempts[-1]
    if run.state == "failed":
        return f"{failed(attempts, limit)}{in_vain(futile)}"
    if run.state not in LEADS:
        covers = f"; it covers {duration(run.wall_s)}" if run.wall_s is not None else ""
        said = (
            f"; in attempt {last.index}, {blame(last.cause, limit)}{aftermath(last)}" if last.cause is not None else ""
        )
        return f"The record does not say how the run ended{covers}{said}{in_vain(futile)}"
    if regrouped(last) and futile:
        return f"{LEADS[run.state]}{after(run.wall_s)}: attempt {last.index} {how_ended(last)}{in_vain(futile)}"
    if last.cause is not None:
        said = f": {blame(last.cause, limit)}{aftermath(last)}"
    elif run.state == "lost":
        said = ": its record breaks off without an end, and no process of it is left here"
    else:
        said = ", and the record does not say why"
    return f"{LEADS[run.state]}{after(run.wall_s)}{in_attempt(run, last)}{said}{in_vain(futile)}"


def apart(attempts: Sequence[Attempt]) -> tuple[Sequence[Attempt], Sequence[Attempt]]:
    """The attempts up to the last that had workers, and those after it, whose workers never started.

    What ended the one with workers is the answer; that no other could be formed afterwards follows from it.
    """
    for number in range(len(attempts), 0, -1):
        if attempts[number - 1].outcome != "incomplete":
            return attempts[:number], attempts[number:]
    return attempts, ()


def in_vain(futile: Sequence[Attempt]) -> str:
    """What became of the attempts that followed and never started their workers."""
    if not futile:
        return ""
    cause = futile[-1].cause
    why = f": {blame(cause, SHORT_MESSAGE)}" if cause is not None else ""
    return f"; {which(Ending(futile))} never got {'its' if len(futile) == 1 else 'their'} workers started{why}"


NO_ATTEMPT = {
    "running": "The run has started, but no attempt of it yet.",
    "failed": "The run failed before any attempt started, and the record does not say why.",
    "stopped": "The run was stopped before any attempt started.",
    "lost": "The run was lost before any attempt started: its record breaks off.",
    "succeeded": "The run succeeded, but no attempt of it is on the tape.",
    "unknown": "The tape has no attempt of this run: nothing can be said about how it went.",
}
LEADS = {"stopped": "The run was stopped", "lost": "The run was lost"}


def failed(attempts: Sequence[Attempt], limit: int = MESSAGE_LIMIT) -> str:
    """The answer about a run that failed with the last of these attempts, without its full stop."""
    groups = endings(attempts)
    last = attempts[-1]
    final = groups[-1]
    if len(attempts) == 1:
        lead = f"Attempt {last.index} ended{after(last.duration_s)}"
    elif len(groups) == 1:
        lead = f"All {len(attempts):,} attempts ended the same way{longest(final)}"
    elif len(final.attempts) > 1:
        lead = f"The run failed: its last {count(len(final.attempts), 'attempt')} ended the same way{longest(final)}"
    else:
        lead = f"Attempt {last.index}, the last of {len(attempts):,}, ended{after(last.duration_s)}"
    if regrouped(last):
        comma = "," if len(final.attempts) > 1 else ""
        return f"{lead}{comma} because nodes joined or left{earlier(attempts, final)}"
    if last.cause is None:
        return f"{lead} in failure, and the record does not say which rank was first or why"
    return f"{lead}: {blame_of(final, limit)}{aftermath(last)}{earlier(attempts, final)}"


def after(seconds: float | None) -> str:
    """`` after 2.8 s``, or nothing when nobody knows."""
    return f" after {duration(seconds)}" if seconds is not None else ""


def longest(ending: Ending) -> str:
    """How long attempts that ended alike took."""
    known = [a.duration_s for a in ending.attempts if a.duration_s is not None]
    if not known:
        return ""
    shortest, most = duration(min(known)), duration(max(known))
    return f", each after {most}" if shortest == most else f", after {shortest} to {most}"


def in_attempt(run: Run, attempt: Attempt) -> str:
    """In which attempt it was, when there were several."""
    return f", in attempt {attempt.index}" if len(run.attempts) > 1 else ""


def earlier(attempts: Sequence[Attempt], told: Ending | None = None) -> str:
    """What had ended the attempts before the last one, or before those that are told already, in few words."""
    before = attempts[: -len(told.attempts) if told is not None else -1]
    groups = endings(before)
    if len(groups) <= 2:
        return "".join(f"; {which(group)} {how_they_ended(group)}" for group in groups)
    final = ending_of(told.example) if told is not None else None
    found = ways(before)
    same = sum(len(way.attempts) for way in found if ending_of(way.example) == final)
    others = [way for way in found if ending_of(way.example) != final]
    said = [f"{same:,} ended the same way"] if same else []
    said += [f"{len(way.attempts):,} {how_they_ended(way)}" for way in others[:1]]
    if left := sum(len(way.attempts) for way in others[1:]):
        said.append(f"{left:,} ended in {len(others) - 1:,} other way{'s' if len(others) > 2 else ''}")
    these = "them" if told is not None and len(told.attempts) > 1 else "it"
    return f"; of the {len(before):,} before {these}, {'; '.join(said)}"


def regrouped(attempt: Attempt) -> bool:
    """Whether an attempt ended because nodes joined or left, and for nothing else."""
    return attempt.outcome == "membership" and attempt.cause is None


def how_ended(attempt: Attempt) -> str:
    """How an attempt ended, as the rest of a sentence whose subject it is."""
    if attempt.cause is not None:
        return because(blame(attempt.cause, SHORT_MESSAGE))
    return OUTCOMES.get(attempt.outcome, OUTCOMES["unknown"])


def because(blamed: str) -> str:
    """The rest of a sentence about what ended attempts; that nobody knows is no reason."""
    return f"ended, and {blamed}" if blamed == NOBODY_KNOWS else f"ended because {blamed}"


def how_they_ended(ending: Ending) -> str:
    """How attempts that ended alike did, as the rest of a sentence whose subject they are."""
    if ending.example.cause is not None:
        return because(blame_of(ending, SHORT_MESSAGE))
    return how_ended(ending.example).replace("was ", "were ") if len(ending.attempts) > 1 else how_ended(ending.example)


NOBODY_KNOWS = "the record does not say which rank was first or why"
OUTCOMES = {
    "succeeded": "succeeded",
    "failed": "failed, and the record does not say why",
    "stopped": "was stopped",
    "membership": "ended because nodes joined or left",
    "incomplete": "never got all its workers started",
    "lost": "was lost: its record breaks off",
    "running": "is running",
    "unknown": "ended in a way the record does not tell",
}


def blame_of(ending: Ending, limit: int) -> str:
    """Who did what in attempts that ended alike: all of them, where it was another one each time."""
    cause = ending.example.cause
    if cause is None:
        return how_ended(ending.example)
    ranks, hosts = firsts(ending)
    if crowd := several(ending):
        where = f" on {brief(hosts[0], 60)}" if len(hosts) == 1 else ""
        return blame(cause, limit, f"{rank_phrase(crowd)}, not all of them each time,{where}")
    on_several = f"{count(len(hosts), 'different host')} ({node_names(hosts, limit=40)})"
    if ranks and len(ranks) > 1:
        text = ranges(ranks)
        listed = f" ({text})" if len(text) <= 30 else ""
        where = f" on {on_several}" if len(hosts) > 1 else f" on {brief(hosts[0], 60)}" if hosts else ""
        return blame(cause, limit, f"{count(len(ranks), 'different rank')}{listed}{where}")
    if len(hosts) < 2:
        return blame(cause, limit)
    if ranks:
        return blame(cause, limit, f"rank {ranks[0]} on {on_several}")
    if cause.kind == "node_lost":
        return blame(cause, limit, f"{'agents on ' if cause.pid is not None else ''}{on_several}")
    return blame(cause, limit)


def blame(cause: Cause, limit: int = MESSAGE_LIMIT, who: str = "") -> str:
    """Who did what, as a sentence without its full stop.

    Args:
        cause: what is told.
        limit: characters told of what was said.
        who: whom to name instead of the cause's own rank, node or agent.
    """
    if cause.kind == "unknown" and cause.rank is None and not cause.message:
        return NOBODY_KNOWS
    if cause.reason == "several_silent":
        silent = rank_phrase(cause.ranks)
        return f"a collective timed out; {silent} said nothing of it, and nothing tells who was waited for"
    done = deed(cause, limit)
    if (len(cause.ranks) > 1 or who[:1].isdigit()) and done.startswith("was "):
        done = f"were {done.removeprefix('was ')}"
    return f"{HEDGES.get(cause.confidence, '')}{who or subject(cause)} {done}"


def subject(cause: Cause) -> str:
    """Who: a rank with its node, a node, an agent, or the rendezvous."""
    host = f" on {brief(cause.host, 60)}" if cause.host else ""
    if cause.kind in {"rendezvous_timeout", "rendezvous_closed"}:
        return "the rendezvous"
    if cause.kind in {"agent_error", "preempted"} and cause.rank is None:
        return f"the agent{host}"
    if cause.kind == "node_lost":
        if cause.pid is not None:
            return f"the agent{host}"
        host = brief(cause.host or "a node", 60)
        return host if host.startswith(("node", "a node")) else f"node {host}"
    if cause.ranks:
        return f"{rank_phrase(cause.ranks)}{host}"
    if cause.rank is not None:
        return f"rank {cause.rank}{host}"
    if cause.local_rank is not None and cause.host:
        return f"local rank {cause.local_rank}{host}"
    return f"a rank{host} (which one is not recorded)"


def deed(cause: Cause, limit: int) -> str:
    """What it did, and where."""
    where = f" at {brief_place(cause.location, 80)}" if cause.location else ""
    said = message(cause.error_type, cause.message, limit)
    if cause.kind == "exception":
        return f"raised {said or 'an exception'}{where}"
    # An error's bare name adds nothing to a kind that says the same.
    told = f": {said}" if said and (cause.message or cause.kind == "agent_error" or cause.kind not in DEEDS) else ""
    if cause.kind == "signal":
        name = visible(cause.signal or "") or "a signal"
        return f"{SIGNAL_WORDS.get(name, f'was killed by {name}')}{where}{told}"
    if cause.kind == "exit_code":
        code = f"with code {cause.exit_code}" if cause.exit_code is not None else "with a code that is not recorded"
        return f"exited {code}{where}{told}"
    if cause.kind == "preempted" and cause.signal:
        preempted = " (preempted)" if cause.signal == "SIGTERM" else ""
        return f"got {visible(cause.signal)}: it was told to stop from outside{preempted}{where}{told}"
    if cause.kind == "node_lost" and cause.pid is not None:
        return "vanished without an end, while other processes of its host went on"
    if cause.kind == "left_early":
        return f"left early{where}, with exit code 0, while others still worked{told}"
    if cause.reason == "named_absent":
        return f"did not come to where the others waited{where}{told}"
    if cause.kind == "unknown" and cause.reason == "vanished_rank":
        return f"ended without a word: its tape has no end{f', and last stood{where}' if where else ''}{told}"
    if cause.kind == "unknown" and where:
        return f"failed{where}, and the record does not say why{told}"
    return f"{DEEDS.get(cause.kind, DEEDS['unknown'])}{where}{told}"


DEEDS = {
    "oom_kill": "was killed by the kernel because memory ran out",
    "stall": "stopped making progress",
    "node_lost": "fell silent",
    "preempted": "was told to stop from outside (preempted)",
    "rendezvous_timeout": "timed out before enough nodes had joined",
    "rendezvous_closed": "was closed",
    "agent_error": "failed itself",
    "unknown": "failed, and the record does not say why",
}


def message(error_type: str | None, text: str | None, limit: int) -> str:
    """``RuntimeError: boom``: the first line of what was said, cut to `limit`."""
    first, _, rest = (text or "").strip().partition("\n")
    if not first.endswith(".."):
        # The sentence goes on after it, or has a full stop of its own.
        first = first.removesuffix(".")
    said = brief(first, limit) + (" …" if rest.strip() else "")
    kind = brief(error_type or "", 100)
    if not kind or first.startswith(kind):
        return said or kind
    return f"{kind}: {said}" if said else kind


def aftermath(attempt: Attempt) -> str:
    """What followed for the other ranks."""
    told = consequences(attempt).values()
    return f"; {', and '.join(told)}" if told else ""


def consequences(attempt: Attempt) -> dict[str, str]:
    """What followed for the other ranks: a phrase for each role they had in it."""
    by_role: dict[str, list[int]] = {}
    told_of = set(attempt.cause.ranks) if attempt.cause is not None else ()
    for outcome in attempt.ranks:
        if outcome.rank in told_of:
            continue
        by_role.setdefault(outcome.role, []).append(outcome.rank)
    told = {}
    if collateral := by_role.get("collateral"):
        told["collateral"] = f"{rank_phrase(collateral)} failed{later(attempt, collateral)} as a consequence"
    if stopped := by_role.get("stopped"):
        told["stopped"] = f"{rank_phrase(stopped)} {'was' if len(stopped) == 1 else 'were'} stopped by the agent"
    if independent := by_role.get("independent"):
        own = "its" if len(independent) == 1 else "their"
        told["independent"] = f"{rank_phrase(independent)} failed too, of {own} own cause"
    return told


def later(attempt: Attempt, ranks: Sequence[int]) -> str:
    """How long after the first failure these ranks ended, where both times are known and in that order."""
    began = attempt.cause.time if attempt.cause is not None else None
    meant = set(ranks)
    ends = [worker.ended for worker in attempt.workers if worker.rank in meant and worker.ended is not None]
    if began is None or len(ends) < len(ranks) or min(ends) < began:
        return ""
    if len(ends) == 1:
        return f" {duration(ends[0] - began)} later"
    return f" within {duration(max(ends) - began)}"
