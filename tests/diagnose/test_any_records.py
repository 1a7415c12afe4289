"""No record makes the diagnosis raise, and every answer keeps the promises that hold for all of them."""

import importlib.util
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobtape.diagnose.model import to_json
from jobtape.diagnose.reconstruct import diagnose
from jobtape.tape.reader import TapeFile, read_tape
from jobtape.tape.records import CloseRecord, EventRecord, Header, LossRecord, Other, RdzvRecord
from tests.diagnose.lab import PEER_CLOSED, Node, raised
from tests.diagnose.live import Agent, Worker

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "why.schema.json").read_text()))
CASES = sorted((SHARED / "cases").glob("v*/input")) if SHARED.is_dir() else []


def check(said):
    """Every promise that holds for all answers: the schema's, and the order of times."""
    assert [] == [f"{list(error.absolute_path)}: {error.message[:200]}" for error in SCHEMA.iter_errors(said)]
    json.dumps(said, allow_nan=False)
    for part in (said, *said["attempts"]):
        assert part["started"] is None or part["ended"] is None or part["started"] <= part["ended"]
    assert list(range(len(said["attempts"]))) == [attempt["index"] for attempt in said["attempts"]]
    for attempt in said["attempts"]:
        ranks = [rank["rank"] for rank in attempt["ranks"]]
        assert sorted(set(ranks)) == ranks
        assert [rank["role"] for rank in attempt["ranks"]].count("first") <= 1
        cause = attempt["cause"]
        if cause is not None and cause["rank"] is not None:
            assert ["first"] == [rank["role"] for rank in attempt["ranks"] if rank["rank"] == cause["rank"]]
        if cause is None or cause["rank"] is None:
            assert "first" not in [rank["role"] for rank in attempt["ranks"]]
    told = sum(said["restarts"].values())
    assert told <= max(len(said["attempts"]) - 1, 0)


def real_files():
    """Tape files of every shared case, imported."""
    from jobtape.importers.torchelastic import import_files

    return import_files


