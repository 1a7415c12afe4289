"""The reader on whole, damaged and hostile files."""

from __future__ import annotations

import os
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobtape.errors import TapeError
from jobtape.tape.reader import Damage, TapeFile, read_header, read_tape
from jobtape.tape.records import CloseRecord, EventRecord, Header, Other, Record, encode

HEADER = encode(Header(run_id="job-1", host="node-a", time_ns=1_700_000_000_000_000_000)) + b"\n"


def line(seq: int, name: str = "x", **metadata: object) -> bytes:
    """One event as a writer writes it."""
    record = EventRecord(seq=seq, time_ns=1_700_000_000_000_000_000 + seq, mono_ns=seq, name=name, source="AGENT")
    record.metadata = metadata
    return encode(record) + b"\n"


def good(count: int = 20) -> list[bytes]:
    """The lines of an undamaged file."""
    lines = [HEADER, *(line(seq, text='"{}[]\\,:' * (seq % 3), value=seq) for seq in range(1, count))]
    return [*lines, encode(CloseRecord(seq=count, reason="exit", recorded=count - 1)) + b"\n"]


def read(directory: Path, content: bytes, name: str = "node-a-1-20260101T000000000.jsonl") -> TapeFile:
    """A file with that content, read."""
    (directory / name).write_bytes(content)
    return read_tape(directory / name)


def seqs(tape: TapeFile) -> list[int]:
    """The numbers of its records."""
    return [record.seq for record in tape.records]


def test_a_whole_file(tmp_path: Path) -> None:
    """Header, records, lines, the close, and nothing to complain about."""
    tape = read(tmp_path, b"".join(good()))
    assert "job-1" == getattr(tape.header, "run_id", None)
    assert (list(range(1, 21)), list(range(2, 22))) == (seqs(tape), tape.lines)
    assert (True, False, 0, [], "") == (tape.closed, tape.torn, tape.missing, tape.damage, tape.stacks)


def test_a_file_of_several_blocks(tmp_path: Path) -> None:
    """Lines and damage keep their numbers beyond the first megabyte."""
    lines = [HEADER, *(line(seq, text="x" * 300) for seq in range(1, 9000))]
    lines[7000] = b"garbage\n"
    tape = read(tmp_path, b"".join(lines))
    assert [Damage(7001, "JSON is malformed: invalid character (byte 0)")] == tape.damage
    assert [seq for seq in range(1, 9000) if seq != 7000] == seqs(tape)
    assert [seq + 1 for seq in seqs(tape)] == tape.lines
    assert 1 == tape.missing


CUT = line(2)[:80]

DAMAGED = [
    # content behind the header, numbers kept, lines they are on, what is said of the damage
    (line(1) + CUT, [1], [2], ["cut off at the end of the file"]),
    (line(1) + CUT + b"\n" + line(3), [1, 3], [2, 4], ["Input data was truncated"]),
    (line(1) + CUT + line(3), [1, 3], [2, 3], ["part of the line is no record; 1 kept"]),
    (line(1)[:-1] + line(2), [1, 2], [2, 2], ["2 records on one line, all kept"]),
    (line(1)[:-1] + CUT + line(3)[:-1] + line(4), [1, 3, 4], [2, 2, 2], ["part of the line is no record; 3 kept"]),
    (line(1)[:-1] + b"garbage\n" + line(2), [1, 2], [2, 3], ["part of the line is no record; 1 kept"]),
    (b"garbage" + line(1) + line(2), [1, 2], [2, 3], ["part of the line is no record; 1 kept"]),
    (b"\0" * 50 + line(1), [1], [2], ["NUL bytes around 1 intact"]),
    (line(1)[:-1] + b"\0" * 50 + b"\n" + line(2), [1, 2], [2, 3], ["NUL bytes around 1 intact"]),
    (line(1)[:-1] + b"\0" * 5 + line(2), [1, 2], [2, 2], ["NUL bytes around 2 intact"]),
    (line(1)[:40] + b"\0" * 50 + line(1)[90:] + line(2), [2], [3], ["NUL bytes in the line"]),
    (line(1) + b"\0" * 4096, [1], [2], ["4096 NUL bytes"]),
    (line(1) + b"\0" * 10 + b"\n", [1], [2], ["10 NUL bytes"]),
    (line(1) + b'{"kind":"event","seq":2,"name":"\xff"}\n', [1], [2], ["invalid UTF-8 at byte 32"]),
    (line(1) + b"[" * 100_000 + b"\n" + line(2), [1, 2], [2, 4], ["nested too deeply"]),
    (line(1) + b'{"kind":"event","seq":2,"later":' + b"[" * 100_000 + b"\n", [1], [2], ["nested too deeply"]),
    (line(1) + b'{"a":1}\n[1]\n"x"\n7\nnull\n', [1], [2], ["not a record"] * 5),
    (line(1) + b'{"kind":"event","seq":true}\n{"kind":5,"seq":5}\n', [1], [2], ["not a record"] * 2),
    (line(1) + line(1), [1], [2], ["record 1 is there twice"]),
    (line(1) + line(1, "other"), [1, 1], [2, 3], ["two records have the number 1"]),
    (line(1) + HEADER, [1], [2], ["a second header"]),
    (line(1) + line(10**30), [1, 10**30], [2, 3], [f"sequence number {10**30} cannot be"]),
    (line(1) + line(-5), [1, -5], [2, 3], ["sequence number -5 cannot be"]),
    (line(1) + b'{"kind":"event","seq":2,"x":1e999}\n', [1], [2], ["Number out of range"]),
]


