"""The table of what victims say: each row finds its text, and no error of a cause of its own is taken for one."""

import re
from pathlib import Path

import pytest

from jobtape.diagnose.failure_text import failure_text, from_text
from jobtape.diagnose.signatures import SIGNATURES, signature_of

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "diagnosis.md"

TORCH = "/venv/lib/python3.11/site-packages/torch/distributed"
FRAME = f'  File "{TORCH}/distributed_c10d.py", line 3252, in all_reduce\n    work.wait()\n'
WRAPPER = f'  File "{TORCH}/elastic/multiprocessing/errors/__init__.py", line 367, in wrapper\n    return f()\n'
USER = '  File "/srv/train.py", line 9, in main\n    load()\n'


def error(kind, message, frames=USER):
    """An error with its traceback."""
    return failure_text(kind, message, f"Traceback (most recent call last):\n{frames}{kind}: {message}\n")


@pytest.mark.parametrize(
    ("message", "library", "meaning"),
    [
        (
            "[/build/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:11698.",
            "gloo",
            "peer gone",
        ),
        (
            "[../third_party/gloo/gloo/transport/tcp/pair.cc:525] Read error [10.0.0.1]:4242: Connection reset by peer",
            "gloo",
            "peer gone",
        ),
        (
            "[/x/gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:6287: Connection reset by peer",
            "gloo",
            "peer gone",
        ),
        ("Connection closed by peer [2001:db8::1]:5", "gloo", "peer gone"),
        (
            "Gloo connectFullMesh failed with [/x/gloo/transport/tcp/pair.cc:152] timed out connecting: SO_ERROR: x",
            "gloo",
            "peer gone",
        ),
        (
            "[/x/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation to complete",
            "gloo",
            "timeout",
        ),
        ("Application timeout caused pair closure", "gloo", "timeout"),
        ("[Rank 0]: Rank 1 failed to pass monitoredBarrier in 2000 ms\n Original exception: x", "gloo", "timeout"),
        (
            "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=918, OpType=ALLREDUCE)",
            "NCCL",
            "timeout",
        ),
        ("NCCL communicator was aborted on rank 0. Original reason for failure was: x", "NCCL", "peer gone"),
        (
            "NCCL error in: x.cpp:1970, remote process exited or there was a network error, NCCL version 2.21.5",
            "NCCL",
            "peer gone",
        ),
        (
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting",
            "NCCL",
            "peer gone",
        ),
        (
            "Received a dump signal due to a collective timeout from  rank 8 and we will try our best to dump",
            "NCCL",
            "timeout",
        ),
        ("failed to recv, got 0 bytes", "TCPStore", "peer gone"),
        (
            "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?",
            "TCPStore",
            "peer gone",
        ),
        ("wait timeout after 60000ms, keys: /a/b", "TCPStore", "timeout"),
        ("The client socket has failed to connect to any network address of (node-a, 29500).", "TCPStore", "peer gone"),
        ("MPI_ERR_PROC_FAILED: Process Failure", "MPI", "peer gone"),
        ("UCC_ERR_TIMED_OUT", "UCC", "timeout"),
    ],
)
def test_victims_texts(message, library, meaning):
    """Real texts of victims are found, whose words they are and what they mean."""
    found = signature_of(error("RuntimeError", message))
    assert (library, meaning) == (found.library, found.meaning)


@pytest.mark.parametrize(
    "found",
    [
        error("ValueError", "bad row: Connection closed by peer [10.0.0.1]:1"),
        error("KeyError", "'NCCL communicator was aborted'"),
        error("ConnectionResetError", "[Errno 104] Connection reset by peer"),
        error("BrokenPipeError", "[Errno 32] Broken pipe"),
        error("TimeoutError", "The read operation timed out"),
        error("RuntimeError", "Timeout while reading shard 3", WRAPPER + USER),
        error("RuntimeError", f"forged\n{FRAME}timeout", USER),
        error("RuntimeError", "CUDA error: device-side assert triggered"),
        error("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB"),
        from_text("words without a type"),
        None,
    ],
)
def test_errors_of_their_own(found):
    """What no other process explains is not taken for a victim's, whatever it quotes."""
    assert signature_of(found) is None


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("ConnectionResetError", "[Errno 104] Connection reset by peer"),
        ("RuntimeError", "Broken pipe"),
        ("RuntimeError", "Timeout"),
    ],
)
def test_general_words_count_where_torch_distributed_raised_them(kind, message):
    """The same words are a victim's when a collective or a store raised them."""
    assert "any" == signature_of(error(kind, message, USER + FRAME)).library
    assert signature_of(error(kind, message, FRAME + USER)) is None


def test_every_row_has_a_source_and_stands_in_the_document():
    """The document's table is the code's."""
    table = [
        tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        for line in DOCUMENT.read_text(encoding="utf-8")
        .partition("## What victims say")[2]
        .partition("## ")[0]
        .splitlines()
        if line.startswith("| `")
    ]
    rows = [("`" + row.pattern.replace("|", "\\|") + "`", row.library, row.meaning, row.source) for row in SIGNATURES]
    assert rows == table
    assert all(row.source for row in SIGNATURES)
