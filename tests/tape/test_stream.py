"""Large files read as a stream: the same facts as by the reader that takes everything, or none."""

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobtape.diagnose.packing import pack
from jobtape.diagnose.reading import read_facts
from jobtape.tape.reader import read_tape
from jobtape.tape.stream import Odd, StreamedTape, stream_tape

SOURCE = Path(__file__).resolve().parents[2] / "bench" / "simulation.py"


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """The lines of a tape of one agent that restarted twice."""
    spec = importlib.util.spec_from_file_location("simulation", SOURCE)
    simulation = importlib.util.module_from_spec(spec)
    sys.modules["simulation"] = simulation
    spec.loader.exec_module(simulation)
    folder = tmp_path_factory.mktemp("simulated") / "run"
    simulation.write(simulation.Job(nodes=2, restarts=2, ranks=2), folder)
    return min(folder.iterdir()).read_bytes().splitlines(keepends=True)


def streamed(path):
    """The facts of a file by the fast way; None where it gives up."""
    tape = stream_tape(path)
    if tape is None:
        return None
    try:
        return read_facts(tape)
    except Odd:
        return None
    finally:
        tape.close()


def written(folder, lines):
    """A file of these lines."""
    path = folder / "n00000-900-20260228T190500000.jsonl"
    path.write_bytes(b"".join(lines))
    return path


def test_a_sound_file_is_streamed(tmp_path, lines):
    """All of it, and it says of itself what the reader says."""
    path = written(tmp_path, lines)
    whole = read_tape(path)
    tape = stream_tape(path)
    records = [(record, line) for block, numbers in tape.blocks() for record, line in zip(block, numbers, strict=True)]
    assert records == list(zip(whole.records, whole.lines, strict=True))
    assert (tape.closed, tape.missing, tape.header) == (whole.closed, 0, whole.header)
    assert tape.notes() == whole.notes() != []


def test_lines_of_two_threads_in_either_order_and_missing_ones_are_streamed(tmp_path, lines):
    """They need no second look."""
    path = written(tmp_path, [*lines[:5], lines[6], lines[5], *lines[9:]])
    tape = stream_tape(path)
    assert sum(len(block) for block, _ in tape.blocks()) == len(lines) - 3
    assert tape.missing == read_tape(path).missing == 2


@pytest.mark.parametrize("chunk", [1, 700, 4096])
def test_the_size_of_the_pieces_does_not_matter(tmp_path, lines, monkeypatch, chunk):
    """Unless no line fits into one: then the file is for the other reader."""
    monkeypatch.setattr("jobtape.tape.stream.CHUNK_BYTES", chunk)
    path = written(tmp_path, lines)
    found = streamed(path)
    assert (found is None) == (chunk < max(map(len, lines)))
    assert found is None or pack(found) == pack(read_facts(read_tape(path)))


ODDITIES = {
    "torn": lambda lines: [*lines[:-1], lines[-1][:-9]],
    "repeated": lambda lines: [*lines[:4], lines[4], *lines[4:]],
    "another header": lambda lines: [*lines[:4], lines[0], *lines[4:]],
    "an empty line": lambda lines: [*lines[:4], b"\n", *lines[4:]],
    "two in a line": lambda lines: [*lines[:4], lines[4].rstrip(), *lines[5:]],
    "garbage": lambda lines: [*lines[:4], b"\xff\0{\n", *lines[4:]],
    "a kind of the future": lambda lines: [*lines[:4], lines[4].replace(b'"rdzv"', b'"new"'), *lines[5:]],
    "a value that JSON cannot hold": lambda lines: [
        *lines[:2], lines[2].replace(b'"pid":900', b'"pid":900,"extra":{"a":{"$float":"nan"}}'), *lines[3:]
    ],
    "no header": lambda lines: lines[1:],
    "nothing": lambda lines: [],
}  # fmt: skip


@pytest.mark.parametrize("name", ODDITIES)
def test_what_is_odd_is_for_the_other_reader(tmp_path, lines, name):
    """No file is half read."""
    damaged = ODDITIES[name](lines)
    assert damaged != lines
    assert streamed(written(tmp_path, damaged)) is None


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_both_readers_tell_the_same_of_damaged_files(tmp_path, lines, data):
    """Lines dropped, repeated, swapped, bytes changed: the stream has the facts of the other reader, or none."""
    mixed = list(lines)
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(mixed) - 1))
        change = data.draw(st.sampled_from(["drop", "repeat", "swap", "byte", "cut"]))
        if change == "drop":
            mixed.pop(at)
        elif change == "repeat":
            mixed.insert(data.draw(st.integers(0, len(mixed))), mixed[at])
        elif change == "swap":
            other = data.draw(st.integers(0, len(mixed) - 1))
            mixed[at], mixed[other] = mixed[other], mixed[at]
        elif change == "byte":
            line = bytearray(mixed[at])
            line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
            mixed[at] = bytes(line)
        else:
            mixed[at] = mixed[at][: data.draw(st.integers(0, len(mixed[at])))]
    path = written(tmp_path, mixed)
    found = streamed(path)
    if found is not None:
        assert pack(found) == pack(read_facts(read_tape(path)))


def test_a_stream_is_a_tape_file():
    """Whoever takes the one takes the other."""
    assert issubclass(StreamedTape, type(read_tape(__file__)))
