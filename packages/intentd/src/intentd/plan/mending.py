"""Owns making an edit of an answer: the code block that it shows, in place of the lines that it was asked about."""

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

from attrs import frozen

from intentd.plan.privacy import REDACTED
from intentd.plan.source import begins_with, line_of, outermost

_MARK = "```"
_FENCE = re.compile(
    rf"^(?P<indent>[ \t]*){_MARK}[ \t]*(?P<kind>\w*)[^\n`]*\n(?P<code>.*?)^(?P=indent){_MARK}[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_DIFFS = ("diff", "patch")
_COMMENT = r"(?:#|//|--|/\*|<!--)"
_LEFT_OUT = re.compile(rf"{_COMMENT}\s*(?:\.\.\.|…)")
_MAY_STAND_FOR = re.compile(
    rf"(?:\.\.\.|…)$|{_COMMENT}.*\b(?:rest|remainder|remaining|existing|unchanged|as before)\b", re.IGNORECASE
)
"""Code as well, or a comment as any other: it depends on whether more is gone there than has come."""
_CLOSES = re.compile(r"\}|end\b")
_ABOVE = re.compile(r"\s*[@#)\]}]")
"""What stands above the head of a method as far left as it: decorators, of any number of lines, and comments."""


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
    old, new = _bare(now), _bare(code)
    if not old:
        return True
    added, kept = Counter(new) - Counter(old), (Counter(old) & Counter(new)).total()
    if not _has_head(code, now, 2 * kept >= len(old) - 1) or _is_diff(code, now):
        return False
    if any(map(_LEFT_OUT.match, added)) or _stands_for_more(old, new):
        return False
    lost = len(old) - len(new)
    ends = old[-1] == new[-1] and (old[0] == new[0] or not added)
    return lost <= 0 or (2 * kept >= len(old) and (lost == 1 or ends))


def _has_head(code: Sequence[str], now: Sequence[str], alike: bool) -> bool:
    """Whether the function or class is there that `now` begins with, perhaps, if it is `alike`, by a new name.

    An import or the like above it would belong to a class, were it not at the left edge. Of other languages only the
    end can be told.
    """
    name, heads = begins_with(now), outermost(code)
    if not name:
        return not _CLOSES.match(_bare(now)[-1]) or _CLOSES.match(_bare(code)[-1]) is not None
    if name not in heads:
        other = begins_with(code)
        return alike and list(heads) == [other] and line_of(code, name) is None and line_of(now, other) is None
    above = [line for line in code[: heads[name]] if line.strip()]
    depth = _depth(code[heads[name] :][:1])
    return _depth(now) == 0 or all(_depth([line]) > depth or _ABOVE.match(line) for line in above)


def _is_diff(code: Sequence[str], now: Sequence[str]) -> bool:
    """Whether it takes a line away or adds one as a diff does, at the left edge; hardly any code begins with `+`."""
    depth = _depth(now)
    shown = {*now, *(line[depth:] for line in now)}
    return any(line[:1] == "-" and line[1:] in shown for line in code) or (_adds(code) and not _adds(now))


def _stands_for_more(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether three dots or a comment stand where lines are gone, but for a `pass`."""
    for tag, begin, end, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        marks = sum(_MAY_STAND_FOR.match(line) is not None for line in new[first:last])
        gone = sum(line != "pass" for line in old[begin:end])
        if tag != "equal" and marks and gone > last - first - marks:
            return True
    return False


def _bare(lines: Sequence[str]) -> list[str]:
    return [line.strip() for line in lines if line.strip()]


def _adds(lines: Sequence[str]) -> bool:
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
