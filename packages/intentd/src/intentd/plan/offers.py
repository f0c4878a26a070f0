"""Owns what can be asked: the offers of each workspace, made from events. It guesses nothing and reads no files."""

import hashlib
from collections.abc import Sequence

from attrs import frozen

from intentd.plan.events import CommandEnded
from intentd.plan.triggers import FailedTest

MAX_WORKSPACES = 32


@frozen(kw_only=True)
class Offering:
    """A trigger that can be answered, in the workspace with the root `workspace`."""

    id: str
    trigger: FailedTest
    workspace: str


class OfferBook:
    """The offers of the workspaces that had the latest events."""

    def __init__(self) -> None:
        self._offers: dict[str, tuple[Offering, ...]] = {}

    def take(self, event: CommandEnded, failures: Sequence[FailedTest] | None) -> bool:
        """Whether the event, with what `failed_tests` found in it, changed anything.

        A test run replaces its workspace's offers, other commands do not.
        """
        if failures is None or (not failures and event.exit != 0):
            return False
        self._offers.pop(event.workspace, None)
        self._offers[event.workspace] = tuple(_offering(event.workspace, failure) for failure in failures)
        while len(self._offers) > MAX_WORKSPACES:
            del self._offers[next(iter(self._offers))]
        return True

    def newest(self) -> Offering | None:
        """The first offer of the workspace whose tests failed last."""
        return next((offers[0] for offers in reversed(self._offers.values()) if offers), None)

    def of(self, workspace: str) -> tuple[Offering, ...]:
        return self._offers.get(workspace, ())

    def all(self) -> tuple[Offering, ...]:
        return tuple(offer for offers in reversed(self._offers.values()) for offer in offers)

    def find(self, workspace: str, id: str | None) -> Offering | None:
        """The offer with that id, or the workspace's first."""
        if id is None:
            return next(iter(self.of(workspace)), None)
        return next((offer for offer in self.of(workspace) if offer.id == id), None)


def _offering(workspace: str, failure: FailedTest) -> Offering:
    digest = hashlib.sha256(repr((workspace, failure)).encode()).hexdigest()
    return Offering(id=digest[:8], trigger=failure, workspace=workspace)
