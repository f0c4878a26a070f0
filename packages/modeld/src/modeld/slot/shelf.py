"""Owns the resident tapes: which one serves a request, which one goes when there is no room. It computes no token.

A real operation uses its session's own tape, adopts a guess of its client that it matches to the end, or forks. A guess
forks, so that it cannot harm what it starts from.
"""

from collections.abc import Callable, Iterator

import numpy as np
from attrs import evolve

from modeld.backends.base import Backend, BackendError, Ids, Logits, Stopped
from modeld.engine.messages import ShelfFigures
from modeld.slot.cells import CellPool
from modeld.slot.claims import Claim, Match, Wanted
from modeld.slot.parking import Parked, Parking
from modeld.slot.tape import Kept, Owner, Tape, TapeKind, common_length

_LONG = 8
"""A tape was not used for long when so many times as many operations as there are sequences have come since."""


class Shelf:
    """Tapes by sequence. Every change is made in the backend, in the tape and in the cell pool together.

    `spare_cells` is how many cells guesses and ownerless tapes may hold that no real tape holds; by default those of
    one whole context.
    """

    def __init__(self, backend: Backend, *, parking: Parking | None = None, spare_cells: int | None = None) -> None:
        self._backend = backend
        self._pool = CellPool(backend.cells)
        self._parking = parking if parking is not None else Parking(backend)
        self._spare_cells = backend.context if spare_cells is None else spare_cells
        self._tapes: dict[int, Tape] = {}
        self._uses = 0
        self._evicted = 0

    def __repr__(self) -> str:
        tapes = ", ".join(f"{tape.kind}:{tape.length}" for tape in self._tapes.values())
        return f"<Shelf {tapes or 'empty'}; {self._pool.free} of {self._pool.size} cells free>"

    @property
    def tapes(self) -> tuple[Tape, ...]:
        return tuple(self._tapes.values())

    @property
    def clients(self) -> frozenset[str]:
        """Those with a tape, here or in host memory."""
        return frozenset(held.owner.client for held in (*self._tapes.values(), *self._parking))

    @property
    def free_cells(self) -> int:
        return self._pool.free

    def figures(self) -> ShelfFigures:
        return ShelfFigures(
            tapes=len(self._tapes),
            guesses=sum(tape.kind is TapeKind.GUESS for tape in self._tapes.values()),
            cells_used=self._pool.used,
            evicted=self._evicted,
            relocated=self._backend.relocated,
            parked=len(self._parking),
            parked_bytes=self._parking.bytes,
            restored=self._parking.restored,
        )

    # --- serving a request ------------------------------------------------------------------------------

    def claim(self, wanted: Wanted) -> Claim | None:
        """The tape for an operation; None for a guess that has no room without evicting a real tape."""
        best = self._best(wanted)
        place = self._parking.best(wanted.ids, best.usable if best is not None else 0)
        if place is not None:
            self._bring_back(place, wanted, best)
            best = self._best(wanted)
        claim = self._claim_guess(wanted, best) if wanted.guess else self._claim_real(wanted, best)
        if claim is not None:
            self._touch(claim.tape)
        return claim

    def _best(self, wanted: Wanted) -> Match | None:
        """The tape with the longest usable match; then the session's own, then its client's, then the latest used."""
        matches = [self._match(tape, wanted) for tape in self._tapes.values()]

        def rank(match: Match) -> tuple[int, bool, bool, int]:
            tape = match.tape
            own = tape.kind is TapeKind.REAL and tape.owner == wanted.owner
            return match.usable, own, tape.owner.client == wanted.owner.client, tape.used

        return max((match for match in matches if match.usable), key=rank, default=None)

    def _bring_back(self, place: Parked, wanted: Wanted, best: Match | None) -> None:
        """Makes a parked tape resident that matches better than all that are. A guess leaves it parked as well."""
        if not wanted.guess:
            self._retire(self._own(wanted.owner), wanted)  # so that it may go, too
        elif len(place.ids) > min(self._spare_cells, self._pool.free + self._spares()):
            return  # all that may go would go in vain
        tape = self._fresh(wanted, best.tape if best is not None else None)
        if tape is None:
            return
        try:
            if not self.make_room(tape, len(place.ids)):
                return self.drop(tape)
        except Stopped:
            return self.drop(tape)
        tape.owner, tape.kind = wanted.owner if place.lasting else place.owner, TapeKind.OWNERLESS
        if not wanted.guess and self._own(tape.owner) is None:
            tape.kind = TapeKind.REAL
        try:
            self._parking.restore(place, tape, stays=wanted.guess)
        except BackendError:
            return self.drop(tape)
        self.appended(tape, place.ids)
        tape.kept = place.kept
        self._touch(tape)

    @staticmethod
    def _match(tape: Tape, wanted: Wanted) -> Match:
        common = common_length(tape.ids, wanted.ids)
        lacks_logits = wanted.logits and common == len(wanted.ids) and tape.kept_at(common) is None
        return Match(tape, common, common - lacks_logits)

    def _claim_real(self, wanted: Wanted, best: Match | None) -> Claim:
        own = self._own(wanted.owner)
        if best is None or best.tape is own:
            tape = own if own is not None else self._fresh(wanted, None)
        elif self._extends_guess(best, wanted):
            self._retire(own, wanted)
            tape = best.tape
        else:
            self._retire(own, wanted)
            tape = self._forked(wanted, best)
        assert tape is not None, "a real operation can evict everything but itself"
        tape.kind, tape.owner = TapeKind.REAL, wanted.owner
        reused = min(best.usable, tape.length) if best is not None else 0
        whole = best is not None and best.common == len(wanted.ids)
        return Claim(tape=tape, reused=reused, whole=whole, guessed=tape.use_guessed(reused))

    def _claim_guess(self, wanted: Wanted, best: Match | None) -> Claim | None:
        if best is None:
            fresh = self._fresh(wanted, None)
            return Claim(tape=fresh, reused=0, whole=False) if fresh is not None else None
        whole = best.common == len(wanted.ids)
        if best.usable == len(wanted.ids) and not wanted.generates:
            return Claim(tape=best.tape, reused=best.usable, whole=True)  # nothing will be written
        tape = best.tape if self._extends_guess(best, wanted) else self._forked(wanted, best)
        return Claim(tape=tape, reused=min(best.usable, tape.length), whole=whole) if tape is not None else None

    @staticmethod
    def _extends_guess(best: Match, wanted: Wanted) -> bool:
        tape = best.tape
        ours = tape.kind is TapeKind.GUESS and tape.owner.client == wanted.owner.client
        return ours and best.common == tape.length

    def _own(self, owner: Owner) -> Tape | None:
        own = (tape for tape in self._tapes.values() if tape.kind is TapeKind.REAL and tape.owner == owner)
        return next(own, None)

    def _retire(self, own: Tape | None, wanted: Wanted) -> None:
        """The session gets another tape: the old one stays as ownerless where it holds more than the request."""
        if own is None:
            return
        if common_length(own.ids, wanted.ids) == own.length:
            self.drop(own)
        else:
            own.kind = TapeKind.OWNERLESS

    def _fresh(self, wanted: Wanted, spare: Tape | None) -> Tape | None:
        """An empty tape on a free sequence, for which another tape than `spare` may have to go."""
        if len(self._tapes) == self._backend.sequences and not self._evict_for(wanted.guess, wanted.owner, spare):
            return None
        sequence = next(number for number in range(self._backend.sequences) if number not in self._tapes)
        kind = TapeKind.GUESS if wanted.guess else TapeKind.REAL
        tape = self._tapes[sequence] = Tape(sequence=sequence, owner=wanted.owner, kind=kind)
        return tape

    def _forked(self, wanted: Wanted, best: Match) -> Tape | None:
        """A new tape that shares the match. Where only the source itself could make room for it, the source."""
        tape = self._fresh(wanted, best.tape)
        if tape is None:
            if best.tape not in set(self._victims(wanted.guess, wanted.owner)):
                return None
            best.tape.kind = TapeKind.GUESS if wanted.guess else TapeKind.REAL
            best.tape.owner = wanted.owner
            self.cut(best.tape, best.usable)
            return best.tape
        try:
            self._backend.fork(best.tape.sequence, tape.sequence, best.usable)
        except BackendError:
            self._backend.drop(tape.sequence)
            self._copy(best, tape)
            return tape
        tape.copy_from(best.tape, best.usable)
        self._pool.share(tape.cells)
        return tape

    def _copy(self, best: Match, tape: Tape) -> None:
        """Where a library cannot share cells, a copy of their state; without one the tape starts cold, never wrong."""
        source, length = evolve(best.tape), best.usable  # making room may let the source go
        try:
            state = self._parking.saved(source, length)
            if state is None or not self.make_room(tape, length):
                return
            self._parking.load(tape.sequence, state, length)
        except BackendError:
            self._backend.drop(tape.sequence)
            return
        tape.copy_from(source, length)
        tape.cells = self._pool.take(length)

    def save(self, ids: Ids, owner: Owner) -> int:
        """Keeps the state of what holds most of `ids` in host memory until `owner` is closed; how many bytes.

        Raises `Stopped`.
        """
        best = max(self._tapes.values(), key=lambda tape: common_length(tape.ids, ids), default=None)
        return self._parking.keep(best, ids, owner)

    # --- changing a tape --------------------------------------------------------------------------------

    def appended(self, tape: Tape, ids: Ids) -> None:
        """The backend has made `ids` resident behind the tape."""
        tape.append(ids, self._pool.take(len(ids)))

    def keep(self, tape: Tape, logits: Logits) -> None:
        """Keeps a copy of the logits of the tape's last position."""
        copy = np.array(logits, np.float32)
        copy.setflags(write=False)
        tape.kept = Kept(tape.length, copy)

    def cut(self, tape: Tape, length: int) -> bool:
        """Forgets positions from `length` on. False where the library refused and the tape is empty now."""
        if length >= tape.length:
            return True
        trimmed = length > 0 and self._backend.trim(tape.sequence, length)
        if not trimmed:
            self._backend.drop(tape.sequence)
        self._pool.release(tape.cut(length if trimmed else 0))
        return trimmed or length == 0

    def drop(self, tape: Tape) -> None:
        self._backend.drop(tape.sequence)
        self._pool.release(tape.cut(0))
        del self._tapes[tape.sequence]

    def close(self, owner: Owner) -> None:
        """The session is over: everything that came from it goes."""
        for tape in self.tapes:
            if tape.owner == owner:
                self.drop(tape)
        self._parking.close(owner)

    # --- making room ------------------------------------------------------------------------------------

    def room(self, tape: Tape) -> int:
        """Cells that are there for the tape without evicting. For a guess, counting them takes a while."""
        free = self._pool.free
        return min(free, self._spare_cells - self._spares()) if tape.kind is TapeKind.GUESS else free

    def make_room(self, tape: Tape, cells: int) -> bool:
        """Evicts until `cells` are free and, for a guess, within the budget. False where that is not possible.

        Raises `Stopped` as `evict_for`.
        """
        while self.room(tape) < cells:
            if not self.evict_for(tape):
                return False
        return True

    def keep_budget(self) -> None:
        """Evicts what nobody owns, oldest first, until it holds no more than it may."""
        nobody = Owner("", "")
        while self._spares() > self._spare_cells and self._evict_for(True, nobody, None):
            pass

    def leave_room(self, awaited: Callable[[], bool] = lambda: False, *, guess: Wanted | None = None) -> None:
        """After a real operation: other sessions' tapes go, oldest first, until a guess finds a sequence and cells.

        For its claim evicts none. A tape goes where its session will not miss it: it is parked, or can be prefilled at
        once, or was not used for long. To park a long one takes a while: it ends where a request is `awaited`.

        If that was a `guess`, it does the rest before its claim. Then a tape goes only where its copy finds room beside
        all that is parked, and the one that the guess starts from stays.

        Raises `Stopped` where a copy was ended.
        """
        real = sorted((tape for tape in self._tapes.values() if tape.kind is TapeKind.REAL), key=lambda tape: tape.used)
        best = self._best(guess) if guess is not None else None
        stays = best.tape if best is not None and best.tape in real else next(reversed(real), None)
        for tape in [tape for tape in real if tape is not stays]:
            if awaited() or not self._is_crowded():
                return
            parked = self._parking.park(tape, awaited, beside=guess is not None)
            if parked or (guess is None and self._uses - tape.used > _LONG * self._backend.sequences):
                self.drop(tape)
                self._evicted += 1

    def _is_crowded(self) -> bool:
        """Half of the cells beyond one context are what a guess should find."""
        room = min(self._spare_cells, (self._backend.cells - self._backend.context) // 2)
        real = sum(tape.kind is TapeKind.REAL for tape in self._tapes.values())
        return real == self._backend.sequences or self._pool.free + self._spares() < room

    def _spares(self) -> int:
        """Cells that no real tape holds."""
        real = [tape.cells for tape in self._tapes.values() if tape.kind is TapeKind.REAL]
        return self._pool.used - (len(np.unique(np.concatenate(real))) if real else 0)

    def evict_for(self, tape: Tape) -> bool:
        """Evicts one other tape for this one; False where there is none that may go.

        Raises `Stopped` where the stop flag was set while that was copied to host memory: nobody needs its room now.
        """
        return self._evict_for(tape.kind is TapeKind.GUESS, tape.owner, tape)

    def _evict_for(self, guess: bool, owner: Owner, spare: Tape | None) -> bool:
        victim = next((tape for tape in self._victims(guess, owner) if tape is not spare), None)
        if victim is None:
            return False
        if victim.kind is TapeKind.REAL:
            self._parking.park(victim)
        self.drop(victim)
        self._evicted += 1
        return True

    def _victims(self, guess: bool, owner: Owner) -> Iterator[Tape]:
        """Who goes first. For a real operation guesses, ownerless tapes, other sessions' tapes, each oldest first.

        For a guess whatever nobody owns, oldest first: what was prepared last must not go for what was left long ago.
        """
        oldest_first = sorted(self._tapes.values(), key=lambda tape: tape.used)
        if guess:
            yield from (tape for tape in oldest_first if tape.kind is not TapeKind.REAL)
            return
        for kind in (TapeKind.GUESS, TapeKind.OWNERLESS, TapeKind.REAL):
            yield from (t for t in oldest_first if t.kind is kind and not (kind is TapeKind.REAL and t.owner == owner))

    def _touch(self, tape: Tape) -> None:
        self._uses += 1
        tape.used = self._uses

    def check(self) -> None:
        """Asserts what must always hold."""
        for sequence, tape in self._tapes.items():
            assert tape.sequence == sequence < self._backend.sequences
            assert tape.used <= self._uses
            tape.check()
        self._pool.check([tape.cells for tape in self._tapes.values()])
        owners = [tape.owner for tape in self._tapes.values() if tape.kind is TapeKind.REAL]
        assert len(owners) == len(set(owners)), "a session has two tapes"
