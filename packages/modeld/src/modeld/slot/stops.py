"""Owns the way from token bytes to text that may be shown: whole characters, nothing of a stop string. No tokens."""

import codecs
from collections.abc import Sequence


class StopText:
    """Holds back what may still become a stop string or is not yet a whole character.

    Bytes that are no UTF-8 become U+FFFD. Once `stopped`, there is no more text. `before`: the bytes before the text,
    which may end inside a character.
    """

    def __init__(self, stops: Sequence[str], before: bytes = b"") -> None:
        self._stops = tuple(stops)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._decoder.decode(before)  # whole characters were shown already, or are not of this text
        self._held = ""
        self.stopped = False

    def feed(self, piece: bytes) -> str:
        """What may be shown now that `piece` has come."""
        if self.stopped:
            return ""
        text = self._held + self._decoder.decode(piece)
        found = [at for at in (text.find(stop) for stop in self._stops) if at >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)]
        held = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def flush(self) -> str:
        """The held text, for an answer that ends without a stop string. Half a character at its end is left out."""
        text, self._held = self._held, ""
        return text


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that is a beginning of `stop`, shorter than all of it."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
