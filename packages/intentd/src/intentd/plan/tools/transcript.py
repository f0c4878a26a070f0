"""Owns keeping a command's output in bounded memory: its beginning and its end. It reads no meaning into it."""

from collections import deque
from collections.abc import Iterator

from intentd.plan.plain import plain_line

HEAD_BYTES = 256 * 1024
TAIL_BYTES = 1024 * 1024
PIECE_BYTES = 8 * 1024
"""Chunks are joined up to this size: a program that prints single bytes costs no more than one that prints pages."""


class Transcript:
    """What a command printed, at most `head + tail` bytes of it (and one chunk more while it runs)."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._head_room = head
        self._tail_room = tail
        self._head = bytearray()
        self._tail: deque[bytearray] = deque()
        self._held = 0
        self.dropped = 0

    def feed(self, chunk: bytes) -> None:
        """Take what was printed next. Costs one copy of it, however much came before."""
        room = self._head_room - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if not chunk:
            return
        if self._tail and len(self._tail[-1]) < PIECE_BYTES:
            self._tail[-1] += chunk
        else:
            self._tail.append(bytearray(chunk))
        self._held += len(chunk)
        while self._held - len(self._tail[0]) >= self._tail_room:
            gone = self._tail.popleft()
            self._held -= len(gone)
            self.dropped += len(gone)

    def lines(self) -> Iterator[str]:
        """The plain lines of what was kept. Where output was dropped, the two cut lines are left out."""
        head, tail = bytes(self._head), b"".join(self._tail)
        whole, cut = [head + tail], [head.rpartition(b"\n")[0], tail.partition(b"\n")[2]]
        for part in cut if self.dropped else whole:
            for line in part.decode("utf-8", "replace").split("\n"):
                yield plain_line(line)

    def check(self) -> None:
        """The bounds hold."""
        assert len(self._head) <= self._head_room
        assert self._held == sum(map(len, self._tail))
        assert not self._tail or self._held - len(self._tail[0]) < self._tail_room
