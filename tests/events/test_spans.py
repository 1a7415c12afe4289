"""Stretches of work: what is recorded of them, how they nest, and that they never get in the way."""

import asyncio
import contextvars
import inspect
import json
import threading

import pytest

from tests.events.lab import Keeping


@pytest.fixture
def kept(fresh, monkeypatch):
    """What spans record."""
    handler = Keeping()
    fresh.register_handler("kept", handler)
    monkeypatch.setenv("JOBTAPE_RECORD", "kept")
    return handler


def told(kept):
    """Name and metadata of each event, in order."""
    found = [json.loads(text) for text in kept.texts]
    return [(event["name"], event["metadata"]) for event in found]


def phases(kept):
    """Name and phase of each event, in order."""
    return [(name, metadata["span.phase"]) for name, metadata in told(kept)]


def parents(kept):
    """The name of the span that each one is within."""
    names = {metadata["span.id"]: name for name, metadata in told(kept)}
    return {name: names.get(metadata["span.parent"]) for name, metadata in told(kept)}


def test_a_span_is_two_events(fresh, kept):
    """Begin and end have the metadata and one id; the end has a duration and the outcome."""
    with fresh.span("checkpoint_save", step=7):
        pass
    (name, begin), (again, end) = told(kept)
    assert ("checkpoint_save", "checkpoint_save") == (name, again)
    assert (7, "begin", None) == (begin["step"], begin["span.phase"], begin["span.parent"])
    assert (7, "end", None, "ok") == (end["step"], end["span.phase"], end["span.parent"], end["span.outcome"])
    assert begin["span.id"] == end["span.id"]
    assert 0 <= end["span.duration_s"] < 5
    assert {"span.duration_s", "span.outcome"} == set(end) - set(begin)


def test_an_exception_is_recorded_and_goes_on(fresh, kept):
    """The end names the type and the message; the exception is the same object as before."""
    error = ValueError("bad batch")
    with pytest.raises(ValueError, match="bad batch") as raised, fresh.span("data_wait"):
        raise error
    end = told(kept)[-1][1]
    assert raised.value is error
    assert ("error", "ValueError", "bad batch") == (end["span.outcome"], end["span.error_type"], end["span.message"])


def test_what_an_exception_says_is_bounded(fresh, kept):
    """A message of megabytes is cut; one that cannot be made is no trouble."""

    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    for error in (KeyError("x" * 3_000_000), Mute()):
        with pytest.raises(type(error)), fresh.span("work"):
            raise error
    messages = [metadata["span.message"] for _, metadata in told(kept) if "span.message" in metadata]
    assert [1001, "<no message>"] == [len(messages[0]), messages[1]]


def test_spans_nest(fresh, kept):
    """A span's parent is the innermost one that has begun and not ended; a span after another is not within it."""
    with fresh.span("outer"):
        with fresh.span("first"):
            pass
        with fresh.span("second"):
            pass
    assert {"outer": None, "first": "outer", "second": "outer"} == parents(kept)


def test_threads_do_not_see_each_others_spans(fresh, kept):
    """A thread begins without a parent, unless it runs in a copy of the context it was started from."""

    def work(name):
        with fresh.span(name):
            pass

    with fresh.span("outer"):
        context = contextvars.copy_context()
        for target in (lambda: work("alone"), lambda: context.run(work, "inside")):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
    assert {"outer": None, "alone": None, "inside": "outer"} == parents(kept)


def test_tasks_are_within_the_span_they_were_made_in(fresh, kept):
    """asyncio's tasks each have their own nesting, however they take turns."""

    async def work(name):
        with fresh.span(name):
            await asyncio.sleep(0)
            with fresh.span(f"{name} in"):
                await asyncio.sleep(0)

    async def main():
        with fresh.span("outer"):
            await asyncio.gather(work("a"), work("b"))

    asyncio.run(main())
    assert {"outer": None, "a": "outer", "b": "outer", "a in": "a", "b in": "b"} == parents(kept)


def test_a_function_is_wrapped_with_its_name(fresh, kept):
    """Each call is a span; the function keeps its name, its arguments and what it returns."""

    @fresh.span("evaluation", split="test")
    def evaluate(a, *, b):
        """Docs."""
        return a + b

    assert (3, 5, "evaluate", "Docs.") == (evaluate(1, b=2), evaluate(2, b=3), evaluate.__name__, evaluate.__doc__)
    ids = {metadata["span.id"] for _, metadata in told(kept)}
    assert (2, [("evaluation", "begin"), ("evaluation", "end")] * 2) == (len(ids), phases(kept))


def test_a_function_that_calls_itself_nests(fresh, kept):
    """Calls of one decorated function within each other are spans within each other."""

    @fresh.span("deeper")
    def deeper(times):
        return deeper(times - 1) if times else None

    deeper(2)
    begun = [metadata for _, metadata in told(kept) if metadata["span.phase"] == "begin"]
    assert [None, begun[0]["span.id"], begun[1]["span.id"]] == [metadata["span.parent"] for metadata in begun]