def checker():
    """The invariants of the cases' own checker, where it is there."""
    spec = importlib.util.spec_from_file_location("check", SHARED / "cases" / "check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.invariants


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """The shared cases and recordings, each a list of tape files."""
    import_files = real_files()
    found = {}
    inputs = {case.parent.name: sorted(case.iterdir()) for case in CASES}
    inputs |= {path.name: [path] for path in sorted((SHARED / "recordings").glob("*.jsonl"))} if SHARED.is_dir() else {}
    for name, paths in inputs.items():
        shelf = tmp_path_factory.mktemp("shelf")
        import_files(paths, shelf, "UTC")
        found[name] = [read_tape(path) for path in sorted(shelf.glob("*/*.jsonl"))]
    found["live"] = [node.file() for node in live_job()]
    return found


def live_job():
    """A live job of two agents, a failure, a restart, and workers' tapes."""
    a = Agent("node-a", 10).start(1, [0, 1], [200, 201], 0, 0, 2, world=4)
    b = Agent("node-b", 11, boot="boot-b").start(1, [2, 3], [200, 201], 0, 1, 2, world=4)
    tapes = [
        b.worker(201).error(19, "ValueError", "x").close(19.5),
        a.worker(200).error(19.2, "RuntimeError", PEER_CLOSED).close(20),
    ]
    b.exit(19.6, 201, 1).stop(19.8, 200).ended(20, failed=[3])
    a.exit(20, 200, 1).stop(20.1, 201).ended(20.2, failed=[0])
    a.start(25, [0, 1], [300, 301], 1, 0, 1).membership(30).stop(30, 300, 301, reason="membership").ended(31, "STOPPED")
    a.start(32, [0], [400], 2, 0, 1, restarts=1).own(40, "agent.signal", signal="SIGTERM").stop(
        40, 400, reason="agent_signal"
    ).close(41, "signal")
    return [a, b, *tapes]


def names(imported):
    """What can be drawn from."""
    return sorted(imported)


@settings(max_examples=150)
@given(data=st.data())
def test_broken_sequences_of_real_records(imported, data):
    """Records dropped, repeated, moved, cut off, taken from elsewhere or with times that contradict each other."""
    name = data.draw(st.sampled_from(names(imported)))
    files = [mangled(file, imported, data) for file in imported[name]]
    if data.draw(st.booleans()):
        files = data.draw(st.permutations(files))
    if data.draw(st.integers(0, 9)) == 0:
        files = files[: data.draw(st.integers(0, len(files)))]
    alive = frozenset(file.path.name for file in files if data.draw(st.integers(0, 9)) == 0)
    check(to_json(diagnose(files, alive=alive)))


def mangled(file, imported, data):
    """A file with some of its records broken."""
    records, lines = list(file.records), list(file.lines)
    for _ in range(data.draw(st.integers(0, 6))):
        if not records:
            break
        at = data.draw(st.integers(0, len(records) - 1))
        how = data.draw(
            st.sampled_from(["drop", "drop many", "repeat", "move", "cut", "foreign", "time", "rank", "keep tail"])
        )
        if how == "drop":
            del records[at]
        elif how == "drop many":
            records = (
                [r for r in records if not data.draw(st.booleans())]
                if len(records) < 40
                else records[: at // 2] + records[at:]
            )
        elif how == "repeat":
            records.insert(data.draw(st.integers(0, len(records))), records[at])
        elif how == "move":
            records.insert(data.draw(st.integers(0, len(records) - 1)), records.pop(at))
        elif how == "cut":
            records = records[:at]
        elif how == "keep tail":
            records = records[at:]
        elif how == "foreign":
            other = data.draw(st.sampled_from(imported[data.draw(st.sampled_from(names(imported)))]))
            records[at:at] = other.records[: data.draw(st.integers(0, 20))]
        elif how == "time":
            records[at] = changed(records[at], time_ns=data.draw(TIMES), mono_ns=data.draw(TIMES))
        elif how == "rank" and isinstance(records[at], EventRecord):
            key = data.draw(
                st.sampled_from(
                    [
                        "global_rank",
                        "group_rank",
                        "worker_id",
                        "agent_restarts",
                        "hostname",
                        "pid",
                        "exit_code",
                        "attempt",
                    ]
                )
            )
            records[at] = changed(records[at], metadata={**records[at].metadata, key: data.draw(VALUES)})
    header = file.header if data.draw(st.integers(0, 19)) else None
    return TapeFile(path=file.path, header=header, records=records, lines=lines[: len(records)] + list(range(1000, 1000 + max(len(records) - len(lines), 0))),
                    damage=file.damage, missing=file.missing, closed=file.closed and data.draw(st.booleans()), stacks=file.stacks)  # fmt: skip


def changed(record, **fields):
    """A copy with other fields."""
    import msgspec

    return msgspec.structs.replace(record, **fields)


TIMES = st.one_of(
    st.none(),
    st.sampled_from([0, -1, 1, 2**63 - 1, -(2**63), 1_772_305_500_000_000_000]),
    st.integers(1_700_000_000 * 10**9, 1_900_000_000 * 10**9),
)
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["SIGTERM", "9", "-11", "node-a", "<NONE>", PEER_CLOSED, "ValueError: x", '{"message": "<NONE>"}', "{", "[]", "Traceback (most recent call last):\n",
                     'Traceback (most recent call last):\n  File "/srv/x.py", line 3, in y\nKeyError: 4\n', raised("KeyError", "'x'", at=3)]),
)  # fmt: skip
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-5, 10),
        st.sampled_from([2**31, 2**63, -(2**70), 10**30]),
        st.floats(),
        TEXTS,
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    [f"torchelastic.worker.status.{state}" for state in ("START", "RENDEZVOUS", "ASSIGN_WORKER_RANKS", "SUCCEEDED", "FAILED", "TERMINATED", "X")]
    + [f"torchelastic.log.{name}" for name in ("worker_failed", "signal_sent", "signal_forced", "group_failed", "membership", "agent_signal", "group_succeeded",
                                               "barrier_failed", "rendezvous_shutdown_failed", "root_cause", "worker_output", "new")]
    + [f"jobtape.{name}" for name in ("launch.start", "attempt.start", "worker.exit", "worker.stop", "worker.failure", "attempt.end", "agent.membership",
                                      "agent.signal", "launch.end", "worker.error", "worker.thread_error", "worker.exit_call", "worker.ready")]
    + ["", "user.step"]
)  # fmt: skip
KEYS = ["run_id", "global_rank", "group_rank", "worker_id", "hostname", "state", "raw_error", "metadata", "agent_restarts", "rank", "local_rank", "pid", "pids", "ranks",
        "local_ranks", "attempt", "exit_code", "signal", "stopped", "reason", "error_type", "message", "traceback", "location", "code", "call", "outcome", "failures",
        "attempts_left", "waiting", "round", "group_world_size", "world_size", "restart_count", "oom_kills", "error_time_s", "agent_pid", "time_s", "error_file"]  # fmt: skip
