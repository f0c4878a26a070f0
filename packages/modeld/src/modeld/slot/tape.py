"""Owns what is known of one resident tape: ids, cells, owner, kept logits. It calls no backend."""

from enum import StrEnum

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from modeld.backends.base import Ids, Logits
from modeld.slot.cells import Cells


class TapeKind(StrEnum):
    REAL = "real"  # a session's
    GUESS = "guess"
    OWNERLESS = "ownerless"  # a session's former one that holds more than its present one


@frozen
class Owner:
    """A session of a client. A guess belongs to it too, but any session of the client may adopt it."""

    client: str
    session: str


@frozen(eq=False)
class Kept:
    """Raw logits of the position before `length`; valid for a tape's first `length` tokens and no other number."""

    length: int
    logits: Logits


def common_length(one: Ids, other: Ids) -> int:
    """Length of the longest common beginning."""
    shorter = min(len(one), len(other))
    differ = one[:shorter] != other[:shorter]
    first = int(np.argmax(differ)) if shorter else 0
    return first if shorter and differ[first] else shorter


def _nothing() -> NDArray[np.int32]:
    return np.empty(0, np.int32)


@define(eq=False, kw_only=True)
class Tape:
    """A sequence of the backend. `guessed` marks positions that a guess prefilled and no real operation has used yet.

    `used` orders tapes by their last use.
    """

    sequence: int
    owner: Owner
    kind: TapeKind
    used: int = 0
    ids: Ids = field(factory=_nothing)
    cells: Cells = field(factory=_nothing)
    guessed: NDArray[np.bool_] = field(factory=lambda: np.empty(0, np.bool_))
    kept: Kept | None = None

    @property
    def length(self) -> int:
        return len(self.ids)

    def kept_at(self, length: int) -> Logits | None:
        return self.kept.logits if self.kept is not None and self.kept.length == length else None

    def append(self, ids: Ids, cells: Cells) -> None:
        self.ids = np.concatenate([self.ids, ids])
        self.cells = np.concatenate([self.cells, cells])
        marks = np.full(len(ids), self.kind is TapeKind.GUESS)
        self.guessed = np.concatenate([self.guessed, marks])

    def cut(self, length: int) -> Cells:
        """Forgets positions from `length` on; their cells."""
        gone = self.cells[length:]
        self.ids, self.cells, self.guessed = self.ids[:length], self.cells[:length], self.guessed[:length]
        if self.kept is not None and self.kept.length > length:
            self.kept = None
        return gone

    def copy_from(self, source: "Tape", length: int) -> None:
        self.ids, self.cells, self.guessed = source.ids[:length], source.cells[:length], source.guessed[:length]
        self.kept = source.kept if source.kept is not None and source.kept.length <= length else None

    def use_guessed(self, length: int) -> int:
        """A real operation uses the first `length` positions: how many of them a guess had made, each counted once."""
        count = int(self.guessed[:length].sum())
        self.guessed = self.guessed.copy()  # forks share the array
        self.guessed[:length] = False
        return count

    def check(self) -> None:
        assert len(self.ids) == len(self.cells) == len(self.guessed)
        assert self.kept is None or 0 < self.kept.length <= self.length
