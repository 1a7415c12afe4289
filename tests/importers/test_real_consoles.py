"""Consoles of real torchrun jobs, imported: they say what the live tape of the same job says."""

import pytest

from jobtape.diagnose.reconstruct import diagnose
from jobtape.importers import import_files
from jobtape.tape.reader import read_tape
from tests.capture import lab

pytestmark = [pytest.mark.torch, pytest.mark.torchrun]

SCRIPT = """
    import os, sys, time, traceback
    sys.stderr.write("\\r 37%|###7      | 37/100 [00:10<00:17,  3.60it/s]")
    sys.stderr.flush()
    if os.environ["RANK"] == "0":
        try:
            raise KeyError("caught")
        except KeyError:
            traceback.print_exc()
        time.sleep(60)
    time.sleep(1)
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "1":
        os.kill(os.getpid(), 9)
    raise ValueError("bad row")
"""


@pytest.mark.parametrize(
    ("args", "level"), [((), "WARNING"), (("--tee=3",), "WARNING"), ((), "INFO")], ids=["plain", "tee", "info"]
)
def test_console_tells_what_the_tape_tells(tmp_path, args, level):
    """Each attempt's cause, from the console alone, is that of the recording."""
    job = lab.run(tmp_path, SCRIPT, "--max-restarts=1", *lab.NAMED, "--rdzv-id=twice", *args, env={"LOGLEVEL": level})
    live = job.why()["attempts"]
    (tmp_path / "console.log").write_text(job.out + job.err)
    import_files([tmp_path / "console.log"], tmp_path / "imported")
    told = diagnose([read_tape(path) for path in (tmp_path / "imported").glob("*/*.jsonl")]).attempts
    keys = ("kind", "rank", "exit_code", "signal", "error_type", "message", "location", "pid")
    assert [[a["cause"][key] for key in keys] for a in live] == [[getattr(a.cause, key) for key in keys] for a in told]
    assert [("exception", 1), ("signal", 1)] == [(a.cause.kind, a.cause.rank) for a in told]
