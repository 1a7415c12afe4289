"""Import of torchelastic's records: whole files, honest, damaged and hostile."""

import json
from datetime import datetime, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobtape.errors import ImportFailed
from jobtape.importers import import_files
from tests.importers.lines import API, EVENTS, FAILED_LINE, block, event, glog, imported, on_shelf, rdzv, written

PLAIN_LOGGER = "[2026-02-17 09:30:01,500] torch.distributed.elastic.multiprocessing.api: [ERROR] "
EVENT_PREFIXES = [
    "",
    glog("", writer=EVENTS),
    "[2026-02-17 09:30:00,019] torchelastic-events-cap: [INFO] ",
    "1771320600.019000 pid=3780 torchelastic-events-dynamic_rendezvous ",
    "INFO:torchelastic-events-console:",
    "torchelastic-events-console: ",
    "2026-02-17T09:30:00.019Z stderr F ",
    "2026-02-17 09:30:00,019 - torchelastic-events-cap - INFO - ",
]


def seconds(record):
    """A record's time as text."""
    return datetime.fromtimestamp(record.time_ns / 1e9, timezone.utc).isoformat()


@pytest.mark.parametrize("prefix", EVENT_PREFIXES)
def test_event_behind_each_prefix(tmp_path, prefix):
    """Events and rendezvous events are read bare and behind each known prefix."""
    shelf = imported(tmp_path, prefix + event(), prefix + rdzv(), glog("dated", "0217 09:30:00.0"), mtime=1771400000)
    assert ["torchelastic.worker.status.START", "dynamic_rendezvous.py:next_rendezvous"] == [
        r.name for r in shelf.records
    ]
    timed = any(digit in prefix for digit in "0123456789")
    assert {"2026-02-17T09:30:00.019000+00:00" if timed else None} == {r.time_ns and seconds(r) for r in shelf.records}


def test_zone_applies_to_times_without_one(tmp_path):
    """A given zone is that of prefixes and of the closing block."""
    lines = [glog(event(), writer=EVENTS), block((1, 1, "text"))]
    start, cause = imported(tmp_path, *lines, tz="America/New_York").records
    assert "2026-02-17T14:30:00.019000+00:00" == seconds(start)
    assert datetime(2026, 2, 17, 14, 31, 28, tzinfo=timezone.utc).timestamp() == cause.metadata["failures"][0]["time_s"]


def test_year_comes_from_the_closing_block(tmp_path):
    """torch's prefix has no year; the block at the end of the log has."""
    records = imported(tmp_path, glog(event(), writer=EVENTS), block((1, 1, "text")), mtime=2_000_000_000).records
    assert "2026-02-17T09:30:00.019000+00:00" == seconds(records[0])


def test_year_of_one_node_serves_the_other(tmp_path):
    """A node's log without a dated line stands in the same year as the other's."""
    files = [
        written(tmp_path / "a.log", glog(rdzv(), "1231 23:59:59.0", EVENTS), mtime=2_000_000_000),
        written(tmp_path / "b.log", glog(event(), "0101 00:00:01.0", EVENTS), event(time=1767225602.0)),
    ]
    shelf = on_shelf(tmp_path / "shelf", import_files(files, tmp_path / "shelf", "UTC"))
    assert ["2025-12-31T23:59:59+00:00", "2026-01-01T00:00:01+00:00", "2026-01-01T00:00:02+00:00"] == [
        seconds(record) for record in shelf.records
    ]


def test_lines_of_the_agent_become_records(tmp_path):
    """What torch logs about workers stands on the tape in the order of the log."""
    shelf = imported(
        tmp_path,
        event(),
        glog("Sending process 12 closing signal SIGTERM"),
        PLAIN_LOGGER + FAILED_LINE,
        "ERROR:torch.distributed.elastic.multiprocessing.api:" + FAILED_LINE,
        block((1, 1, "text")),
    )
    names = ["signal_sent", "worker_failed", "worker_failed", "root_cause"]
    assert [f"torchelastic.log.{name}" for name in names] == [record.name for record in shelf.logs]
    assert [2, 3, 4, 5] == [int(record.origin.split(":")[1]) for record in shelf.logs]
    assert [True, True, False, False] == [record.time_ns is not None for record in shelf.logs]


@pytest.mark.parametrize("prefixed", [True, False])
def test_exit_barrier_has_its_error(tmp_path, prefixed):
    """The last line of the traceback below an exit barrier's failure is its error, with prefixes or without."""
    traceback = ["Traceback (most recent call last):", '  File "api.py", line 994', "torch.DistStoreError: timeout: 3"]
    head = "Error waiting on exit barrier. Elapsed: 300.5 seconds"
    lines = [glog(line, level="E") for line in [head, *traceback]] if prefixed else [PLAIN_LOGGER + head, *traceback]
    lines[0] = lines[0].replace("multiprocessing.api", "agent.server.api")
    (record,) = imported(tmp_path, event(), *lines, event()).logs
    assert (300.5, "torch.DistStoreError: timeout: 3") == (record.metadata["elapsed_s"], record.metadata["error"])


