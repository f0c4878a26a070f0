"""Owns what waits for one slow client: in order, merged where the protocol allows it, bounded. It knows no socket."""

from collections import deque
from collections.abc import Iterable
from typing import Any

from attrs import define, field

from modelwire.codec import Codec
from modelwire.protocol import Protocol


@define
class _Waiting:
    """One message to be sent: several parts that will be merged, or, once it was tried, its bytes."""

    op: str
    parts: list[Any]
    size: int
    data: bytes | None = None


@define
class Outbox:
    """A queue of messages for one client.

    Messages leave in the order in which they came, across operations too: a cancel's confirmation must not overtake the
    tokens before it. Only a message that merges joins an earlier one of its operation.
    """

    protocol: Protocol
    codec: Codec
    limit: int
    size: int = 0
    _queue: deque[_Waiting] = field(factory=deque)
    _last: dict[str, _Waiting] = field(factory=dict)

    def __len__(self) -> int:
        return len(self._queue)

    def push(self, op: str, message: Any, size: int) -> bool:
        """Adds a message whose encoding has `size` bytes. False if that would pass the limit; then nothing changed."""
        if self.size + size > self.limit:
            return False
        self.size += size
        last = self._last.get(op)
        if (
            last
            and last.data is None
            and type(message) in self.protocol.merge
            and type(last.parts[-1]) is type(message)
            and last.size + size <= self.codec.max_bytes  # what is merged is shorter than its parts together
        ):
            last.parts.append(message)
            last.size += size
            return True
        self._append(_Waiting(op, [message], size))
        return True

    def head(self) -> bytes:
        """The bytes of the first message. From now on nothing merges into it, so that it is encoded once."""
        first = self._queue[0]
        if first.data is None:
            merge = self.protocol.merge.get(type(first.parts[-1]))
            first.data = self.codec.encode(first.op, merge(first.parts) if merge else first.parts[0])
        return first.data

    def pop(self) -> None:
        first = self._queue.popleft()
        self.size -= first.size
        if self._last[first.op] is first:
            del self._last[first.op]

    def give_up(self, error: Any, open_ops: Iterable[str]) -> None:
        """Ends every operation that has something in the queue or is in `open_ops` with `error`.

        An operation of which only its end is waiting keeps that end.
        """
        entries: dict[str, list[_Waiting]] = {}
        for entry in self._queue:
            entries.setdefault(entry.op, []).append(entry)
        self._queue.clear()
        self._last.clear()
        for op in dict.fromkeys((*entries, *open_ops)):
            waiting = entries.get(op, [])
            ended = len(waiting) == 1 and type(waiting[0].parts[-1]) in self.protocol.terminal
            self._append(waiting[0] if ended else _Waiting(op, [error], len(self.codec.encode(op, error))))
        self.size = sum(entry.size for entry in self._queue)

    def check(self) -> None:
        """Raises AssertionError if the books do not agree."""
        assert self.size == sum(entry.size for entry in self._queue)
        assert self._last == {entry.op: entry for entry in self._queue}

    def _append(self, entry: _Waiting) -> None:
        self._queue.append(entry)
        self._last[entry.op] = entry
