"""I3: what a tool's output quotes of a file that may not be read is left out; what it says of it stays."""

import json
from pathlib import Path

import pytest

from intentd.plan.plain import plain_lines
from intentd.plan.quotes import without_quotes
from intentd.plan.source import GAP
from intentd.plan.tools import read_reportlog

RECORDED = Path(__file__).parent / "tools" / "recorded"


@pytest.mark.parametrize(
    ("recording", "hidden", "quoted", "kept"),
    [
        ("pytest-long", "shop.py", "raise ValueError(f", ['basket.add("apple", -1)', "E           ValueError: apple"]),
        ("pytest-long", "tests/test_shop.py", "basket", ["raise ValueError(f", "assert 6 == 5"]),
        ("pytest-auto-colour", "shop.py", "raise ValueError(f", ['basket.add("apple", -1)', "ValueError: apple"]),
        ("pytest-short", "shop.py", "raise ValueError(f", ['basket.add("apple", -1)', "E   ValueError: apple"]),
        ("pytest-native", "/project/shop.py", "raise ValueError(f", ['basket.add("apple", -1)', "ValueError: apple"]),
        (
            "pytest-collection",
            "/project/tests/test_syntax.py",
            "test_never",
            ["import no_such", "E   SyntaxError"],
        ),
        ("unittest", "/project/test_clock.py", "self.assert", ["AssertionError: 2 != 1", "unittest/loader.py"]),
        ("traceback-group", "/project/group.py", "fail(n)", ["Exception Group Traceback"]),
        ("mypy-pretty-colour", "billing.py", "amount > 3", ["billing.py:12: error: Unsupported operand types"]),
        ("ruff-full", "messy.py", "import os\n", ["--> messy.py:1:8", "def oops(:", "help: Remove unused"]),
        ("gcc", "ledger.h", "int total(", ["ledger.h:3:18: error: unknown type", "return a + wrong"]),
        ("gcc", "main.c", "return a + wrong", ["int total(int a", "main.c:5:16: error: ‘wrong’ undeclared"]),
        ("clang", "main.c", "return a + wrong", ["main.c:5:16: error: use of undeclared"]),
        ("tsc-pretty-colour", "cart.ts", "price: number", ["cart.ts:7:3 - error TS2322"]),
        (
            "jest",
            "cart.js",
            "throw new",
            ["Expected: 3", "expect(total([1, 2]))", "at Object.<anonymous>.exports"],
        ),
        ("jest", "cart.test.js", "expect(total", ["Expected: 3", "throw new RangeError", "(cart.test.js:5:27)"]),
        ("vitest", "cart.ts", "throw new", ["+ Received", "expect(total([1, 2]))", "❯ total cart.ts:3:11"]),
    ],
)
def test_the_lines_of_a_hidden_file_are_left_out(recording: str, hidden: str, quoted: str, kept: list[str]) -> None:
    lines = list(plain_lines((RECORDED / f"{recording}.txt").read_text()))
    assert quoted in "\n".join(lines)
    left = "\n".join(without_quotes(lines, hidden.__eq__))
    assert quoted not in left
    assert GAP in left
    assert [part for part in kept if part not in left] == []


@pytest.mark.parametrize(("style", "message"), [("long", ""), ("short", "in f")])
def test_a_report_log_has_each_frames_lines_where_pytest_prints_them(style: str, message: str) -> None:
    frames = [("b.py", "    rate(kind)"), ("a.py", "    raise LookupError"), ("c.py", "    raise KeyError")]
    entries = [
        {"data": {"lines": [line], "reprfileloc": {"path": path, "lineno": 2, "message": message}, "style": style}}
        for path, line in frames
    ]
    row = {"nodeid": "b.py::t", "outcome": "failed", "longrepr": {"reprtraceback": {"reprentries": entries}}}
    (finding,) = read_reportlog(json.dumps(row).encode())
    left = "\n".join(without_quotes(finding.excerpt.split("\n"), "a.py".__eq__))
    assert "LookupError" not in left
    assert "rate(kind)" in left


