"""The rooms as a newcomer finds them, and what the first import loads."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import jobtape

PACKAGE = Path(jobtape.__file__).parent

ROOMS = {"capture", "cli", "destinations", "diagnose", "events", "importers", "tape", "views"}

LOADED = """
import sys
before = set(sys.modules)
import {module}
import json
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded_by(module):
    """The modules that importing `module` loads in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(module=module)], capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


def test_rooms_are_those_of_the_map():
    """The folders of the package are the rooms that docs/architecture.md draws."""
    assert ROOMS == {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}


def test_rooms_say_what_they_hold():
    """Each room's __init__ begins with a docstring."""
    silent = [
        room
        for room in sorted(ROOMS)
        if not ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8")))
    ]
    assert [] == silent


def test_no_file_is_called_by_what_it_is_not():
    """No module is named utils, helpers, common or misc: a module is a noun for one idea."""
    vague = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [] == [str(path) for path in PACKAGE.rglob("*.py") if path.stem in vague]


def test_events_load_only_the_standard_library():
    """`import jobtape.events` loads neither torch nor any dependency, and of jobtape only what it needs."""
    loaded = loaded_by("jobtape.events")
    foreign = {name.split(".")[0] for name in loaded} - sys.stdlib_module_names - {"jobtape"}
    assert set() == foreign
    ours = {name for name in loaded if name.split(".")[0] == "jobtape"}
    assert {"jobtape", "jobtape.errors"} == {name for name in ours if not name.startswith("jobtape.events")}


def test_hook_loads_nothing_where_nothing_is_recorded():
    """The hook that torch calls in every process loads jobtape's own few modules and no dependency."""
    loaded = loaded_by("jobtape.capture.hook; jobtape.capture.hook.activate()")
    assert set() == {name.split(".")[0] for name in loaded} - sys.stdlib_module_names - {"jobtape"}
    assert [] == [name for name in loaded if name.startswith(("jobtape.tape", "jobtape.destinations", "jobtape.cli"))]


def test_commands_start_without_torch():
    """No command loads torch before it needs it, so that `why` answers at once and where there is none."""
    modules = ", ".join(sorted(f"jobtape.cli.{path.stem}" for path in (PACKAGE / "cli").glob("*.py")))
    assert [] == [name for name in loaded_by(modules) if name.split(".")[0] in {"torch", "numpy"}]
