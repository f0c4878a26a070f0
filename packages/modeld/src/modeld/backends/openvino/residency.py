"""Owns what may be forgotten by the library's prefix cache: until when each tape is safe, in written blocks.

The cache keeps blocks until it needs their room, and then gives up those that were not used for the longest time. Tapes
that the shelf has dropped stay in it as well. So a tape that is only kept could lose its blocks to them; using it again
in time prevents that. It computes nothing.

What is used after a tape was held at that time, or was written since. So a tape that is used now loses nothing before
as many blocks were written as nobody holds now.
"""

from itertools import pairwise

import numpy as np
from attrs import define, field

from modeld.backends.base import Ids
from modeld.backends.openvino.pipeline import BLOCK


def blocks_of(tokens: int) -> int:
    return -(-tokens // BLOCK)


@define
class Known:
    """A sequence as the shelf has it. `first` is the token that follows it, with its score, where that was computed.

    `safe`: it loses nothing before so many blocks were written.
    """

    ids: Ids
    safe: int = 0
    first: tuple[int, float] | None = None


@define
class Residency:
    """`blocks`: how many the library has for tapes."""

    blocks: int
    written: int = 0
    known: dict[int, Known] = field(factory=dict)

    @property
    def free(self) -> int:
        """Blocks that no sequence holds. In order of their ids, what two tapes share is next to each other."""
        tapes = sorted((one.ids for one in self.known.values()), key=lambda ids: ids.tobytes())
        held = sum(blocks_of(len(ids)) for ids in tapes)
        return self.blocks - held + sum(_shared(one, other) for one, other in pairwise(tapes))

    def use(self, sequence: int, ids: Ids, first: tuple[int, float] | None, wrote: int) -> None:
        """The sequence is `ids` now; it was used, and `wrote` tokens were computed for it."""
        self.written += blocks_of(wrote)
        self.known[sequence] = Known(ids, first=first)
        self.touched(sequence)

    def touched(self, sequence: int) -> None:
        self.written += 1
        self.known[sequence].safe = self.written + self.free

    def fork(self, source: int, target: int, length: int) -> None:
        one = self.known[source]
        self.known[target] = Known(one.ids[:length], one.safe, one.first if length == len(one.ids) else None)

    def trim(self, sequence: int, length: int) -> None:
        one = self.known.get(sequence)
        if one is not None and length < len(one.ids):
            one.ids, one.first = one.ids[:length], None

    def drop(self, sequence: int) -> None:
        self.known.pop(sequence, None)

    def oldest(self, spare: int | None, ahead: int) -> int | None:
        """A sequence other than `spare` that could lose something if `ahead` tokens were written now."""
        then = self.written + blocks_of(ahead) + 1
        due = [number for number, one in self.known.items() if number != spare and one.safe < then and len(one.ids)]
        return min(due, key=lambda number: self.known[number].safe, default=None)


def _shared(one: Ids, other: Ids) -> int:
    size = min(len(one), len(other))
    differs = np.flatnonzero(one[:size] != other[:size])
    return (int(differs[0]) if len(differs) else size) // BLOCK
