"""Owns making an edit of an answer: the code block that it shows, in place of the lines that it was asked about."""

import re
from collections.abc import Sequence

from attrs import frozen

from intentd.plan.privacy import REDACTED

_MARK = "```"
_FENCE = re.compile(
    rf"^(?P<indent>[ \t]*){_MARK}[^\n`]*\n(?P<code>.*?)^(?P=indent){_MARK}[ \t]*$", re.MULTILINE | re.DOTALL
)


@frozen
class Mending:
    """Lines `first` up to `last` of the document become `lines`."""

    first: int
    last: int
    lines: tuple[str, ...]


def code_of(answer: str) -> str | None:
    """The first code block of an answer that is closed, as far left as it was opened."""
    found = _FENCE.search(answer.replace("\r\n", "\n"))
    return found["code"].rstrip("\n") if found else None


def mend(answer: str, first: int, now: Sequence[str]) -> Mending | None:
    """The smallest change that makes the lines `now`, which begin at `first`, the answer's code; None for none.

    Lines that hold such blocks themselves are left alone: where the answer's block ends could not be told.
    """
    code = None if any(_MARK in line for line in now) else code_of(answer)
    if code is None or not code.strip() or REDACTED in code:
        return None
    kept = len(now) - next((back for back, line in enumerate(reversed(now)) if line.strip()), len(now))
    lines = [*_indented(code.split("\n"), now), *now[kept:]]
    same = next((at for at, (old, new) in enumerate(zip(now, lines, strict=False)) if old != new), None)
    if same is None and len(now) == len(lines):
        return None
    begin = min(len(now), len(lines)) if same is None else same
    room = min(len(now), len(lines)) - begin
    behind = next((at for at in range(room) if now[-1 - at] != lines[-1 - at]), room)
    return Mending(first + begin, first + len(now) - behind, tuple(lines[begin : len(lines) - behind]))


def _indented(code: Sequence[str], now: Sequence[str]) -> list[str]:
    """Models like to move a block to the left edge."""
    missing = _depth(now) - _depth(code)
    if missing <= 0:
        return list(code)
    pad = next((line[:missing] for line in now if line.strip()), " " * missing)
    return [pad + line if line.strip() else line for line in code]


def _depth(lines: Sequence[str]) -> int:
    return min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