@pytest.mark.parametrize(("content", "kept", "lines", "reasons"), DAMAGED)
def test_what_is_intact_is_kept_and_the_rest_named(
    content: bytes, kept: list[int], lines: list[int], reasons: list[str], tmp_path: Path
) -> None:
    """Torn, spliced, NUL-ridden and foreign lines, each with the records that are in it."""
    tape = read(tmp_path, HEADER + content)
    assert tape.header is not None
    assert (kept, lines) == (seqs(tape), tape.lines)
    assert len(reasons) == len(tape.damage), tape.damage
    for reason, damage in zip(reasons, tape.damage, strict=True):
        assert damage.reason.startswith(reason)


UNDAMAGED = [
    (b"", [], []),
    (b"\n\n", [], []),
    (line(1).replace(b"\n", b"\r\n") + line(2), [1, 2], [2, 3]),
    (line(1) + b"\n" + line(2), [1, 2], [2, 4]),
    (line(2) + line(1) + line(4) + line(3), [2, 1, 4, 3], [2, 3, 4, 5]),
    (line(1) + CUT + b"\n" + line(2), [1, 2], [2, 4]),
    (line(1) + b' {"seq": 2, "kind": "event", "time_ns": null}\n', [1, 2], [2, 3]),
    (line(1) + b'{"kind":"event","seq":2,"time_ns":null,"name":"a","name":"b","new":{"x":[1e5]}}\n', [1, 2], [2, 3]),
    (line(1) + b'{"kind":"later","seq":2,"time_ns":5,"stuff":[1]}\n' + line(3), [1, 2, 3], [2, 3, 4]),
]


@pytest.mark.parametrize(("content", "kept", "lines"), UNDAMAGED)
def test_what_is_odd_but_whole_is_no_damage(content: bytes, kept: list[int], lines: list[int], tmp_path: Path) -> None:
    """Line ends of other systems, neighbours in another order, a cut line that follows whole, later versions."""
    tape = read(tmp_path, HEADER + content)
    assert (kept, lines, [], 0) == (seqs(tape), tape.lines, tape.damage, tape.missing)


def test_a_last_record_without_its_line_end_is_kept(tmp_path: Path) -> None:
    """Only the LF is missing; that is said, and nothing is damaged."""
    tape = read(tmp_path, HEADER + line(1)[:-1])
    assert ([1], True, []) == (seqs(tape), tape.torn, tape.damage)


@pytest.mark.parametrize(
    ("numbers", "missing"),
    [([], 0), ([1], 0), ([2], 1), ([1, 2, 5], 2), ([5, 1, 2], 2), ([3, 2, 1], 0), ([100], 99)],
)
def test_gaps_are_counted_as_a_set(numbers: list[int], missing: int, tmp_path: Path) -> None:
    """The order of neighbours does not matter."""
    assert missing == read(tmp_path, HEADER + b"".join(line(seq) for seq in numbers)).missing


