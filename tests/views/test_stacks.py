"""Where ranks stood, from faulthandler's stacks."""

from hypothesis import given
from hypothesis import strategies as st

from jobtape.views.stacks import place_of, standing
from tests.views.runs_to_show import STACK, a_rank

OTHER_THREAD = 'Thread 0x00007f0000000aaa (most recent call first):\n  File "/home/me/loader.py", line 3 in load\n\n'


def test_place_is_in_the_users_code():
    """The frame a person wrote is named, and the call it waits in."""
    assert "/home/me/train.py:14 in step, in all_reduce" == place_of(STACK)


def test_main_thread_is_meant():
    """Of several threads the one that got the signal counts."""
    assert "/home/me/train.py:14 in step, in all_reduce" == place_of(OTHER_THREAD + STACK)


def test_last_thread_where_none_is_current():
    """faulthandler writes the main thread last."""
    assert "/home/me/loader.py:3 in load" == place_of(STACK.replace("Current thread", "Thread") + OTHER_THREAD)


def test_library_frame_where_there_is_no_other():
    """A stack without a line of the user's names its innermost frame."""
    stack = 'Current thread 0x1 (most recent call first):\n  File "/usr/lib/python3.11/threading.py", line 5 in wait\n'
    assert "/usr/lib/python3.11/threading.py:5 in wait" == place_of(stack)


def test_crash_without_frames():
    """A fatal error without a python frame is named by its first line."""
    assert "Fatal Python error: Segmentation fault" == place_of("Fatal Python error: Segmentation fault\n\n")


@given(st.text())
def test_any_text_has_a_place(text):
    """Whatever the sidecar holds, there is a place."""
    assert place_of(text) != ""


def test_ranks_at_the_same_place_are_together():
    """The largest group comes first, the rank shown elsewhere is left out."""
    ranks = [
        a_rank(0, stack=OTHER_THREAD),
        a_rank(1, stack=STACK),
        a_rank(2, stack=STACK),
        a_rank(3, stack=STACK),
        a_rank(4),
    ]
    assert [("/home/me/train.py:14 in step, in all_reduce", [2, 3]), ("/home/me/loader.py:3 in load", [0])] == [
        (group.place, group.ranks) for group in standing(ranks, apart_from=1)
    ]


def test_a_stack_as_python_prints_it():
    """The stack of an exit call has a comma behind the line, and its innermost frame last."""
    stack = (
        '  File "/home/me/train.py", line 40, in <module>\n    main()\n'
        '  File "/home/me/train.py", line 8, in main\n    sys.exit(0)\n'
    )
    assert "/home/me/train.py:8 in main" == place_of(stack)
