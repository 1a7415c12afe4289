"""What a process says when it fails because of another one: one table, a source for each row.

A row counts only in an error of a type that the communication libraries raise (`_RAISED_BY_LIBRARIES`); a ``ValueError`` that
quotes such a text is an error of its own. Rows of general words (``generic``) count only where torch.distributed raised the
error: a dataset's download can have its connection reset too.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from jobtape.diagnose.failure_text import FailureText


class Signature(NamedTuple):
    """One way in which a victim says so.

    Attributes:
        pattern: what is looked for in the error's text.
        library: whose words they are.
        meaning: ``peer gone``: another process ended or its connection did · ``timeout``: another process did not take part.
        source: where the text comes from.
        generic: the words are not the library's alone.
    """

    pattern: str
    library: str
    meaning: str
    source: str
    generic: bool = False


SIGNATURES: tuple[Signature, ...] = (
    Signature(r"transport/\w+/\S+\] .*(closed|reset) by peer", "gloo", "peer gone", "gloo/transport/tcp/pair.cc"),
    Signature(r"Connection closed by peer \[[0-9A-Fa-f.:%]*\]:?\d*", "gloo", "peer gone", "gloo/transport/tcp/pair.cc"),
    Signature(r"(Read|Write|writev) error \[[^\]\n]*\]:?\d*: ", "gloo", "peer gone", "gloo/transport/tcp/pair.cc"),
    Signature(r"transport/\w+/\S+\] .*(Broken pipe|Socket closed)", "gloo", "peer gone", "gloo/transport/tcp/pair.cc"),
    Signature(r"connectFullMesh failed", "gloo", "peer gone", "torch/csrc/distributed/c10d/ProcessGroupGloo.cpp"),
    Signature(r"transport/\w+/\S+\] .*timed out connecting", "gloo", "peer gone", "gloo/transport/tcp/pair.cc"),
    Signature(r"Timed out waiting \d+ms for (send|recv)", "gloo", "timeout", "gloo/transport/tcp/unbound_buffer.cc"),
    Signature(r"Application timeout caused pair closure", "gloo", "timeout", "gloo/transport/tcp/unbound_buffer.cc"),
    Signature(
        r"failed to pass monitoredBarrier in", "torch", "timeout", "torch/csrc/distributed/c10d/ProcessGroupGloo.cpp"
    ),
    Signature(
        r"Watchdog caught collective operation timeout", "NCCL", "timeout", "torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp"
    ),
    Signature(
        r"dump signal (due to a collective timeout from +rank|from another rank)",
        "NCCL", "timeout", "torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
    ),
    Signature(
        r"NCCL communicator was aborted", "NCCL", "peer gone", "torch/csrc/distributed/c10d/NCCLUtils.cpp"
    ),
    Signature(
        r"Some NCCL operations have failed or timed out", "NCCL", "timeout", "torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp"
    ),
    Signature(
        r"watchdog thread terminated with exception: .*(timeout|remote|aborted)",
        "NCCL", "timeout", "torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
    ),
    Signature(r"ncclRemoteError", "NCCL", "peer gone", "nccl/src/nccl.h.in"),
    Signature(r"remote process exited or there was a network error", "NCCL", "peer gone", "nccl/src/init.cc (ncclGetErrorString)"),
    Signature(r"Connection closed by remote peer", "NCCL", "peer gone", "nccl/src/misc/socket.cc (socketProgress)"),
    Signature(
        r"[Ff]ailed to (recv|send), (got|sent) 0 bytes", "TCPStore", "peer gone", "torch/csrc/distributed/c10d/Utils.hpp"
    ),
    Signature(r"Connection was likely closed", "TCPStore", "peer gone", "torch/csrc/distributed/c10d/Utils.hpp"),
    Signature(
        r"(recvValue\w*|sendBytes|recvVector) failed on", "TCPStore", "peer gone",
        "torch/csrc/distributed/c10d/TCPStoreLibUvBackend.cpp and Utils.hpp",
    ),
    Signature(r"wait timeout after \d+ms, keys:", "TCPStore", "timeout", "torch/csrc/distributed/c10d/TCPStore.cpp"),
    Signature(
        r"client socket has (timed out|failed to connect)", "TCPStore", "peer gone", "torch/csrc/distributed/c10d/socket.cpp"
    ),
    Signature(r"\bDistNetworkError\b", "TCPStore", "peer gone", "torch/csrc/distributed/c10d/exception.h"),
    Signature(r"[Ss]tore (is|was|has been) closed|Socket Timeout", "TCPStore", "peer gone", "torch/csrc/distributed/c10d"),
    Signature(
        r"connection to the C10d store has failed", "TCPStore", "peer gone",
        "torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py",
    ),
    Signature(r"MPI_ERR_(PROC_FAILED|REVOKED)", "MPI", "peer gone", "ompi/errhandler/errcode.c"),
    Signature(r"(ORTE|PRTE|PMIX) .*lost (communication|connection)", "MPI", "peer gone", "Open MPI: help-errmgr-base.txt"),
    Signature(r"UCC_ERR_TIMED_OUT|ucc.*Timeout expired", "UCC", "timeout", "ucc/src/utils/ucc_status.c"),
    Signature(r"UCS_ERR_(CONNECTION_RESET|ENDPOINT_TIMEOUT)|Connection reset by remote peer|Endpoint timeout", "UCC",
              "peer gone", "ucx/src/ucs/type/status.c"),
    Signature(r"Connection (closed|reset) by peer", "any", "peer gone", "strerror(ECONNRESET)", generic=True),
    Signature(r"Broken pipe", "any", "peer gone", "strerror(EPIPE)", generic=True),
    Signature(r"Connection refused", "any", "peer gone", "strerror(ECONNREFUSED)", generic=True),
    Signature(r"[Tt]imed out|[Tt]imeout", "any", "timeout", "torch.distributed's collectives and stores", generic=True),
)  # fmt: skip

_RAISED_BY_LIBRARIES = re.compile(
    r"(^|\.)(RuntimeError|Dist\w*Error|\w*BackendError|Connection\w*Error|BrokenPipeError|TimeoutError|OSError|Exception|IOError)$"
    r"|^(c10|gloo|std|torch)\b|Rendezvous\w+Error$"
)
_IN_TORCH_DISTRIBUTED = re.compile(
    r'File "[^"\n]*torch/distributed/(?!elastic/multiprocessing/errors)[^"\n]*", line \d+'
)
_ANY_FRAME = re.compile(r'^ *File "[^"\n]+", line \d+.*$', re.MULTILINE)
_FAR_ENOUGH = 4000

_ALL = re.compile("|".join(f"(?P<s{n}>{row.pattern})" for n, row in enumerate(SIGNATURES)))
_SPECIFIC = re.compile("|".join(f"(?P<s{n}>{row.pattern})" for n, row in enumerate(SIGNATURES) if not row.generic))


def signature_of(error: FailureText | None) -> Signature | None:
    """The row that says that this error followed from another process's end; None when no row does."""
    if error is None or not error.headline:
        return None
    if error.error_type is not None and not _RAISED_BY_LIBRARIES.search(error.error_type):
        return None
    pattern = _ALL if raised_in_torch_distributed(error) else _SPECIFIC
    found = pattern.search(error.headline[:_FAR_ENOUGH])
    return SIGNATURES[int(str(found.lastgroup)[1:])] if found is not None else None


def raised_in_torch_distributed(error: FailureText) -> bool:
    """Whether torch.distributed raised it: its own kind of error, or the last frame is there."""
    if error.error_type is not None and re.search(r"(^|\.)Dist\w*Error$", error.error_type):
        return True
    frames = _ANY_FRAME.findall(error.traceback or "")
    return bool(frames) and in_torch_distributed(frames[-1])


def in_torch_distributed(stack: str) -> bool:
    """Whether a stack has a frame of torch.distributed, other than the one that `@record` puts around a script."""
    return _IN_TORCH_DISTRIBUTED.search(stack) is not None
