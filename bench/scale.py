"""How long `jobtape why` takes for large runs: one file a node, fifty records a node and attempt.

    scale.py [--json FILE] [--nodes N,N,...] [--restarts R]

Each size is written to a temporary directory and asked about once by the command, as a user would. Printed are wall
time, processor time and the largest memory of one process; the processes of the pool are counted in the processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from simulation import RUN_ID, Job, write


def main() -> None:
    options = argparse.ArgumentParser(description="How long `jobtape why` takes for large runs.")
    options.add_argument("--json", type=Path)
    options.add_argument("--nodes", default="4,500,1000,2000")
    options.add_argument("--restarts", type=int, default=50)
    given = options.parse_args()
    rows = []
    print(
        f"{'nodes':>6} {'ranks':>6} {'records':>9} {'MB':>6} {'wall s':>7} {'cpu s':>7} {'us/record':>9}"
        f" {'MB memory':>9}"
    )
    for nodes in map(int, given.nodes.split(",")):
        rows.append(row := measured(Job(nodes=nodes, restarts=given.restarts)))
        print(
            f"{row['nodes']:6} {row['ranks']:6} {row['records']:9} {row['bytes'] / 1e6:6.0f} {row['wall_s']:7.2f}"
            f" {row['cpu_s']:7.2f} {row['wall_s'] / row['records'] * 1e6:9.2f} {row['memory_mb']:9.0f}"
        )
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(rows, indent=1) + "\n")


def measured(job: Job) -> dict[str, float]:
    """What one `jobtape why` of a job takes."""
    with tempfile.TemporaryDirectory() as shelf:
        records, size = write(job, Path(shelf, RUN_ID))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        command = [sys.executable, "-m", "jobtape", "why", RUN_ID, "--dir", shelf]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode not in (0, 1):
        raise SystemExit(f"jobtape why ended with {process.returncode}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "nodes": job.nodes,
        "ranks": job.nodes * job.ranks,
        "records": records,
        "bytes": size,
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "memory_mb": usage.ru_maxrss / 1000,
    }


if __name__ == "__main__":
    main()
