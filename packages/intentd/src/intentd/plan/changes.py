"""Owns showing what was changed in files since the last commit, as a unified diff. It asks nobody.

Both texts are fit for a prompt before they are compared, so what differs between them is, too (I3).
"""

import difflib
from collections.abc import Iterator, Sequence

CONTEXT = 3
"""Lines around a change."""
MAX_CHANGED_LINES = 800
"""Of a file, on either side. A file that was written anew is no change that could be shown."""


def diff(name: str, before: str, now: str) -> str:
    """The hunks under the file's name; empty where nothing, or too much, was changed."""
    old, new = _lines(before), _lines(now)
    first = _alike(old, new)
    last = _alike(old[first:][::-1], new[first:][::-1])
    if max(len(old), len(new)) - first - last > MAX_CHANGED_LINES:
        return ""
    skipped = max(first - CONTEXT, 0)
    kept = max(last - CONTEXT, 0)
    hunks = difflib.unified_diff(old[skipped : len(old) - kept], new[skipped : len(new) - kept], n=CONTEXT, lineterm="")
    shown = [_without_numbers(line) for line in list(hunks)[2:]]
    return "\n".join([f"--- {name}", *shown]) if shown else ""


def fitting(diffs: Iterator[str], limit: int) -> str:
    """As many of the diffs as fit, the first that does not cut at a line."""
    shown: list[str] = []
    for one in diffs:
        room = limit - sum(map(len, shown)) - len(shown)
        if len(one) <= room:
            shown.append(one)
            continue
        begun = one[: max(one.rfind("\n", 0, max(room, 0) + 1), 0)]
        return "\n".join([*shown, begun] if "\n" in begun else shown)
    return "\n".join(shown)


def _lines(text: str) -> list[str]:
    return text.rstrip("\n").split("\n") if text else []


def _alike(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines at the beginning are the same."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((number for number, (one, other) in pairs if one != other), min(len(old), len(new)))


def _without_numbers(line: str) -> str:
    """Line numbers change with every line above."""
    return "@@" if line.startswith("@@ ") else line
