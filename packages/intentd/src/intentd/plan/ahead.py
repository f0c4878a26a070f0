"""Owns what was generated for a place of a document before it is asked for: does it still hold, what is left of it.

It is a continuation of the text before the place. Typing what it says keeps the rest; any other edit ends it.
"""

from collections.abc import Sequence

from attrs import define, field, frozen

from intentd.plan.document import Change, Document
from intentd.plan.privacy import REDACTED
from modelwire.messages import Reason

FINISHED = frozenset({Reason.END, Reason.STOP, Reason.LENGTH, Reason.CONTEXT})
"""How the making of one ends that can be shown."""
FOLLOWING = 3
"""So many of the next lines are looked at: what stands there already is no completion."""


@frozen
class Spot:
    """A place as it was: the line up to it, the rest of the line, how many lines there were, what follows."""

    line: int
    before: str
    after: str
    count: int
    following: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: Document, line: int, character: int) -> "Spot":
        text = document.line(line)
        return cls(line, text[:character], text[character:], document.count, _following(document, line))


@define(eq=False)
class Ahead:
    """`taken`: so many characters of `text` stand in the document by now. `shown`: `taken` when it was last shown."""

    spot: Spot
    text: str = ""
    complete: bool = False
    taken: int = 0
    shown: int | None = None
    accepted: int = 0
    _raw: str = field(default="")

    def add(self, text: str) -> None:
        """More was generated. What can be shown are whole lines, until it is complete."""
        self._raw += text.replace("\r", "")  # lines end as those of the document, once it is shown
        self.text = fitting(self._raw.rpartition("\n")[0], self.spot)

    def finish(self) -> None:
        self.text, self.complete = fitting(self._raw, self.spot), True

    def follow(self, document: Document, change: Change) -> bool:
        """Whether it holds after the change: only what it says itself was put there, or taken back."""
        spot = self.spot
        more, last = document.count - spot.count, spot.line + self.text[: self.taken].count("\n")
        if not spot.line <= change.first <= max(last, spot.line + more) or change.last > last or more < 0:
            return False
        now = "\n".join(document.lines(spot.line, spot.line + more + 1))
        taken = len(now) - len(spot.before) - len(spot.after)
        if not 0 <= taken <= len(self.text) or now != spot.before + self.text[:taken] + spot.after:
            return False
        if _following(document, spot.line + more) != spot.following:
            return False
        self._count(taken)
        return True

    def _count(self, taken: int) -> None:
        """A word, a line or all of what is shown, taken at once, is accepted; so is the last character."""
        if self.shown is not None and taken > self.taken and (taken - self.taken > 1 or taken == len(self.text)):
            self.accepted += 1
        self.taken = taken

    def rest(self, line: int, character: int) -> str | None:
        """What is left, if that is the place; None where it is not."""
        lines = (self.spot.before + self.text[: self.taken]).split("\n")
        if (line, character) != (self.spot.line + len(lines) - 1, len(lines[-1])):
            return None
        return self.text[self.taken :]

    @property
    def rejected(self) -> bool:
        """Whether it was shown and nothing of it was taken."""
        return self.shown is not None and not self.accepted


def _following(document: Document, line: int) -> tuple[str, ...]:
    return tuple(document.lines(line + 1, line + 1 + FOLLOWING))


def fitting(text: str, spot: Spot) -> str:
    """What of a generated text can stand at the place: nothing that is there already, one line inside of a line.

    No line of it says what a prompt says instead of a secret.
    """
    if spot.after.strip():
        text = text.partition("\n")[0]
        text = text.removesuffix(spot.after.strip())
    lines = text.split("\n")
    fits = next((at for at, line in enumerate(lines) if REDACTED in line), len(lines))
    return "\n".join(lines[: min(fits, _repeats(lines, spot.following))]).rstrip()


def _repeats(lines: Sequence[str], following: Sequence[str]) -> int:
    """The first line (not that of the place itself) that says what the next line says."""
    there = next((line.strip() for line in following if line.strip()), None)
    return next((at for at, line in enumerate(lines) if at and line.strip() == there), len(lines))
