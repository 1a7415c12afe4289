"""The entry point torch (>= 2.4) calls at the end of ``import torch``, in every process.

It must cost nothing where nobody asked for a recording: it looks at the environment, puts one finder on
``sys.meta_path`` that waits for the three torch modules an agent is made of, and returns. It imports no other part of
jobtape unless this process is a worker to be recorded or such a module is imported. It never raises: an exception here
would fail the user's ``import torch``.
"""

from __future__ import annotations

import os
import sys
from typing import Any, cast

SEAMS = {
    "torch.distributed.elastic.events": "patch_events",
    "torch.distributed.launcher.api": "patch_launcher",
    "torch.distributed.elastic.agent.server.api": "patch_agent",
}
"""Module of torch → the function of `jobtape.capture.seams` to call when it has been imported."""


def activate() -> None:
    """Arrange what this process needs; called by torch, and by ``jobtape run`` where torch's autoload is off."""
    try:
        _wait_for_seams()
        if _is_launcher():
            variables = ("PET_EVENT_LOG_HANDLER", "JOBTAPE_RECORD")
            words = " ".join([*sys.orig_argv, *(os.environ.get(name, "") for name in variables)])
            if "tape" not in words and "file:" not in words:
                return
            from jobtape.capture import agent

            agent.watch_launcher(sys.orig_argv)
        elif os.environ.get("JOBTAPE_RECORD"):
            from jobtape.capture import worker

            worker.start()
    except Exception as error:  # noqa: BLE001 - see the module's docstring
        _say(error)


def _is_launcher() -> bool:
    """Whether this process is torchrun or ``jobtape run``: it becomes an agent, and records as one."""
    words = sys.orig_argv[1:4]
    return any(
        word in ("torch.distributed.run", "torch.distributed.launch")
        or word.rpartition("/")[2] in ("torchrun", "jobtape")
        for word in words
    )


def _wait_for_seams() -> None:
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    for name in SEAMS:
        module = sys.modules.get(name)
        if module is not None:
            _apply(name, module)
    sys.meta_path.insert(0, _Finder())


def _apply(name: str, module: Any) -> None:
    try:
        from jobtape.capture import seams

        getattr(seams, SEAMS[name])(module)
    except Exception as error:  # noqa: BLE001 - the import of torch's module must go on
        _say(error)


def _say(error: Exception) -> None:
    try:
        text = f"jobtape: this process is not recorded: {type(error).__name__}: {error}"
        print(" ".join(text.split()), file=sys.stderr)  # noqa: T201
    except Exception:  # noqa: BLE001 - stderr may be closed; there is nobody left to tell
        return


class _Finder:
    """Finds the modules named in `SEAMS` as everyone else would, and patches them once they are executed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in SEAMS:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = cast(Any, _Loader(spec.loader))
                return spec
        return None


class _Loader:
    """Stands in for a module's loader until the module is executed, then takes itself away."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _apply(module.__name__, module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
