"""Owns tapes in host memory: what a real tape that had to go leaves behind, until its session comes back. No cells.

They are bounded in bytes; the least recently used go.
"""

from collections.abc import Callable, Iterator

import numpy as np
from attrs import define, evolve, frozen

from modeld.backends.base import Backend, BackendError, ExportingBackend, Ids, Stopped
from modeld.slot.tape import Kept, Owner, Tape, common_length

State = tuple[bytes, ...]


@frozen(eq=False, kw_only=True)
class Parked:
    """A tape and the state of its cells. A `lasting` one stays when it is restored, for a snapshot."""

    owner: Owner
    ids: Ids
    state: State
    kept: Kept | None
    lasting: bool = False

    @property
    def bytes(self) -> int:
        return sum(map(len, self.state)) + self.ids.nbytes + (self.kept.logits.nbytes if self.kept else 0)


@define
class _Speed:
    """Seconds per token, so far as it was measured."""

    tokens: int = 0
    seconds: float = 0.0

    def learn(self, tokens: int, seconds: float) -> None:
        self.tokens += tokens
        self.seconds += seconds

    @property
    def per_token(self) -> float:
        return self.seconds / self.tokens if self.tokens else 0.0


class Parking:
    """`least`: tokens that coming back must save. `rate`: the prefill rate in tokens per second, 0 while not known."""

    def __init__(
        self,
        backend: Backend,
        *,
        max_bytes: int = 0,
        least: int = 64,
        clock: Callable[[], float] = lambda: 0.0,
        rate: Callable[[], float] = lambda: 0.0,
    ) -> None:
        can = backend.capabilities.export_state and isinstance(backend, ExportingBackend)
        self._backend = backend if can and isinstance(backend, ExportingBackend) else None
        self._max_bytes = max_bytes
        self._least = least
        self._clock = clock
        self._rate = rate
        self._places: list[Parked] = []  # the least recently used first
        self._saving, self._loading = _Speed(), _Speed()
        self._token_bytes = 0.0  # at least, once a piece was saved
        self.restored = 0

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Parked]:
        return iter(self._places)

    @property
    def bytes(self) -> int:
        return sum(place.bytes for place in self._places)

    @property
    def pays(self) -> bool:
        """Whether saving and loading a token costs less than its prefill, as measured; without figures it is tried."""
        rate = self._rate()
        return not rate or self._saving.per_token + self._loading.per_token < 1 / rate

    def park(self, tape: Tape, awaited: Callable[[], bool] = lambda: False, *, beside: bool = False) -> bool:
        """Keeps a copy of a tape that is about to go, where that pays and fits. False where it will be missed.

        `beside`: no other goes for it, and without a copy it will be missed, however short it is.

        Raises `Stopped` where the stop flag is set, or a request is `awaited`, before there is a whole copy.
        """
        others = [place for place in self._places if place.lasting or not _within(place.ids, tape.ids)]
        room = self._max_bytes - (sum(place.bytes for place in others) if beside else 0)
        copy = self._copied(tape, tape.length, room, awaited)
        if copy is None:
            return not beside and (tape.length < self._least or not self.pays)  # it is prefilled again as quickly
        self._places = others
        self._add(copy)
        return True

    def keep(self, tape: Tape | None, ids: Ids, owner: Owner) -> int:
        """Keeps the state of `ids` for a snapshot, from a tape or from what is parked already; how many bytes.

        Raises `Stopped`.
        """
        place = self.best(ids, common_length(tape.ids, ids) if tape is not None else 0)
        if place is None and tape is not None:
            place = self._copied(tape, common_length(tape.ids, ids), self._max_bytes)
        return self._add(evolve(place, owner=owner, lasting=True)) if place is not None else 0

    def _copied(self, tape: Tape, length: int, room: int, awaited: Callable[[], bool] = lambda: False) -> Parked | None:
        """None where it cannot be had, does not pay, or is larger than `room` bytes: the first piece tells."""
        kept = tape.kept if tape.kept is not None and tape.kept.length <= length else None
        copy = Parked(owner=tape.owner, ids=tape.ids[:length], state=(), kept=kept)

        def fits() -> bool:
            return copy.bytes + length * self._token_bytes <= room

        def enough(positions: int, size: int) -> bool:
            token_bytes = size / positions
            self._token_bytes = min(self._token_bytes or token_bytes, token_bytes)
            return not fits() or (positions < length and awaited())

        try:
            state = self.saved(tape, length, enough) if fits() else None
        except Stopped:
            if fits():
                raise
            return None
        if state is None:
            return None
        whole = evolve(copy, state=state)
        return whole if whole.bytes <= room else None

    def _add(self, place: Parked) -> int:
        """Its bytes; others go for it."""
        self._places.append(place)
        while self.bytes > self._max_bytes:
            self._places.pop(0)
        return place.bytes

    def saved(
        self, tape: Tape, length: int, enough: Callable[[int, int], bool] = lambda positions, size: False
    ) -> State | None:
        """The state of a tape's beginning; None where the backend cannot tell it or it does not pay. Raises `Stopped`.

        Nobody needs it: without the memory for it, it is not had.
        """
        if self._backend is None or length < self._least or not self.pays:
            return None
        began = self._clock()
        try:
            state = self._backend.save(tape.sequence, length, enough)
        except Stopped:
            raise
        except (BackendError, MemoryError):
            return None
        self._saving.learn(length, self._clock() - began)
        return state

    def load(self, sequence: int, state: State, length: int) -> None:
        """Into an empty sequence. Raises `BackendError`."""
        assert self._backend is not None, "nothing is saved on a backend that cannot export"
        began = self._clock()
        self._backend.load(sequence, state, length)
        self._loading.learn(length, self._clock() - began)

    def best(self, ids: Ids, resident: int) -> Parked | None:
        """What would save a request the most, if that is worth it beside the `resident` tokens of it."""
        found = max(self._places, key=lambda place: common_length(place.ids, ids), default=None)
        return found if found is not None and common_length(found.ids, ids) >= resident + self._least else None

    def restore(self, place: Parked, tape: Tape, *, stays: bool) -> None:
        """Into the empty sequence of `tape`, of which only the backend learns here. Raises `BackendError`.

        `stays`: it is parked afterwards as well, as a lasting one always is, and one whose return was stopped.
        """
        stays = stays or place.lasting
        try:
            self.load(tape.sequence, place.state, len(place.ids))
            self.restored += 1
        except Stopped:
            stays = True
            raise
        finally:
            if place in self._places:  # a tape that went for it may have taken its room
                self._places.remove(place)
                if stays:
                    self._places.append(place)

    def close(self, owner: Owner) -> None:
        self._places = [place for place in self._places if place.owner != owner]


def _within(one: Ids, other: Ids) -> bool:
    return len(one) <= len(other) and np.array_equal(one, other[: len(one)])
