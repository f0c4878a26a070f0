"""Owns the `cancel`s and `close`s that wait until nothing of what they end can follow any more (S9)."""

from collections.abc import Iterator

from attrs import define, field

from modeld.schedule.messages import OpKey

MAX_WAITING = 256


@define(eq=False)
class _Confirmation:
    client: str
    op: str
    targets: set[OpKey]


@define
class Confirmations:
    """Bounded: `full` says when no more may be added."""

    _waiting: list[_Confirmation] = field(factory=list)

    @property
    def full(self) -> bool:
        return len(self._waiting) >= MAX_WAITING

    def add(self, client: str, op: str, targets: set[OpKey]) -> None:
        self._waiting.append(_Confirmation(client, op, set(targets)))

    def ended(self, key: OpKey) -> Iterator[tuple[str, str]]:
        """(client, op) of those that waited for this operation last."""
        for waiting in self._waiting:
            waiting.targets.discard(key)
        done = [waiting for waiting in self._waiting if not waiting.targets]
        self._waiting = [waiting for waiting in self._waiting if waiting.targets]
        return ((waiting.client, waiting.op) for waiting in done)
