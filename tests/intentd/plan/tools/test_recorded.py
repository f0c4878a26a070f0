"""Every parser is right on what the real tool printed (see record.py, which makes the recordings again)."""

import re
from pathlib import Path

import pytest
from attrs import evolve

from intentd.plan.plain import plain_lines
from intentd.plan.tools import Finding, Reader, catalogue, read_junit, read_reportlog

RECORDED = Path(__file__).parent / "recorded"
READER = Reader(catalogue().tools)


def read(name: str) -> list[Finding]:
    return READER.read(plain_lines((RECORDED / f"{name}.txt").read_bytes().decode(errors="replace")))


SHOP = "tests/test_shop.py"
# id, file and line of the last frame in the project, message
FAILED = {
    "test_total_of_two": (SHOP, 25, "assert 6 == 5"),
    "test_names[two words]": (SHOP, 30, "AssertionError: assert ['two words'] == ['one']"),
    "test_names[a - dash]": (SHOP, 30, "AssertionError: assert ['a - dash'] == ['one']"),
    "test_names[a[0]]": (SHOP, 30, "AssertionError: assert ['a[0]'] == ['one']"),
    "TestBasket::test_negative": ("shop.py", 7, "ValueError: plum: a price is never negative"),
    "test_prints_a_decoy": (SHOP, 52, "KeyError: 'decoy'"),
    "test_chained": (SHOP, 59, "LookupError: no such item"),
    "test_wrongly_expected": (SHOP, None, "[XPASS(strict)] thought to be broken"),
}
ERRORS = {
    "test_uses_stock": ("shop.py", 7, "ValueError: apple: a price is never negative"),
    "test_closes": (SHOP, 18, "RuntimeError: the shop is already closed"),
}
WHOLE = [
    "pytest-long",
    "pytest-short",
    "pytest-quiet",
    "pytest-native",
    "pytest-live-log",
    "pytest-auto-colour",
    "pytest-verbose-colour",
    "pytest-xdist",
    "pytest-xdist-verbose-colour",
]


@pytest.mark.parametrize("recording", WHOLE)
def test_pytest_tells_every_failure_once_with_place_and_message(recording: str) -> None:
    found = read(recording)
    assert {finding.tool for finding in found} == {"pytest"}
    expected = {f"{SHOP}::{name}": ("test_failed", *rest) for name, rest in FAILED.items()}
    expected |= {f"{SHOP}::{name}": ("error", *rest) for name, rest in ERRORS.items()}
    told = {f.name: (f.kind, (f.file or "").removeprefix("/project/"), f.line, f.message) for f in found}
    # The native style spells out the exception of a plain assert.
    told = {name: (*rest[:3], rest[3].replace("AssertionError: assert 6", "assert 6")) for name, rest in told.items()}
    assert told == expected
    assert len(found) == len(expected)


@pytest.mark.parametrize("recording", ["pytest-no", "pytest-line"])
def test_pytest_without_tracebacks_still_tells_every_failure(recording: str) -> None:
    found = read(recording)
    assert {f.name for f in found} == {f"{SHOP}::{name}" for name in FAILED | ERRORS}
    assert len(found) == len(FAILED | ERRORS)


def test_pytest_line_style_lends_its_places_to_the_summary() -> None:
    places = {f.name: (f.file, f.line) for f in read("pytest-line") if f.kind == "test_failed"}
    assert places[f"{SHOP}::test_total_of_two"] == (f"/project/{SHOP}", 25)
    assert places[f"{SHOP}::TestBasket::test_negative"] == ("/project/shop.py", 7)


def test_pytest_without_a_summary_gets_its_ids_from_the_blocks() -> None:
    names = {f.name for f in read("pytest-no-summary")}
    assert names >= {f"{SHOP}::{name}" for name in (FAILED | ERRORS) if name != "test_wrongly_expected"}
    assert len(names) == len(FAILED | ERRORS)


def test_what_a_test_prints_is_never_taken_for_a_failure() -> None:
    for recording in (*WHOLE, "pytest-no", "pytest-line", "pytest-no-summary"):
        assert not [f for f in read(recording) if "test_decoy" in (f.name or "")], recording


@pytest.mark.parametrize("recording", [*WHOLE, "pytest-no-summary"])
@pytest.mark.parametrize(
    "printed", ["12 rows were read in 0.03s", "1 file passed in 0.03s of 2s", "== read in 0.03s =="]
)
def test_what_a_test_prints_ends_no_section(recording: str, printed: str) -> None:
    rows = (RECORDED / f"{recording}.txt").read_text().split("\n")
    more = [part for row in rows for part in ((row, printed) if "- Captured" in row else (row,))]
    assert len(more) > len(rows)
    found, told = (READER.read(plain_lines("\n".join(lines))) for lines in (rows, more))
    assert [evolve(finding, excerpt="") for finding in told] == [evolve(finding, excerpt="") for finding in found]
    assert any(printed in finding.excerpt for finding in told)


