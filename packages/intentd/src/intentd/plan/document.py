"""Owns the text of an open document: its lines, edits by range, positions in every encoding. It knows no protocol.

Lines end with CR LF or LF, and nothing else. The last line has no ending; it can be empty. A text where a CR stands
alone is no document: the protocol ends a line there, many an editor does not, and their lines would not be ours.
"""

from typing import Literal

from attrs import define, field, frozen

Encoding = Literal["utf-8", "utf-16", "utf-32"]

_CONTINUING = bytes(range(0x80, 0xC0))
"""What a character's bytes hold but for the first, in UTF-8."""
MAX_TEXT = 16 * 2**20
"""Characters."""


@frozen(order=True)
class Place:
    """A line and a column, both from 0; the column counts code units of the document's encoding."""

    line: int
    column: int


@frozen
class Change:
    """Which lines an edit replaced: `first` to `last` by those up to `last` + `grown`. A line before which whole lines
    came or went is none of them: where only that was done, `last` is before `first`.

    `end` is the line and the character behind the new text.
    """

    first: int
    last: int
    grown: int
    end: tuple[int, int] = (0, 0)

    def moved(self, line: int) -> int:
        """Where a line of before stands now."""
        return line + self.grown if line > self.last else min(line, max(self.first, self.last + self.grown))


def can_be_kept(text: str) -> bool:
    """Whether a text, or what an edit puts into one, can be a document's."""
    return len(text) <= MAX_TEXT and text.count("\r") == text.count("\r\n")


@define(eq=False)
class Document:
    """`version` is the editor's. Edits cost as much as the lines that they touch."""

    version: int
    encoding: Encoding
    _lines: list[str] = field(factory=lambda: [""])

    @classmethod
    def of(cls, text: str, version: int = 0, encoding: Encoding = "utf-16") -> "Document":
        return cls(version, encoding, _split(text))

    @property
    def text(self) -> str:
        return "".join(self._lines)

    @property
    def count(self) -> int:
        """How many lines there are."""
        return len(self._lines)

    def line(self, number: int) -> str:
        """A line without its ending; empty beyond the end."""
        return _bare(self._lines[number]) if 0 <= number < len(self._lines) else ""

    def lines(self, first: int, last: int) -> list[str]:
        """The lines from `first` up to `last`, without their endings."""
        return [_bare(line) for line in self._lines[max(first, 0) : max(last, 0)]]

    @property
    def ending(self) -> str:
        """How its lines end: as the first one does."""
        return self._lines[0][len(self.line(0)) :] or "\n"

    # --- positions --------------------------------------------------------------------------------------------

    def index(self, place: Place) -> tuple[int, int]:
        """(line, character) of a place. What lies behind the end of a line or of the text counts as that end."""
        if place.line >= len(self._lines):
            return len(self._lines) - 1, len(self._lines[-1])
        line = max(place.line, 0)
        return line, _character(self.line(line), max(place.column, 0), self.encoding)

    def place(self, line: int, character: int) -> Place:
        """Where a character of a line is, for the editor."""
        return Place(line, _units(self.line(line)[:character], self.encoding))

    @property
    def end(self) -> Place:
        return self.place(len(self._lines) - 1, len(self._lines[-1]))

    # --- edits ------------------------------------------------------------------------------------------------

    def replace(self, start: Place, end: Place, text: str) -> Change:
        """Puts `text` in place of what is between `start` and `end`."""
        (first, before), (last, after) = sorted((self.index(start), self.index(end)))
        rest = len(self.line(last)) - after
        lines = _split(self._lines[first][:before] + text + self._lines[last][after:])
        if last + 1 < len(self._lines):
            lines.pop()  # what ends in a line ending has an empty rest, which is the next line
        self._lines[first : last + 1] = lines
        grown = len(lines) - (last + 1 - first)
        behind = (last + grown, len(self.line(last + grown)) - rest)
        whole = after == 0 and (text.endswith("\n") or (not text and before == 0))
        return Change(first, last - whole, grown, behind)

    def become(self, text: str) -> Change:
        """The whole text is another one."""
        before, self._lines = len(self._lines), _split(text)
        return Change(0, before, len(self._lines) - before)


def _bare(line: str) -> str:
    """Without its ending, at the cost of a copy however long it is."""
    return line.rstrip("\r\n")


def _split(text: str) -> list[str]:
    *ended, last = text.split("\n")
    return [*(line + "\n" for line in ended), last]


def _character(line: str, units: int, encoding: Encoding) -> int:
    """The character that begins at or behind so many units. No step of Python for each one: a file can be one line."""
    if encoding == "utf-32" or line.isascii():
        return min(units, len(line))
    if encoding == "utf-8":
        return len(line.encode(errors="surrogatepass")[:units].translate(None, _CONTINUING))
    return len(line.encode("utf-16-le", "surrogatepass")[: 2 * units].decode("utf-16-le", "surrogatepass"))


def _units(text: str, encoding: Encoding) -> int:
    if encoding == "utf-32" or text.isascii():
        return len(text)
    if encoding == "utf-8":
        return len(text.encode(errors="surrogatepass"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
