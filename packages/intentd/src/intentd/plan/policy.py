"""Owns the decision to guess. It sees a situation and says yes, or why not; it starts nothing."""

from attrs import frozen


@frozen
class Candidate:
    """A turn that may be asked for, by its key, and the trigger that it comes from."""

    key: str
    trigger: str


@frozen(kw_only=True)
class Situation:
    """All that the decision depends on. Turns are named by their keys.

    `wanted` are the turns of the offers, the likeliest first; `in_flight` is being prefilled; `warm` were prefilled;
    `failed` could not be; `asleep` were wanted when modeld unloaded its model, which only something new or a question
    loads again; `switched_off` are triggers that do not pay. `pressure` says what the machine lacks.
    """

    paused: bool
    reachable: bool
    commands_running: int
    answering: bool
    wanted: tuple[Candidate, ...]
    in_flight: str | None
    warm: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    asleep: frozenset[str] = frozenset()
    switched_off: frozenset[str] = frozenset()
    pressure: str | None = None


@frozen
class Guess:
    """Prefill this turn now. It replaces the guess in flight."""

    key: str


@frozen
class NoGuess:
    """Why not."""

    reason: str


def decide(now: Situation) -> Guess | NoGuess:
    refusal = _refusal(now)
    if refusal:
        return NoGuess(refusal)
    for candidate in now.wanted:
        if candidate.key == now.in_flight:
            return NoGuess("an offer is being prefilled")
        if candidate.key not in now.warm | now.failed | now.asleep and candidate.trigger not in now.switched_off:
            return Guess(candidate.key)
    return NoGuess(_nothing_left(now))


def must_stop(now: Situation) -> bool:
    """Whether the guess in flight must end at once. For a question modeld itself stops it, and uses what is done."""
    return now.paused or now.commands_running > 0 or now.pressure is not None


def _refusal(now: Situation) -> str | None:
    if not now.wanted:
        return "nothing to guess: nothing has failed"
    if now.paused:
        return "paused"
    if not now.reachable:
        return "modeld does not answer"
    if now.commands_running:
        return "a wrapped command is running"
    if now.answering:
        return "a question is being answered"
    return now.pressure


def _nothing_left(now: Situation) -> str:
    """Every candidate is warm, failed or of a trigger that is switched off; the first that is not warm tells."""
    cold = next((candidate for candidate in now.wanted if candidate.key not in now.warm), None)
    if cold is None:
        return "every offer is warm"
    if cold.key in now.asleep:
        return "modeld has unloaded its model"
    if cold.key in now.failed:
        return "the guess for an offer failed"
    return f"guesses for {cold.trigger} are switched off: too few are asked for"
