"""Owns what a tool's output says once it is read: one failed test, one error, one crash. It reads nothing itself."""

import re
from typing import Literal, get_args

from attrs import frozen

Kind = Literal["test_failed", "error", "crash"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_ID = re.compile(r"((?:[^\[\]:]|\[[^\[\]:]*\])+)::(.+)", re.DOTALL)
_SUBTESTS = re.compile(r"contains \d+ failed subtests?")
HEAD_LINES = 60
TAIL_LINES = 60
"""An excerpt keeps this many lines of a block's beginning and of its end."""


@frozen(kw_only=True)
class Finding:
    """One thing that went wrong, as the tool told it.

    `name` is the test's id in its tool's own form, `code` the rule that a checker names. `file` is as printed, so it
    may be relative to where the tool ran. `line` and `column` count from one. `message` is one line; `excerpt` is the
    tool's own block, bounded.
    """

    tool: str
    kind: Kind
    name: str | None = None
    code: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    message: str = ""
    excerpt: str = ""


def file_and_test(name: str) -> tuple[str, str]:
    """The file of a pytest id and what it names there, `Class::test[value]`; of any other name an empty file.

    A value may hold `::`, and so may a folder's name hold brackets.
    """
    found = _ID.fullmatch(name)
    return (found[1], found[2]) if found else ("", name)


def repeats_subtests(message: object) -> bool:
    """Whether pytest says of a test only that some of its subtests have failed, which are told by themselves."""
    return isinstance(message, str) and _SUBTESTS.fullmatch(message) is not None


def excerpt(lines: list[str]) -> str:
    """The block's lines without the ruling at its end, its middle left out when it is long."""
    while lines and not any(char.isalnum() for char in lines[-1]):
        lines = lines[:-1]
    left_out = len(lines) - HEAD_LINES - TAIL_LINES
    if left_out <= 0:
        return "\n".join(lines)
    return "\n".join([*lines[:HEAD_LINES], f"[{left_out} lines left out]", *lines[-TAIL_LINES:]])