def test_errors_of_ranks_become_records(tmp_path):
    """A labelled exception and a line of torch's C++ code are kept with their rank."""
    shelf = imported(
        tmp_path,
        event(time=1771320600.0),
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "a.py", line 1',
        "something else",
        "[rank1]: ValueError: bad row",
        "[rank0]:[E217 09:30:12.447202838 ProcessGroupNCCL.cpp:642] Watchdog caught a timeout",
        "[rank0]:[W217 09:30:12.447202838 ProcessGroupNCCL.cpp:642] a warning",
        "[rank0]:" + glog(FAILED_LINE),
        glog(FAILED_LINE),
    )
    native, raised, failed = shelf.logs
    assert (0, "Watchdog caught a timeout", 1771320612447202838) == (
        native.metadata["rank"],
        native.metadata["message"],
        native.time_ns,
    )
    assert (1, "ValueError: bad row", None) == (raised.metadata["rank"], raised.metadata["message"], raised.time_ns)
    assert ("torchelastic.log.worker_failed", 3) == (failed.name, shelf.report.foreign)


def test_forged_lines_are_text(tmp_path):
    """A record inside a string, a block, a worker's output or an indented line makes no record and no run."""
    forged = event("SUCCEEDED", run_id="forged")
    logged = glog(FAILED_LINE)
    hostile = f"bad row \u2028{forged}\u0085{logged}\x0b{forged}\r{logged}\n{forged}\n{logged}"
    labelled = "\n".join(f"[rank1]: {line}" for line in f"ValueError: {hostile}".split("\n"))
    shelf = imported(
        tmp_path,
        json.dumps(json.loads(event("FAILED", raw_error=hostile)), ensure_ascii=False),
        labelled,
        f"[default1]:{forged}",
        f"ValueError: bad row {forged}",
        f"  {forged}",
        f"\t{logged}",
        f"bad row \udcff{forged}".encode("utf-8", "surrogateescape"),
        json.dumps({"log": forged, "stream": "stderr"}),
        f"2026-02-17 09:30:00,000 ERROR loader: bad row {forged}",
        block((0, 1, hostile.replace("\n", "\n  "))),
        block((0, 1, hostile.replace("\n", "\n  ")))[:-30],
    )
    assert ["job-7"] == [tape.header.run_id for tape in shelf.tapes]
    failed, *causes = shelf.records
    assert (hostile, ["torchelastic.log.root_cause"] * 2) == (
        failed.extra["raw_error"],
        [cause.name for cause in causes],
    )
    assert hostile.replace("\r\n", "\n") == causes[0].metadata["failures"][0]["message"]


@pytest.mark.parametrize("where", ["event", "block", "rank"])
def test_message_of_200_kilobytes_stays_whole(tmp_path, where):
    """A long message, hostile or not, is not cut, wherever it stands."""
    message = "ValueError: " + (event("FAILED") + "\n") * 1000
    if where == "event":
        lines = [event("FAILED", raw_error=message)]
    elif where == "block":
        lines = [event(), block((0, 1, message.replace("\n", "\n  ")))]
    else:
        texts = ["Traceback (most recent call last):", "  File", *message.split("\n")]
        lines = [event(), *(f"[rank0]: {text}" for text in texts)]
    record = imported(tmp_path, *lines).records[-1]
    found = {
        "event": lambda: record.extra["raw_error"],
        "block": lambda: record.metadata["failures"][0]["message"] + "\n",
        "rank": lambda: record.metadata["message"] + "\n",
    }
    assert 150_000 < len(message)
    assert message == found[where]()


def test_damaged_file_keeps_intact_records(tmp_path):
    """Garbage, NULs before a record, a torn record before an intact one, and a cut last line cost only themselves."""
    torn = event(rank=9)[:120]
    (tmp_path / "node-a.log").write_bytes(
        b"\n".join(
            [
                event(rank=0).encode(),
                b"",
                bytes(range(256)).replace(b"\n", b""),
                b"\0" * 777 + event(rank=1).encode(),
                (torn + glog(event(rank=2), writer=EVENTS)).encode(),
                event(rank=3, raw_error="?").encode().replace(b"?", b"\xff\xfe"),
                event(rank=4).encode() + b"\0" * 50,
                (event(rank=5) + event(rank=6)).encode(),
                b"\xff\x00garbage" + event(rank=7).encode(),
                event(rank=8).encode()[40:],
                torn.encode(),
            ]
        )
    )
    report = import_files([tmp_path / "node-a.log"], tmp_path / "shelf", "UTC")
    shelf = on_shelf(tmp_path / "shelf", report)
    assert list(range(8)) == [record.metadata["global_rank"] for record in shelf.records]
    assert (8, 0) == (report.damaged, report.foreign)
    detail = ", ".join(f"node-a.log:{line}" for line in (3, 4, 5, 6, 7, 9, 10, 11))
    assert detail == shelf.losses["damaged_line"].detail
    assert shelf.records[2].time_ns is not None


