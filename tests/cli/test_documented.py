"""docs/commands.md tells of each command what it has, and of nothing it has not."""

import importlib
import re
from pathlib import Path

import pytest

from jobtape.cli.application import COMMANDS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "commands.md").read_text()
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def section(name):
    """What the page says of a command."""
    return re.search(rf"^## `jobtape {name}`\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)[1]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "run"])
def test_options_of_a_command(name):
    """The table of a command's section has its options and no others."""
    command = importlib.import_module(f"jobtape.cli.{COMMANDS[name][0]}").command
    known = {option for param in command.params for option in param.opts if option.startswith("--")}
    rows = [row.split("|")[1] for row in section(name).splitlines() if row.startswith("| `--")]
    assert known == {option for row in rows for option in OPTION.findall(row)}


@pytest.mark.parametrize("name", COMMANDS)
def test_example_of_a_command(name):
    """A command's section begins with an example of it."""
    assert re.match(rf"\n    (?:\$ )?jobtape {name}\b", section(name))


def test_commands_in_the_list():
    """The list on top of the page has every command."""
    assert list(COMMANDS) == re.findall(r"^    jobtape (\w+)", PAGE.partition("\n## ")[0], re.MULTILINE)
