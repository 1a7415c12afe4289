"""Finding the handler of a destination."""

import logging
import sys

import pytest

from jobtape.errors import UnknownDestination
from tests.events.lab import Keeping, Raising, agent_event


@pytest.mark.parametrize("destination", ["null", "console", "pretty", "dynamic_rendezvous", "tape", "console,tape"])
def test_the_documented_example_works(fresh, monkeypatch, tmp_path, capsys, destination):
    """`get_logging_handler(destination=…).info(event)` works for every destination, with a real handler."""
    monkeypatch.setenv("JOBTAPE_DIR", str(tmp_path))
    handler = fresh.get_logging_handler(destination=destination)
    assert isinstance(handler, logging.Handler)
    assert handler is fresh.get_logging_handler(destination=destination)
    handler.info(agent_event())
    counts = fresh.stats().values()
    assert (len(counts), 0) == (sum(each["recorded"] for each in counts), sum(each["failed"] for each in counts))


def test_the_documented_example_works_for_registered_handlers(fresh, tmp_path, capsys):
    """Also for any handler of the standard library, in lists, made by factories, and one that fails."""
    kept, file = Keeping(), logging.FileHandler(tmp_path / "log")
    fresh.register_handler("kept", kept)
    fresh.register_handler("file", lambda: file)
    fresh.register_handler("raising", Raising())
    for destination in ("kept", "file", "raising", "raising,kept"):
        fresh.get_logging_handler(destination).info(agent_event())
    file.close()
    text = agent_event().serialize()
    assert ([text] * 2, f"{text}\n") == (kept.texts, (tmp_path / "log").read_text())
    assert "torchelastic-events-kept" == kept.records[0].name
    assert 2 == fresh.stats()["raising"]["failed"]


def test_null_is_a_null_handler(fresh):
    """`null` and, until it is replaced, `dynamic_rendezvous` are NullHandlers, as torch's agents check."""
    kinds = [type(fresh.get_logging_handler(name)) for name in ("null", "dynamic_rendezvous")]
    assert [logging.NullHandler] * 2 == kinds
    assert fresh.get_logging_handler() is fresh.get_logging_handler("null")


@pytest.mark.parametrize("destination", ["", "bogus", "null,bogus", ",", "otlp://host:1", "file://", "file://host/dir"])
def test_an_unknown_name_is_a_key_error(fresh, destination):
    """An unknown destination raises a KeyError that lists what would have worked."""
    with pytest.raises(KeyError, match="unknown destination") as caught:
        fresh.get_logging_handler(destination)
    assert isinstance(caught.value, UnknownDestination)
    assert "file:///" in str(caught.value)


def test_known_names_are_listed(fresh):
    """The error's list has every name, registered ones too, but no lists and URLs that happen to be in use."""
    fresh.register_handler("kept", Keeping())
    fresh.get_logging_handler("kept,null")
    with pytest.raises(UnknownDestination) as caught:
        fresh.get_logging_handler("bogus")
    assert ("console", "dynamic_rendezvous", "kept", "null", "pretty", "tape", "file:///dir") == caught.value.known
    assert "bogus" == caught.value.destination


@pytest.mark.parametrize("name", ["", " kept", "a,b", "otlp://x", None, 5])
def test_names_that_cannot_be_asked_for_are_refused(fresh, name):
    """A name that a list or URL would take apart cannot be registered."""
    with pytest.raises(ValueError, match="destination's name"):
        fresh.register_handler(name, Keeping())


def test_only_handlers_and_callables_are_registered(fresh):
    """Anything else is refused at once; what a factory makes is looked at when it is made."""
    with pytest.raises(TypeError, match=r"needs a logging\.Handler"):
        fresh.register_handler("kept", "handler")
    fresh.register_handler("kept", list)
    with pytest.raises(TypeError, match="made a list"):
        fresh.get_logging_handler("kept")


def test_a_taken_name_needs_replace(fresh):
    """A second registration of a name, jobtape's own too, is an error unless it says that it replaces."""
    fresh.register_handler("kept", Keeping)
    for name in ("kept", "console", "null", "tape"):
        with pytest.raises(ValueError, match="replace=True"):
            fresh.register_handler(name, Keeping())


