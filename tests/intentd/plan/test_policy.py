"""The decision to guess, row by row."""

from typing import Any

import pytest

from intentd.plan.policy import Guess, NoGuess, Situation, decide

READY: dict[str, Any] = {
    "paused": False,
    "reachable": True,
    "commands_running": 0,
    "answering": False,
    "wanted": "new",
    "in_flight": None,
    "warm": None,
}


@pytest.mark.parametrize("change", [{}, {"in_flight": "old"}, {"warm": "old"}, {"failed": frozenset({"old"})}])
def test_the_newest_offer_is_guessed_when_nothing_speaks_against_it(change: dict[str, Any]) -> None:
    assert decide(Situation(**{**READY, **change})) == Guess("new")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"wanted": None}, "no test has failed"),
        ({"paused": True}, "paused"),
        ({"reachable": False}, "does not answer"),
        ({"commands_running": 1}, "command is running"),
        ({"answering": True}, "being answered"),
        ({"in_flight": "new"}, "being prefilled"),
        ({"warm": "new"}, "warm"),
        ({"failed": frozenset({"new"})}, "failed"),
    ],
)
def test_each_reason_not_to_guess_is_said(change: dict[str, Any], word: str) -> None:
    decision = decide(Situation(**{**READY, **change}))
    assert isinstance(decision, NoGuess)
    assert word in decision.reason
