"""How verdicts were reached, in words."""

import ast
import json
import re
from pathlib import Path

import pytest

import jobtape
from jobtape.diagnose.model import HostClock, Warning_
from jobtape.views.advice import LOOK
from jobtape.views.explanation import NO_WORKERS, explanation
from jobtape.views.reasons import CONFIDENCES, KINDS, OUTCOMES, QUESTIONS, REASONS, ROLES, WARNINGS
from tests.views.runs_to_show import a_cause, a_rank, a_run, an_attempt

DIAGNOSE = Path(jobtape.__file__).parent / "diagnose"
DOCS = Path(__file__).resolve().parents[2] / "docs"
SCHEMA = json.loads((DOCS / "why.schema.json").read_text())["$defs"]


def reasons_given():
    """The reasons that the sources of the diagnosis give."""
    trees = [ast.parse(path.read_text()) for path in DIAGNOSE.glob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    places = {
        node.name: [arg.arg for arg in node.args.args].index("reason")
        for node in nodes
        if isinstance(node, ast.FunctionDef) and "reason" in [arg.arg for arg in node.args.args]
    }
    found = set()
    for node in nodes:
        if isinstance(node, ast.keyword) and node.arg == "reason":
            found |= texts(node.value)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in places:
            place = places[getattr(node.func, "attr", getattr(node.func, "id", ""))]
            found |= texts(node.args[place : place + 1])
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("_why"):
            found |= {text for part in ast.walk(node) if isinstance(part, ast.Return) for text in texts(part)}
    return found - {""}


def texts(nodes):
    """The text constants that an expression may have as its value; not those it compares with."""
    found = set()
    for node in nodes if isinstance(nodes, list) else [nodes]:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
        elif isinstance(node, ast.IfExp):
            found |= texts([node.body, node.orelse])
        elif isinstance(node, ast.Return):
            found |= texts(node.value)
    return found


def test_every_reason_has_its_words():
    """Each rule of the diagnosis can be explained, and nothing is explained that is no rule."""
    named_after_their_kind = {"rendezvous_timeout", "rendezvous_closed"}
    assert set(REASONS) == reasons_given() | named_after_their_kind


@pytest.mark.parametrize(
    ("table", "of", "key"),
    [
        (KINDS, "cause", "kind"),
        (LOOK, "cause", "kind"),
        (CONFIDENCES, "cause", "confidence"),
        (ROLES, "rank", "role"),
        (OUTCOMES, "attempt", "outcome"),
    ],
    ids=["kinds", "where to look", "confidences", "roles", "outcomes"],
)
def test_every_value_of_the_contract_has_its_words(table, of, key):
    """Each kind, confidence, role and outcome of the schema is explained."""
    assert set(SCHEMA[of]["properties"][key]["enum"]) == set(table)


def test_every_warning_has_its_words():
    """Each kind of warning in the documents, or that the diagnosis gives, is explained."""
    section = (DOCS / "diagnosis.md").read_text().partition("\n## Warnings\n")[2].partition("\n## ")[0]
    documented = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    given = {kind for path in DIAGNOSE.glob("*.py") for kind in re.findall(r'_warn\(\s*"(\w+)"', path.read_text())}
    assert set(WARNINGS) == documented | given


def test_every_question_is_documented():
    """The documents number the questions as the explanation does, and end with "unknown"."""
    section = (
        (DOCS / "diagnosis.md").read_text().partition("\n## From an attempt to its cause\n")[2].partition("\n## ")[0]
    )
    assert [str(number) for number in range(1, len(QUESTIONS) + 2)] == re.findall(r"^(\d)\. ", section, re.MULTILINE)


def rows_of(run, **options):
    """The explanation as one list of rows."""
    return [row for passage in explanation(run, **options) for row in passage.rows]


def test_how_a_verdict_was_reached():
    """The questions in their order up to the one that decided, why, how sure, what would help, and the records."""
    cause = a_cause(reason="silent_node", kind="node_lost", confidence="likely", evidence=("a.log:7 #6 its last sign",))
    passage = explanation(a_run(an_attempt(cause=cause)))[0]
    assert passage.title.startswith("Attempt 0: most likely")
    assert ["asked", "", "", "because", "how sure", "surer with", "records"] == [label for label, _ in passage.rows]
    asked = [said for label, said in passage.rows if label in {"asked", ""}]
    assert [f"1. {QUESTIONS[0]} No", f"2. {QUESTIONS[1]} No", f"3. {QUESTIONS[2]} Yes, and that decided"] == asked
    assert ("records", "its last sign (a.log:7)") == passage.rows[-1]


def test_a_code_that_speaks_for_itself():
    """A silent node is asked about later when a script chose its exit code."""
    cause = a_cause(reason="only_failure", kind="exit_code", exit_code=3, signal=None)
    said = [said for _, said in rows_of(a_run(an_attempt(cause=cause)))]
    assert f"3. {QUESTIONS[2]} Asked later: a script chose this exit code, and no lost peer explains it" in said


def test_an_attempt_without_workers():
    """No question about ranks is asked where none was started."""
    cause = a_cause(reason="rendezvous_timeout", kind="rendezvous_timeout", rank=None)
    rows = rows_of(a_run(an_attempt(outcome="incomplete", ranks=(), cause=cause)))
    assert ("asked", NO_WORKERS) in rows


def test_a_rule_of_later():
    """A verdict whose rule is not known here is explained by its kind."""
    rows = rows_of(a_run(an_attempt(cause=a_cause(reason="a rule of later"))))
    assert ("because", f"the records say so: {KINDS['exception']}") == rows[0]


def test_only_words_that_stand_in_the_answer():
    """Terms that the answer does not have are not explained."""
    words = dict(explanation(a_run())[-1].rows)
    assert {
        "attempt",
        "round",
        "failed",
        "exception",
        "first",
        "collateral",
        "stopped",
        "certain",
        "noticed",
        "evidence",
    } == set(words)
    run = a_run(an_attempt(ranks=(a_rank(0, "independent"),)), warnings=(Warning_(kind="clock_skew", text="x"),))
    assert {"independent", "clock skew"} <= set(dict(explanation(run)[-1].rows))


def test_clocks_of_several_hosts():
    """How far clocks can be trusted is told where it is known."""
    clocks = (
        HostClock(host="node-a", offset_s=0.0, bound_s=0.0),
        HostClock(host="node-b", offset_s=-7.25, bound_s=0.125),
        HostClock(host="node-c"),
        HostClock(host="node-d", offset_s=0.0, bound_s=0.01, steady=False),
    )
    rows = dict(explanation(a_run(clocks=clocks))[1].rows)
    assert "node-b, 7.2 s behind it; its times were corrected" == rows["farthest"]
    assert "125 ms at worst (node-b): a smaller lead proves nothing" == rows["known to"]
    assert rows["unrelated"].startswith("node-c: ")
    assert "node-d, while the job ran" == rows["set back"]


def test_many_verdicts():
    """Of many different verdicts the commonest are explained, the rest counted, unless everything is asked for."""
    attempts = [an_attempt(n, cause=a_cause(error_type=f"E{'abcdefghij'[n]}")) for n in range(10)]
    assert "4 more verdicts" == explanation(a_run(*attempts))[6].title
    assert 11 == len(explanation(a_run(*attempts), full=True))


def test_as_one_text():
    """For programs a passage is one text."""
    text = explanation(a_run(an_attempt(cause=a_cause(reason="only_own_failure"))))[0].text
    assert "at train.py:12. asked: 1. was an agent told to stop, before any rank had failed? No. 2. did a rank" in text
