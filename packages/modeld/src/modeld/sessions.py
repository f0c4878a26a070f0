"""Owns what each session stands for: the ids and chat messages of its contents. What is resident the engine knows.

Sessions are bounded. The ones used longest ago are closed first, those that only a guess has made before all others: a
guess never closes a real session.
"""

from collections.abc import Sequence

from attrs import define, frozen

from modeld.contents import NOTHING, Contents, SessionKey
from modeld.snapshots import Snapshots


@define(eq=False)
class Session:
    """`ghost`: the contents as the last speculative `ensure_prefix` would have them, for the guesses that follow it."""

    contents: Contents = NOTHING
    ghost: Contents | None = None

    def contents_for(self, *, speculative: bool) -> Contents:
        return self.ghost if speculative and self.ghost else self.contents


@frozen(kw_only=True)
class SessionLimits:
    """`snapshots`: how many a client may have; all clients together four times as many."""

    per_client: int = 64
    total: int = 256
    snapshots: int = 16


class Sessions:
    """All sessions, the one used last at the end, and the `snapshots` that were taken of them."""

    def __init__(self, limits: SessionLimits | None = None) -> None:
        self._limits = limits or SessionLimits()
        self.snapshots = Snapshots(per_client=self._limits.snapshots, total=4 * self._limits.snapshots)
        self._table: dict[SessionKey, Session] = {}
        self._closed: dict[SessionKey, None] = {}

    def __len__(self) -> int:
        return len(self._table)

    @property
    def clients(self) -> set[str]:
        return {client for client, _ in self._table}

    def find(self, client: str, name: str) -> Session | None:
        """The session, which counts as used now."""
        session = self._table.pop((client, name), None)
        if session is not None:
            self._table[client, name] = session
        return session

    def open(self, client: str, name: str, *, speculative: bool) -> Session | None:
        """The session, made if it is missing. None where there is no room for one that only a guess wants."""
        session = self.find(client, name)
        if session is None and self._make_room(client, speculative=speculative):
            session = self._table[client, name] = Session()
        return session

    def close(self, client: str, name: str) -> bool:
        """Whether there was one."""
        if self._table.pop((client, name), None) is None:
            return False
        self._closed[client, name] = None
        return True

    def close_all(self, client: str) -> int:
        """How many there were, snapshots included."""
        sessions = sum([self.close(*key) for key in list(self._table) if key[0] == client])
        return sessions + self.snapshots.close_all(client)

    def take_closed(self) -> tuple[SessionKey, ...]:
        """The sessions closed since the last call, and the places of snapshots that are gone."""
        closed, self._closed = tuple(self._closed), {}
        return closed + self.snapshots.take_closed()

    def put_back(self, closed: tuple[SessionKey, ...]) -> None:
        """What `take_closed` gave has not reached the engine."""
        self._closed = {**dict.fromkeys(closed), **self._closed}

    def void(self) -> None:
        """Another model is loaded: ids of the one before mean nothing to it, and it knows of no session."""
        self._table.clear()
        self._closed.clear()
        self.snapshots.void()

    def _make_room(self, client: str, *, speculative: bool) -> bool:
        own = [key for key in self._table if key[0] == client]
        if len(own) >= self._limits.per_client:
            return self._close_one(own, speculative=speculative)
        if len(self._table) >= self._limits.total:
            return self._close_one(list(self._table), speculative=speculative)
        return True

    def _close_one(self, keys: Sequence[SessionKey], *, speculative: bool) -> bool:
        made_by_guesses = (key for key in keys if not self._table[key].contents)
        oldest = next(made_by_guesses, None if speculative else keys[0])
        return oldest is not None and self.close(*oldest)

    def check(self) -> None:
        """Raises AssertionError where the bounds are broken."""
        self.snapshots.check()
        assert len(self._table) <= self._limits.total
        for client in self.clients:
            assert sum(key[0] == client for key in self._table) <= self._limits.per_client