def test_an_output_that_names_no_hidden_file_stays_as_it_is() -> None:
    for recording in RECORDED.glob("*.txt"):
        lines = tuple(recording.read_text().splitlines())
        assert without_quotes(lines, lambda _: False) == lines


def test_the_first_line_of_a_report_is_a_quote_without_its_indentation() -> None:
    """pytest takes it away."""
    lines = [
        "def rate(kind):",
        ">       raise LookupError(kind)",
        "E       LookupError: odd",
        "",
        "a.py:2: Error",
    ]
    assert without_quotes(lines, "a.py".__eq__) == (GAP, "E       LookupError: odd", "a.py:2: Error")


def test_what_stands_beside_lines_that_were_left_out_may_be_a_hidden_files() -> None:
    lines = ["b.py:1: ", "_ _ _ ", "    def rate(kind):", "[90 lines left out]", "    private = 1", "a.py:9: in rate"]
    left = without_quotes(lines, "a.py".__eq__)
    assert left == ("b.py:1: ", "_ _ _ ", GAP, "[90 lines left out]", GAP, "a.py:9: in rate")


def test_a_hidden_inner_error_takes_nothing_of_the_one_that_it_caused() -> None:
    lines = [
        "    def load(d):",
        ">       return d['a']",
        "E       KeyError: 'a'",
        "",
        ".venv/lib/python3.12/site-packages/lib.py:3: KeyError",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "    def test_x():",
        ">       load(d)",
        "E       ValueError: bad",
        "",
        "tests/test_x.py:5: ValueError",
    ]
    left = without_quotes(lines, lambda name: name.startswith(".venv"))
    assert left == (GAP, lines[2], lines[4], *lines[6:])


def test_an_errors_own_words_stay_behind_a_hidden_frame() -> None:
    error = [
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for User",
        "age",
        "  Input should be a valid integer [type=int_parsing]",
        "    For further information visit https://errors.pydantic.dev",
    ]
    lines = [
        "Traceback (most recent call last):",
        '  File "/project/app.py", line 4, in <module>',
        "    User(age='x')",
        '  File "/project/.venv/lib/main.py", line 9, in __init__',
        "    validate(data)",
        "    ~~~~~~~~^^^^^^",
        *error,
    ]
    assert without_quotes(lines, lambda name: ".venv" in name) == (*lines[:4], GAP, *error)


@pytest.mark.parametrize(
    ("quote", "kept"),
    [
        (["--> a.py:1:8", "  |", "1 | one = 1", "...", "9 | two = 2"], ["--> a.py:1:8"]),
        (['File "a.py", line 3, in a', "Failed example:", "    f()", "Expected:", "    3", "Got:", "    4"], ["    4"]),
    ],
)
def test_a_quote_in_parts_is_left_out_as_a_whole(quote: list[str], kept: list[str]) -> None:
    left = without_quotes(["before", *quote], "a.py".__eq__)
    assert not {"9 | two = 2", "    f()", "    3"} & set(left)
    assert set(kept) <= set(left)


@pytest.mark.parametrize("table", [["| 1 | bob |"], ["2026-01-02 started"], ["  indented"]])
def test_what_was_printed_around_a_hidden_files_warning_stays(table: list[str]) -> None:
    warning = ["build/gen.py:12: UserWarning: old", "  warn('old')"]
    lines = ["Captured", *table, *warning, "done", *table]
    left = without_quotes(lines, "build/gen.py".__eq__)
    assert left == ("Captured", *table, warning[0], GAP, "done", *table)


def test_a_complaint_without_a_column_takes_no_quote_above_it() -> None:
    lines = ["b.py:1: error: odd", "    return 1", "    ^", "a.py:2: error: odd", "    return 2", "    ^"]
    assert without_quotes(lines, "a.py".__eq__) == (*lines[:4], GAP)
