"""Jobs without an agent, from the tapes of their workers alone."""

from tests.diagnose.lab import PEER_CLOSED, answer, causes, roles
from tests.diagnose.live import Worker


def test_workers_without_an_agent():
    """srun: attempts from the workers alone; who failed and who succeeded."""

    def job(*ends):
        tapes = []
        for rank, end in enumerate(ends):
            worker = Worker(
                pid=50 + rank, start=rank * 0.1, SLURM_PROCID=rank, SLURM_LOCALID=rank, WORLD_SIZE=len(ends)
            )
            tapes.append(end(worker))
        return answer(*tapes)

    well = job(lambda w: w.close(30), lambda w: w.exit_call(29, 0).close(30))
    assert ("succeeded", 2, 1, [None]) == (well["state"], well["world_size"], well["nodes"], causes(well))
    badly = job(
        lambda w: w.error(20.2, "RuntimeError", PEER_CLOSED).close(20.3),
        lambda w: w.error(20, "ValueError", "x").close(20.1),
    )
    assert ("failed", [("exception", 1)], {0: "collateral", 1: "first"}) == (
        badly["state"],
        causes(badly),
        roles(badly["attempts"][0]),
    )
    code = job(lambda w: w.close(30), lambda w: w.exit_call(29, 4).close(30))
    assert ("failed", [("exit_code", 1)], 4) == (code["state"], causes(code), code["attempts"][0]["cause"]["exit_code"])
    crash = job(lambda w: w.close(30), lambda w: w.stood(("/srv/t.py", 8, "f"), fatal="Segmentation fault"))
    cause = crash["attempts"][0]["cause"]
    assert ("signal", 1, "SIGSEGV", "/srv/t.py:8", "certain") == tuple(
        cause[k] for k in ("kind", "rank", "signal", "location", "confidence")
    )
    gone = job(lambda w: w.close(30), lambda w: w)
    assert ("lost", [("unknown", 1)], "suspected") == (
        gone["state"],
        causes(gone),
        gone["attempts"][0]["cause"]["confidence"],
    )
    killed = job(lambda w: w.error(20, "RuntimeError", PEER_CLOSED).close(21), lambda w: w)
    assert ("failed", [("unknown", 1)], {0: "collateral", 1: "first"}) == (
        killed["state"],
        causes(killed),
        roles(killed["attempts"][0]),
    )


def test_ranks_without_a_tape_are_no_success():
    """srun of four, two recorded: nothing proves how the others ended, and they are named."""
    two = [Worker(pid=50 + rank, SLURM_PROCID=rank, SLURM_NTASKS=4).close(30) for rank in (0, 2)]
    said = answer(*two)
    assert ("unknown", "unknown", None, 4) == (
        said["state"],
        said["attempts"][0]["outcome"],
        said["attempts"][0]["cause"],
        said["world_size"],
    )
    expected = "attempt 0 ran with 4 ranks; there are no records of ranks 1 and 3"
    assert [{"kind": "missing_ranks", "text": expected}] == said["warnings"]


def test_a_failure_beside_ranks_without_a_tape():
    """What is on record stays the answer."""
    said = answer(Worker(pid=50, RANK=0, WORLD_SIZE=2).error(20, "ValueError", "x").close(21))
    assert ("failed", [("exception", 0)], ["missing_ranks"]) == (
        said["state"],
        causes(said),
        [warning["kind"] for warning in said["warnings"]],
    )


def test_a_requeued_job_without_an_agent():
    """The same ranks again, later, are the next attempt."""
    tapes = []
    for attempt in range(2):
        for rank in range(2):
            worker = Worker(pid=50 + rank + 10 * attempt, start=100.0 * attempt + rank, RANK=rank, WORLD_SIZE=2)
            tapes.append(
                worker.error(100.0 * attempt + 20, "ValueError", "x").close(100.0 * attempt + 21)
                if attempt == 0
                else worker.close(150)
            )
    said = answer(*tapes)
    assert (["failed", "succeeded"], "succeeded", 1) == (
        [a["outcome"] for a in said["attempts"]],
        said["state"],
        said["restarts"]["failure"],
    )


def test_a_workers_child_is_not_a_rank():
    """A process that a worker has started inherits its rank and is none."""
    main = Worker(pid=50, RANK=0, WORLD_SIZE=1)
    child = (
        Worker(pid=51, start=5, parent_pid=50, RANK=0, WORLD_SIZE=1).error(9, "ValueError", "in the loader").close(10)
    )
    said = answer(main.close(30), child)
    assert ("succeeded", 1) == (said["state"], len(said["attempts"]))