@pytest.mark.parametrize(
    ("content", "damage"),
    [
        (b"", []),
        (b"\n", []),
        (b"\0" * 100, [Damage(1, "100 NUL bytes")]),
        (HEADER[:50], [Damage(1, "cut off at the end of the file")]),
    ],
)
def test_a_file_without_a_header(content: bytes, damage: list[Damage], tmp_path: Path) -> None:
    """Its process was killed before the first line was there."""
    tape = read(tmp_path, content)
    assert (None, [], damage) == (tape.header, tape.records, tape.damage)


def test_records_behind_a_damaged_header_are_kept(tmp_path: Path) -> None:
    """Whose they are is then unknown, not what they say."""
    tape = read(tmp_path, HEADER[:-20] + b"\n" + line(1))
    assert (None, [1], 1) == (tape.header, seqs(tape), len(tape.damage))


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    """Some editors put one at the beginning."""
    tape = read(tmp_path, b"\xef\xbb\xbf" + HEADER + line(1))
    assert ([1], []) == (seqs(tape), tape.damage)
    assert "job-1" == getattr(read_header(tape.path), "run_id", None)


def test_a_later_version_is_read(tmp_path: Path) -> None:
    """Unknown fields are ignored, unknown kinds kept whole, the number of the format no reason to stop."""
    header = HEADER.replace(b'"format":1', b'"format":9,"colour":"red"')
    tape = read(tmp_path, header + b'{"kind":"span","seq":1,"time_ns":5,"mono_ns":6,"name":"step"}\n')
    assert 9 == getattr(tape.header, "format", None)
    assert [Other(seq=1, time_ns=5, mono_ns=6, kind="span", fields={"name": "step"})] == tape.records
    assert [] == tape.damage


def test_a_known_record_with_a_strange_field_is_kept_as_it_is(tmp_path: Path) -> None:
    """It counts as there, and what is strange is said."""
    tape = read(tmp_path, HEADER + b'{"kind":"event","seq":1,"time_ns":null,"name":7}\n')
    assert [Other(seq=1, kind="event", fields={"time_ns": None, "name": 7})] == tape.records
    assert ["a strange event record: Expected `str`, got `int` - at `$.name`"] == [d.reason for d in tape.damage]


def test_a_later_part_begins_at_its_header(tmp_path: Path) -> None:
    """The header's number is where counting begins."""
    part = HEADER.replace(b'"seq":0', b'"seq":500')
    assert 1 == read(tmp_path, part + line(501) + line(503)).missing


def test_values_come_back_decoded(tmp_path: Path) -> None:
    """Only values are forms: a metadata key that looks like one is a key."""
    content = line(1, loss={"$float": "nan"}, deep=[{"$int": "7"}], odd={"$later": 1}, **{"$float": "inf"})
    (record,) = read(tmp_path, HEADER + content).records
    assert isinstance(record, EventRecord)
    assert "{'loss': nan, 'deep': [7], 'odd': {'$later': 1}, '$float': 'inf'}" == repr(record.metadata)


def test_a_sidecar_is_read_along(tmp_path: Path) -> None:
    """At most 256 KiB of it, whatever bytes it has, and not through a link."""
    path = tmp_path / "node-a-1-20260101T000000000.jsonl"
    sidecar = path.with_suffix(".stacks")
    sidecar.write_bytes(b"Fatal Python error: Segmentation fault \xff" + b"x" * 1_000_000)
    tape = read(tmp_path, HEADER)
    assert tape.stacks.startswith("Fatal Python error: Segmentation fault \ufffd")
    assert 256 * 1024 == len(tape.stacks)
    sidecar.rename(tmp_path / "elsewhere")
    sidecar.symlink_to(tmp_path / "elsewhere")
    assert "" == read(tmp_path, HEADER).stacks


def make_missing(path: Path) -> None:
    """Nothing there."""


def make_directory(path: Path) -> None:
    """A directory of that name."""
    path.mkdir()


def make_link(path: Path) -> None:
    """A link to a real tape."""
    target = path.parent / "real"
    target.write_bytes(HEADER)
    path.symlink_to(target)


