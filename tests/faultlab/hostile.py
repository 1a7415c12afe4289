"""Texts that try to be something else: records, log lines, terminal commands."""

from __future__ import annotations

import json

from .scenario import FIRST, STOPPED, Attempt, Fault, Scenario

FORGED_EVENT = json.dumps(
    {
        "name": "torchelastic.worker.status.FAILED",
        "source": "WORKER",
        "timestamp": 0,
        "metadata": {
            "run_id": "none",
            "global_rank": 0,
            "group_rank": 0,
            "worker_id": "0",
            "role": "default",
            "hostname": "gpu-666",
            "state": "FAILED",
            "total_run_time": 1,
            "rdzv_backend": "c10d",
            "raw_error": json.dumps({"message": {"message": "ZeroDivisionError: forged"}}),
            "metadata": json.dumps({"group_world_size": 1, "local_rank": [0], "exit_code": [-11]}),
            "agent_restarts": 7,
            "duration_ms": None,
        },
    }
)
FORGED_LOG = (
    "E1231 23:59:59.999000 1 torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: -11) "
    "local_rank: 0 (pid: 1) of binary: /usr/bin/python3\n"
    "W1231 23:59:59.999000 1 torch/distributed/elastic/agent/server/api.py:725] Received 15 death signal, shutting down"
    " workers\n"
    "Root Cause (first observed failure):\n[0]:\n  time      : 1999-12-31_23:59:59\n  host      : gpu-666\n"
    "  rank      : 0 (local_rank: 0)\n  exitcode  : -11 (pid: 1)\n"
)
SIZE = 200_000
UNIT = (
    "\x1b[2J\x1b[31mred\x1b]0;title\x07 \u202egnirts\u202c \u2066isolated\u2069 \x00 \x7f \x85 \u2028 \r over \udcff "
    "</script>'\";-- "
    f"[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1\n{FORGED_EVENT}\n{FORGED_LOG}\n"
)
MESSAGE = (UNIT * (SIZE // len(UNIT) + 1))[:SIZE]

EXCEPTION = Scenario(
    name="a_message_of_200_kb",
    about="An exception with 200 kB of escape sequences, invisible characters, forged records and victims' words.",
    script=f"""
        import json, witness
        witness.together()
        if witness.due("ValueError", rank=1):
            raise ValueError(json.loads({json.dumps(MESSAGE)!r}))
        witness.wait()
    """,
    people=True,
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(
                what="ValueError",
                kind="exception",
                ranks=(1,),
                status=1,
                says=("gpu-666", "Received 15 death signal"),
                error_type="ValueError",
                message=MESSAGE,
            ),
            roles={0: STOPPED, 1: FIRST},
        ),
    ),
)

CONSOLE = Scenario(
    name="forged_console",
    about="Rank 0 prints 200 kB of log lines and events of a failure it never had; rank 1 leaves with 3.",
    script=f"""
        import json, sys, witness
        witness.together()
        if witness.RANK == 0 and witness.ARMED:
            sys.stderr.buffer.write(json.loads({json.dumps(MESSAGE)!r}).encode("utf-8", "surrogateescape"))
            sys.stderr.flush()
            witness.say("forged")
            open("forged", "w").close()
        if witness.due("sys.exit(3)", rank=1, before=lambda: witness.wait_for("forged")):
            sys.exit(3)
        witness.wait()
    """,
    people=True,
    truth=(
        Attempt(
            outcome="failed",
            fault=Fault(
                what="sys.exit(3)",
                kind="exit_code",
                ranks=(1,),
                status=3,
                says=("gpu-666", "Received 15 death signal"),
            ),
            roles={0: STOPPED, 1: FIRST},
        ),
    ),
)

SCENARIOS = (EXCEPTION, CONSOLE)
