"""Who this process is: what the header of its tape file says.

Of the environment only the ranks and the scheduler's variables are kept, and of the command line no value that looks
like a secret: tapes are read by more people than the job's environment is.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

from jobtape import __version__
from jobtape.tape.records import Header

RANK_VARIABLES = (
    "RANK",
    "LOCAL_RANK",
    "GROUP_RANK",
    "ROLE_RANK",
    "ROLE_NAME",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_WORLD_SIZE",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_NTASKS",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "PMIX_RANK",
)
_JOB_VARIABLES = (
    ("SLURM_JOB_ID", ""),
    ("LSB_JOBID", "LSB_JOBINDEX"),
    ("PBS_JOBID", ""),
    ("JOB_ID", "SGE_TASK_ID"),
    ("PMIX_NAMESPACE", ""),
    ("OMPI_MCA_ess_base_jobid", ""),
    ("PMI_JOBID", ""),
)
"""Job ids of schedulers (SLURM, LSF, PBS, Grid Engine), each with the variable of its array's index; then of mpirun.

mpirun's come last: a scheduler's id outlives the mpirun it started, which may be started again.
"""

SCHEDULER_PREFIXES = ("SLURM_", "JOB_", "KUBERNETES_", "PET_")

_MAX_TEXT = 1000
_MAX_WORDS = 200
_SECRET_NAME = (
    r"(?:[\w.-]*[-_.])?(?:"
    r"(?:auth|access|api|refresh|session|client|private|secret|account|encryption|signing)?(?:token|keys?)"
    r"|\w*secrets?|\w*passw(?:or)?ds?|\w*passphrase|pwd|jwt|\w*credentials?|signature|sig|auth|authorization"
    r")"
)
_SECRET_VARIABLE = re.compile(r"TOKEN|JWT|SECRET|PASS|PWD|KEY|CRED|AUTH|COOKIE", re.IGNORECASE)
_VALUE = r"""(?:"[^"]*"|'[^']*'|[^\s,;&"']+)"""
_SECRET_OPTION = re.compile(rf"--?{_SECRET_NAME}", re.IGNORECASE)
_OPTION_AND_VALUE = re.compile(rf"((?:^|\s)--?{_SECRET_NAME}\s+)(?!--){_VALUE}", re.IGNORECASE)
_ASSIGNMENT = re.compile(rf"""((?<![\w.-])-{{0,2}}{_SECRET_NAME}["']?\s?[=:]\s?){_VALUE}""", re.IGNORECASE)
_URL_USER = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s]*@")
_BEARER = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
_KNOWN_TOKEN = re.compile(r"\b(?:hf_|ghp_|gho_|github_pat_|glpat-|sk-|xox[abp]-|AKIA|ASIA)[A-Za-z0-9_-]{8,}")
_REDACTED = "***"

_made_run_id: list[str] = []


def this_process(run_id: str | None = None, role: str = "other") -> Header:
    """The header of a tape file of this process; ``run_id`` defaults to `current_run_id`."""
    how = "given"
    if run_id is None:
        run_id, how = current_run_id()
    host, host_from = this_host()
    return Header(
        time_ns=time.time_ns(),
        mono_ns=time.monotonic_ns(),
        run_id=_text(run_id),
        run_id_from=how,
        host=_text(host),
        host_from=host_from,
        boot_id=_first_line("/proc/sys/kernel/random/boot_id"),
        pid=os.getpid(),
        pid_start=_pid_start(),
        parent_pid=os.getppid(),
        role=role,
        python=sys.version.split()[0],
        torch=_torch_version(),
        jobtape=__version__,
        command=redact(sys.orig_argv),
        ranks={name: _text(os.environ[name])[:_MAX_TEXT] for name in RANK_VARIABLES if name in os.environ},
        scheduler=_scheduler(),
    )


def current_run_id() -> tuple[str, str]:
    """The run this process belongs to, and how that was found: a variable's name, or ``made``.

    A made one is ``<UTC start>-<host>-<pid>`` and stays the same for the life of the process.
    """
    env = os.environ
    for name in ("JOBTAPE_RUN_ID", "TORCHELASTIC_RUN_ID"):
        if env.get(name):
            return env[name], name
    if env.get("SLURM_ARRAY_JOB_ID") and env.get("SLURM_ARRAY_TASK_ID"):
        return f"{env['SLURM_ARRAY_JOB_ID']}_{env['SLURM_ARRAY_TASK_ID']}", "SLURM_ARRAY_JOB_ID"
    for name, index in _JOB_VARIABLES:
        if env.get(name):
            task = env.get(index, "")
            return (f"{env[name]}_{task}" if task not in ("", "0", "undefined") else env[name]), name
    if not _made_run_id:
        _made_run_id.append(f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{this_host()[0]}-{os.getpid()}")
    return _made_run_id[0], "made"


def this_host() -> tuple[str, str]:
    """This host's name and how it was found: ``hostname``, or SLURM's name for a node that has only ``localhost``."""
    name = os.uname().nodename
    if name.partition(".")[0] in ("", "localhost") and os.environ.get("SLURMD_NODENAME"):
        return os.environ["SLURMD_NODENAME"], "SLURMD_NODENAME"
    return name or "unknown", "hostname"


def redact(words: list[str]) -> list[str]:
    """A command line without its secrets: values of options and variables that look like one, users in URLs.

    >>> redact(["train.py", "--hf-token", "abc", "--url=https://me:pw@host/x", "WANDB_API_KEY=1"])
    ['train.py', '--hf-token', '***', '--url=https://***@host/x', 'WANDB_API_KEY=***']
    """
    kept = []
    hide_next = False
    for word in words[:_MAX_WORDS]:
        if hide_next and not word.startswith("--"):
            kept.append(_REDACTED)
            hide_next = False
            continue
        hide_next = _SECRET_OPTION.fullmatch(word) is not None
        kept.append(redact_text(_text(word)))
    if len(words) > _MAX_WORDS:
        kept.append(f"… {len(words) - _MAX_WORDS} more")
    return kept


def redact_text(text: str) -> str:
    """Text of at most 1,000 characters in which what looks like a secret is ``***``."""
    text = text[:_MAX_TEXT]
    text = _URL_USER.sub(rf"\1{_REDACTED}@", text)
    text = _BEARER.sub(rf"\1 {_REDACTED}", text)
    text = _ASSIGNMENT.sub(rf"\1{_REDACTED}", text)
    text = _OPTION_AND_VALUE.sub(rf"\1{_REDACTED}", text)
    return _KNOWN_TOKEN.sub(_REDACTED, text)


def _scheduler() -> dict[str, str]:
    return {
        _text(name): redact_text(_text(value))
        for name, value in os.environ.items()
        if name.startswith(SCHEDULER_PREFIXES) and not _SECRET_VARIABLE.search(name)
    }


def _pid_start() -> int:
    """When this process started, in clock ticks since boot: field 22 of ``/proc/self/stat`` (proc(5)); 0 if unknown."""
    try:
        stat = Path("/proc/self/stat").read_bytes()
        return int(stat[stat.rindex(b")") + 2 :].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def _torch_version() -> str | None:
    version = getattr(sys.modules.get("torch"), "__version__", None)
    return None if version is None else str(version)


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _text(value: str) -> str:
    """The environment and the command line hold undecodable bytes as lone surrogates, which UTF-8 cannot."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8")