def test_a_coroutine_is_a_span_until_it_is_done(fresh, kept):
    """The span of an async function covers what it waits for, and it stays a coroutine function."""

    @fresh.span("evaluation")
    async def evaluate(a):
        with fresh.span("inner"):
            await asyncio.sleep(0)
        return a

    assert (4, True) == (asyncio.run(evaluate(4)), inspect.iscoroutinefunction(evaluate))
    assert [("evaluation", "begin"), ("inner", "begin"), ("inner", "end"), ("evaluation", "end")] == phases(kept)


def test_a_generator_is_a_span_from_its_first_item_to_its_end(fresh, kept):
    """It gets what is sent and thrown, returns what it returned, and one that is closed has done what was asked."""

    @fresh.span("data_wait")
    def batches():
        got = yield 1
        try:
            yield got
        except KeyError:
            yield "caught"
        return "end"

    running = batches()
    assert [] == phases(kept)
    assert (1, "sent", "caught") == (next(running), running.send("sent"), running.throw(KeyError("x")))
    with pytest.raises(StopIteration) as stopped:
        next(running)
    closed = batches()
    next(closed)
    closed.close()
    assert "end" == stopped.value.value
    assert [("data_wait", "begin"), ("data_wait", "end")] * 2 == phases(kept)
    assert ["ok", "ok"] == [m["span.outcome"] for _, m in told(kept) if m["span.phase"] == "end"]


def test_an_asynchronous_generator_is_one_too(fresh, kept):
    """It gets what is sent and thrown as it would without the span."""

    @fresh.span("data_wait")
    async def batches():
        got = yield 1
        try:
            yield got
        except KeyError:
            yield "caught"

    async def main():
        running = batches()
        seen = [await running.__anext__(), await running.asend("sent"), await running.athrow(KeyError("x"))]
        seen += [item async for item in running]
        closed = batches()
        await closed.__anext__()
        await closed.aclose()
        return seen

    assert [1, "sent", "caught"] == asyncio.run(main())
    assert [("data_wait", "begin"), ("data_wait", "end")] * 2 == phases(kept)


def test_a_generator_that_outlives_its_consumers_span_confuses_nobody(fresh, kept):
    """Spans that end in another order than they began in end once each, and those after them have no false parent."""
    running = fresh.span("work")(lambda: (yield))()
    inner = fresh.span("outer")
    inner.__enter__()
    plain = fresh.span("generated")
    plain.__enter__()
    inner.__exit__(None, None, None)
    plain.__exit__(None, None, None)
    del running
    with fresh.span("after"):
        pass
    assert {"outer": None, "generated": "outer", "after": None} == parents(kept)


def test_one_span_may_be_entered_at_the_same_time_by_many(fresh, kept):
    """A span that is kept and shared by threads is a span of its own each time."""
    shared = fresh.span("shared")
    barrier = threading.Barrier(4)

    def work():
        with shared:
            barrier.wait()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    by_phase = {phase: {m["span.id"] for _, m in told(kept) if m["span.phase"] == phase} for phase in ("begin", "end")}
    assert (4, by_phase["begin"]) == (len(by_phase["end"]), by_phase["end"])


@pytest.mark.parametrize("thing", [int, classmethod(print), 3])
def test_what_is_no_function_is_left_as_it_is(fresh, kept, capsys, thing):
    """A decorator in the wrong place is said once and changes nothing."""
    assert thing is fresh.span("work")(thing)
    assert "left as it is" in capsys.readouterr().err


def test_without_parentheses_it_is_named_after_the_function(fresh, kept):
    """``@span`` alone leaves a function where there was one."""

    @fresh.span
    def load(a):
        return a

    assert (3, 2) == (load(3), len(told(kept)))
    assert told(kept)[0][0].endswith("load")


def test_nothing_is_recorded_without_a_destination(fresh, monkeypatch):
    """Without JOBTAPE_RECORD a span costs a look at the environment."""
    monkeypatch.delenv("JOBTAPE_RECORD", raising=False)
    with fresh.span("work"):
        pass
    assert {} == fresh.stats()


def test_a_destination_that_comes_or_goes_within_a_span_harms_nothing(fresh, kept, monkeypatch):
    """A span that was begun unseen has no end; one whose end nobody sees has none either."""
    monkeypatch.delenv("JOBTAPE_RECORD")
    with fresh.span("late"):
        monkeypatch.setenv("JOBTAPE_RECORD", "kept")
    with fresh.span("early"):
        monkeypatch.delenv("JOBTAPE_RECORD")
    assert [("early", "begin")] == phases(kept)


def test_trouble_in_a_span_stays_there(fresh, kept, monkeypatch, capsys):
    """Whatever fails in begin or end, the work is done and its own exception is the one that is seen."""
    monkeypatch.setattr("os.urandom", lambda _: 1 / 0)
    with pytest.raises(KeyError), fresh.span("work"):
        raise KeyError
    assert "a span could not be begun" in capsys.readouterr().err


def test_the_callers_metadata_cannot_break_the_pairing(fresh, kept):
    """Keys of the span's own win over metadata of that name; a metadata key may be called name."""
    with fresh.span("work", name="x", **{"span.id": "mine"}):
        pass
    (_, begin), (_, end) = told(kept)
    assert (begin["span.id"], "x") == (end["span.id"], end["name"])
    assert "mine" != end["span.id"]
