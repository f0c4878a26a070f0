"""Owns the decision to guess. It sees a situation and says yes, or why not; it starts nothing."""

from attrs import frozen


@frozen(kw_only=True)
class Situation:
    """All that the decision depends on. Turns are named by their keys.

    `wanted` is the turn of the newest offer, None where there is none; `in_flight` is being prefilled; `warm` was
    prefilled; `failed` could not be.
    """

    paused: bool
    reachable: bool
    commands_running: int
    answering: bool
    wanted: str | None
    in_flight: str | None
    warm: str | None
    failed: frozenset[str] = frozenset()


@frozen
class Guess:
    """Prefill this turn now. It replaces the guess in flight."""

    key: str


@frozen
class NoGuess:
    """Why not."""

    reason: str


def decide(now: Situation) -> Guess | NoGuess:
    if now.wanted is None:
        return NoGuess("nothing to guess: no test has failed")
    if now.paused:
        return NoGuess("paused")
    if not now.reachable:
        return NoGuess("modeld does not answer")
    if now.commands_running:
        return NoGuess("a wrapped command is running")
    if now.answering:
        return NoGuess("a question is being answered")
    if now.wanted == now.in_flight:
        return NoGuess("the newest offer is being prefilled")
    if now.wanted == now.warm:
        return NoGuess("the newest offer is warm")
    if now.wanted in now.failed:
        return NoGuess("the guess for the newest offer failed")
    return Guess(now.wanted)
