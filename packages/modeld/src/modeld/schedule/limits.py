"""Owns the bounds that the scheduler keeps. They are parsed elsewhere."""

from attrs import frozen


@frozen(kw_only=True)
class ScheduleLimits:
    """`queue`: operations that may wait, of each kind. `losses`: engines lost in a row before waiting ends.

    `history`: ended operations whose story is kept.
    """

    queue: int = 64
    losses: int = 3
    history: int = 256
