"""Owns what an operation wants of the shelf, and what it gets. It chooses nothing."""

from attrs import frozen

from modeld.backends.base import Ids
from modeld.slot.tape import Owner, Tape


@frozen(kw_only=True)
class Wanted:
    """What an operation needs. `logits`: those of the last position too, so a match without them is one shorter.

    `generates`: it writes behind its ids.
    """

    ids: Ids
    owner: Owner
    guess: bool
    logits: bool
    generates: bool = False


@frozen(kw_only=True)
class Claim:
    """The tape that serves an operation: `reused` positions of it are right, `whole` if that was all of the request.

    Positions from `reused` on may hold something else until `Shelf.cut` removes it. `guessed` of the reused ones were
    made by a guess.
    """

    tape: Tape
    reused: int
    whole: bool
    guessed: int = 0


@frozen
class Match:
    """A tape that shares a beginning with a request: `usable` of the `common` positions can serve it."""

    tape: Tape
    common: int
    usable: int
