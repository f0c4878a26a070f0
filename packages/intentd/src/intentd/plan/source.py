"""Owns choosing the part of a source file that a prompt shows. Parts begin and end at blocks of the code.

So a line that is added elsewhere in the file leaves the prompt as it is. Blocks are told by indentation.
"""

import re
from collections.abc import Sequence

_HEAD = re.compile(r"^(?P<indent>\s*)(?:async\s+def|def|class)\s+(?P<name>\w+)")
_DECORATOR = re.compile(r"^\s*@")
_BEFORE_HEAD = re.compile(r"^\s*[@#]")
_WINDOW = 32
"""Outside of blocks, and in blocks that are too long, a part is so many lines, from a multiple of that."""
GAP = "    ..."


def line_of(lines: Sequence[str], name: str) -> int | None:
    """The line (from 1) on which the function or class `name` begins."""
    for number, line in enumerate(lines, 1):
        found = _HEAD.match(line)
        if found and found["name"] == name:
            return number
    return None


def part_around(lines: Sequence[str], line: int, limit: int) -> str:
    """The innermost block around `line` (from 1), at most `limit` characters of it."""
    if not 1 <= line <= len(lines):
        return ""
    start, end = _block(lines, line - 1)
    whole = "\n".join(lines[start:end]).rstrip()
    if len(whole) <= limit:
        return whole
    first = start + max(line - 1 - start, 0) // _WINDOW * _WINDOW
    head = [] if first == start else [lines[start], GAP]
    return cut("\n".join([*head, *lines[first : min(first + _WINDOW, end)]]).rstrip(), limit)


def block_at(lines: Sequence[str], index: int, limit: int) -> tuple[int, int]:
    """(first, behind the last) line of the innermost block around the line `index` (from 0).

    Of a block that has more than `limit` characters, the lines around that begin at a multiple of so many lines.
    """
    if not 0 <= index < len(lines):
        return 0, 0
    start, end = _block(lines, index)
    while end > start + 1 and not lines[end - 1].strip():
        end -= 1
    if len("\n".join(lines[start:end])) <= limit:
        return start, end
    start += (index - start) // _WINDOW * _WINDOW
    end = min(start + _WINDOW, end)
    while end > index + 1 and len("\n".join(lines[start:end])) > limit:
        end -= 1
    return start, end


def begins_with(lines: Sequence[str]) -> str:
    """The name of the function or class that begins with these lines, behind decorators and comments; empty if none."""
    first = next((line for line in lines if line.strip() and not _BEFORE_HEAD.match(line)), "")
    found = _HEAD.match(first)
    return found["name"] if found else ""


def outermost(lines: Sequence[str]) -> dict[str, int]:
    """The functions and classes that begin furthest left, and at which of the lines (from 0)."""
    found = [(at, hit) for at, line in enumerate(lines) if (hit := _HEAD.match(line))]
    left = min((len(hit["indent"]) for _, hit in found), default=0)
    return {hit["name"]: at for at, hit in found if len(hit["indent"]) == left}


def cut(text: str, limit: int) -> str:
    """The first lines of `text` that fit."""
    if len(text) <= limit:
        return text
    return text[: max(text.rfind("\n", 0, limit + 1), 0)]


def cut_middle(text: str, limit: int) -> str:
    """The first and the last lines that fit: a third before, two thirds behind."""
    if len(text) <= limit:
        return text
    before = cut(text, limit // 3)
    room = limit - len(before) - len(GAP) - 2
    behind = text[len(text) - max(room, 0) :]
    behind = behind[behind.find("\n") + 1 :] if "\n" in behind else ""
    return f"{before}\n{GAP}\n{behind}" if room > 0 else before


def _block(lines: Sequence[str], index: int) -> tuple[int, int]:
    """(first, behind the last) line of the innermost function or class around `index`."""
    while index + 1 < len(lines) and _DECORATOR.match(lines[index]):
        index += 1
    depth = _indent(lines, index)
    for start in range(index, -1, -1):
        found = _HEAD.match(lines[start])
        if found and (start == index or len(found["indent"]) < depth):
            return _with_decorators(lines, start), _end(lines, start, len(found["indent"]))
        if lines[start].strip() and not _is_closing(lines[start]):
            depth = min(depth, len(lines[start]) - len(lines[start].lstrip()))
        if depth == 0 and start < index:
            break
    first = index // _WINDOW * _WINDOW
    return first, min(first + _WINDOW, len(lines))


def _indent(lines: Sequence[str], index: int) -> int:
    """Of the line, or of the next one that is not blank."""
    for line in lines[index:]:
        if line.strip():
            return len(line) - len(line.lstrip())
    return 0


def _is_closing(line: str) -> bool:
    """The end of a signature over several lines stands as far left as its beginning."""
    return line.lstrip().startswith(")")


def _with_decorators(lines: Sequence[str], start: int) -> int:
    while start > 0 and _DECORATOR.match(lines[start - 1]):
        start -= 1
    return start


def _end(lines: Sequence[str], start: int, depth: int) -> int:
    for index in range(start + 1, len(lines)):
        line = lines[index]
        if line.strip() and len(line) - len(line.lstrip()) <= depth and not _is_closing(line):
            return index
    return len(lines)