@pytest.mark.parametrize(
    "last",
    [
        "2 failed in 0.05s",
        "1 failed, 1 passed in 75.00s (0:01:15)",
        "1 failed, 1 flaky in 0.05s",
        "===== 1 failed, 2 subtests passed in 90000.00s (1 day, 1:00:00) =====",
    ],
)
def test_the_last_line_ends_the_failures(last: str) -> None:
    block = ["=== FAILURES ===", "___ test_a ___", "E   assert 1", "", "test_a.py:1: AssertionError", last]
    assert [finding.name for finding in READER.read([*block, "___ test_b ___", "E   no", "b.py:1: E"])] == [
        "test_a.py::test_a"
    ]


def test_the_excerpt_is_the_failures_own_block() -> None:
    by_name = {f.name: f.excerpt for f in read("pytest-xdist-verbose-colour")}
    block = by_name[f"{SHOP}::test_total_of_two"]
    assert ">       assert basket.total() == 5" in block
    assert "test_names" not in block
    assert "\x1b" not in block


def test_pytest_stopped_at_the_first_failure() -> None:
    (finding,) = read("pytest-first")
    assert (finding.name, finding.line) == (f"{SHOP}::test_total_of_two", 25)


def test_pytest_collection_errors_name_the_file_and_the_cause() -> None:
    told = [(f.kind, f.name, f.file, f.line, f.message) for f in read("pytest-collection")]
    assert told == [
        (
            "error",
            "tests/test_import.py",
            "tests/test_import.py",
            1,
            "ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("error", "tests/test_syntax.py", "/project/tests/test_syntax.py", 1, "SyntaxError: invalid syntax"),
    ]


def test_a_crashed_xdist_worker_names_the_test_that_it_ran() -> None:
    (finding,) = read("pytest-xdist-crash")
    assert finding.name == "tests/test_crash.py::test_kills_its_worker"
    assert "crashed while running" in finding.message


def test_a_passing_run_tells_nothing() -> None:
    assert read("pytest-fine") == []


SUBTESTS = {
    ("test_each", 9, "[of three] (index=0): assert 0 == 1"),
    ("test_bare", 14, "(<subtest>): assert 1 == 2"),
    ("test_address[::1]", 21, "AssertionError: assert '::1' == ''"),
    ("test_address[fe80::2]", 20, "[is local]: AssertionError: assert 'fe80::2' == '::1'"),
    ("test_address[fe80::2]", 21, "AssertionError: assert 'fe80::2' == ''"),
    ("TestGroup::test_in_class", 27, "[a [b] (c)] (key='x::y'): ValueError: inner"),
    ("ClockTest::test_minutes", 34, "(minute=2): AssertionError: 2 != 1"),
}


@pytest.mark.parametrize("style", ["", "-no-summary", "-verbose-colour", "-xdist-verbose-colour"])
def test_a_subtest_is_a_failure_of_its_test_whose_message_says_which(style: str) -> None:
    found = read(f"pytest-subtests{style}")
    assert {f.file for f in found} == {"tests/test_subtests.py"}
    told = {(f.name, f.line, f.message) for f in found}
    if "xdist" in style:  # it sends the values of a subtest as texts
        told = {(name, line, re.sub(r"='(\d)'", r"=\1", said.replace('"', ""))) for name, line, said in told}
    assert told == {(f"tests/test_subtests.py::{name}", line, said) for name, line, said in SUBTESTS}
    assert len(found) == len(SUBTESTS)


def test_subtests_without_tracebacks_and_in_reports_have_the_ids_of_their_tests() -> None:
    ids = {f"tests/test_subtests.py::{name}" for name, *_ in SUBTESTS}
    assert {f.name for f in read("pytest-subtests-no")} == ids
    for found in (
        read_junit((RECORDED / "pytest-subtests-junit.txt").read_bytes()),
        read_reportlog((RECORDED / "pytest-subtests-reportlog.txt").read_bytes()),
    ):
        assert {(f.kind, f.name) for f in found} == {("test_failed", id) for id in ids}
        assert not [f for f in found if "subtest" in f.message]


def test_unittest_tells_failures_errors_subtests_and_broken_modules() -> None:
    told = [(f.kind, f.name, f.file, f.line, f.message) for f in read("unittest")]
    clock = "/project/test_clock.py"
    assert told == [
        (
            "error",
            "unittest.loader._FailedTest.test_broken",
            "/project/test_broken.py",
            1,
            "ModuleNotFoundError: No module named 'no_such_module'",
        ),
        (
            "error",
            "test_clock.ClockTest.test_parse",
            clock,
            10,
            "ValueError: invalid literal for int() with base 10: 'noon'",
        ),
        ("error", "test_clock.SetUpTest.setUpClass", clock, 28, "OSError: no clock in this house"),
        ("test_failed", "test_clock.ClockTest.test_each", clock, 15, "AssertionError: 2 != 1"),
        ("test_failed", "test_clock.ClockTest.test_hours", clock, 7, "AssertionError: 25 != 24"),
    ]
    assert {f.name for f in read("unittest-verbose")} == {row[1] for row in told[1:]}


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("plain", 2, "ZeroDivisionError: division by zero"),
        ("chained", 16, "ValueError: invalid literal for int() with base 10: 'context'"),
        ("thread", 5, "RuntimeError: the worker gave up"),
        ("syntax", 2, "SyntaxError: '(' was never closed"),
        ("imports_syntax", 2, "SyntaxError: '(' was never closed"),
        ("group", 11, "ExceptionGroup: several (2 sub-exceptions)"),
        ("deep", 5, "RecursionError: maximum recursion depth exceeded"),
        ("local", 5, "main.<locals>.Refused: not today"),
    ],
)
def test_a_python_traceback_is_one_crash_at_its_last_frame(name: str, line: int, message: str) -> None:
    (finding,) = read(f"traceback-{name}")
    assert (finding.tool, finding.kind, finding.line, finding.message) == ("python", "crash", line, message)
    file = "syntax" if "syntax" in name else name
    assert finding.file == f"/project/{file}.py"


