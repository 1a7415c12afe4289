"""Foreign files: what is refused, and where lines end."""

import gzip
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobtape.errors import ImportFailed
from jobtape.importers import foreign
from jobtape.importers.foreign import Lines, check


def refusal(path):
    """The one line with which a file is refused."""
    with pytest.raises(ImportFailed) as error:
        check(Path(path))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_missing_file(tmp_path):
    """A missing file is named."""
    assert f"cannot read {tmp_path}/no.log: there is no such file" == refusal(tmp_path / "no.log")


def test_directory(tmp_path):
    """A directory is refused with what to do."""
    assert refusal(tmp_path).endswith("is a directory: name the files in it")


def test_fifo_is_refused_without_waiting(tmp_path):
    """A FIFO that nobody writes to does not make the import hang."""
    os.mkfifo(tmp_path / "fifo")
    assert refusal(tmp_path / "fifo").endswith("save what it gives to a file and import that")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs Linux")
def test_file_that_fails_when_read():
    """A file that opens but cannot be read is refused like one that does not open."""
    assert "cannot read /proc/self/mem" in refusal("/proc/self/mem")


def test_compressed_file(tmp_path):
    """A compressed file is refused with the name of its compression."""
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(b"text"))
    assert refusal(tmp_path / "a.log.gz").endswith("is compressed with gzip: gunzip it first")


def test_utf16_file(tmp_path):
    """UTF-16, as some consoles save it, is refused with the way to convert it."""
    (tmp_path / "a.log").write_text("text", encoding="utf-16")
    assert "iconv -f UTF-16" in refusal(tmp_path / "a.log")


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path):
    """A file without read permission is refused with whom to ask."""
    (tmp_path / "a.log").touch(mode=0)
    assert "permission denied" in refusal(tmp_path / "a.log")


def test_hostile_path_stays_on_one_line(tmp_path):
    """Control characters of a path are shown escaped, and a NUL is no path."""
    assert "'" in refusal(tmp_path / "a\n\x1b[31mb")
    assert "cannot read" in refusal("a\0b")


def test_only_lf_ends_a_line(tmp_path):
    """Other line separators of Unicode are text; a CR before the LF and a byte order mark go."""
    text = "a\u2028b\u0085c\x0bd\x0ce\rf\x1cg"
    (tmp_path / "a.log").write_bytes(f"\ufeff{text}\r\n\nlast\r".encode())
    assert [(1, text.encode()), (2, b""), (3, b"last")] == list(Lines(tmp_path / "a.log"))


def test_endless_line_is_not_kept(tmp_path, monkeypatch):
    """A line beyond the limit is given as None, and what follows is read."""
    monkeypatch.setattr(foreign, "LONGEST_LINE", 10)
    data = b"123456789\n" + b"x" * 25 + b"\n" + b"y" * 10 + b"\nend"
    (tmp_path / "a.log").write_bytes(data)
    lines = Lines(tmp_path / "a.log")
    assert [(1, b"123456789"), (2, None), (3, None), (4, b"end")] == list(lines)
    assert hashlib.sha256(data).hexdigest() == lines.digest


def test_lines_given_back_come_again(tmp_path):
    """Lines read too far come again in their order."""
    (tmp_path / "a.log").write_bytes(b"1\n2\n3\n")
    lines = Lines(tmp_path / "a.log")
    taken = [next(lines), next(lines)]
    lines.push_back(taken)
    assert [b"1", b"2", b"3"] == [line for _, line in lines]


@given(st.binary())
def test_any_bytes_are_lines(tmp_path_factory, data):
    """The lines of any bytes are those between LFs, and the hash is that of the bytes."""
    path = tmp_path_factory.mktemp("any") / "a.log"
    path.write_bytes(data)
    lines = Lines(path)
    found = [line for _, line in lines]
    parts = data.split(b"\n")[: None if not data.endswith(b"\n") else -1] if data else []
    assert [part[:-1] if part.endswith(b"\r") else part for part in parts] == found or data[:3] == b"\xef\xbb\xbf"
    assert hashlib.sha256(data).hexdigest() == lines.digest
