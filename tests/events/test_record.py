"""Recording: where events go, through whose hands, and that it never harms the caller."""

import logging
from unittest.mock import patch

import pytest

from tests.events.lab import Keeping, Raising, agent_event, rdzv_event


def logger_of(destination):
    """The logger of a destination."""
    return logging.getLogger(f"torchelastic-events-{destination}")


def invalid_event():
    """An event JSON cannot hold."""
    return agent_event(loss=float("nan"), model=object())


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


def test_a_filter_that_fails_takes_nothing_away(fresh, capsys):
    """A raising filter is said once and the event goes on."""
    kept = Keeping()
    fresh.register_handler("kept", kept)
    fresh._get_or_create_logger("kept").addFilter(lambda record: 1 / 0)
    for _ in range(3):
        fresh.record(agent_event(), "kept")
    assert 3 == len(kept.records)
    assert ["jobtape: a filter of torchelastic-events-kept failed: ZeroDivisionError: division by zero"] == lines(capsys)


def lines(capsys):
    """What has been said on stderr."""
    return capsys.readouterr().err.splitlines()


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


def test_an_unknown_destination_is_said_once(fresh, capsys):
    """Events for an unknown destination are dropped and counted; one line names it and the known ones."""
    for _ in range(3):
        fresh.record(agent_event(), "colsole")
    assert [
        "jobtape: events for destination 'colsole' are dropped: unknown destination 'colsole'; known are: console, "
        "dynamic_rendezvous, null, pretty, tape, file:///dir"
    ] == lines(capsys)
    assert {"colsole": {"recorded": 0, "dropped": 3, "failed": 0}} == fresh.stats()


def test_a_destination_registered_later_is_found_at_once(fresh, capsys):
    """Registering the name ends the dropping."""
    kept = Keeping()
    fresh.record(agent_event(), "kept")
    fresh.register_handler("kept", kept)
    fresh.record(agent_event(), "kept")
    assert (1, 1) == (len(kept.records), fresh.stats()["kept"]["dropped"])


def test_a_million_unknown_names_fill_nothing(fresh, capsys):
    """Names made from a counter neither fill stderr nor grow the counts without bound."""
    for number in range(3000):
        fresh.record(agent_event(), f"run-{number}")
    assert 256 == len(lines(capsys))
    assert (1001, 2000) == (len(fresh.stats()), fresh.stats()["(others)"]["dropped"])


@pytest.mark.parametrize("destination", [None, 5, "", ",", " , ", [], object()], ids=repr)
def test_a_destination_that_is_none_does_no_harm(fresh, capsys, destination):
    """Whatever is passed as destination, nothing is raised and one line says so."""
    fresh.record(agent_event(), destination)
    assert 1 == len(lines(capsys))


def test_a_list_gives_each_its_event(fresh):
    """Every part of a list gets the event once, also when named twice."""
    one, two = Keeping(), Keeping()
    fresh.register_handler("one", one)
    fresh.register_handler("two", two)
    fresh.record(agent_event(), "one, two,one")
    assert [[agent_event().serialize()]] * 2 == [one.texts, two.texts]
    assert "torchelastic-events-one, two,one" == one.records[0].name


def test_a_list_with_an_unknown_part_keeps_the_others(fresh, capsys):
    """The known parts of a list get the event; the unknown one is named once and counted."""
    kept = Keeping()
    fresh.register_handler("kept", kept)
    for _ in range(2):
        fresh.record(agent_event(), "kept,bogus")
    assert (2, 2) == (len(kept.records), fresh.stats()["bogus"]["dropped"])
    assert 1 == len(lines(capsys))


def test_a_failing_part_leaves_the_others_alone(fresh, capsys):
    """A part that raises does not keep the event from the parts behind it."""
    kept = Keeping()
    fresh.register_handler("raising", Raising())
    fresh.register_handler("kept", kept)
    fresh.record(agent_event(), "raising,kept")
    assert [agent_event().serialize()] == kept.texts
    assert ["jobtape: destination raising failed, its events are lost: RuntimeError: disk on fire"] == lines(capsys)


def test_a_raising_handler_is_counted_and_said_once(fresh, capsys):
    """A third-party handler that raises is the job's problem no more."""
    fresh.register_handler("raising", Raising())
    for _ in range(3):
        fresh.record(agent_event(), "raising")
    assert ["jobtape: destination raising failed, its events are lost: RuntimeError: disk on fire"] == lines(capsys)
    assert {"recorded": 0, "dropped": 0, "failed": 3} == fresh.stats()["raising"]


