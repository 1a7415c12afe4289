"""What a scenario of the fault lab is: a job, a fault put into it on purpose, and the truth that follows from that.

Who and when is not written here: the injection says it itself, on disk, before the fault happens (`witness`), and the
kernel says how the process ended (`observer`). Here stands what nobody can measure: which kind of failure it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .performance import Performance
    from .stage import Stage

FIRST, VICTIM, STOPPED, INDEPENDENT, COLLATERAL, UNKNOWN = (
    "first", "victim", "stopped", "independent", "collateral", "unknown",
)  # fmt: skip
"""Roles of ranks. A victim is ``collateral`` or ``stopped``, whichever the kernel says: by itself, or by a signal."""

ANY_RANK = -2
"""In `Fault.ranks`: one rank, whichever the injection found."""

SEPARATE_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""Lets each attempt of the workers have a store of its own. In the agents' store what they left there is found again
after a restart, and a node that joins a running job does not learn its address."""

Play = Callable[["Stage"], None]
Proof = Callable[["Performance"], list[str]]


def everybody_at_once(stage: Stage) -> None:
    """Start all agents and let the script do the rest."""
    for _ in range(stage.scenario.agents):
        stage.start_agent()


@dataclass(frozen=True, kw_only=True)
class Fault:
    """The true cause of an attempt's end.

    Attributes:
        what: the injection's name in the witness files; whoever wrote it is the culprit, and when it did is the time.
        kind: the kind of failure, in the words of ``why --json``.
        confidence: the least that is expected. What is concluded from an absence may never be ``certain``.
        ranks: whom the injection was meant for; None when no rank is to blame, as with an agent's own end.
        status: how the process ends, torch's way (negative for a signal); None when it is not the fault that ends it.
        exit_code: the answer's exit code, where no single process's `status` says it.
        says: what the process or torchrun must have printed because of it, or the fault did not happen.
        error_type: the exception's type.
        message: its text, to the letter.
        late_s: how much later than the injection the true time of the cause may be, as with a missed heartbeat.
        early_s: how much earlier.
        timed: whether an answer without a time is wrong.
        signal: the signal an agent got; a worker's is told by `status`.
        names_agent: whether the pid of the answer must be that of the agent it was done to.
    """

    what: str
    kind: str
    confidence: str = "certain"
    ranks: tuple[int, ...] | None = None
    status: int | None = None
    exit_code: int | None = None
    says: tuple[str, ...] = ()
    error_type: str | None = None
    message: str | None = None
    late_s: float = 0.0
    early_s: float = 0.0
    timed: bool = True
    signal: str | None = None
    names_agent: bool = False


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The truth about one attempt: its outcome, its cause, and what became of each rank.

    Attributes:
        roles: of a rank, or of all ranks of an agent (``agent 0``), where only the rendezvous decides who is which.
    """

    outcome: str
    fault: Fault | None = None
    roles: Mapping[int | str, str] = field(default_factory=dict)
    world_size: int | None = None


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One job with a fault in it.

    Attributes:
        name: how the test is called.
        about: the situation, in one sentence.
        script: what the user trains with; it may import `witness`.
        truth: the attempts.
        state: how the run ended.
        exit_codes: of the agents, in the order in which they were started.
        restarts: failure, membership and preemption restarts.
        agents: how many torchrun there are; none where ranks are started one by one.
        ranks: workers of each agent.
        args: further arguments of torchrun.
        env: further environment of the job.
        play: what the harness does meanwhile.
        memory_limit: bytes of a control group around the job.
        proof: further signs, independent of jobtape, that the fault really happened; complaints when it did not.
        warnings: kinds of warnings that must be there.
        people: whether what ``why`` prints for people is looked at too (hostile texts).
        known_fault: why jobtape does not yet give the true answer; the test then has to fail.
    """

    name: str
    about: str
    script: str
    truth: tuple[Attempt, ...]
    state: str = "failed"
    exit_codes: tuple[int, ...] = (1,)
    restarts: tuple[int, int, int] = (0, 0, 0)
    agents: int = 1
    ranks: int = 2
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    play: Play = everybody_at_once
    memory_limit: int | None = None
    proof: Proof | None = None
    warnings: tuple[str, ...] = ()
    people: bool = False
    known_fault: str | None = None

    @property
    def faults(self) -> list[Fault]:
        """The injected faults, attempt by attempt."""
        return [attempt.fault for attempt in self.truth if attempt.fault is not None]