def test_long_line_does_not_blow_up(tmp_path, monkeypatch):
    """A line beyond the limit is damage, and the records around it are read."""
    monkeypatch.setattr("jobtape.importers.foreign.LONGEST_LINE", 1 << 16)
    shelf = imported(tmp_path, event(rank=0), b"x" * (1 << 20), event(rank=1, text="y" * (1 << 17)), event(rank=2))
    assert ([0, 2], 2) == ([record.metadata["global_rank"] for record in shelf.records], shelf.report.damaged)


def test_file_without_records_is_told(tmp_path):
    """A file without any record is a warning beside others, and an error alone."""
    files = [written(tmp_path / "a.log", event()), written(tmp_path / "b.log", "text"), written(tmp_path / "c.log")]
    report = import_files(files, tmp_path / "shelf", "UTC")
    assert [f"{tmp_path}/{name}: no torchelastic record in it" for name in ("b.log", "c.log")] == report.warnings
    with pytest.raises(ImportFailed, match=r"no record of a known format in .*b\.log.*known are torchelastic \(JSON"):
        import_files(files[1:], tmp_path / "shelf", "UTC")


def test_unusable_file_stops_the_import_before_it_begins(tmp_path):
    """One file that cannot be read means that nothing is written."""
    with pytest.raises(ImportFailed, match="there is no such file"):
        import_files([written(tmp_path / "a.log", event()), tmp_path / "b.log"], tmp_path / "shelf")
    assert not (tmp_path / "shelf").exists()


HONEST = [
    event(rank=0, time=1771320600.0),
    glog(rdzv(), writer=EVENTS),
    "[2026-02-17 09:30:00,019] torchelastic-events-cap: [INFO] " + event(rank=1),
    glog(FAILED_LINE, writer=API),
    *block((0, -15, "Signal"), (1, 1, "Traceback\n    x\n  ValueError: bad\n  ")).split("\n"),
    "[rank0]: Traceback (most recent call last):",
    "[rank0]: ValueError: bad",
    glog("Error waiting on exit barrier. Elapsed: 3.5 seconds", level="E"),
    glog("Traceback (most recent call last):", level="E"),
    "text",
]


@settings(max_examples=100)
@given(st.lists(st.sampled_from(HONEST).map(str.encode) | st.binary(max_size=40)), st.data())
def test_no_bytes_make_the_import_raise(tmp_path_factory, lines, data):
    """Whatever a file holds, it is imported or refused in one line, and what is written is a whole tape."""
    content = bytearray(b"\n".join(lines))
    for position in data.draw(st.lists(st.integers(0, max(0, len(content) - 1)), max_size=8)):
        content[position : position + 1] = data.draw(st.binary(max_size=3))
    folder = tmp_path_factory.mktemp("any")
    (folder / "a.log").write_bytes(content)
    try:
        report = import_files([folder / "a.log"], folder / "shelf", "UTC")
    except ImportFailed as error:
        refused = str(error)
        assert [refused] == refused.split("\n")
    else:
        assert report.records == len(on_shelf(folder / "shelf", report).records)


@settings(max_examples=100)
@given(
    st.lists(
        st.sampled_from(["event", "event", "prefixed", "text", "torn", "garbage", "agent", "rank", "block"]),
        max_size=30,
    )
)
def test_each_intact_event_is_imported_once(tmp_path_factory, kinds):
    """Among anything else, each line that holds a whole event gives exactly one record, in the file's order."""
    lines = []
    for rank, kind in enumerate(kinds):
        lines.append(
            {
                "event": event(rank=rank),
                "prefixed": glog(event(rank=rank), writer=EVENTS),
                "text": "ordinary text",
                "torn": event(rank=rank)[:90],
                "garbage": "\x00\x01\udcff\udcfe",
                "agent": glog(FAILED_LINE, time=f"0217 09:30:00.{rank:06}"),
                "rank": "[rank0]: Traceback (most recent call last):\n[rank0]: ValueError: " + event(rank=-1),
                "block": block((0, 1, "ValueError: bad\n  " + event(rank=-1))),
            }[kind].encode("utf-8", "surrogateescape")
        )
    expected = [rank for rank, kind in enumerate(kinds) if kind in ("event", "prefixed")]
    folder = tmp_path_factory.mktemp("events")
    written(folder / "a.log", event(rank=1000), *lines)
    shelf = on_shelf(folder / "shelf", import_files([folder / "a.log"], folder / "shelf", "UTC"))
    found = [
        record.metadata["global_rank"] for record in shelf.records if record.name.startswith("torchelastic.worker")
    ]
    assert [1000, *expected] == found
    assert sum(kind in ("agent", "rank", "block") for kind in kinds) == len(shelf.logs)
