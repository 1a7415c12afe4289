"""Recording: where events go, through whose hands, and that it never harms the caller."""

import logging
import pickle
from unittest.mock import patch

import pytest

from tests.events.lab import Keeping, agent_event, lines, rdzv_event


def logger_of(destination):
    """The logger of a destination."""
    return logging.getLogger(f"torchelastic-events-{destination}")


def test_loggers_are_those_of_torch(fresh):
    """Name, level, propagation and the one handler are torch's, and the logger is made once."""
    logger = fresh._get_or_create_logger("console")
    assert ("torchelastic-events-console", False, logging.INFO) == (logger.name, logger.propagate, logger.level)
    assert [fresh.get_logging_handler("console")] == logger.handlers
    assert logger is fresh._get_or_create_logger("console") is fresh._events_loggers["console"]
    assert fresh._get_or_create_logger() is fresh._events_loggers["null"]


@pytest.mark.parametrize("level", ["WARNING", "CRITICAL", "nonsense"])
def test_loglevel_does_not_reach_the_logger(fresh, monkeypatch, level):
    """The logger lets events through whatever LOGLEVEL says."""
    monkeypatch.setenv("LOGLEVEL", level)
    kept = Keeping()
    fresh.register_handler("kept", kept)
    fresh.record(agent_event(), "kept")
    assert [agent_event().serialize()] == kept.texts


def test_registered_handlers_get_what_torchs_would(fresh):
    """A handler of the standard library gets a LogRecord with the event's JSON at level INFO."""
    kept = Keeping()
    fresh.register_handler("kept", kept)
    fresh.record(agent_event(), "kept")
    record = kept.records[0]
    assert ("torchelastic-events-kept", "INFO", "record", "__init__.py") == (
        record.name,
        record.levelname,
        record.funcName,
        record.filename,
    )
    assert agent_event().serialize() == record.msg == record.getMessage()
    assert {"kept": {"recorded": 1, "dropped": 0, "failed": 0}} == fresh.stats()


@pytest.mark.parametrize("destination", ["null", "console", "tape", "kept"])
def test_handlers_of_users_see_every_event(fresh, monkeypatch, tmp_path, capsys, destination):
    """A handler that a user puts on a destination's logger sees each event as torch would show it."""
    monkeypatch.setenv("JOBTAPE_DIR", str(tmp_path))
    fresh.register_handler("kept", Keeping())
    fresh.record(agent_event(), destination)
    own = Keeping()
    logger_of(destination).addHandler(own)
    fresh.record(agent_event(), destination)
    logger_of(destination).removeHandler(own)
    fresh.record(agent_event(), destination)
    assert [agent_event().serialize()] == own.texts


def test_filters_of_users_are_asked(fresh, tmp_path):
    """A filter on a destination's logger or handler sees each event and may refuse it."""
    seen = []

    def only_failures(record):
        seen.append(record.getMessage())
        return "FAILED" in record.getMessage()

    destination = f"file://{tmp_path}"
    for filtered in (fresh._get_or_create_logger(destination), fresh.get_logging_handler(destination)):
        filtered.addFilter(only_failures)
        fresh.record(agent_event(), destination)
        fresh.record(agent_event(state="FAILED"), destination)
        filtered.removeFilter(only_failures)
    assert [agent_event().serialize(), agent_event(state="FAILED").serialize()] * 2 == seen
    assert 2 == fresh.stats()[destination]["recorded"]


def test_propagation_works_when_asked_for(fresh):
    """Who makes the logger propagate gets the events at the loggers above, as in logging."""
    above = Keeping()
    fresh._get_or_create_logger("null").propagate = True
    logging.getLogger().addHandler(above)
    try:
        fresh.record(agent_event())
    finally:
        logging.getLogger().removeHandler(above)
    assert [agent_event().serialize()] == above.texts


def test_a_level_set_on_the_logger_is_obeyed(fresh, tmp_path):
    """Who raises the level of one destination's logger wants silence there."""
    destination = f"file://{tmp_path}"
    fresh._get_or_create_logger(destination).setLevel(logging.WARNING)
    fresh.record(agent_event(), destination)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("way", ["disabled", "disable"])
