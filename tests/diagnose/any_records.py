"""Records that nobody has ever written, in any order, as hypothesis makes them."""

from pathlib import Path

from hypothesis import strategies as st

from jobtape.tape.reader import TapeFile
from jobtape.tape.records import CloseRecord, EventRecord, Header, LossRecord, Other, RdzvRecord
from tests.diagnose.lab import PEER_CLOSED, raised

STATES = ("START", "RENDEZVOUS", "ASSIGN_WORKER_RANKS", "SUCCEEDED", "FAILED", "TERMINATED", "X")
LINES = (
    *("worker_failed", "signal_sent", "signal_forced", "group_failed", "membership", "agent_signal", "root_cause"),
    *("group_succeeded", "barrier_failed", "rendezvous_shutdown_failed", "worker_output", "new"),
    *("launch", "agent_started", "rendezvous_begun", "rendezvous_complete", "group_started", "group_finished"),
    *("agent_failed", "worker_stuck", "scheduler", "kernel_oom"),
)
OWN = (
    *("launch.start", "launch.end", "attempt.start", "attempt.end", "agent.membership", "agent.signal"),
    *("worker.exit", "worker.stop", "worker.failure", "worker.error", "worker.thread_error"),
    *("worker.exit_call", "worker.ready"),
)
KEYS = (
    *(
        "run_id",
        "global_rank",
        "group_rank",
        "worker_id",
        "hostname",
        "state",
        "raw_error",
        "metadata",
        "agent_restarts",
    ),
    *(
        "rank",
        "local_rank",
        "pid",
        "pids",
        "ranks",
        "local_ranks",
        "attempt",
        "exit_code",
        "signal",
        "stopped",
        "reason",
    ),
    *("error_type", "message", "traceback", "location", "code", "call", "outcome", "failures", "attempts_left"),
    *("waiting", "round", "group_world_size", "world_size", "restart_count", "oom_kills", "error_time_s", "agent_pid"),
    *("time_s", "error_file", "of", "host", "global_ranks", "global_world_sizes", "what", "job_id"),
)
SENTENCES = (
    "The node 'a_1_0' attempts to join the next round of the rendezvous 'x'.",
    "The node 'a_1_0' added itself to the wait list of round 7 of the rendezvous 'x'. Pending sync.",
    "The node 'a_1_0' has sent a keep-alive heartbeat to the rendezvous 'x'.",
    "The node 'a' has failed to shutdown the rendezvous",
    "RendezvousClosedError: ",
    "RendezvousTimeoutError: ",
    "KeyError: 3",
)
WORDS = (
    *("SIGTERM", "9", "-11", "node-a", "<NONE>", PEER_CLOSED, "ValueError: x", '{"message": "<NONE>"}', "{", "[]"),
    "Traceback (most recent call last):\n",
    'Traceback (most recent call last):\n  File "/srv/x.py", line 3, in y\nKeyError: 4\n',
    raised("KeyError", "'x'", at=3),
)
STACKS = (
    "",
    "Fatal Python error: Segmentation fault\n\n",
    'Current thread 0x1 (most recent call first):\n  File "/x.py", line 3 in f\n',
)

SOMEWHEN = st.integers(1_700_000_000 * 10**9, 1_900_000_000 * 10**9)
ODD_TIMES = st.sampled_from([0, -1, 1, 2**63 - 1, -(2**63), 1_772_305_500_000_000_000])
TIMES = st.one_of(st.none(), ODD_TIMES, SOMEWHEN)
TEXTS = st.one_of(st.text(max_size=20), st.sampled_from(WORDS))
NUMBERS = st.one_of(st.integers(-5, 10), st.sampled_from([2**31, 2**63, -(2**70), 10**30]), st.floats())
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    [
        *(f"torchelastic.worker.status.{state}" for state in STATES),
        *(f"torchelastic.log.{line}" for line in LINES),
        *(f"jobtape.{name}" for name in OWN),
        *("", "user.step"),
    ]
)
METADATA = st.dictionaries(
    st.sampled_from(KEYS),
    st.one_of(VALUES, st.integers(0, 4), st.lists(st.integers(0, 4), max_size=4)),
    max_size=14,
)
JOINED = st.builds(
    "The node '{}' has joined round {} of the rendezvous 'x' as rank {} in a world of size {}.".format,
    st.sampled_from(["a_1_0", "b_2_0", "'"]),
    st.integers(0, 4),
    st.integers(0, 3),
    st.integers(0, 3),
)
HOSTS = st.sampled_from(["node-a", "node-b", ""])
STAMPS = {"seq": st.integers(0, 99), "time_ns": TIMES, "mono_ns": TIMES}
RECORDS = st.one_of(
    st.builds(
        EventRecord,
        name=NAMES,
        source=st.sampled_from(["AGENT", "WORKER", "LAUNCHER", ""]),
        metadata=METADATA,
        origin=st.none() | st.just("x.log:3"),
        **STAMPS,
    ),
    st.builds(
        RdzvRecord,
        message=st.one_of(TEXTS, JOINED, st.sampled_from(SENTENCES)),
        hostname=HOSTS,
        pid=st.integers(-1, 3),
        node_state=st.sampled_from(["RUNNING", "FAILED", "?"]),
        error_trace=TEXTS,
        **STAMPS,
    ),
    st.builds(
        LossRecord,
        reason=st.sampled_from(["write_failed", "damaged_line", "foreign_line"]),
        count=st.integers(-3, 9),
        detail=TEXTS,
        **STAMPS,
    ),
    st.builds(CloseRecord, lost=st.integers(-1, 3), **STAMPS),
    st.builds(Other, **STAMPS),
)
VARIABLES = st.sampled_from(["RANK", "LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT"])
HEADERS = st.none() | st.builds(
    Header,
    role=st.sampled_from(["agent", "worker", "import", "other", ""]),
    host=HOSTS,
    boot_id=st.sampled_from(["", "b1", "b2"]),
    pid=st.integers(0, 4),
    pid_start=st.integers(0, 2),
    parent_pid=st.integers(0, 4),
    time_ns=TIMES,
    mono_ns=TIMES,
    run_id=TEXTS,
    ranks=st.dictionaries(VARIABLES, st.sampled_from(["0", "1", "7", "-1", "x", ""]), max_size=4),
)


@st.composite
def tapes(draw):
    """A tape file of any records in any order."""
    records = draw(st.lists(RECORDS, max_size=25))
    return TapeFile(
        path=Path(f"{draw(st.sampled_from('abc'))}.jsonl"),
        header=draw(HEADERS),
        records=records,
        lines=list(range(2, len(records) + 2)),
        missing=draw(st.integers(0, 3)),
        closed=draw(st.booleans()),
        stacks=draw(st.sampled_from(STACKS)),
    )
