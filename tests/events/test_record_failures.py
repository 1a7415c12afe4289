"""Recording when something is wrong: nothing is raised, everything is counted, and it is said once."""

import logging

import pytest

from tests.events.lab import Keeping, Raising, agent_event, lines


def invalid_event():
    """An event JSON cannot hold."""
    return agent_event(loss=float("nan"), model=object())


def test_a_filter_that_fails_takes_nothing_away(fresh, capsys):
    """A raising filter is said once and the event goes on."""
    kept = Keeping()
    fresh.register_handler("kept", kept)
    fresh._get_or_create_logger("kept").addFilter(lambda record: 1 / 0)
    for _ in range(3):
        fresh.record(agent_event(), "kept")
    assert 3 == len(kept.records)
    expected = "jobtape: a filter of torchelastic-events-kept failed: ZeroDivisionError: division by zero"
    assert [expected] == lines(capsys)


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


def test_an_exception_that_cannot_be_shown_is_survived(fresh, capsys):
    """A handler may fail with an exception whose own text fails."""

    class Unspeakable(Exception):
        def __str__(self):
            raise RuntimeError("no")

    class Failing(logging.Handler):
        def emit(self, record):
            raise Unspeakable

    fresh.register_handler("failing", Failing())
    fresh.record(agent_event(), "failing")
    assert ["jobtape: destination failing failed, its events are lost: Unspeakable"] == lines(capsys)


@pytest.mark.parametrize("destination", ["null", "kept", "tape", "bogus"])
def test_the_recursion_limit_is_survived(fresh, tmp_path, monkeypatch, capsys, destination):
    """Recording at any depth of the stack raises nothing, and works again when there is room."""
    monkeypatch.setenv("JOBTAPE_DIR", str(tmp_path))
    fresh.register_handler("kept", Keeping())

    def dive():
        fresh.record(agent_event(), destination)
        fresh.emit("deep")
        dive()

    fresh.record(agent_event(), destination)
    with pytest.raises(RecursionError):
        dive()
    fresh.record(agent_event(), destination)
    counts = fresh.stats().get(destination, {"recorded": 1, "dropped": 1})
    assert 1 < counts["recorded"] + counts["dropped"]


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
