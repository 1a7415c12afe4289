"""Who a process is, and what of its surroundings is kept."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import jobtape
from jobtape.tape.header import current_run_id, redact, redact_text, this_process


def header_of(code: str, *arguments: str, **environment: str) -> dict[str, object]:
    """The header a fresh process would write, in that environment."""
    script = f"""{code}
import json, msgspec
from jobtape.tape.header import this_process
print(json.dumps(msgspec.to_builtins(this_process())))
"""
    import json

    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded: dict[str, object] = json.loads(done.stdout)
    return loaded


def test_a_process_says_who_it_is() -> None:
    """Pid, start, parent, boot, versions and times are this process's own."""
    header = this_process("job-1", "agent")
    assert ("job-1", "given", "agent") == (header.run_id, header.run_id_from, header.role)
    assert (os.getpid(), os.getppid()) == (header.pid, header.parent_pid)
    assert Path("/proc/sys/kernel/random/boot_id").read_text().strip() == header.boot_id
    assert (os.uname().nodename, "hostname") == (header.host, header.host_from)
    assert (sys.version.split()[0], jobtape.__version__) == (header.python, header.jobtape)
    assert abs(time.time_ns() - (header.time_ns or 0)) < 60e9
    assert abs(time.monotonic_ns() - (header.mono_ns or 0)) < 60e9


def test_the_start_of_a_process_is_read_past_a_hostile_name(tmp_path: Path) -> None:
    """The kernel gives a process's name unescaped, in parentheses, before its start time."""
    ticks = header_of("import ctypes; ctypes.CDLL(None).prctl(15, b') R 1 2 (x', 0, 0, 0)")["pid_start"]
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    assert isinstance(ticks, int)
    assert 0 <= uptime_s - ticks / os.sysconf("SC_CLK_TCK") < 60


def test_torch_is_named_only_when_it_is_there_and_never_imported() -> None:
    """A header costs no import of torch."""
    code = "import types, sys\nassert 'torch' not in sys.modules"
    assert header_of(code)["torch"] is None
    loaded = "import types, sys\nsys.modules['torch'] = types.SimpleNamespace(__version__='2.13.0+cpu')"
    assert "2.13.0+cpu" == header_of(loaded)["torch"]


def test_of_the_environment_only_ranks_and_scheduler_are_kept() -> None:
    """The rest of it holds secrets, and so do some of the scheduler's own variables."""
    environment = {
        "RANK": "3",
        "LOCAL_RANK": "1",
        "TORCHELASTIC_RESTART_COUNT": "2",
        "SLURM_JOB_ID": "99",
        "SLURM_JWT": "secret",
        "SLURM_REST_TOKEN": "secret",
        "JOB_NAME": "train",
        "JOB_API_KEY": "secret",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "PET_NPROC_PER_NODE": "4",
        "PET_RDZV_CONF": "password=secret,timeout=3",
        "PET_RDZV_ENDPOINT": "https://me:secret@host:2379",
        "HF_TOKEN": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "MY_DATA": "secret",
    }
    header = header_of("", **environment)
    assert {"RANK": "3", "LOCAL_RANK": "1", "TORCHELASTIC_RESTART_COUNT": "2"} == header["ranks"]
    assert {
        "SLURM_JOB_ID": "99",
        "JOB_NAME": "train",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "PET_NPROC_PER_NODE": "4",
        "PET_RDZV_CONF": "password=***,timeout=3",
        "PET_RDZV_ENDPOINT": "https://***@host:2379",
    } == header["scheduler"]
    assert "secret" not in str(header)


