"""Owns what the decode loop needs of a drafter: two small Protocols, and the one that drafts nothing. No drafts."""

from collections.abc import Container, Sequence
from typing import Protocol

from modeld.backends.base import Ids
from modeld.engine.messages import DraftFigures


class Drafter(Protocol):
    """Guesses what comes next on the tapes of one client. Whatever it says is verified."""

    def begin(self, shortest: int | None) -> None:
        """An answer begins; its figures start at 0. `shortest` is `DecodeConfig.speculative_ngram`."""

    def follow(self, history: Ids) -> None:
        """The tape is `history` now: it was prefilled so far."""

    def propose(self, history: Ids, limit: int) -> Sequence[int]:
        """At most `limit` tokens that may follow `history`; fewer or none where more do not pay."""

    def observe(self, accepted: int, seconds: float) -> None:
        """The batch with the last proposal took `seconds`, and so many of its tokens were right."""

    @property
    def figures(self) -> DraftFigures:
        """Of the answer."""


class Drafters(Protocol):
    """The drafters of all clients. What one client's tapes hold is never drafted for another."""

    def of(self, client: str) -> Drafter: ...

    def keep(self, clients: Container[str]) -> None:
        """Forget all other clients: they have no tape any more."""


class NoDrafts:
    """Drafts nothing, for anybody."""

    def of(self, client: str) -> Drafter:
        return self

    def keep(self, clients: Container[str]) -> None:
        pass

    def begin(self, shortest: int | None) -> None:
        pass

    def follow(self, history: Ids) -> None:
        pass

    def propose(self, history: Ids, limit: int) -> Sequence[int]:
        return ()

    def observe(self, accepted: int, seconds: float) -> None:
        pass

    @property
    def figures(self) -> DraftFigures:
        return DraftFigures()
