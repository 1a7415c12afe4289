"""Scripts run with torch's events module already imported: its import takes seconds, a fork of it does not.

Started as a program it waits for jobs on stdin, one JSON line each, and answers each with the script's exit code.
"""

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace


class TorchServer:
    """A process that has torch's events imported, and runs each script in a fork of itself."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, script, directory, env):
        """Run a script as ``script.py`` in a directory; gives exit code, stdout and stderr."""
        (directory / "script.py").write_text(script, encoding="utf-8")
        files = [str(directory / name) for name in ("torch-stdout", "torch-stderr")]
        job = {"script": script, "directory": str(directory), "env": env, "files": files}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        out, err = (Path(file).read_text(encoding="utf-8") for file in files)
        return SimpleNamespace(code=code, out=out, err=err)

    def stop(self):
        """End the process."""
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


def serve():
    """Run the jobs that come in on stdin."""
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # torch as it is without jobtape
    import torch.distributed.elastic.events  # noqa: F401

    for line in iter(sys.stdin.readline, ""):
        job = json.loads(line)
        child = os.fork()
        if not child:
            run(job)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, flush=True)


def run(job):
    """In the child: the script, with stdout, stderr and environment of its own."""
    code = 1
    for fd, file in enumerate(job["files"], start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), fd)
    os.environ.update(job["env"])
    os.chdir(job["directory"])
    sys.path[0] = ""
    try:
        exec(compile(job["script"], f"{job['directory']}/script.py", "exec"), {"__name__": "__main__"})
        code = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    serve()
