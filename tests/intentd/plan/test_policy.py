"""The decision to guess, row by row."""

from typing import Any

import pytest

from intentd.plan.policy import Candidate, Guess, NoGuess, Situation, decide

FIRST, SECOND = Candidate("first", "test_failed"), Candidate("second", "crash")
READY: dict[str, Any] = {
    "paused": False,
    "reachable": True,
    "commands_running": 0,
    "answering": False,
    "wanted": (FIRST, SECOND),
    "in_flight": None,
}


def decided(**change: Any) -> Guess | NoGuess:
    return decide(Situation(**{**READY, **change}))


@pytest.mark.parametrize(
    "change",
    [{}, {"in_flight": "old"}, {"warm": {"old", "second"}}, {"failed": {"old"}}, {"in_flight": "second"}],
)
def test_the_likeliest_offer_is_guessed_when_nothing_speaks_against_it(change: dict[str, Any]) -> None:
    assert decided(**{name: frozenset(v) if isinstance(v, set) else v for name, v in change.items()}) == Guess("first")


@pytest.mark.parametrize("state", ["warm", "failed"])
def test_the_next_one_follows(state: str) -> None:
    assert decided(**{state: frozenset({"first"})}) == Guess("second")
    assert decided(switched_off=frozenset({"test_failed"})) == Guess("second")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"wanted": ()}, "nothing has failed"),
        ({"paused": True}, "paused"),
        ({"reachable": False}, "does not answer"),
        ({"commands_running": 1}, "command is running"),
        ({"answering": True}, "being answered"),
        ({"pressure": "the battery is low"}, "the battery is low"),
        ({"in_flight": "first"}, "being prefilled"),
        ({"in_flight": "second", "warm": frozenset({"first"})}, "being prefilled"),
        ({"warm": frozenset({"first", "second"})}, "every offer is warm"),
        ({"failed": frozenset({"first", "second"})}, "failed"),
        ({"switched_off": frozenset({"test_failed", "crash"})}, "for test_failed are switched off"),
    ],
)
def test_each_reason_not_to_guess_is_said(change: dict[str, Any], word: str) -> None:
    decision = decided(**change)
    assert isinstance(decision, NoGuess)
    assert word in decision.reason
