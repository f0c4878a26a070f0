"""Owns what may be forgotten by the library's prefix cache: how long ago each tape was used, in written blocks.

The cache keeps blocks until it needs their room, and then gives up those that were not used for the longest time. Tapes
that the shelf has dropped stay in it as well. So a tape that is only kept could lose its blocks to them; using it again
in time prevents that. It computes nothing.
"""

from attrs import define, field

from modeld.backends.base import Ids
from modeld.backends.openvino.pipeline import BLOCK


def blocks_of(tokens: int) -> int:
    return -(-tokens // BLOCK)


@define
class Known:
    """A sequence as the shelf has it. `first` is the token that follows it, with its score, where that was computed."""

    ids: Ids
    used: int
    first: tuple[int, float] | None = None


@define
class Residency:
    """`slack`: blocks that can be written before the one used longest ago may go."""

    slack: int
    written: int = 0
    known: dict[int, Known] = field(factory=dict)

    def use(self, sequence: int, ids: Ids, first: tuple[int, float] | None, wrote: int) -> None:
        """The sequence is `ids` now; it was used, and `wrote` tokens were computed for it."""
        self.written += blocks_of(wrote) + 1
        self.known[sequence] = Known(ids, self.written, first)

    def touched(self, sequence: int) -> None:
        self.written += 1
        self.known[sequence].used = self.written

    def fork(self, source: int, target: int, length: int) -> None:
        one = self.known[source]
        self.known[target] = Known(one.ids[:length], one.used, one.first if length == len(one.ids) else None)

    def trim(self, sequence: int, length: int) -> None:
        one = self.known.get(sequence)
        if one is not None and length < len(one.ids):
            one.ids, one.first = one.ids[:length], None

    def drop(self, sequence: int) -> None:
        self.known.pop(sequence, None)

    def oldest(self, spare: int | None, ahead: int) -> int | None:
        """A sequence other than `spare` that could lose something if `ahead` tokens were written now."""
        limit = self.written + blocks_of(ahead) + 1 - self.slack
        due = [number for number, one in self.known.items() if number != spare and one.used < limit and len(one.ids)]
        return min(due, key=lambda number: self.known[number].used, default=None)