@pytest.mark.parametrize("destination", ["kept", "kept,null", "null,kept"])
def test_replace_takes_effect_at_once(fresh, destination):
    """A replacement gets the next event, also where the old one was in use already, alone or in a list."""
    old, new = Keeping(), Keeping()
    fresh.register_handler("kept", old)
    fresh.record(agent_event(), destination)
    fresh.register_handler("kept", new, replace=True)
    fresh.record(agent_event(), destination)
    assert (1, 1) == (len(old.records), len(new.records))


def test_torchs_own_way_to_add_a_handler_works(fresh):
    """Torch has no registration, so people put handlers into its private dict; ours is looked at too."""
    kept = Keeping()
    fresh.handlers._log_handlers["mine"] = kept
    fresh.record(agent_event(), "mine")
    fresh.get_logging_handler("mine").info(agent_event())
    assert [agent_event().serialize()] * 2 == kept.texts


def test_a_file_url_names_a_directory(fresh, tmp_path):
    """`file:///dir` is a tape there, percent-encoded characters included; one directory has one handler."""
    handler = fresh.get_logging_handler(f"file://{tmp_path}/a%2Cb")
    assert (tmp_path / "a,b", True) == (
        handler.directory,
        handler is fresh.get_logging_handler(f"file://{tmp_path}/a%2cb/"),
    )
    assert handler is fresh.get_logging_handler(f"FILE://localhost{tmp_path}/a%2Cb")


def test_a_handler_that_takes_no_attributes_is_wrapped(fresh):
    """A handler whose class forbids new attributes works as well."""

    class Sealed(Keeping):
        def __setattr__(self, name, value):
            if name in ("info", "handleError"):
                raise AttributeError(name)
            super().__setattr__(name, value)

    sealed = Sealed()
    fresh.register_handler("sealed", sealed)
    fresh.get_logging_handler("sealed").info(agent_event())
    fresh.record(agent_event(), "sealed")
    assert [agent_event().serialize()] * 2 == sealed.texts


PACKAGE = """
import logging
LOADED = True
class Stored(logging.Handler):
    events = []
    def emit(self, record): self.events.append(record.getMessage())
stored = Stored()
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package that brings destinations: a class, an instance, and two broken ones."""
    (tmp_path / "bringer.py").write_text(PACKAGE)
    info = tmp_path / "bringer-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bringer\nVersion: 1.0\n")
    points = "byclass = bringer:Stored\nbyvalue = bringer:stored\nbroken = bringer:absent\nmissing = absent_module:x\n"
    (info / "entry_points.txt").write_text(f"[jobtape.handlers]\nconsole = bringer:stored\n{points}")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("bringer", None)


@pytest.mark.parametrize("name", ["byclass", "byvalue"])
def test_entry_points_are_found(fresh, package, name):
    """A handler class or a handler of the group jobtape.handlers is a destination without being imported first."""
    fresh.record(agent_event(), name)
    assert [agent_event().serialize()] == sys.modules["bringer"].Stored.events
    sys.modules["bringer"].Stored.events.clear()


def test_entry_points_wait_until_a_name_is_unknown(fresh, package):
    """A known name, even one that a package would like to have, loads no package."""
    assert "bringer" not in type(fresh.get_logging_handler("console")).__module__
    assert "bringer" not in sys.modules


@pytest.mark.parametrize("name", ["broken", "missing"])
def test_a_broken_entry_point_is_said_once(fresh, package, capsys, name):
    """An entry point that cannot be loaded is an unknown destination and one line on stderr."""
    for _ in range(3):
        fresh.record(agent_event(), name)
    with pytest.raises(UnknownDestination, match="byclass"):
        fresh.get_logging_handler(name)
    said = capsys.readouterr().err.splitlines()
    assert (1, True) == (len(said), said[0].startswith(f"jobtape: destination '{name}' cannot be loaded from "))
    assert 3 == fresh.stats()[name]["dropped"]
