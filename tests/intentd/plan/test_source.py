"""Parts of files begin and end at blocks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentd.plan.source import GAP, cut, cut_middle, line_of, part_around

CODE = '''import os

LIMIT = 3


@decorated
def outer(
    first,
):
    def inner():
        return first

    return inner


class Thing:
    """A thing."""

    size = 1

    async def method(self):
        if self:

            return 1


print(outer)
'''.splitlines()


@pytest.mark.parametrize(
    ("line", "first", "last"),
    [
        (6, "@decorated", "    return inner"),
        (7, "@decorated", "    return inner"),
        (8, "@decorated", "    return inner"),
        (11, "    def inner():", "        return first"),
        (13, "@decorated", "    return inner"),
        (19, "class Thing:", "            return 1"),
        (24, "    async def method(self):", "            return 1"),
    ],
)
def test_the_innermost_block_is_shown_whole(line: int, first: str, last: str) -> None:
    lines = part_around(CODE, line, 1000).split("\n")
    assert (lines[0], lines[-1]) == (first, last)


def test_a_line_added_above_changes_no_part() -> None:
    assert part_around(["# new", *CODE], 12, 1000) == part_around(CODE, 11, 1000)


def test_a_line_outside_of_blocks_comes_with_those_around_it() -> None:
    assert "LIMIT = 3" in part_around(CODE, 1, 1000)
    assert "print(outer)" in part_around(CODE, 27, 1000)


def test_a_long_block_shows_its_head_and_the_lines_around() -> None:
    long = ["def long():", *(f"    step({number})" for number in range(500))]
    part = part_around(long, 400, 900)
    assert part.startswith(f"def long():\n{GAP}\n")
    assert "step(398)" in part
    assert len(part) <= 900


def test_a_function_is_found_by_its_name() -> None:
    assert line_of(CODE, "inner") == 10
    assert line_of(CODE, "nothing") is None


@given(st.lists(st.text(alphabet="ab \t@():", max_size=20), max_size=60), st.integers(-3, 70), st.integers(0, 200))
def test_a_part_is_never_longer_than_allowed(lines: list[str], line: int, limit: int) -> None:
    assert len(part_around(lines, line, limit)) <= limit


@given(st.text(alphabet="ab\n", max_size=300), st.integers(0, 300))
def test_cut_texts_are_never_longer_than_allowed(text: str, limit: int) -> None:
    assert len(cut(text, limit)) <= limit
    assert len(cut_middle(text, limit)) <= limit
