"""What makes two failures the same."""

import pytest

from jobtape.diagnose.likeness import COMPARED, failure_of, masked
from jobtape.diagnose.model import Cause


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("port 29500 is in use", "port 29501 is in use"),
        ("at 0x7f00deadbeef", "at 0x55aa"),
        ("Tried to allocate 2.50 GiB", "Tried to allocate 512.00 MiB"),
        ("Connection closed by peer [10.4.0.12]:23811", "Connection closed by peer [192.168.7.1]:9"),
        ("closed by peer [fe80::1%eth0]:23811", "closed by peer [::1]:1"),
        ("run 7d1f0c52-9b0e-4a6e-8a41-2c6a55d1e0b7", "run aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"),
        ("commit 3f9c2ab71d04 is dirty", "commit deadbeef00 is dirty"),
        ("no such file: /tmp/tmpa8f_x1zq/ckpt", "no such file: /tmp/tmpqqqqqqqq/ckpt"),
        ("loss 1e-05 at step 3", "loss 2.5e+10 at step 99,000"),
        ("", ""),
    ],
)
def test_what_varies_is_masked(one, other):
    """Numbers, addresses, sizes and ids of one message and another of its kind are alike."""
    assert masked(one) == masked(other)


@pytest.mark.parametrize(
    ("one", "other"), [("shapes differ", "loss is nan"), ("deadly sin", "dead sin"), ("default", "defaced")]
)
def test_words_are_not_masked(one, other):
    """Words stay, also those that are spelled with the letters of hexadecimal digits."""
    assert masked(one) != masked(other)


def test_long_messages_are_cut():
    """Only the beginning of a message is compared."""
    assert masked("x" * 200_000) == masked("x" * COMPARED)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"rank": 1, "host": "a"}, {"rank": 7, "host": "b"}, True),
        ({"message": "bad batch 7"}, {"message": "bad batch 12"}, True),
        ({"message": "bad", "location": "/a/train.py:10"}, {"message": "bad", "location": "/b/train.py:12"}, True),
        ({"location": "/a/train.py:10"}, {"location": "/b/train.py:12"}, False),
        ({"location": "/a/train.py:10"}, {"location": "C:\\b\\train.py:10"}, True),
        ({"exit_code": 1}, {"exit_code": -15, "signal": "SIGTERM"}, True),
        ({"kind": "exit_code", "exit_code": 3}, {"kind": "exit_code", "exit_code": 4}, False),
        ({"kind": "signal", "signal": "SIGSEGV"}, {"kind": "signal", "signal": "SIGBUS"}, False),
        ({"error_type": "ValueError"}, {"error_type": "KeyError"}, False),
        ({}, {"kind": "stall"}, False),
    ],
)
def test_the_same_failure(one, other, same):
    """Where it happened and what varies does not count; what happened does, and the line where no words are left."""
    a, b = (failure_of(Cause(**{"kind": "exception", **fields})) for fields in (one, other))
    assert same == (a == b)


@pytest.mark.parametrize(
    ("fields", "known"),
    [({}, False), ({"message": "boom"}, True), ({"signal": "SIGABRT"}, True), ({"kind": "stall"}, True)],
)
def test_enough_to_compare(fields, known):
    """An unknown failure without words cannot be compared."""
    assert known == failure_of(Cause(**{"kind": "unknown", **fields})).is_known
