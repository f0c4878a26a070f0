"""Owns where the next tokens are probably copied from: the place that is followed, and the way back after an edit.

A rewritten file is a copy with interruptions. While the copy goes on, the place moves with it. When the answer leaves
the copy, that place becomes *home*: an edit inserts, replaces or removes a few tokens, so the copy most likely goes on
at or shortly behind it. The surroundings of home are searched for the last tokens said, where one token may be enough
to return; anywhere else the automaton's longest match decides.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum

from attrs import define, field, frozen

from modeld.slot.draft.automaton import Automaton, Match
from modeld.slot.draft.edits import RESUMED, STEADY, Edit, Edits, Habits

LONGEST = 32
"""Agreement is counted up to here; a longer one says nothing more."""
BEHIND, AHEAD = 16, 96
"""How far around home is searched."""


class Kind(IntEnum):
    """How near a place is to home. The nearer, the fewer agreeing tokens are needed to trust it."""

    FAR = 0
    AROUND = 1
    NEAR = 2
    BESIDE = 3


@frozen
class Place:
    """Copy from `follow` on. The `length` tokens said last agree with those before it, known edits aside.

    `pending`: tokens of a known edit that come before the copy goes on.
    """

    follow: int
    length: int
    kind: Kind
    pending: tuple[int, ...] = ()


Trust = Callable[[Place], float]
"""The chance that a place's next token is right."""


@define
class Source:
    """A text with its habits, the place in it that is followed, home, and the edits of the answer."""

    text: Automaton = field(factory=Automaton)
    place: Place | None = None
    _home: int | None = None
    _left_at: int | None = None  # the length of the text when the copy was left; None once the edit is understood
    _edits: Edits = field(factory=Edits)
    _begins: bool = False
    _habits: Habits = field(factory=Habits)

    def read(self, tokens: Iterable[int]) -> None:
        """Take what was not generated: nothing is predicted for it."""
        for token in tokens:
            self._habits.read(self.text.tokens, self.text.append(token))
            self.place = None

    def begin(self) -> None:
        """A new answer: it returns to no home of the old one and repeats none of its edits."""
        self.place, self._home, self._left_at = None, None, None
        self._begins = True

    def say(self, token: int, trust: Trust) -> bool:
        """Take a generated token, and find the most trusted place to go on from. True if the place foretold it."""
        if self._begins:  # only now is the prompt read to its end
            self._edits, self._begins = Edits(dict(self._habits.now)), False
            self._habits.rest()
        before = self.text.tokens[-1] if self.text.tokens else token
        match = self.text.append(token)
        carried = self._carried(before, token)
        self.place = carried
        if carried is None or (carried.length < LONGEST and not carried.pending):
            self.place = max(self._candidates(carried, match), key=preference(trust), default=None)
        self._understand()
        return carried is not None

    def draft(self, count: int) -> list[int]:
        """At most `count` tokens from the place on, known edits made. Behind the text's end it goes on with itself."""
        drafted: list[int] = []
        place, before = self.place, self.text.tokens[-1] if self.text.tokens else 0
        while place is not None and len(drafted) < count:
            token, place = self._step(place, before, drafted)
            if token is None:
                break
            drafted.append(token)
            before = token
        return drafted

    def _step(self, place: Place, before: int, drafted: Sequence[int] = ()) -> tuple[int | None, Place]:
        """The next token of a place, and the place behind it. None where the text ends, or another begins."""
        tokens = self.text.tokens
        follow, pending = place.follow, place.pending
        if not pending and follow < len(tokens) and (edit := self._edits.at(before, tokens, follow)) is not None:
            kept = tokens[follow : follow + 1] if not edit.old else []
            pending = edit.new + tuple(kept)
            follow += len(edit.old) or 1
        length = min(place.length + 1, LONGEST)
        if pending:
            token, behind = pending[0], Place(follow, length, place.kind, pending[1:])
        else:
            beyond = follow - len(tokens)
            token = tokens[follow] if beyond < 0 else drafted[beyond] if beyond < len(drafted) else -1
            behind = Place(follow + 1, length, place.kind)
        return (token, behind) if token >= 0 else (None, place)

    def _carried(self, before: int, token: int) -> Place | None:
        """The place moved on by a token, or None where that token leaves it."""
        place = self.place
        if place is None or place.follow >= len(self.text) - 1:
            return None
        foretold, moved = self._step(place, before)
        if foretold == token:
            return moved
        copied = self.text.tokens[place.follow]
        self._edits.forget(before, copied)
        if copied == token and not place.pending:
            return Place(place.follow + 1, min(place.length + 1, LONGEST), place.kind)
        if place.length >= STEADY:
            self._home, self._left_at = place.follow, len(self.text) - 1
        return None

    def _candidates(self, carried: Place | None, match: Match) -> Iterator[Place]:
        if carried is not None:
            yield carried
        elif self._home is not None:
            yield from self._around(self._home)
        if match.length:
            yield Place(match.follow, min(match.length, LONGEST), Kind.FAR)

    def _around(self, home: int) -> Iterator[Place]:
        """Every place around home that the last token leads to."""
        tokens = self.text.tokens
        last, begin, end = tokens[-1], max(0, home - BEHIND), min(home + AHEAD, len(tokens) - 1)
        for follow, token in enumerate(tokens[begin:end], begin + 1):
            if token == last:
                yield Place(follow, self._agreement(follow), kind_of(follow - home))

    def _agreement(self, follow: int) -> int:
        """How many tokens before `follow` are the last ones of the text."""
        tokens, end = self.text.tokens, len(self.text)
        limit = min(LONGEST, follow)
        return next((n for n in range(limit) if tokens[follow - 1 - n] != tokens[end - 1 - n]), limit)

    def _understand(self) -> None:
        """Once the copy goes on, what lies between is an edit to expect again."""
        place, home, left_at = self.place, self._home, self._left_at
        if left_at is None or home is None or place is None or place.kind is Kind.FAR or place.length < RESUMED:
            return
        self._left_at = None
        tokens, end = self.text.tokens, len(self.text)
        if place.follow >= home > 0 and tokens[home] >= 0:  # at a passage's end nothing was copied, so nothing edited
            old = tokens[home : max(home, place.follow - place.length)]
            new = tokens[left_at : max(left_at, end - place.length)]
            self._edits.learn(tokens[home - 1], tokens[home], Edit(tuple(old), tuple(new)))


def preference(trust: Trust) -> Callable[[Place], tuple[float, int, int, int]]:
    """The more trusted place; on ties the nearer to home, the longer match, the more recent."""
    return lambda place: (trust(place), place.kind, place.length, place.follow)


def kind_of(distance: int) -> Kind:
    """The kind of a place `distance` tokens behind home."""
    if 0 <= distance <= 4:
        return Kind.BESIDE
    return Kind.NEAR if 0 <= distance <= 16 else Kind.AROUND
