"""What is missing from a record is counted and said, and changes no answer that the rest proves."""

import pytest

from jobtape.tape.records import CloseRecord
from tests.diagnose.lab import Node, answer, causes, damaged, raised
from tests.diagnose.live import Agent


def failed_node():
    """A node with a failed rank."""
    return Node().join(0).start(1, [0, 1], [20, 21]).stop(9, 20).failed(10, 1, 21, 3).agent(11)


def test_damaged_lines_are_counted_once():
    """Lines that the importer or the reader could not read: one warning a file, and the verdict stands."""
    node = failed_node()
    node.lost(2, "damaged_line").lost(7, "foreign_line").add(CloseRecord, None, reason="imported", lost=2)
    said = answer(damaged(node, 4, 4, 9))
    assert {"events_missing": 0, "damaged_lines": 4, "files": 1} == said["loss"]
    assert (["damaged_file"], [("exit_code", 1)]) == ([w["kind"] for w in said["warnings"]], causes(said))
    assert "node-a-100.jsonl: 4 lines could not be read (not a record)" == said["warnings"][0]["text"]


@pytest.mark.parametrize(
    ("missing", "told", "summed", "expected"), [(3, 0, 0, 3), (0, 5, 5, 5), (2, 5, 5, 7), (0, 0, 4, 4)]
)
def test_missing_records_are_counted(missing, told, summed, expected):
    """Gaps in the sequence, and what the writer says it lost, each once."""
    agent = Agent().start(1, [0], [20]).exit(9, 20, 0).ended(9, "SUCCEEDED").close(10, "succeeded")
    close = agent.records.pop()
    if told:
        agent.lost(told)
    close.lost = summed
    agent.records.append(close)
    agent.missing = missing
    said = answer(agent)
    assert (expected, ["lost_events"], "succeeded") == (
        said["loss"]["events_missing"],
        [w["kind"] for w in said["warnings"]],
        said["state"],
    )


def test_a_whole_record_has_no_warning():
    """Nothing lost, nothing said."""
    said = answer(failed_node())
    assert ([], 0, 0) == (said["warnings"], said["loss"]["events_missing"], said["loss"]["damaged_lines"])


def test_a_worker_whose_start_is_lost_is_still_a_rank():
    """A worker met first by its pid alone gets its rank from the record that names it."""
    node = Node().join(0).start(1, [1], [21], world=2).stop(9, 20).failed(10, 1, 21, 3)
    node.ended(10, 0, 20, -15).ended(10, 1, 21, 3, local_rank=1).agent(11)
    (attempt,) = answer(node)["attempts"]
    assert {0: ("stopped", -15), 1: ("first", 3)} == {
        rank["rank"]: (rank["role"], rank["exit_code"]) for rank in attempt["ranks"]
    }


def test_an_error_file_with_a_lone_surrogate_is_read():
    """Python writes the name of a file that is not UTF-8 with an escape that strict readers of JSON refuse."""
    error = raised("FileNotFoundError", "No such file: 'caf\udce9.bin'")
    node = Node().join(0).start(1, [0], [20]).failed(10, 0, 20).ended(10, 0, 20, 1, error=error).agent(11)
    cause = answer(node)["attempts"][0]["cause"]
    assert ("exception", "FileNotFoundError") == (cause["kind"], cause["error_type"])
    assert "caf" in cause["message"]
