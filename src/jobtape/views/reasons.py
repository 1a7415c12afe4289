"""What each word of an answer means, and why each rule of the diagnosis decides: the texts of ``why --explain``.

The rules are told in ``docs/diagnosis.md``; a test holds these tables complete.
"""

from __future__ import annotations

from typing import NamedTuple

QUESTIONS = (
    "was an agent told to stop, before any rank had failed?",
    "did a rank fail of its own cause?",
    "did a node fall silent before the first failure?",
    "did a rank fail without a word, and not as a watchdog ends those who wait?",
    "is a rank missing that the others waited for?",
    "did the agent itself fail, or could the rendezvous not form?",
)
"""In the order in which they are asked about an attempt; the first that has an answer decides."""


class Reason(NamedTuple):
    """Why a rule decides.

    Attributes:
        question: which of `QUESTIONS` it answers, counted from 1; 0 when none of them had an answer.
        why: what on the record makes it the answer.
        surer: what would make it more certain.
    """

    question: int
    why: str
    surer: str


REASONS = {
    "agent_signalled": Reason(
        1,
        "The agent recorded the signal it got from outside, and no failure of a rank is proven to be older. What ranks "
        "and other agents suffer after that follows from it.",
        "the scheduler's own log says who was told to stop and when",
    ),
    "signalled_before_start": Reason(
        1,
        "The agent recorded a signal from outside before any worker was started.",
        "the scheduler's own log says who was told to stop and when",
    ),
    "scheduler_said": Reason(
        1,
        "The scheduler's own words say that it ended the job, and no rank is known to have failed before. No agent "
        "recorded a signal: it may have been given no time to.",
        "the agents' own record of the signal: what the scheduler did to the job need not be what ended these workers",
    ),
    "requeued": Reason(
        1,
        "The records of all nodes stop without an end, and the next launch of the job counts one more time at which "
        "the scheduler queued it again: the scheduler ended it, for preemption, a failed node, or on request.",
        "the scheduler's own log says why it queued the job again",
    ),
    "stopped_from_outside": Reason(
        1,
        "Ranks that no agent watched got SIGTERM, and none of them is known to have failed before.",
        "who sent it: the scheduler's log, or that of the launcher, which stops all ranks when one has failed",
    ),
    "only_own_failure": Reason(
        2,
        "One rank alone failed of its own cause: what it said, or how it ended, is not what losing a peer leaves "
        "behind; all other failures are a victim's, or came from the agent's signal.",
        "an end on the record for every other rank: one of which nothing is known may have failed before it",
    ),
    "first_own_failure": Reason(
        2,
        "Several ranks failed of their own causes, and this one is proven to be the oldest: the latest moment at which "
        "it can have failed is before the earliest of each other.",
        "failures on one host are ordered by one clock; between hosts the order is as good as the clocks are known",
    ),
    "alike_at_once": Reason(
        2,
        "Several ranks ended in the same way within a second of the first, each by itself. Whichever their clocks put "
        "first, it did not make the others fail: they met the same thing, such as a file that is not there or a wrong "
        "setting.",
        "nothing is missing: it is their common cause that is to be found, not an order",
    ),
    "alike_wordless": Reason(
        4,
        "Several ranks ended with the same exit code within a second of the first, each by itself, and it is a code "
        "that a lost peer does not explain. None of them made the others fail.",
        "the workers' own words: recorded with jobtape each says from where it exited",
    ),
    "unordered": Reason(
        2,
        "Several ranks failed of their own causes, and their times do not prove an order. What they share is told; "
        "naming one of them would be a guess.",
        "jobtape's own tapes have the moment of each error; torch's error files have whole seconds, and an agent's log "
        "only the moment at which it looked",
    ),
    "silent_node": Reason(
        3,
        "The records of a node stop without an end while its process is not known to live, and the first failure "
        "elsewhere came after that. The others lost it; it did not lose them.",
        "a word of the node's own, from its kernel's log or its scheduler: silence alone can also be a lost file",
    ),
    "agent_gone": Reason(
        3,
        "The agent's records stop without an end, and other processes of the same boot of its host have later ones: "
        "the host lived on, its agent did not.",
        "what ended the agent's process: the kernel's log of its host, or an out-of-memory kill there",
    ),
    "scheduler_lost_node": Reason(
        3,
        "The scheduler's own words say that a node of the job failed, and no rank is known to have failed before.",
        "records of the node that stop: they tell when, and which one where the scheduler names none",
    ),
    "only_failure": Reason(
        4,
        "Only this rank failed by itself. It left no words; but nobody had stopped it, and nobody else failed.",
        "an error of its own on the record: with jobtape on, an exception and the place of an exit are kept",
    ),
    "first_failure": Reason(
        4,
        "Ranks failed without a word, and this one is proven to have failed before the others.",
        "words of the ranks that failed: an exit code of 1 is what any exception gives, a victim's too",
    ),
    "chosen_exit_code": Reason(
        4,
        "Of ranks that failed without a word only this one has an exit code that a script must have chosen; a 1 is "
        "what any exception gives, and those who lost a peer end so too.",
        "the times at which the ranks ended, and their words",
    ),
    "unordered_wordless": Reason(
        4,
        "Ranks failed without a word, and nothing proves which was first.",
        "jobtape's own tapes, with the exit, the error and the time of each worker",
    ),
    "left_early": Reason(
        5,
        "Every failure on the record says that a peer went away, and one rank had ended before them with exit code 0: "
        "it left while the others still needed it.",
        "the time at which it left; and its own tape, which says from where",
    ),
    "not_waiting": Reason(
        5,
        "The failures say that a collective timed out, and of the ranks that had not failed one was not waiting in a "
        "collective when it was stopped: the others waited for that one.",
        "its steps on the record, emit('step', step=n): their silence dates the moment at which it stopped",
    ),
    "named_absent": Reason(
        5,
        "Those who failed say themselves which ranks did not come to where they waited.",
        "where the absent ranks stood: jobtape keeps their Python stacks when their agent stops them",
    ),
    "steps_stopped": Reason(
        5,
        "The failures say that a collective timed out, and the steps on the record of one rank stopped before those of "
        "every other: the others waited for that one.",
        "where it stood: jobtape keeps its Python stack when its agent stops it",
    ),
    "paused_node": Reason(
        5,
        "The failures say that a collective timed out, and the heartbeats of one node stopped for long and came again: "
        "it stood still, and the others waited for its ranks.",
        "its kernel's log: a host that is suspended, swaps or waits for its storage goes on as if nothing had been",
    ),
    "several_silent": Reason(
        5,
        "A collective timed out for those who failed. The other ranks said nothing of it, and nothing on the record "
        "tells which of them was waited for: they are named, and none is blamed.",
        "their steps, emit('step', step=n), or their Python stacks, which jobtape keeps when an agent stops them",
    ),
    "removed_node": Reason(
        5,
        "The failures say that a peer went away, and another agent recorded that it removed a node which had sent no "
        "heartbeat. Of that node there are no records.",
        "the records of that node, or a word of its kernel or its scheduler",
    ),
    "vanished_rank": Reason(
        5,
        "One rank's own tape stops without an end, and no agent watched it: what is missing is its end.",
        "what ended that process, from its host's kernel or the scheduler",
    ),
    "first_victim": Reason(
        5,
        "Every failure on the record is a victim's, and this is the oldest of them: whom it lost is not on the record.",
        "the records of the ranks and nodes of which there are none: one of those went away first",
    ),
    "only_victims": Reason(
        0,
        "Each rank that failed says that another one went away, and no other failure is on the record: victims without "
        "the one that made them so.",
        "the records of the ranks and nodes of which there are none: one of those went away first",
    ),
    "agent_failed": Reason(
        6,
        "No worker is known to have failed; the agent, which is torchrun's own process, raised an error.",
        "what its error says: some are the consequence of another node's end",
    ),
    "rendezvous_timeout": Reason(
        6,
        "The agent's own error says that it waited for nodes that did not come in time. No worker was started.",
        "the records of the nodes that did not come",
    ),
    "rendezvous_closed": Reason(
        6,
        "The agent's own error says that the rendezvous was closed when it came to join. No worker was started.",
        "nothing is missing: who closed it is told by the attempt before",
    ),
    "gone_before_start": Reason(
        6,
        "The agent's records stop without an end before any worker was started.",
        "a word of its host on what became of it",
    ),
    "only_group_failed": Reason(
        0,
        "The agents recorded that their workers failed, and no record says which worker, when or how.",
        "jobtape's own tapes, or the agent's log lines about its workers",
    ),
    "unseen_attempt": Reason(
        0,
        "No record of this attempt is left; a later one counts it, in the number of restarts.",
        "the part of the log that is missing",
    ),
    "counted_failure": Reason(
        0,
        "The agent's count of restarts rose after this attempt, as it does for a failure and not for a change of "
        "membership. Nothing else tells of it.",
        "jobtape's own tapes, or the agent's log lines about its workers",
    ),
}
"""By `Cause.reason`."""

