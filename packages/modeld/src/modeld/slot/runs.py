"""Owns the ids of texts that were tokenised before, bounded in bytes. It knows no prompt."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from modeld.backends.base import Ids


class RunCache:
    """Text to ids through `tokenise`; the least recently used texts go when there are more than `max_bytes`."""

    def __init__(self, tokenise: Callable[[str], Sequence[int]], max_bytes: int) -> None:
        self._tokenise = tokenise
        self._max_bytes = max_bytes
        self._ids: OrderedDict[str, Ids] = OrderedDict()
        self._bytes = 0

    @property
    def bytes(self) -> int:
        return self._bytes

    def ids(self, text: str) -> Ids:
        known = self._ids.get(text)
        if known is not None:
            self._ids.move_to_end(text)
            return known
        ids = np.array(self._tokenise(text), np.int32)
        ids.setflags(write=False)
        if _cost(text, ids) <= self._max_bytes:
            self._ids[text] = ids
            self._bytes += _cost(text, ids)
        while self._bytes > self._max_bytes:
            self._bytes -= _cost(*self._ids.popitem(last=False))
        return ids


def _cost(text: str, ids: Ids) -> int:
    """Bytes of an entry, about: Python keeps up to four bytes a character and some hundred for the objects."""
    return 4 * len(text) + ids.nbytes + 256
