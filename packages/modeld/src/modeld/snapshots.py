"""Owns what clients have taken snapshots of: contents, by a handle that only their client can use. No bytes of KV.

They are bounded; a client's oldest goes for its newest, and the oldest of all where there are too many of everybody's.
"""

import secrets

from attrs import frozen

from modeld.contents import Contents, SessionKey
from modelwire.errors import ErrorCode, WireError

_LONGER_THAN_ANY_SESSION = 256


@frozen
class Snapshot:
    client: str
    contents: Contents


def new_handle() -> str:
    return secrets.token_hex(16)


def place_of(handle: str) -> str:
    """Under which the engine keeps a snapshot's bytes: as those of a session that no client can name."""
    return f"snapshot {handle}".ljust(_LONGER_THAN_ANY_SESSION)


class Snapshots:
    """The one taken or restored last at the end."""

    def __init__(self, *, per_client: int, total: int) -> None:
        self._per_client = per_client
        self._total = total
        self._table: dict[str, Snapshot] = {}
        self._closed: dict[SessionKey, None] = {}

    def __len__(self) -> int:
        return len(self._table)

    def check_room(self) -> None:
        """Raises `WireError` where none can be kept at all."""
        if not self._per_client:
            raise WireError(
                ErrorCode.BAD_REQUEST,
                "this daemon keeps 0 snapshots: start it with --snapshots N",
                numbers={"snapshots": 0},
            )

    def add(self, client: str, handle: str, contents: Contents) -> None:
        self._table[handle] = Snapshot(client, contents)
        own = [name for name, snapshot in self._table.items() if snapshot.client == client]
        if len(own) > self._per_client:
            self._drop(own[0])
        elif len(self._table) > self._total:
            self._drop(next(iter(self._table)))

    def find(self, client: str, handle: str) -> Contents:
        """Raises `WireError`, the same one for a handle that is nobody's and one that is somebody else's (S11)."""
        snapshot = self._table.get(handle)
        if snapshot is None or snapshot.client != client:
            raise WireError(
                ErrorCode.BAD_REQUEST,
                "no snapshot of yours has this handle: it never had, it is of before a load or unload, or it gave way "
                f"to newer ones (you can have {self._per_client}, all clients together {self._total}). Prefill instead",
                numbers={"snapshots": self._per_client, "snapshots_total": self._total},
            )
        self._table[handle] = self._table.pop(handle)
        return snapshot.contents

    def discard(self, client: str, handle: str) -> None:
        """Its bytes were kept, but nobody was given the handle."""
        self._closed[client, place_of(handle)] = None

    def close_all(self, client: str) -> int:
        """How many there were."""
        own = [handle for handle, snapshot in self._table.items() if snapshot.client == client]
        for handle in own:
            self._drop(handle)
        return len(own)

    def void(self) -> None:
        """The engine is another one: their bytes went with the one before."""
        self._table.clear()
        self._closed.clear()

    def take_closed(self) -> tuple[SessionKey, ...]:
        """The places of those that are gone since the last call."""
        closed, self._closed = tuple(self._closed), {}
        return closed

    def _drop(self, handle: str) -> None:
        self.discard(self._table.pop(handle).client, handle)

    def check(self) -> None:
        """Raises AssertionError where the bounds are broken."""
        assert len(self._table) <= self._total
        clients = [snapshot.client for snapshot in self._table.values()]
        assert all(clients.count(client) <= self._per_client for client in clients)