KINDS = {
    "exception": "the rank's Python code raised an error that it did not catch",
    "signal": "a signal ended the process: a crash in native code (SIGSEGV, SIGABRT, …), or somebody sent it (SIGKILL)",
    "exit_code": "the process ended with an exit code that is not 0, and no error says why",
    "oom_kill": "SIGKILL, not by the agent, while the kernel of that host counted an out-of-memory kill",
    "stall": "a rank stopped making progress, and the others waited for it until a timeout",
    "node_lost": "the records of a node, or of its agent, stop without an end",
    "preempted": "an agent was told to stop from outside, by a scheduler or a person",
    "rendezvous_timeout": "not enough nodes joined within the time torchrun waits for them",
    "rendezvous_closed": "the rendezvous no longer let anybody join",
    "agent_error": "torchrun's own process failed, not a worker",
    "left_early": "a rank ended with exit code 0 while others still needed it",
    "unknown": "the record does not say; a guess would be worse",
}
ROLES = {
    "first": "the rank whose failure ended the attempt",
    "collateral": "a rank that failed by itself because of another: it lost a peer or waited in vain",
    "independent": "a rank that failed by itself, of its own cause, beside others",
    "stopped": "a rank that its agent ended, because the attempt was over",
    "unknown": "a rank of which the record does not say how it ended, or why",
}
CONFIDENCES = {
    "certain": "there is a record of that very fact, and nothing on the record can have come before it",
    "likely": "inferred from what the records say, such as that the others call themselves victims",
    "suspected": "concluded from what is missing, or from what victims say",
    "unknown": "the record does not say",
}
OUTCOMES = {
    "succeeded": "all workers ended with exit code 0",
    "failed": "it ended because of a failure; the agents then restarted all workers, or gave up",
    "stopped": "somebody stopped it from outside",
    "membership": "nodes joined or left by agreement, and all workers were started anew for it; nothing failed",
    "incomplete": "the nodes never came together, so that no worker was started",
    "lost": "its records break off without an end",
    "running": "it has not ended",
    "unknown": "the record does not say how it ended",
}
WARNINGS = {
    "damaged_file": "lines of a file could not be read; all others were",
    "lost_events": "records are missing from a file, by its sequence numbers or by its own word",
    "clock_skew": "a host's clock was off by more than can be trusted; its times were corrected",
    "signature_file": "the file of signatures that was added could not be read, or rows of it were not used",
    "teardown": "something went wrong after all workers had ended well; the run is not judged by it",
    "spare_error": "an agent that never got a place failed while the job went on without it",
    "partial_failure": "some nodes of an attempt ended well and others did not",
    "missing_end": "an attempt succeeded, but one of its nodes has no record of how its workers ended",
    "missing_node": "an attempt had more nodes than there are records of",
    "missing_ranks": "a job without an agent had more ranks than there are records of",
    "orphan_workers": "workers lived on after their agent was gone",
    "ambiguous_node": "several agents have the same host name and process id; their ranks tell them apart",
}
TERMS = {
    "attempt": "what the workers that were started together did, until all of them had ended",
    "round": "one forming of the rendezvous, in which the nodes agree who takes part; counted from 0",
    "restart": "all workers started anew; counted once for the job, and named by what ended the attempt before it",
    "noticed": "when an agent saw that a worker had failed; the time of the fault itself is earlier",
    "hosts": "clocks of two hosts differ, so between hosts one failure is called older only when its lead is larger "
    "than what their clocks can be trusted with",
    "evidence": "the records a verdict rests on; jobtape events --file shows each",
}
