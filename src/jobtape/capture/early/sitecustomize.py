"""Starts the worker's recording before the script's first line, then takes every trace of itself away.

torch's hook runs only once a script imports torch; a script that fails before that would leave no traceback. The
agent's bridge puts this folder first on a worker's PYTHONPATH. The first thing done here is to undo that: PYTHONPATH,
``sys.path`` and ``sys.modules`` are what they would have been, and a ``sitecustomize`` of the user's own is run as it
would have been.
"""

import os
import sys


def _restore() -> None:
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is not imported yet at start-up
    before = os.environ.pop("JOBTAPE_PYTHONPATH", None)
    if before is not None:
        os.environ["PYTHONPATH"] = before
    else:
        os.environ.pop("PYTHONPATH", None)
    sys.path[:] = [path for path in sys.path if path != here]
    sys.modules.pop("sitecustomize", None)
    for name in list(sys.path_importer_cache):
        if name == here:
            del sys.path_importer_cache[name]


def _start() -> None:
    try:
        from jobtape.capture import worker
    except ImportError:  # the worker runs in an environment without jobtape: its agent still records
        return
    try:
        worker.start()
    except Exception as error:  # noqa: BLE001 - the script must start whatever happens here
        print(f"jobtape: this worker is not recorded: {error}", file=sys.stderr)  # noqa: T201


_own = sys.modules.get(__name__)
_restore()
if os.environ.get("JOBTAPE_RECORD"):
    _start()
try:  # the user's own, now that ours is out of the way
    import sitecustomize  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "sitecustomize":
        raise
    if _own is not None:  # the import system asks for the module it has just executed
        sys.modules["sitecustomize"] = _own
