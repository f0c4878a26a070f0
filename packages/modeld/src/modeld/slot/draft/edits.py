"""Owns the edits that this answer has made to what it copies, so that the next draft makes them too.

A rename, a changed call, another quote: an edit is often made again wherever the same tokens come. A rule holds until
it fails once.
"""

from attrs import define, field, frozen

LONGEST_EDIT = 8
"""Tokens of an edit that is remembered, on either side. A longer one is new text, not a habit."""


@frozen
class Edit:
    """`old` was written as `new`. One of them may be empty, not both."""

    old: tuple[int, ...]
    new: tuple[int, ...]


@define
class Edits:
    """Edits by where they begin: the token before, and the first token of the copied text."""

    _rules: dict[tuple[int, int], Edit] = field(factory=dict)

    def learn(self, before: int, first: int, edit: Edit) -> None:
        if edit.old != edit.new and max(len(edit.old), len(edit.new)) <= LONGEST_EDIT:
            self._rules[before, first] = edit

    def at(self, before: int, text: list[int], position: int) -> Edit | None:
        """The edit to expect where `before` was said and the copy would go on with `text[position]`."""
        edit = self._rules.get((before, text[position]))
        if edit is None or tuple(text[position : position + len(edit.old)]) != edit.old:
            return None
        return edit

    def forget(self, before: int, first: int) -> None:
        self._rules.pop((before, first), None)
