"""What a program wrote for a terminal becomes what a person saw."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentd.plan.plain import MAX_LINE, MAX_WORD, plain, shortened


@pytest.mark.parametrize(
    ("drawn", "seen"),
    [
        ("plain", "plain"),
        ("a\r\nb\r\r\nc", "a\nb\nc"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[38;2;1;2;3mx\x1b[m\x9b1my", "xy"),
        ("10%\r50%\r100%", "100%"),
        ("longer text\rshort", "shortr text"),
        ("longer text\r\x1b[Kshort", "short"),
        ("\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "textlink"),
        ("\x1b(Bx\x1b=y\x1bPdcs\x1b\\z", "xyz"),
        ("ab\bc", "ac"),
        ("b\bbo\bol\bld\bd", "bold"),
        ("nul\x00bell\x07", "nulbell"),
        ("zero\u200bwidth\u00adhyphen\ufeff", "zerowidthhyphen"),
        ("tab\tstays", "tab\tstays"),
        ("\x1b", ""),
        ("end\x1b[", "end["),
    ],
)
def test_a_drawn_line_becomes_the_seen_line(drawn: str, seen: str) -> None:
    assert plain(drawn) == seen


@given(st.text(alphabet="ab\x1b[]0m;\r\n\b\x9b\x07\\K"))
def test_lines_are_kept_and_no_escape_is_left(text: str) -> None:
    seen = plain(text)
    assert seen.count("\n") == text.count("\n")
    assert "\x1b" not in seen
    assert plain(seen) == seen


def test_a_line_is_bounded() -> None:
    assert len(plain("x" * 1_000_000)) == MAX_LINE - MAX_WORD
    assert len(plain("\x1b[m" + "x" * 1_000_000)) == MAX_LINE - MAX_WORD
    assert plain("x" * MAX_LINE) == "x" * MAX_LINE


def test_what_is_cut_off_takes_its_word_with_it() -> None:
    """I3: half of a key does not look like one."""
    for space in " \t\n":
        assert shortened(f"one{space}secret", 8) == "one"
    assert plain("x " * (MAX_LINE // 2 - 5) + "y" * 40) == "x " * (MAX_LINE // 2 - 6) + "x"


def test_what_is_drawn_over_a_long_line_costs_no_more_than_itself() -> None:
    """A spinner behind a bundle's only line: that many copies of the line took minutes."""
    line = "x" * 10_000_000
    assert plain(line + "\r|\r/" * 250_000) == plain("/" + line[1:])
    assert plain("y\r" + line + "\rz") == plain("z" + line[1:])
