"""What nobody owns, guesses and tapes that a session has left, where there is room for only some of it."""

from collections.abc import Callable
from typing import Any

MakeBench = Callable[..., Any]


def leave_one(here: Any) -> None:
    """The session goes from a tape of 20 to an adopted guess of 20."""
    here.run("a" * 20)
    here.run("b" * 20, guess=True)
    here.run("b" * 20)
    assert [tape[0] for tape in here.tapes()] == ["ownerless", "real"]


def test_guesses_that_are_prepared_together_stay_and_what_a_session_left_goes(bench: MakeBench) -> None:
    here = bench(context=64, cells=200, sequences=4)
    leave_one(here)
    for letter in "cde":
        here.run(letter * 20, guess=True)
    assert [tape[0] for tape in here.tapes()] == ["guess", "guess", "guess", "real"]
    for letter in "cde":
        assert here.run(letter * 20).begun.reused == 20


def test_the_budget_is_shared_and_what_was_used_longest_ago_goes(bench: MakeBench) -> None:
    here = bench(context=50, cells=200, sequences=8)
    leave_one(here)
    here.run("c" * 20, guess=True)
    assert [tape[0] for tape in here.tapes()] == ["guess", "ownerless", "real"]
    here.run("d" * 20, guess=True)
    assert [tape[0] for tape in here.tapes()] == ["guess", "guess", "real"]
    here.run("e" * 20, guess=True)
    assert [here.run(letter * 20, guess=True).begun.reused for letter in "de"] == [20, 20]
