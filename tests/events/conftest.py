"""Fixtures shared by the tests of events."""

import os
import subprocess
import sys

import pytest

from tests.events.lab import fresh, python  # noqa: F401
from tests.events.torch_server import TorchServer


@pytest.fixture(scope="session")
def torch_server():
    """The process that runs scripts with torch's events."""
    server = TorchServer()
    yield server
    server.stop()


@pytest.fixture
def both(torch_server, tmp_path):
    """Runs a script once with torch's module and once with ours; gives exit code, stdout and stderr of each."""

    def run(script, **env):
        expected = torch_server.run(script.replace("PACKAGE", "torch.distributed.elastic"), tmp_path, env)
        path = tmp_path / "script.py"
        path.write_text(script.replace("PACKAGE", "jobtape"))
        done = subprocess.run(
            [sys.executable, path], capture_output=True, text=True, cwd=tmp_path, timeout=120, env={**os.environ, **env}
        )
        return (expected.code, expected.out, expected.err), (done.returncode, done.stdout, done.stderr)

    return run
