"""Owns prompt lookup for all clients: a drafter with a text of its own for each, costs and learned rates for all.

Numbers are shared and texts are not, so a draft, and how fast an answer comes, tells nothing of another client's text.
"""

from collections.abc import Container

from attrs import define, field

from modeld.slot.draft.drafter import CAPACITY, Drafter
from modeld.slot.draft.ledger import Ledger
from modeld.slot.draft.lengths import Lengths


@define
class PromptLookup:
    """Makes drafters, and forgets the least recently used ones while all texts together are too long."""

    lengths: Lengths
    ledger: Ledger = field(factory=Ledger)
    capacity: int = 2 * CAPACITY
    _drafters: dict[str, Drafter] = field(factory=dict)  # the latest used last

    def of(self, client: str) -> Drafter:
        drafter = self._drafters.pop(client, None) or Drafter(self.lengths, self.ledger)
        self._drafters[client] = drafter
        while len(self._drafters) > 1 and sum(map(len, self._drafters.values())) > self.capacity:
            del self._drafters[next(iter(self._drafters))]
        return drafter

    def keep(self, clients: Container[str]) -> None:
        self._drafters = {client: drafter for client, drafter in self._drafters.items() if client in clients}
