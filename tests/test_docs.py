"""The documents leave nothing out: what a user can name is written down, and the examples in docstrings run."""

import ast
import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import jobtape

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(jobtape.__file__).parent

MODULES = sorted(
    found.name for found in pkgutil.walk_packages([str(PACKAGE)], "jobtape.") if "__main__" not in found.name
)


def documents():
    """All that users read, as one text."""
    return "\n".join(
        path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    )


def text_constants():
    """The text constants of the package's sources, without docstrings."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
                found.add(node.value)
    return found


def test_every_environment_variable_is_documented():
    """Each JOBTAPE_ variable that the sources name stands in the documents."""
    ours = {text for text in text_constants() if re.fullmatch(r"JOBTAPE_[A-Z_]+", text)}
    assert set() == {name for name in ours if not re.search(rf"\b{name}\b", documents())}


def test_every_event_name_is_documented():
    """Each event that jobtape records or imports by a name of its own stands in the documents."""
    pattern = r"jobtape\.(launch|attempt|agent|worker)\.\w+|torchelastic\.log\.\w+"
    ours = {text for text in text_constants() if re.fullmatch(pattern, text)} - set(MODULES)
    assert set() == {name for name in ours if not re.search(rf"{re.escape(name)}\b", documents())}


@pytest.mark.parametrize("name", [name for name in MODULES if "sitecustomize" not in name])
def test_examples_in_docstrings_run(name, tmp_path, monkeypatch):
    """The doctests of the module pass."""
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testmod(
        importlib.import_module(name), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    assert 0 == failed
