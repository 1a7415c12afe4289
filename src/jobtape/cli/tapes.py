"""The tapes a command is asked about, read; and which of their processes still live here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobtape.diagnose.model import Run
    from jobtape.diagnose.reconstruct import Story
    from jobtape.tape.reader import TapeFile
    from jobtape.tape.shelf import ShelfRun


def find(directory: str | None, text: str | None) -> ShelfRun:
    """The run of that name on the shelf of `--dir`."""
    from jobtape.tape.shelf import find_run, shelf_dir

    return find_run(shelf_dir(directory), text)


def diagnosed(run: ShelfRun) -> Run:
    """What the tape of a run means."""
    return told(run).run


def told(run: ShelfRun) -> Story:
    """What the tape of a run means, with what that was made of."""
    from jobtape.cli.loading import facts_of_run, is_large, kept, uncollected
    from jobtape.cli.signatures import read_added
    from jobtape.diagnose.reconstruct import story_of

    with uncollected():
        facts = facts_of_run(run)
        story = story_of(facts, run_id=run.run_id, added=read_added(run.path.parent))
    if is_large(run):
        kept.append((facts, story))
    return story


def living(files: Iterable[TapeFile]) -> frozenset[str]:
    """Names of the tape files whose writers are alive on this host.

    A process id alone proves nothing, it is given out again: the boot and the process's start must be the same too.
    A process of another host, or of a container that is not this one, is not seen.
    """
    boot = first_line(Path("/proc/sys/kernel/random/boot_id"))
    names = set()
    for file in files:
        header = file.header
        if header is None or not boot or header.boot_id != boot or file.closed or header.role == "import":
            continue
        if header.pid_start and process_start(header.pid) == header.pid_start:
            names.add(file.path.name)
    return frozenset(names)


def process_start(pid: int) -> int | None:
    """When a process started, in the kernel's ticks since boot; None when there is no such process."""
    line = first_line(Path(f"/proc/{pid}/stat"))
    # The second field is the command in parentheses, and may hold spaces and parentheses itself.
    fields = line.rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in {"Z", "X"}:
        return None
    return int(fields[19])


def first_line(path: Path) -> str:
    """The first line of a small file; empty when it cannot be read."""
    try:
        return path.read_text(errors="replace").partition("\n")[0]
    except OSError:
        return ""
