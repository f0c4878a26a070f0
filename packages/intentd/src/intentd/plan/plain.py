"""Owns turning what a program wrote for a terminal into plain lines: no colours, no overdrawn text, one line ending.

It does not emulate a screen: text that moves the cursor up and draws again stays as more lines.
"""

import re
from collections.abc import Iterator

MAX_LINE = 4_000
"""Characters of a line that are kept; what follows is dropped. It bounds every pattern that looks at one."""
MAX_WORD = 1_000
"""The most that is dropped before that, with the word that is cut."""

# Every alternative begins with ESC or its 8-bit form and runs over one class of characters at a time: linear.
_CONTROL = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, erase
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC: titles, hyperlinks
    r"|\x1b[PX^_][^\x1b\x9c]*(?:\x1b\\|\x9c)?"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]+[0-~]"  # character sets
    r"|\x1b[0-Z\\^-~]?"
)
_ERASE = re.compile(r"(?:\x1b\[|\x9b)[02]?K")
_LEFT_OVER = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


def plain(text: str) -> str:
    """The text as a person sees it; the number of lines stays."""
    return "\n".join(plain_lines(text))


def plain_lines(text: str) -> Iterator[str]:
    """The lines of `text` as a person sees them."""
    return map(plain_line, text.split("\n"))


def plain_line(line: str) -> str:
    """One line without its ending: what is left on the row when everything on it was drawn."""
    if line.isprintable():  # Nearly every line; invisible characters are not printable either.
        return shortened(line, MAX_LINE)
    seen = ""
    for drawn in line.rstrip("\r").split("\r"):
        text = _text(drawn)
        seen = (text if _ERASE.search(drawn) else text + seen[len(text) :])[: MAX_LINE + 1]
    return shortened(seen, MAX_LINE)


def shortened(text: str, most: int) -> str:
    """The first words that fit: half of a key does not look like one, and would be taken for text."""
    if len(text) <= most:
        return text
    kept = text[:most]
    return kept[: max(kept.rfind(" "), kept.rfind("\t"), kept.rfind("\n"), most - MAX_WORD, 0)]


def _text(drawn: str) -> str:
    text = _CONTROL.sub("", drawn)
    if text.isprintable():
        return text
    if "\b" in text:
        text = _rub_out(text)
    return _LEFT_OVER.sub("", _INVISIBLE.sub("", text))


def _rub_out(text: str) -> str:
    kept: list[str] = []
    for char in text:
        if char != "\b":
            kept.append(char)
        elif kept:
            kept.pop()
    return "".join(kept)
