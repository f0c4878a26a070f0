"""Owns the fake's prefix cache: blocks of tokens, found by the hash of all that comes before and in them."""

from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b

from modeld.backends.base import Ids

BLOCK = 16


class FakeContent:
    """Holds whole blocks only; the least recently used ones go."""

    def __init__(self, cells: int) -> None:
        self._blocks: OrderedDict[bytes, None] = OrderedDict()
        self._capacity = cells // BLOCK

    def missing(self, tape: Ids) -> int:
        """How many tokens of the tape have to be computed: at least the last one."""
        known = 0
        for digest in _digests(tape):
            if digest not in self._blocks:
                break
            known += BLOCK
        return max(1, len(tape) - known)

    def remember(self, tape: Ids) -> None:
        for digest in _digests(tape):
            self._blocks[digest] = None
            self._blocks.move_to_end(digest)
        while len(self._blocks) > self._capacity:
            self._blocks.popitem(last=False)


def _digests(tape: Ids) -> Iterator[bytes]:
    running = blake2b(digest_size=16)
    for start in range(0, len(tape) - BLOCK + 1, BLOCK):
        running.update(tape[start : start + BLOCK].astype("<i4").tobytes())
        yield running.copy().digest()