def test_undecodable_bytes_do_not_stop_a_header() -> None:
    """Command lines and variables are bytes to the kernel."""
    environment = {**os.environb, b"RANK": b"\xff", b"SLURM_X": b"\xfe", b"TORCHELASTIC_RUN_ID": b"\xfd"}
    script = "from jobtape.tape.header import this_process; from jobtape.tape.records import encode;"
    script += "print(encode(this_process()).decode())"
    done = subprocess.run([sys.executable, "-c", script, b"\xfc"], env=environment, capture_output=True, check=True)
    assert {"\\udcff", "\\udcfe", "\\udcfd", "\\udcfc"} == set(
        re.findall(r"\\udcf[c-f]", done.stdout.decode().replace("\\\\", "\\"))
    )


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TORCHELASTIC_RUN_ID": "job-1", "SLURM_JOB_ID": "9"}, ("job-1", "TORCHELASTIC_RUN_ID")),
        ({"JOBTAPE_RUN_ID": "../x", "TORCHELASTIC_RUN_ID": "job-1"}, ("../x", "JOBTAPE_RUN_ID")),
        ({"SLURM_JOB_ID": "9"}, ("9", "SLURM_JOB_ID")),
        (
            {"SLURM_JOB_ID": "12", "SLURM_ARRAY_JOB_ID": "9", "SLURM_ARRAY_TASK_ID": "3"},
            ("9_3", "SLURM_ARRAY_JOB_ID"),
        ),
        ({"LSB_JOBID": "7", "LSB_JOBINDEX": "0"}, ("7", "LSB_JOBID")),
        ({"LSB_JOBID": "7", "LSB_JOBINDEX": "2"}, ("7_2", "LSB_JOBID")),
        ({"PBS_JOBID": "7.server"}, ("7.server", "PBS_JOBID")),
        ({"JOB_ID": "5", "SGE_TASK_ID": "undefined"}, ("5", "JOB_ID")),
        ({"JOB_ID": "5", "SGE_TASK_ID": "6"}, ("5_6", "JOB_ID")),
    ],
)
def test_the_run_is_found_in_the_environment(
    environment: dict[str, str], expected: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch's own id comes first, then the scheduler's job."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert expected == current_run_id()


def test_without_any_a_run_id_is_made_once() -> None:
    """It names the start, the host and the process, and stays."""
    run_id, how = current_run_id()
    assert "made" == how
    assert re.fullmatch(rf"\d{{8}}T\d{{6}}-{re.escape(os.uname().nodename)}-{os.getpid()}", run_id)
    assert (run_id, how) == current_run_id()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--token=abc"], ["--token=***"]),
        (["--token", "abc", "x"], ["--token", "***", "x"]),
        (["--token", "--lr", "1"], ["--token", "--lr", "1"]),
        (["-p", "8080"], ["-p", "8080"]),
        (["--hf-token=abc", "--wandb_api_key", "abc"], ["--hf-token=***", "--wandb_api_key", "***"]),
        (["--db.password=a b"], ["--db.password=*** b"]),
        (["--password='a b'"], ["--password=***"]),
        (["HF_TOKEN=abc"], ["HF_TOKEN=***"]),
        (["AWS_SECRET_ACCESS_KEY=a/b+c=="], ["AWS_SECRET_ACCESS_KEY=***"]),
        (["PGPASSWORD=abc"], ["PGPASSWORD=***"]),
        (["https://user:pass@host/path"], ["https://***@host/path"]),
        (["--url=s3://key:p@ss@host/b"], ["--url=s3://***@host/b"]),
        (["git+ssh://git@host/x"], ["git+ssh://***@host/x"]),
        (["https://host/x?sig=abc&v=1"], ["https://host/x?sig=***&v=1"]),
        (['{"api_key": "abc", "lr": 1}'], ['{"api_key": ***, "lr": 1}']),
        (["bash", "-c", "train --token abc --lr 1"], ["bash", "-c", "train --token *** --lr 1"]),
        (["bash", "-c", "export HF_TOKEN=abc; train"], ["bash", "-c", "export HF_TOKEN=***; train"]),
        (["Authorization: Bearer abcdefgh1234"], ["Authorization: *** ***"]),
        (["hf_abcdefghijkl"], ["***"]),
        (["--max-tokens", "2048"], ["--max-tokens", "2048"]),
        (["--max_tokens=2048"], ["--max_tokens=2048"]),
        (["--tokenizer=gpt2", "--monkey=1"], ["--tokenizer=gpt2", "--monkey=1"]),
        (["train.py", "--lr=0.1", "user@host"], ["train.py", "--lr=0.1", "user@host"]),
    ],
)
def test_secrets_of_a_command_line_are_hidden(words: list[str], expected: list[str]) -> None:
    """Options and variables that look like a secret lose their value, URLs their user; others stay."""
    assert expected == redact(words)


def test_long_command_lines_are_cut() -> None:
    """A header stays a header, and says what it left out."""
    kept = redact(["x" * 5000] * 300)
    assert (201, "x" * 1000, "… 100 more") == (len(kept), kept[0], kept[-1])


def test_hiding_is_quick_on_hostile_text() -> None:
    """No pattern goes over a text again and again."""
    began = time.perf_counter()
    for text in ("token" * 1000, "a-" * 5000, "--" * 5000, "x://" * 2000, '"' * 5000, "key=" * 2000, "_.-" * 3000):
        redact_text(text)
    assert time.perf_counter() - began < 2
