"""Owns the daemon's counters, and which guesses have paid. It decides nothing.

A guess's time on the slot counts as wasted until a real operation of its client reuses the guess.
"""

from collections.abc import Mapping

import numpy as np
from attrs import asdict, define, field, frozen

from modeld.engine.messages import DraftFigures, Ended, ShelfFigures
from modeld.flight import Flight, Last
from modelwire.messages import Done, Error, Outcome, Reason, Usage

_REMEMBERED = 64
_COUNTED = (
    *(
        "operations_total",
        "guesses_total",
        "guesses_adopted",
        "guesses_preempted",
        "guesses_failed",
        "hits",
        "partials",
    ),
    *("tokens_prefilled", "tokens_reused", "tokens_generated", "engine_restarts", "cells_total", "guess_chunk_ms"),
    *("tokens_drafted", "tokens_accepted", "draft_saved_s", "draft_lost_s"),
)


_RESIDENT = {"guesses": "tapes_guessed"}
"""Figures of the shelf that are called otherwise in a status."""


@frozen
class _Guess:
    """An ended guess that nobody has reused yet. `ids` are int32 little-endian."""

    client: str
    ids: bytes
    seconds: float


@define
class Figures:
    """Counts since the daemon's start; docs/protocol.md says what each means."""

    operations_total: int = 0
    guesses_total: int = 0
    guesses_adopted: int = 0
    guesses_preempted: int = 0
    guesses_failed: int = 0
    hits: int = 0
    partials: int = 0
    tokens_prefilled: int = 0
    tokens_reused: int = 0
    tokens_generated: int = 0
    wasted_s: float = 0.0
    engine_restarts: int = 0
    cells_total: int = 0
    guess_chunk_ms: float = 0.0
    tokens_drafted: int = 0
    tokens_accepted: int = 0
    draft_saved_s: float = 0.0
    draft_lost_s: float = 0.0
    drafting: bool = False
    shelf: ShelfFigures = field(factory=ShelfFigures)
    _passes: int = 0
    _tokens: int = 0
    _by_length: dict[int, tuple[int, int]] = field(factory=dict)
    _unpaid: list[_Guess] = field(factory=list)

    def accepted(self, *, guess: bool) -> None:
        self.operations_total += 1
        self.guesses_total += guess

    def engine_lost(self) -> None:
        """Another one is started."""
        self.engine_restarts += 1
        self.engine_ended()

    def engine_ended(self) -> None:
        """Its guesses are lost with it: nobody will reuse them."""
        self.shelf = ShelfFigures()
        self._unpaid.clear()

    def ended(self, flight: Flight, last: Last, now: float) -> None:
        if isinstance(flight.end, Ended):
            self.shelf = flight.end.shelf
            if flight.end.drafts is not None:
                self.drafted(flight.end.drafts)
            if flight.is_guess:
                self.guess_chunk_ms = flight.end.timings.chunk
        self.guesses_failed += flight.is_guess and isinstance(last, Error)
        usage = flight.end.usage if isinstance(flight.end, Ended) else Usage()
        if flight.is_guess and flight.started is not None:
            reason = last.reason if isinstance(last, Done) else None
            ids = flight.ids[: 4 * flight.resident]
            self.guess_ended(flight.client, ids, now - flight.started, usage, reason)
        elif not flight.is_guess:
            self.real_ended(flight.client, flight.ids, usage)

    def guess_ended(self, client: str, ids: bytes, seconds: float, usage: Usage, reason: Reason | None) -> None:
        """Of one that was started. `ids`: what it left resident. `reason` None: it failed."""
        self.tokens_prefilled += usage.prefilled
        self.guesses_preempted += reason is Reason.PREEMPTED
        self.wasted_s += seconds
        if ids:
            self._unpaid = [*self._unpaid, _Guess(client, ids, seconds)][-_REMEMBERED:]

    def real_ended(self, client: str, ids: bytes, usage: Usage) -> None:
        """`ids`: its whole prompt."""
        self.tokens_prefilled += usage.prefilled
        self.tokens_reused += usage.reused
        self.tokens_generated += usage.generated
        self.hits += usage.outcome is Outcome.HIT
        self.partials += usage.outcome is Outcome.PARTIAL
        if usage.guessed:
            self._pay(client, ids)

    def drafted(self, drafts: DraftFigures) -> None:
        """What drafting did in an answer."""
        self.tokens_drafted += drafts.drafted
        self.tokens_accepted += drafts.accepted
        self.draft_saved_s += drafts.seconds_saved
        self.draft_lost_s += drafts.seconds_lost
        self.drafting = drafts.on
        self._passes += drafts.passes
        self._tokens += drafts.tokens
        for length, drafted, accepted in drafts.by_length:
            before = self._by_length.get(length, (0, 0))
            self._by_length[length] = before[0] + drafted, before[1] + accepted

    def _pay(self, client: str, ids: bytes) -> None:
        """The guess that agrees longest was reused, and those that it grew from."""
        own = [guess for guess in self._unpaid if guess.client == client]
        if not own:
            return
        best = max(own, key=lambda guess: _agreement(guess.ids, ids))
        paid = [guess for guess in own if guess is best or ids.startswith(guess.ids)]
        self._unpaid = [guess for guess in self._unpaid if guess not in paid]
        self.wasted_s -= sum(guess.seconds for guess in paid)
        self.guesses_adopted += 1

    def as_mapping(
        self, *, sessions: int, clients: int, queue: int, snapshots: int, running: Flight | None = None
    ) -> Mapping[str, float]:
        """With the tokens of what is `running` so far."""
        so_far = _so_far(running) if running else {}
        return {
            **{name: float(getattr(self, name) + so_far.get(name, 0)) for name in _COUNTED},
            "drafting": float(self.drafting),
            "tokens_per_pass": self._tokens / self._passes if self._passes else 0.0,
            **{f"acceptance_{n}": right / count for n, (count, right) in sorted(self._by_length.items()) if count},
            "wasted_s": max(0.0, self.wasted_s),
            **{_RESIDENT.get(name, name): float(value) for name, value in asdict(self.shelf).items()},
            "sessions": float(sessions),
            "clients": float(clients),
            "queue": float(queue),
            "snapshots": float(snapshots),
        }


def _so_far(running: Flight) -> dict[str, int]:
    """As it will be counted at its end: of a guess only what it prefills."""
    prefilled = {"tokens_prefilled": running.resident - running.reused}
    real = {"tokens_reused": running.reused, "tokens_generated": running.produced}
    return prefilled if running.is_guess else prefilled | real


def _agreement(one: bytes, other: bytes) -> int:
    """How many ids agree from the beginning."""
    length = min(len(one), len(other)) // 4
    equal = np.frombuffer(one, np.int32, length) == np.frombuffer(other, np.int32, length)
    return length if equal.all() else int(equal.argmin())