def test_a_handler_that_only_prints_its_failures_is_counted_too(fresh, capsys, tmp_path):
    """Handlers of the standard library print a traceback for each failure; ours is one line, and a count."""
    handler = logging.FileHandler(tmp_path / "log", delay=True)
    fresh.register_handler("file", handler)
    handler.baseFilename = str(tmp_path / "missing" / "log")
    for _ in range(3):
        fresh.record(agent_event(), "file")
    said = lines(capsys)
    assert (1, True) == (len(said), said[0].startswith("jobtape: destination file failed"))
    assert 3 == fresh.stats()["file"]["failed"]


def test_a_handler_used_elsewhere_fails_as_ever(fresh, capsys, monkeypatch):
    """A registered handler that also serves a logger of the user's still reports failures there in logging's way."""

    class Full:
        def write(self, text):
            raise OSError("no space")

        def flush(self):
            pass

    handler = logging.StreamHandler(Full())
    fresh.register_handler("full", handler)
    handler.handle(logging.makeLogRecord({"msg": "of the user's own"}))
    assert "--- Logging error ---" == lines(capsys)[0]


def test_a_raising_handler_of_a_user_is_counted_by_the_logger(fresh, capsys):
    """A user's own handler that fails is counted under the logger's name, not the destination's."""
    fresh._get_or_create_logger("null").addHandler(Raising())
    fresh.record(agent_event())
    assert {"torchelastic-events-null": {"recorded": 0, "dropped": 0, "failed": 1}} == fresh.stats()
    assert 1 == len(lines(capsys))


def test_a_factory_that_fails_is_tried_again(fresh, capsys, monkeypatch):
    """A destination whose factory fails is said once, left alone for a second, and tried again."""
    kept, tries = Keeping(), []

    def make():
        tries.append(1)
        if len(tries) < 2:
            raise OSError("not there yet")
        return kept

    fresh.register_handler("late", make)
    fresh.record(agent_event(), "late")
    fresh.record(agent_event(), "late")
    assert (1, {"recorded": 0, "dropped": 2, "failed": 0}) == (len(tries), fresh.stats()["late"])
    fresh.handlers._unusable["late"]._until = 0
    fresh.record(agent_event(), "late")
    assert (1, 1) == (len(kept.records), len(lines(capsys)))


@pytest.mark.parametrize("destination", ["console", "pretty", "kept"])
def test_an_invalid_event_is_shown_all_the_same(fresh, capsys, destination):
    """An event JSON cannot hold is recorded with what can be said of it, in strict JSON where it is JSON."""
    kept = Keeping()
    fresh.register_handler("kept", kept)
    fresh.record(invalid_event(), destination)
    shown = kept.texts or lines(capsys)
    assert (1, True, True) == (len(shown), "loss" in shown[0], "nan" in shown[0])
    if destination != "pretty":
        assert "NaN" not in shown[0]


@pytest.mark.parametrize("thing", [None, 5, "text", b"bytes", object(), {"name": "a"}, ["a"]], ids=repr)
@pytest.mark.parametrize("destination", ["null", "console", "pretty", "file", "kept"])
def test_things_that_are_no_events_do_no_harm(fresh, capsys, tmp_path, destination, thing):
    """Whatever is passed as event, nothing is raised."""
    fresh.register_handler("kept", Keeping())
    fresh.record(thing, f"file://{tmp_path}" if destination == "file" else destination)
    fresh.record(thing, f"file://{tmp_path}" if destination == "file" else destination)
    assert 0 == sum(counts["failed"] for counts in fresh.stats().values())


def test_interrupts_of_the_users_code_are_passed_on(fresh):
    """KeyboardInterrupt and SystemExit are the job's own business, and leave recording working."""
    kept = Keeping()

    class Interrupting(logging.Handler):
        raised: type[BaseException] | None = KeyboardInterrupt

        def emit(self, record):
            if self.raised is not None:
                raise self.raised

    handler = Interrupting()
    fresh.register_handler("kept", kept)
    fresh.register_handler("interrupting", handler)
    for kind in (KeyboardInterrupt, SystemExit):
        handler.raised = kind
        with pytest.raises(kind):
            fresh.record(agent_event(), "interrupting")
    handler.raised = None
    fresh.record(agent_event(), "interrupting,kept")
    assert 1 == len(kept.records)


def test_a_handler_that_records_does_not_recurse(fresh):
    """A handler whose own work records an event at the same destination is called once, and the rest is counted."""

    class Recording(logging.Handler):
        calls = 0

        def emit(self, record):
            self.calls += 1
            fresh.record(agent_event(), "recording")

    handler = Recording()
    fresh.register_handler("recording", handler)
    fresh.record(agent_event(), "recording")
    assert (1, {"recorded": 1, "dropped": 1, "failed": 0}) == (handler.calls, fresh.stats()["recording"])


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