def test_a_blanket_silence_does_not_reach_the_tape(fresh, tmp_path, way):
    """dictConfig disables all existing loggers, and scripts call logging.disable; neither is meant for the tape."""
    destination, kept = f"file://{tmp_path}", Keeping()
    logger = fresh._get_or_create_logger(destination)
    logger.addHandler(kept)
    logger.disabled = way == "disabled"
    logging.disable(logging.CRITICAL if way == "disable" else logging.NOTSET)
    try:
        fresh.record(agent_event(), destination)
    finally:
        logging.disable(logging.NOTSET)
    assert (1, []) == (fresh.stats()[destination]["recorded"], kept.texts)


def test_console_obeys_a_blanket_silence(fresh, capsys):
    """What is printed is silenced by logging.disable, as in torch."""
    logging.disable(logging.CRITICAL)
    try:
        fresh.record(agent_event(), "console")
    finally:
        logging.disable(logging.NOTSET)
    assert [] == lines(capsys)


def test_a_list_gives_each_its_event(fresh):
    """Every part of a list gets the event once, also when named twice."""
    one, two = Keeping(), Keeping()
    fresh.register_handler("one", one)
    fresh.register_handler("two", two)
    fresh.record(agent_event(), "one, two,one")
    assert [[agent_event().serialize()]] * 2 == [one.texts, two.texts]
    assert "torchelastic-events-one, two,one" == one.records[0].name


def test_log_records_can_be_pickled(fresh):
    """A handler that sends records to another process can pickle them, also with an event that cannot be."""
    kept = Keeping()
    fresh.register_handler("kept", kept)
    fresh.record(agent_event(model=open), "kept")
    fresh.record(agent_event(lock=Keeping().lock), "kept")
    again = pickle.loads(pickle.dumps(kept.records))
    assert kept.texts == [record.getMessage() for record in again]
    assert {str} == {type(record.msg) for record in again}


def test_null_handlers_of_others_cost_nothing(fresh):
    """Torch's module puts a NullHandler on the same logger; the event still need not be made into text."""
    logger = fresh._get_or_create_logger("null")
    logger.addHandler(logging.NullHandler())
    fresh.record(agent_event())
    with patch.object(fresh.Event, "serialize", side_effect=AssertionError) as serialize:
        fresh.record(agent_event())
        fresh.emit("step")
    assert 0 == serialize.call_count


def test_patching_the_package_works_as_in_torch(fresh):
    """`get_logging_handler`, `_get_or_create_logger` and `_events_loggers` are looked up in the package when called."""
    with patch("jobtape.events.get_logging_handler") as get:
        get.return_value = logging.NullHandler()
        logger = fresh._get_or_create_logger("test_destination")
        assert ([get.return_value], 1) == (logger.handlers, get.call_count)
    with patch("jobtape.events._get_or_create_logger") as get:
        fresh.record(agent_event(), "console")
        get.assert_called_once_with("console")
        get.return_value.info.assert_called_once_with(agent_event().serialize())
    with patch("jobtape.events._events_loggers", {}) as loggers:
        fresh.record(agent_event(), "null")
        assert ["null"] == list(loggers)


def test_rendezvous_events_go_to_their_destination(fresh):
    """`record_rdzv_event` writes to dynamic_rendezvous, which is null until someone takes its place."""
    kept = Keeping()
    fresh.record_rdzv_event(rdzv_event())
    fresh.register_handler("dynamic_rendezvous", kept, replace=True)
    fresh.record_rdzv_event(rdzv_event())
    assert [rdzv_event().serialize()] == kept.texts
    assert ("torchelastic-events-dynamic_rendezvous", "record_rdzv_event") == (
        kept.records[0].name,
        kept.records[0].funcName,
    )


def test_flush_tells_whether_all_is_passed_on(fresh, tmp_path, capsys):
    """`flush` is true when every destination has passed on what it had, false when one could not or time is up."""
    fresh.record(agent_event(), f"file://{tmp_path}")
    assert (True, False) == (fresh.flush(), fresh.flush(timeout=0))
    stream = (tmp_path / "log").open("w")
    broken = logging.StreamHandler(stream)
    fresh.register_handler("broken", broken)
    stream.close()
    assert (False, 1) == (fresh.flush(timeout=5), len(lines(capsys)))