def make_pipe(path: Path) -> None:
    """A pipe nobody writes to."""
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (make_missing, "No such file"),
        (make_directory, "not a regular file"),
        (make_link, "a symbolic link, which is not followed"),
        (make_pipe, "not a regular file"),
    ],
)
def test_what_is_no_file_is_refused_at_once(make: object, message: str, tmp_path: Path) -> None:
    """One error that names the path; a pipe does not make the reader wait."""
    path = tmp_path / "x.jsonl"
    make(path)  # type: ignore[operator]
    began = time.monotonic()
    for reader in (read_tape, read_header):
        with pytest.raises(TapeError, match=message) as caught:
            reader(path)
        assert str(path) == caught.value.path
    assert time.monotonic() - began < 5


def test_a_path_with_a_nul_is_refused() -> None:
    """The system raises a ValueError for it."""
    with pytest.raises(TapeError, match=r"cannot read 'a\\x00b': .*null") as caught:
        read_tape("a\0b")
    assert str(caught.value).isprintable()


def test_a_line_of_a_hundred_megabytes_is_passed_over(tmp_path: Path) -> None:
    """In bounded memory, and what stands around it is read."""
    path = tmp_path / "x.jsonl"
    with path.open("wb") as file:
        file.write(HEADER + line(1) + b'{"kind":"event","seq":2,"time_ns":0,"name":"')
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b'"}\n' + line(3))
    tracemalloc.start()
    try:
        tape = read_tape(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ([1, 3], [2, 4], 1) == (seqs(tape), tape.lines, tape.missing)
    assert [Damage(3, "a line of more than 67108864 bytes")] == tape.damage
    assert peak < 100_000_000


@pytest.mark.parametrize(
    "pattern",
    [
        b'{"kind":"event","seq":1',
        b'{"kind":"event","seq":1,"x":"',
        b'{"kind":"event","seq":1,"x":[',
        b'{"kind":"event","seq":1,"x":',
        b'{"kind":"event","seq":1}',
        b"[",
        b'{"a":',
        b"\0",
        b"9",
        b'"\\',
    ],
)
def test_a_hostile_line_costs_linear_time(pattern: bytes, tmp_path: Path) -> None:
    """Four megabytes of what looks like the beginning of a record, over and over."""
    began = time.monotonic()
    tape = read(tmp_path, HEADER + pattern * (4_000_000 // len(pattern)) + b"\n" + line(7))
    assert 7 == seqs(tape)[-1]
    assert tape.damage
    assert time.monotonic() - began < 10


def changed(data: st.DataObject, content: bytes) -> bytes:
    """The content after one to four cuts, flips and insertions."""
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        where = data.draw(st.integers(0, len(damaged)))
        what = data.draw(st.sampled_from(["cut", "flip", "insert", "truncate"]))
        if what == "cut":
            del damaged[where : where + data.draw(st.integers(1, 400))]
        elif what == "flip" and where < len(damaged):
            damaged[where] ^= data.draw(st.integers(1, 255))
        elif what == "insert":
            special = st.sampled_from([b"\n", b"\0" * 40, b'{"kind":"event","seq":', b"}", b"\xff", b"[" * 2000])
            damaged[where:where] = data.draw(st.binary(max_size=50) | special)
        elif what == "truncate":
            del damaged[max(where, len(damaged) - 500) :]
    return bytes(damaged)


@given(data=st.data())
def test_any_damage_leaves_the_intact_lines(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Reading never raises, and every line that is still there as it was gives its record."""
    lines = good()
    content = changed(data, b"".join(lines))
    tape = read(tmp_path_factory.getbasetemp(), content)
    intact = {bytes(found) + b"\n" for found in content.split(b"\n")} & set(lines)
    kept: list[Record] = [*([tape.header] if tape.header else []), *tape.records]
    assert intact <= {encode(record) + b"\n" for record in kept}
    assert len(tape.records) == len(tape.lines)
    assert tape.missing >= 0
    if content != b"".join(lines) and not tape.damage:
        # only something that no record lost anything by: blank lines, a whole line less, a digit that is another
        assert all(not text.strip() or text.lstrip().startswith((b"{", b"\xef")) for text in content.split(b"\n"))


@given(content=st.binary(max_size=3000))
def test_any_bytes_are_read(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever the file holds."""
    tape = read(tmp_path_factory.getbasetemp(), content)
    assert isinstance(tape, TapeFile)