def test_a_traceback_that_ends_in_a_library_points_to_the_users_own_frame() -> None:
    (finding,) = read("traceback-library")
    assert (finding.file, finding.line) == ("/project/library.py", 3)
    assert finding.message.startswith("json.decoder.JSONDecodeError: ")


def test_a_chained_traceback_keeps_the_whole_chain_in_its_excerpt() -> None:
    (finding,) = read("traceback-chained")
    assert finding.excerpt.count("Traceback (most recent call last):") == 3


@pytest.mark.parametrize("recording", ["mypy", "mypy-columns", "mypy-pretty-colour"])
def test_mypy_tells_its_errors_and_not_its_notes(recording: str) -> None:
    told = [(f.tool, f.file, f.line, f.code) for f in read(recording)]
    assert told == [
        ("mypy", "billing.py", 3, "import-not-found"),
        ("mypy", "billing.py", 12, "operator"),
        ("mypy", "billing.py", 16, "arg-type"),
        ("mypy", "billing.py", 19, "arg-type"),
    ]


def test_mypy_gives_columns_when_asked_to_and_syntax_errors() -> None:
    assert [f.column for f in read("mypy-columns")] == [1, 25, 15, 8]
    assert [f.code for f in read("mypy-syntax")] == ["syntax", "syntax"]


@pytest.mark.parametrize("recording", ["ruff-full", "ruff-full-colour", "ruff-concise"])
def test_ruff_tells_code_place_and_message(recording: str) -> None:
    told = [(f.code, f.file, f.line, f.column) for f in read(recording)]
    assert told == [
        ("invalid-syntax", "broken.py", 1, 10),
        ("invalid-syntax", "broken.py", 1, 11),
        ("F401", "messy.py", 1, 8),
        ("F401", "messy.py", 2, 8),
        ("F841", "messy.py", 6, 5),
        ("F821", "messy.py", 8, 16),
    ]
    assert read(recording)[-1].message == "Undefined name `undefined_name`"


@pytest.mark.parametrize("recording", ["gcc", "gcc-colour"])
def test_gcc_tells_errors_in_headers_and_sources_and_no_warnings(recording: str) -> None:
    told = [(f.tool, f.file, f.line, f.column) for f in read(recording)]
    assert told == [("gcc", "ledger.h", 3, 18), ("gcc", "main.c", 5, 16), ("gcc", "main.c", 10, 23)]


def test_gcc_tells_missing_headers_linker_errors_and_templates() -> None:
    (fatal,) = read("gcc-fatal")
    assert (fatal.file, fatal.line, fatal.message) == ("fatal.c", 1, "nowhere.h: No such file or directory")
    (link,) = read("gcc-link")
    assert (link.file, link.message) == ("link.c", "undefined reference to `elsewhere'")
    assert [f.line for f in read("gcc-template")] == [6, 7]


