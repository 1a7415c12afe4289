"""The documents leave nothing out: what a user can name is written down, and the examples in docstrings run."""

import ast
import doctest
import importlib
import json
import pkgutil
import re
from pathlib import Path

import pytest

import jobtape
from jobtape.cli.application import COMMANDS

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


def structs():
    """The records of a tape by the tag that is their kind."""
    from jobtape.tape import records

    return {kind.__struct_config__.tag: kind for kind in records.Known.__args__}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name):
    """Each command stands in the documents, and so does each of its long options."""
    module = importlib.import_module(f"jobtape.cli.{COMMANDS[name][0]}")
    options = {option for param in module.command.params for option in param.opts if option.startswith("--")}
    text = documents()
    wanted = {f"jobtape {name}", *(options - {"--help"})}
    assert set() == {word for word in wanted if not re.search(rf"{re.escape(word)}(?![\w-])", text)}


def test_every_environment_variable_is_documented():
    """Each JOBTAPE_ variable that the sources name stands in the documents."""
    ours = {text for text in text_constants() if re.fullmatch(r"JOBTAPE_[A-Z_]+", text)}
    assert set() == {name for name in ours if not re.search(rf"\b{name}\b", documents())}


def test_every_event_name_is_documented():
    """Each event that jobtape records or imports by a name of its own stands in the documents."""
    pattern = r"jobtape\.(launch|attempt|agent|worker)\.\w+|torchelastic\.log\.\w+"
    ours = {text for text in text_constants() if re.fullmatch(pattern, text)} - set(MODULES)
    assert set() == {name for name in ours if not re.search(rf"{re.escape(name)}\b", documents())}


def test_every_field_of_the_tape_is_documented():
    """Each field of each record stands in docs/tape-format.md as code."""
    text = (ROOT / "docs" / "tape-format.md").read_text(encoding="utf-8")
    fields = {field for kind in structs().values() for field in kind.__struct_fields__}
    assert set() == {field for field in {*fields, *structs()} if f"`{field}`" not in text}


def test_every_field_of_the_tape_is_in_the_schema():
    """The JSON Schema of the tape knows each field of each record."""
    schema = json.loads((ROOT / "docs" / "tape.schema.json").read_text(encoding="utf-8"))
    known = set(re.findall(r'"(\w+)": ?\{', json.dumps(schema)))
    fields = {field for kind in structs().values() for field in kind.__struct_fields__}
    assert set() == fields - known


@pytest.mark.parametrize("name", [name for name in MODULES if "sitecustomize" not in name])
def test_examples_in_docstrings_run(name, tmp_path, monkeypatch):
    """The doctests of the module pass."""
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testmod(
        importlib.import_module(name), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    assert 0 == failed
