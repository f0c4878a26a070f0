"""Owns the edits that are made to what is copied, so that the next draft makes them too.

A rename, a changed call, another quote: an edit is often made again wherever the same tokens come. A prompt shows edits
as well, where it ends with a part of the copy.
"""

from collections.abc import Mapping

from attrs import define, field, frozen

from modeld.slot.draft.automaton import Match

LONGEST_EDIT = 8
"""Tokens of an edit that is remembered, on either side. A longer one is new text, not a habit."""
STEADY = 8
"""Tokens that must have agreed before a place counts as a copy to return to."""
RESUMED = 2
"""Tokens that must agree again before an edit counts as over."""
MOST_HABITS = 256

Where = tuple[int, int]
"""The token before an edit, and the first token of the copied text."""


@frozen
class Edit:
    """`old` was written as `new`. One of them may be empty, not both."""

    old: tuple[int, ...]
    new: tuple[int, ...]

    @property
    def is_short(self) -> bool:
        return self.old != self.new and max(len(self.old), len(self.new)) <= LONGEST_EDIT


@define
class Edits:
    """Those of one answer, by where they begin, beside the `habits` of its prompt. All hold until they fail once."""

    habits: Mapping[Where, Edit] = field(factory=dict)
    _rules: dict[Where, Edit] = field(factory=dict)
    _failed: set[Where] = field(factory=set)

    def learn(self, before: int, first: int, edit: Edit) -> None:
        if edit.is_short:
            self._rules[before, first] = edit

    def at(self, before: int, text: list[int], position: int) -> Edit | None:
        """The edit to expect where `before` was said and the copy would go on with `text[position]`."""
        where = before, text[position]
        edit = self._rules.get(where) or (None if where in self._failed else self.habits.get(where))
        if edit is None or tuple(text[position : position + len(edit.old)]) != edit.old:
            return None
        return edit

    def forget(self, before: int, first: int) -> None:
        self._rules.pop((before, first), None)
        self._failed.add((before, first))


@define
class Habits:
    """The edits that a text shows twice. It follows a copy while it is read, and after a departure looks for the way
    back in as many places as an edit can be long.
    """

    _shown: dict[Where, Edit] = field(factory=dict)
    _twice: dict[Where, Edit] = field(factory=dict)
    _follow: int | None = None
    _home: int | None = None  # where the copy was left, until the way back is found or given up
    _left_at: int = 0

    @property
    def now(self) -> Mapping[Where, Edit]:
        """Those to expect from here on: none where the text does not end in a copy, or just behind one."""
        return self._twice if self._follow is not None or self._home is not None else {}

    def rest(self) -> None:
        """What comes next belongs to another text."""
        self._follow = self._home = None

    def read(self, tokens: list[int], match: Match) -> None:
        """The last of `tokens` is new; `match` is where the ones up to it stood before."""
        if self._follow is not None and tokens[self._follow] == tokens[-1]:
            self._follow += 1
            return
        if self._follow is not None:
            self._home, self._left_at = self._follow, len(tokens) - 1
            self._follow = None
        if self._home is not None:
            self._return(tokens, self._home)
        elif match.length >= STEADY:
            self._follow = match.follow

    def _return(self, tokens: list[int], home: int) -> None:
        said = len(tokens) - self._left_at
        for follow in range(home + RESUMED, min(home + LONGEST_EDIT + RESUMED, self._left_at) + 1):
            if said >= RESUMED and tokens[follow - RESUMED : follow] == tokens[-RESUMED:]:
                edit = Edit(tuple(tokens[home : follow - RESUMED]), tuple(tokens[self._left_at : -RESUMED]))
                self._see((tokens[home - 1], tokens[home]), edit)
                self._follow, self._home = follow, None
                return
        if said >= LONGEST_EDIT + RESUMED:
            self._home = None

    def _see(self, where: Where, edit: Edit) -> None:
        if not edit.is_short or min(edit.old + edit.new) < 0:  # where a passage ends nothing is edited
            return
        if self._shown.pop(where, None) == edit:
            self._twice.pop(where, None)
            self._twice[where] = edit
        self._shown[where] = edit
        for known in (self._shown, self._twice):
            if len(known) > MOST_HABITS:
                del known[next(iter(known))]