RANKS = st.one_of(st.lists(st.integers(0, 4), max_size=4), VALUES)
METADATA = st.dictionaries(st.sampled_from(KEYS), st.one_of(VALUES, st.integers(0, 4), RANKS), max_size=14)
MESSAGES = st.one_of(
    TEXTS,
    st.builds(lambda n, r, k, w: f"The node '{n}' has joined round {r} of the rendezvous 'x' as rank {k} in a world of size {w}.",
              st.sampled_from(["a_1_0", "b_2_0", "'"]), st.integers(0, 4), st.integers(0, 3), st.integers(0, 3)),
    st.sampled_from(["The node 'a_1_0' attempts to join the next round of the rendezvous 'x'.", "RendezvousClosedError: ", "RendezvousTimeoutError: ", "KeyError: 3",
                     "The node 'a_1_0' added itself to the wait list of round 7 of the rendezvous 'x'. Pending sync.",
                     "The node 'a_1_0' has sent a keep-alive heartbeat to the rendezvous 'x'.", "The node 'a' has failed to shutdown the rendezvous"]),
)  # fmt: skip
STAMPS = {"seq": st.integers(0, 99), "time_ns": TIMES, "mono_ns": TIMES}
RECORDS = st.one_of(
    st.builds(EventRecord, name=NAMES, source=st.sampled_from(["AGENT", "WORKER", "LAUNCHER", ""]), metadata=METADATA, origin=st.none() | st.just("x.log:3"), **STAMPS),
    st.builds(RdzvRecord, message=MESSAGES, hostname=st.sampled_from(["node-a", "node-b", ""]), pid=st.integers(-1, 3), node_state=st.sampled_from(["RUNNING", "FAILED", "?"]),
              error_trace=TEXTS, **STAMPS),
    st.builds(LossRecord, reason=st.sampled_from(["write_failed", "damaged_line", "foreign_line"]), count=st.integers(-3, 9), detail=TEXTS, **STAMPS),
    st.builds(CloseRecord, lost=st.integers(-1, 3), **STAMPS),
    st.builds(Other, **STAMPS),
)  # fmt: skip
HEADERS = st.none() | st.builds(
    Header, role=st.sampled_from(["agent", "worker", "import", "other", ""]), host=st.sampled_from(["node-a", "node-b", ""]), boot_id=st.sampled_from(["", "b1", "b2"]),
    pid=st.integers(0, 4), pid_start=st.integers(0, 2), parent_pid=st.integers(0, 4), time_ns=TIMES, mono_ns=TIMES, run_id=TEXTS,
    ranks=st.dictionaries(st.sampled_from(["RANK", "LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT"]), st.sampled_from(["0", "1", "7", "-1", "x", ""]), max_size=4),
)  # fmt: skip


@st.composite
def tapes(draw):
    """A tape file of any records in any order."""
    records = draw(st.lists(RECORDS, max_size=25))
    return TapeFile(
        path=Path(f"{draw(st.sampled_from('abc'))}.jsonl"), header=draw(HEADERS), records=records, lines=list(range(2, len(records) + 2)),
        missing=draw(st.integers(0, 3)), closed=draw(st.booleans()),
        stacks=draw(st.sampled_from(["", "Fatal Python error: Segmentation fault\n\n", 'Current thread 0x1 (most recent call first):\n  File "/x.py", line 3 in f\n'])),
    )  # fmt: skip


@settings(max_examples=400)
@given(files=st.lists(tapes(), max_size=4), alive=st.frozensets(st.sampled_from(["a.jsonl", "b.jsonl"])))
def test_any_records_in_any_order(files, alive):
    """Records that nobody has ever written."""
    check(to_json(diagnose(files, alive=alive)))


def test_answers_to_real_records(imported):
    """The shared cases and recordings as they are."""
    for files in imported.values():
        check(to_json(diagnose(files)))


@pytest.mark.skipif(not (SHARED / "cases" / "check.py").is_file(), reason="the shared cases are not here")
def test_the_checkers_invariants(imported):
    """What the cases' own checker asks of every answer."""
    invariants = checker()
    for files in imported.values():
        errors = []
        invariants(to_json(diagnose(files)), errors)
        assert [] == errors


def test_no_records_at_all():
    """Nothing in, nothing claimed."""
    said = to_json(diagnose([], run_id="x"))
    check(said)
    assert ("x", "unknown", []) == (said["run_id"], said["state"], said["attempts"])


def test_hostile_sizes():
    """Texts of 200 kB and ranks of all kinds go through whole and in a moment."""
    text = "A" * 200_000 + "\n" + 'File "/evil.py", line 1\n' * 1000
    node = (
        Node()
        .join(0)
        .start(1, [0, 1], [20, 21])
        .ended(9, 0, 20, 1, raised("ValueError", text, at=8))
        .ended(9, 1, 21, -15, local_rank=1)
    )
    said = to_json(diagnose([node.agent(9).file()]))
    check(said)
    assert (text, "/srv/train.py:12") == (
        said["attempts"][0]["cause"]["message"],
        said["attempts"][0]["cause"]["location"],
    )
    worker = Worker(RANK="99999999999999999999", WORLD_SIZE="-3").error(5, "ValueError", text)
    check(to_json(diagnose([worker.file()])))
