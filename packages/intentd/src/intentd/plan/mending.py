"""Owns making an edit of an answer: the code block that it shows, in place of the lines that it was asked about."""

import re
from collections import Counter
from collections.abc import Sequence

from attrs import frozen

from intentd.plan.privacy import REDACTED
from intentd.plan.source import begins_block

_MARK = "```"
_FENCE = re.compile(
    rf"^(?P<indent>[ \t]*){_MARK}[ \t]*(?P<kind>\w*)[^\n`]*\n(?P<code>.*?)^(?P=indent){_MARK}[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_DIFFS = ("diff", "patch")
_LEFT_OUT = re.compile(r"(?:#|//|--|/\*|<!--)\s*(?:\.\.\.|…)|(?:\.\.\.|…)$")


@frozen
class Mending:
    """Lines `first` up to `last` of the document become `lines`."""

    first: int
    last: int
    lines: tuple[str, ...]


def code_of(answer: str) -> str | None:
    """The first code block of an answer that is closed, as far left as it was opened, and not called a diff."""
    blocks = _FENCE.finditer(answer.replace("\r\n", "\n"))
    return next((one["code"].rstrip("\n") for one in blocks if one["kind"].lower() not in _DIFFS), None)


def mend(answer: str, first: int, now: Sequence[str]) -> Mending | None:
    """The smallest change that makes the lines `now`, which begin at `first`, the answer's code; None for none.

    Lines that hold such blocks themselves are left alone: where the answer's block ends could not be told.
    """
    code = None if any(_MARK in line for line in now) else code_of(answer)
    if code is None or not code.strip() or REDACTED in code or not _is_whole(code.split("\n"), now):
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


def _is_whole(code: Sequence[str], now: Sequence[str]) -> bool:
    """Whether the code can be all of the lines again: no diff of them, no part, nothing left out. What it does not show
    would be gone, so what cannot be told is no edit."""
    if begins_block(now) and not begins_block(code):
        return False
    old, new = _bare(now), _bare(code)
    other = [line for line in new if line not in old]
    if any(_LEFT_OUT.match(line) or (line[0] == "-" and line[1:].strip() in old) for line in other):
        return False
    if _adds(code) and not _adds(now):
        return False
    lost, kept = len(old) - len(new), (Counter(old) & Counter(new)).total()
    return lost <= 0 or (2 * kept >= len(old) and (lost == 1 or (old[0], old[-1]) == (new[0], new[-1])))


def _bare(lines: Sequence[str]) -> list[str]:
    return [line.strip() for line in lines if line.strip()]


def _adds(lines: Sequence[str]) -> bool:
    """As a diff does, and hardly any code."""
    return any(line.startswith("+") for line in lines)


def _indented(code: Sequence[str], now: Sequence[str]) -> list[str]:
    """Models like to move a block to the left edge."""
    missing = _depth(now) - _depth(code)
    if missing <= 0:
        return list(code)
    pad = next((line[:missing] for line in now if line.strip()), " " * missing)
    return [pad + line if line.strip() else line for line in code]


def _depth(lines: Sequence[str]) -> int:
    return min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
