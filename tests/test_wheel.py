"""The wheel: what is in it, and that it is what these tests run against.

`make test` names the wheel it installed in JOBTAPE_WHEEL; without that the tests may be running against src/.
"""

import importlib.metadata
import os
import sys
import sysconfig
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import jobtape

ROOT = Path(__file__).resolve().parent.parent
WHEEL = os.environ.get("JOBTAPE_WHEEL", "")

pytestmark = pytest.mark.skipif(not WHEEL, reason="JOBTAPE_WHEEL names no wheel (`make test` sets it)")


@pytest.fixture(scope="module")
def contents():
    """The files of the wheel by name."""
    with zipfile.ZipFile(WHEEL) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist()}


@pytest.fixture(scope="module")
def metadata(contents):
    """The wheel's METADATA."""
    (text,) = (data for name, data in contents.items() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(text.decode())


def test_tests_run_against_the_installed_package():
    """The package imported here lies in the environment's site-packages."""
    assert Path(sysconfig.get_path("purelib")).resolve() == Path(jobtape.__file__).resolve().parent.parent


def test_sources_are_not_on_the_path():
    """No entry of sys.path leads to src/."""
    assert [] == [entry for entry in sys.path if Path(entry or ".").resolve() == ROOT / "src"]


def test_installed_files_are_those_of_the_wheel(contents):
    """Each file of the wheel is installed, byte for byte."""
    site = Path(sysconfig.get_path("purelib"))
    ours = {name: data for name, data in contents.items() if name.startswith("jobtape/")}
    assert ours == {name: (site / name).read_bytes() for name in ours}


def test_wheel_holds_the_sources_and_nothing_else(contents):
    """The package in the wheel is src/jobtape, whole, and no other top-level package comes with it."""
    source = ROOT / "src"
    expected = {
        path.relative_to(source).as_posix(): path.read_bytes()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert expected == {name: data for name, data in contents.items() if ".dist-info/" not in name}


def test_wheel_is_typed_and_licensed(contents):
    """The marker for type checkers and the licence travel with the wheel."""
    assert "jobtape/py.typed" in contents
    licences = [name for name in contents if name.endswith("/LICENSE")]
    assert [(ROOT / "LICENSE").read_bytes()] == [contents[name] for name in licences]


def test_version_is_the_packages(metadata):
    """The wheel's version is `jobtape.__version__`."""
    assert jobtape.__version__ == metadata["Version"] == importlib.metadata.version("jobtape")


def test_core_dependencies_are_three(metadata):
    """Installing jobtape brings msgspec, click and rich, and no torch."""
    needs = [need for need in metadata.get_all("Requires-Dist") if "extra ==" not in need]
    core = [need for need in needs if "python_version" not in need]
    assert ["click", "msgspec", "rich"] == sorted(need.split(">")[0].split("=")[0].strip() for need in core)
    assert ["tomli>=2; python_version < '3.11'"] == [need.replace('"', "'") for need in needs if need not in core]
    assert ">=3.10" == metadata["Requires-Python"]


def test_entry_points_load():
    """The command and torch's hook are there and can be called."""
    points = importlib.metadata.distribution("jobtape").entry_points
    assert {("console_scripts", "jobtape"), ("torch.backends", "jobtape")} <= {(p.group, p.name) for p in points}
    assert [] == [point.name for point in points if not callable(point.load())]


def test_torch_is_compared_as_it_is():
    """torch's events module, where tests of this run have imported it, is not patched by the installed hook."""
    theirs = sys.modules.get("torch.distributed.elastic.events")
    if theirs is None:
        pytest.skip("no test of this run imports torch's events")
    assert [theirs.__file__, dict] == [theirs.record.__code__.co_filename, type(theirs.handlers._log_handlers)]
