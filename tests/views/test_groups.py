"""Many ranks and nodes in few words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobtape.views.groups import count, node_names, ranges, rank_phrase


@pytest.mark.parametrize(
    ("numbers", "said"),
    [([], ""), ([5], "5"), ([1, 2], "1,2"), ([3, 0, 1, 2, 7], "0-3,7"), ([2, 2, 2], "2"), ([0, 2, 4], "0,2,4")],
)
def test_ranges(numbers, said):
    """Consecutive numbers become a range."""
    assert said == ranges(numbers)


@given(st.sets(st.integers(0, 200)))
def test_ranges_lose_nothing(numbers):
    """Reading the ranges gives the numbers back."""
    read = set()
    for piece in filter(None, ranges(numbers).split(",")):
        first, _, last = piece.partition("-")
        read |= set(range(int(first), int(last or first) + 1))
    assert numbers == read


def test_ten_thousand_ranks_in_a_word():
    """The size of a job does not make its phrase longer."""
    assert "ranks 0-9999" == rank_phrase(range(10_000))


def test_scattered_ranks_are_counted():
    """Where ranges do not help, the number says it."""
    said = rank_phrase(range(0, 10_000, 2))
    assert said.startswith("5,000 ranks (0,2,4,")
    assert len(said) < 80


def test_two_ranks():
    """Two ranks are named."""
    assert "ranks 1 and 4" == rank_phrase([4, 1])


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        (["node-a"], "node-a"),
        (["b", "a", "b"], "a, b"),
        ([f"gpu{n:02}" for n in range(1, 17)], "gpu[01-16]"),
        (["n1", "n2", "n3", "n01"], "n01, n[1-3]"),
        (["n9", "n10"], "n10, n9"),
        (["n9", "n10", "n11"], "n[9-11]"),
        ([f"ip-10-0-0-{n}.ec2.internal" for n in (12, 13, 15)], "ip-10-0-0-[12,13,15].ec2.internal"),
        (["10.0.0.1", "10.0.0.2", "10.0.0.3"], "10.0.0.[1-3]"),
        (["3f9c2ab71d04"], "3f9c2ab71d04"),
    ],
)
def test_node_names(hosts, said):
    """Numbered names are folded as schedulers write them, names that differ are kept apart."""
    assert said == node_names(hosts)


def test_very_many_nodes_are_counted():
    """More names than fit are counted."""
    said = node_names(f"{'abcdefghij'[n % 10] * 5}-{chr(97 + n // 10)}" for n in range(100))
    assert said.endswith(" more")
    assert len(said) < 90


def test_hostile_host_name():
    """A host name is data: it cannot act on a terminal."""
    assert "a\\x1b[2J1" == node_names(["a\x1b[2J1"])


def test_count():
    """One is singular, thousands have commas."""
    assert ["0 nodes", "1 node", "2,048 nodes"] == [count(number, "node") for number in (0, 1, 2048)]


def test_many_separate_numbers_are_cut_at_one():
    """What is shown of a long list of numbers is whole names, and the bracket is closed."""
    assert "n[0000,0002,0004,0006,0008,…]" == node_names([f"n{number:04}" for number in range(0, 400, 2)], limit=30)
