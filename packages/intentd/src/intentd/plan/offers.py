"""Owns what can be asked: the offers of each workspace, made from events. It guesses nothing and reads no files.

The rule for the order: the workspace whose command failed last comes first. In it the failures of the last command
stand before older ones; among those of one command tests before diagnostics before crashes, a test that failed before
one that could not run, and else the order of the output.
"""

import hashlib
import posixpath
from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve, field, frozen

from intentd.plan.commands import Command
from intentd.plan.events import Changed, CommandEnded
from intentd.plan.triggers import Failure, passed_by
from intentd.shown import View

MAX_WORKSPACES = 32
MAX_OFFERS = 40
"""In one workspace."""
MAX_NEW = 20
"""Of one command."""

Intent = str
"""`explain` or `fix`; of a selection the name of an action."""
INTENTS: tuple[Intent, ...] = ("explain", "fix")


@frozen(kw_only=True)
class Offering:
    """A failure that can be asked about, in the workspace with the root `workspace`. People call it by its `number`.

    `changed` are the files that differed from the last commit when it was found; None where that is not known.
    """

    id: str
    number: int
    failure: Failure
    workspace: str
    command: Command
    changed: tuple[Changed, ...] | None = None
    anchor: str | None = field(default=None, repr=False)
    """What stood in its file when it was found, and must stay there; None where the file could not be read.

    It is not scrubbed: it is compared and never sent (I3).
    """
    view: View | None = None
    """What an editor shows of it, where it was seen there."""

    @property
    def name(self) -> str:
        """For people: as its tool calls it, but with its file as seen from the workspace, if it lies there."""
        name, path = self.failure.name, self.failure.path
        if not path.startswith(f"{self.workspace.rstrip('/')}/"):
            return name
        for said in (path, posixpath.relpath(path, self.command.cwd)):
            if name.startswith(said):
                return posixpath.relpath(path, self.workspace) + name.removeprefix(said)
        return name

    @property
    def line(self) -> int:
        """In its file, as its tool said it; 0 where it did not."""
        frames = reversed(self.failure.frames)
        return next((frame.line for frame in frames if frame.path == self.failure.path), 0)


class OfferBook:
    """The offers of the workspaces that had the latest events."""

    def __init__(self) -> None:
        self._offers: dict[str, tuple[Offering, ...]] = {}
        self._numbers = 0

    def take(
        self,
        event: CommandEnded,
        failures: Sequence[Failure] | None,
        anchors: Mapping[Failure, str | None] | None = None,
    ) -> bool:
        """Whether the event, with what `find_failures` found in it, changed anything.

        A command that fails replaces the offers that it was about, but not those of tests that it may not have come to;
        one that passes withdraws them.
        """
        command = Command(event.argv, event.cwd)
        said_nothing = failures is None and event.exit is None
        if not failures and (said_nothing or event.exit not in (0, None)):  # it may have been interrupted
            return False
        known = anchors or {}
        found = [_offering(event, command, failure, known.get(failure)) for failure in failures or ()]
        fresh, further = found[:MAX_NEW], set(map(_subject, found[MAX_NEW:]))
        before = self.of(event.workspace)
        tools = {offer.failure.tool for offer in found} | (set() if event.argv else passed_by(event.output))
        kept = [
            offer
            for offer in before
            if _subject(offer) in further or not command.covers(offer.command, offer.failure, tools)
        ]
        if found and command.may_have_stopped_early(event.exit, event.output):
            kept = list(before)
        again = set(map(_subject, fresh))
        kept = [offer for offer in kept if _subject(offer) not in again]
        numbered = self._numbered(fresh, [offer for offer in before if offer not in kept])
        offers = (*numbered, *kept)[:MAX_OFFERS]
        if not found and offers == before:
            return False
        self._put(event.workspace, offers)
        return True

    def withdraw(self, offering: Offering) -> bool:
        """Whether it was there; one that was found again meanwhile is another."""
        before = self.of(offering.workspace)
        self._offers[offering.workspace] = tuple(offer for offer in before if offer != offering)
        return len(before) != len(self.of(offering.workspace))

    def forget(self, workspace: str) -> None:
        self._offers.pop(workspace, None)

    def all(self) -> tuple[Offering, ...]:
        return tuple(offer for offers in reversed(self._offers.values()) for offer in offers)

    def of(self, workspace: str) -> tuple[Offering, ...]:
        return self._offers.get(workspace, ())

    def find(self, workspace: str, name: str | None) -> Offering | None:
        """The offer with that number or id, or the workspace's first."""
        if name is None:
            return next(iter(self.of(workspace)), None)
        return next((offer for offer in self.of(workspace) if name in (offer.id, str(offer.number))), None)

    def _put(self, workspace: str, offers: tuple[Offering, ...]) -> None:
        self._offers.pop(workspace, None)
        self._offers[workspace] = offers
        while len(self._offers) > MAX_WORKSPACES:
            del self._offers[next(iter(self._offers))]

    def _numbered(self, fresh: Sequence[Offering], gone: list[Offering]) -> Iterator[Offering]:
        """A failure that is found again keeps its number. Two that read alike have one each."""
        for offer in fresh:
            alike = [old for old in gone if _alike(old.failure, offer.failure)]
            known = max(alike, key=lambda old: old.id == offer.id, default=None)
            if known is None:
                self._numbers += 1
            else:
                gone.remove(known)
            yield evolve(offer, number=known.number if known else self._numbers)


def _offering(event: CommandEnded, command: Command, failure: Failure, anchor: str | None) -> Offering:
    """It has no number yet."""
    return Offering(
        id=hashlib.sha256(repr((event.workspace, failure)).encode()).hexdigest()[:8],
        number=0,
        failure=failure,
        workspace=event.workspace,
        command=command,
        changed=event.changed,
        anchor=anchor,
    )


def _alike(one: Failure, other: Failure) -> bool:
    return (one.tool, one.name, one.message) == (other.tool, other.name, other.message)


def _subject(offer: Offering) -> tuple[str, ...]:
    """What it is about: a test, whatever is said of it now, or this one thing that a tool has said."""
    failure = offer.failure
    return (failure.tool, failure.path, failure.name) if failure.trigger == "test_failed" else (offer.id,)
