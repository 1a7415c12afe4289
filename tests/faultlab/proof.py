"""Did the fault really happen? Asked of witnesses, the kernel, torchrun and its console; never of jobtape."""

from __future__ import annotations

from .performance import HARNESS, Line, Performance
from .scenario import ANY_RANK, Fault, Scenario


def complaints(scenario: Scenario, performance: Performance) -> list[str]:
    """Why this performance did not produce the scenario's faults; empty when it did."""
    found = [performance.trouble] if performance.trouble else []
    if performance.left:
        found.append(f"processes {performance.left} outlived the job and had to be killed")
    if scenario.exit_codes != performance.exit_codes:
        found.append(f"agents ended with {performance.exit_codes}, not {scenario.exit_codes}")
    for fault in scenario.faults:
        found += _of_fault(fault, performance)
    if scenario.proof is not None:
        found += scenario.proof(performance)
    return found


def culprits(fault: Fault, performance: Performance) -> list[Line]:
    """The witness lines of an injection, the earliest first."""
    return performance.said(fault.what)


def _of_fault(fault: Fault, performance: Performance) -> list[str]:
    lines = culprits(fault, performance)
    if not lines:
        return [f"{fault.what}: no witness says that it was injected"]
    ranks = tuple(sorted(line.rank for line in lines))
    found = []
    if fault.ranks == (ANY_RANK,) and len(ranks) != 1:
        found.append(f"{fault.what}: was done to ranks {ranks}, meant for one of them")
    elif fault.ranks not in (None, (ANY_RANK,)) and ranks != fault.ranks:
        found.append(f"{fault.what}: was done to ranks {ranks}, meant for {fault.ranks}")
    if fault.ranks is None and ranks != (HARNESS,):
        found.append(f"{fault.what}: was done to ranks {ranks}, meant for no rank")
    found += [f"{fault.what}: nobody printed {text!r}" for text in fault.says if text not in performance.console]
    if fault.status is not None:
        found += [complaint for line in lines if (complaint := _of_end(fault, line, performance)) is not None]
    return found


def _of_end(fault: Fault, line: Line, performance: Performance) -> str | None:
    status = performance.status(line.pid)
    death = performance.deaths.get(line.pid)
    if status is None or death is None:
        return f"{fault.what}: neither the kernel nor torch says how process {line.pid} ended"
    if status != fault.status:
        return f"{fault.what}: process {line.pid} ended with {status}, not {fault.status}"
    told = performance.torch_says(line.pid)
    if told is not None and told != status:
        return f"{fault.what}: the kernel says {status} of process {line.pid}, torch {told}"
    if death.time < line.time:
        return f"{fault.what}: process {line.pid} had ended before it was injected"
    return None