@pytest.mark.parametrize("recording", ["clang", "clang-colour"])
def test_clang_tells_the_same_as_gcc(recording: str) -> None:
    told = [(f.tool, f.file, f.line, f.column) for f in read(recording)]
    assert told == [("gcc", "./ledger.h", 3, 18), ("gcc", "main.c", 5, 16), ("gcc", "main.c", 10, 23)]
    assert read(recording)[1].message == "use of undeclared identifier 'wrong'"


def test_clang_tells_missing_headers_and_templates() -> None:
    (fatal,) = read("clang-fatal")
    assert (fatal.file, fatal.line, fatal.message) == ("fatal.c", 1, "'nowhere.h' file not found")
    assert [f.line for f in read("clang-template")] == [6, 7]


@pytest.mark.parametrize("recording", ["tsc", "tsc-pretty-colour"])
def test_tsc_tells_code_and_place(recording: str) -> None:
    told = [(f.code, f.file, f.line, f.column) for f in read(recording)]
    assert told == [("TS2322", "cart.ts", 7, 3), ("TS2741", "cart.ts", 10, 8)]


def test_tsc_tells_a_syntax_error() -> None:
    (finding,) = read("tsc-syntax")
    assert (finding.code, finding.message) == ("TS1109", "Expression expected.")


@pytest.mark.parametrize("recording", ["jest", "jest-colour"])
def test_jest_tells_tests_and_suites_and_no_console_output(recording: str) -> None:
    told = [(f.tool, f.kind, f.name, f.file, f.line, f.message) for f in read(recording)]
    assert told == [
        (
            "jest",
            "test_failed",
            "cart › adds prices",
            "cart.test.js",
            5,
            "expect(received).toBe(expected) // Object.is equality",
        ),
        (
            "jest",
            "test_failed",
            "cart › rejects negatives › with an arrow",
            "cart.js",
            3,
            "RangeError: a price is never negative",
        ),
        (
            "jest",
            "error",
            "Test suite failed to run",
            "broken.test.js",
            1,
            "Cannot find module './no-such-module' from 'broken.test.js'",
        ),
    ]


@pytest.mark.parametrize("recording", ["vitest", "vitest-colour"])
def test_vitest_tells_tests_and_suites(recording: str) -> None:
    told = [(f.kind, f.name, f.file, f.line) for f in read(recording)]
    assert told == [
        ("error", "broken.test.ts", "broken.test.ts", 1),
        ("test_failed", "cart.test.ts > cart > adds prices", "cart.test.ts", 6),
        ("test_failed", "cart.test.ts > cart > rejects negatives > with an arrow", "cart.ts", 3),
    ]


@pytest.mark.parametrize(
    ("recording", "places"),
    [
        ("gcc-parentheses", [("my (old) dir/main.c", 2)]),
        ("tsc-parentheses", [("app/(my group)/page.ts", 1)]),
        ("tsc-parentheses-pretty-colour", [("app/(my group)/page.ts", 1)]),
        (
            "vitest-parentheses",
            [
                ("app/(my group)/broken.test.ts", 1),
                ("app/(my group)/page.test.ts", 4),
                ("app/(my group)/page.test.ts", 12),
            ],
        ),
    ],
)
def test_blanks_and_parentheses_are_parts_of_paths(recording: str, places: list[tuple[str, int]]) -> None:
    assert [(f.file, f.line) for f in read(recording)] == places


def test_the_reports_tell_what_the_terminal_tells() -> None:
    printed = {(f.kind, f.name, f.line, f.message) for f in read("pytest-long")}
    log = read_reportlog((RECORDED / "pytest-reportlog.txt").read_bytes())
    assert {(f.kind, f.name, f.line, f.message) for f in log} == printed
    junit = read_junit((RECORDED / "pytest-junit.txt").read_bytes())
    # JUnit has no place for a test that failed by passing, so its id stays as the report has it.
    assert {(f.kind, f.name, f.line, f.message) for f in junit if f.line} == {row for row in printed if row[2]}
    assert len(junit) == len(log) == len(printed)


def test_the_reports_tell_collection_errors() -> None:
    for found in (
        read_reportlog((RECORDED / "pytest-reportlog-collection.txt").read_bytes()),
        read_junit((RECORDED / "pytest-junit-collection.txt").read_bytes()),
    ):
        assert [(f.kind, f.file, f.line, f.message) for f in found] == [
            ("error", "tests/test_import.py", 1, "ModuleNotFoundError: No module named 'no_such_module'"),
            ("error", "/project/tests/test_syntax.py", 1, "SyntaxError: invalid syntax"),
        ]


def test_no_recording_has_a_path_of_the_machine_that_made_it() -> None:
    for path in RECORDED.glob("*.txt"):
        text = path.read_text("utf-8", "replace")
        assert [top for top in ("home", "root", "work") if f"/{top}/" in text] == [], path
