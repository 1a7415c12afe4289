"""The file of a user's own signatures: where it is looked for, and that no file makes a command fail."""

import json
import os

import pytest

ROW = '[[signature]]\ntext = "shapes * differ"\nsays = "peer gone"\n'


def warnings(done):
    """The warnings about the file."""
    return [each["text"] for each in json.loads(done.out)["warnings"] if each["kind"] == "signature_file"]


def roles(done):
    """The role of each rank of the last attempt."""
    return {rank["rank"]: rank["role"] for rank in json.loads(done.out)["attempts"][-1]["ranks"]}


def test_a_file_beside_the_runs_is_used(jobtape, shelf):
    """`signatures.toml` in the directory of tapes needs no variable, and is no run."""
    (shelf / "signatures.toml").write_text('[[signature]]\ntext = "shapes differ"\nsays = "peer gone"\n')
    done = jobtape("why", "demo", "--json", "--dir", shelf)
    assert (1, [], "suspected") == (
        done.code,
        warnings(done),
        json.loads(done.out)["attempts"][0]["cause"]["confidence"],
    )
    assert 0 == jobtape("ls", "--dir", shelf).code


def test_the_file_that_the_variable_names_is_used_instead(jobtape, shelf, tmp_path):
    """JOBTAPE_SIGNATURES names one file for all directories."""
    (shelf / "signatures.toml").write_text("not toml")
    mine = tmp_path / "mine.toml"
    mine.write_text(ROW)
    done = jobtape("why", "demo", "--json", "--dir", shelf, JOBTAPE_SIGNATURES=str(mine))
    assert ([], "certain") == (warnings(done), json.loads(done.out)["attempts"][0]["cause"]["confidence"])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"not toml", "is no TOML that can be read"),
        (b"\xff\xfe", "is no TOML that can be read"),
        (b"a = " + b"[" * 5000, "is no TOML that can be read"),
        (b"#" * (1024 * 1024 + 1), "is larger than 1024 KiB"),
        (b"[[signature]]\ntext = 'x'\n", "row 1 is left out"),
    ],
)
def test_a_bad_file_is_one_warning(jobtape, shelf, content, says):
    """The answer is given all the same."""
    (shelf / "signatures.toml").write_bytes(content)
    done = jobtape("why", "demo", "--json", "--dir", shelf)
    (text,) = warnings(done)
    assert (1, "", True, False) == (done.code, done.err, says in text, "\n" in text)
    assert {0: "stopped", 1: "first"} == roles(done)


def test_a_file_that_is_not_there_or_none(jobtape, shelf, tmp_path):
    """A name that leads nowhere, a directory, a pipe that nobody writes to."""
    missing = jobtape("why", "demo", "--json", "--dir", shelf, JOBTAPE_SIGNATURES=str(tmp_path / "no.toml"))
    folder = jobtape("why", "demo", "--json", "--dir", shelf, JOBTAPE_SIGNATURES=str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    pipe = jobtape("why", "demo", "--json", "--dir", shelf, JOBTAPE_SIGNATURES=str(tmp_path / "pipe"))
    assert [1, 1, 1] == [len(warnings(missing)), len(warnings(folder)), pipe.code]
    assert "there is no file" in warnings(missing)[0]
    assert [] == warnings(pipe), "an empty file has no rows"
