"""What a script and torch do themselves still happens, and looks as it did."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import lab

pytestmark = [pytest.mark.torch, pytest.mark.torchrun]


def test_the_scripts_own_hooks_run(tmp_path: Path) -> None:
    """A script that sets its own excepthook and thread hook gets both called, and its error is still recorded."""
    script = """
        import sys, threading
        sys.excepthook = lambda kind, value, trace: print("own hook:", value, flush=True)
        threading.excepthook = lambda args: print("own thread hook:", args.exc_value, flush=True)
        def fail():
            raise OSError("in thread")
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        raise ValueError("in main")
    """
    job = lab.run(tmp_path, script, nproc=1)
    assert "own thread hook: in thread\nown hook: in main\n" == job.out
    assert "ValueError" == job.why()["attempts"][0]["cause"]["error_type"]
    assert ["in thread"] == [record["metadata"]["message"] for record in job.records("jobtape.worker.thread_error")]


def test_faulthandler_on_stderr_still_speaks_there(tmp_path: Path) -> None:
    """With faulthandler enabled by the script (as torch's @record does) a crash is told on stderr and on the tape."""
    script = """
        import ctypes, faulthandler, os
        faulthandler.enable()
        assert faulthandler.is_enabled()
        ctypes.string_at(0)
    """
    job = lab.run(tmp_path, script, nproc=1)
    assert 1 == job.err.count("Fatal Python error: Segmentation fault")
    assert "SIGSEGV" == job.why()["attempts"][0]["cause"]["signal"]
    assert "line 5 in <module>" in job.why()["attempts"][0]["cause"]["traceback"]


def test_faulthandler_goes_where_stderr_is_redirected(tmp_path: Path) -> None:
    """With ``--redirects`` the crash is told in the worker's own stderr file, where it would have been."""
    script = "import ctypes, faulthandler\nfaulthandler.enable()\nctypes.string_at(0)\n"
    logs = tmp_path / "logs"
    lab.run(tmp_path, script, "--redirects=3", f"--log-dir={logs}", nproc=1)
    (stderr,) = logs.glob("**/stderr.log")
    assert 1 == stderr.read_text().count("Fatal Python error: Segmentation fault")


def test_nothing_of_the_capture_is_left_in_the_worker(tmp_path: Path) -> None:
    """sys.path, PYTHONPATH, a sitecustomize of the user's own and the arguments are what they would have been."""
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.customized = True\n")
    script = """
        import builtins, os, sys
        print(sys.argv[1:], os.environ.get("PYTHONPATH"), builtins.customized, sys.modules["sitecustomize"].__file__)
        print([path for path in sys.path if "jobtape" in path and "capture" in path])
    """
    env = {"PYTHONPATH": str(tmp_path)}
    job = lab.run(tmp_path, script, nproc=1, env=env)
    assert f"[] {tmp_path} True {tmp_path}/sitecustomize.py\n[]\n" == job.out


@pytest.mark.parametrize("fault", ["raise ValueError('x')", "os.kill(os.getpid(), 9)", "print('fine')"])
def test_console_and_error_files_are_what_they_were(tmp_path: Path, fault: str) -> None:
    """With recording and without, torchrun prints the same, ends with the same code and leaves the same error file."""
    script = f"""
        import os
        from torch.distributed.elastic.multiprocessing.errors import record
        @record
        def main():
            {fault}
        main()
    """
    results = []
    for destination in ("tape", None):
        folder = tmp_path / str(destination)
        folder.mkdir()
        error_file = folder / "error.json"
        job = lab.run(
            folder, script, nproc=1, destination=destination, env={"TORCHELASTIC_ERROR_FILE": str(error_file)}
        )
        error = error_file.read_text() if error_file.exists() else None
        results.append(
            (job.exit_code, lab.without_times(job.out), _normal(job.err, folder), error and "extraInfo" in error)
        )
    assert results[1] == results[0]


def test_nothing_happens_where_no_recording_was_asked_for(tmp_path: Path) -> None:
    """With jobtape installed and no destination named, a process has no file and no hook of ours."""
    code = (
        "import sys, threading, faulthandler, signal, os\n"
        "before = (sys.excepthook, threading.excepthook, sys.exit, os._exit, faulthandler.enable, signal.signal)\n"
        "import torch\n"
        "after = (sys.excepthook, threading.excepthook, sys.exit, os._exit, faulthandler.enable, signal.signal)\n"
        "print(before == after, sorted(name for name in sys.modules if name.startswith(('jobtape.', 'msgspec'))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=lab.environment(tmp_path / "tapes"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "True ['jobtape.capture', 'jobtape.capture.hook']\n" == done.stdout
    assert ("", []) == (done.stderr, list(tmp_path.iterdir()))


def test_an_unrecorded_job_writes_nothing(tmp_path: Path) -> None:
    """A torchrun job without a destination leaves no tape and no jobtape directory."""
    job = lab.run(tmp_path, "print('fine')", nproc=1, destination=None)
    assert (0, "fine\n") == (job.exit_code, job.out)
    assert ["train.py"] == sorted(os.listdir(tmp_path))


def _normal(text: str, folder: Path) -> str:
    return lab.without_times(text.replace(str(folder), "FOLDER"))


@pytest.mark.parametrize("closing", ["os.closerange(3, 65536)", "os.dup2(os.open(os.devnull, os.O_WRONLY), 3)"])
def test_the_scripts_files_are_its_own(tmp_path: Path, closing: str) -> None:
    """A script that closes every descriptor, as daemons do, finds nothing of ours in its next files."""
    script = f"""
        import os
        {closing}
        files = [open(f"mine-{{number}}", "w") for number in range(3)]
        for file in files:
            file.write("mine")
            file.flush()
        raise ValueError("after closing")
    """
    job = lab.run(tmp_path, script, nproc=1)
    assert ["mine"] * 3 == [(tmp_path / f"mine-{number}").read_text() for number in range(3)]
    assert "ValueError" == job.why()["attempts"][0]["cause"]["error_type"]


def test_a_disabled_faulthandler_is_silent(tmp_path: Path) -> None:
    """A script that enables faulthandler and disables it again prints nothing when it crashes; the tape knows."""
    script = "import ctypes, faulthandler\nfaulthandler.enable()\nfaulthandler.disable()\nctypes.string_at(0)\n"
    job = lab.run(tmp_path, script, nproc=1)
    assert "Fatal Python error" not in job.err
    assert "line 4 in <module>" in job.why()["attempts"][0]["cause"]["traceback"]


def test_an_exit_with_a_status_that_has_no_text(tmp_path: Path) -> None:
    """``sys.exit`` raises SystemExit and nothing else, whatever its argument does when it is asked for its text."""
    script = """
        import sys
        class Mute:
            def __str__(self):
                raise RuntimeError("no text")
        try:
            sys.exit(Mute())
        except SystemExit:
            print("SystemExit", flush=True)
            sys.exit(7)
    """
    job = lab.run(tmp_path, script, nproc=1)
    assert "SystemExit\n" == job.out
    assert 7 == job.why()["attempts"][0]["cause"]["exit_code"]


def test_faulthandler_works_when_our_descriptors_are_closed(tmp_path: Path) -> None:
    """A script that has closed every descriptor can still enable faulthandler, and its crash is told on stderr."""
    script = """
        import ctypes, faulthandler, os
        os.closerange(3, 65536)
        faulthandler.enable()
        ctypes.string_at(0)
    """
    job = lab.run(tmp_path, script, nproc=1)
    assert 1 == job.err.count("Fatal Python error: Segmentation fault")
    assert "SIGSEGV" == job.why()["attempts"][0]["cause"]["signal"]
