"""Failed tests are found in what pytest really printed, in every style."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from intentd.plan.events import CommandEnded
from intentd.plan.tools import Reader, catalogue
from intentd.plan.triggers import Failure, Location, find_failures

READER = Reader(catalogue().tools)
Failures = Callable[[str], Sequence[Failure]]
TESTS = "tests/test_prices.py"
FAILED = {
    f"{TESTS}::test_gross_adds_tax",
    f"{TESTS}::test_kinds[full]",
    f"{TESTS}::test_kinds[odd - kind]",
    f"{TESTS}::TestBasket::test_two_items",
    f"{TESTS}::test_filled_basket",
} - {f"{TESTS}::test_kinds[full]"}
STYLES = ("plain", "quiet", "colour", "terminal", "short", "line", "native", "none", "no-summary", "verbose-xdist")


def by_name(failures: Sequence[Failure], name: str) -> Failure:
    (found,) = [failure for failure in failures if name in failure.name]
    return found


@pytest.mark.parametrize("style", STYLES)
def test_every_failed_test_is_found_once(failures: Failures, style: str) -> None:
    assert {failure.name for failure in failures(style)} == FAILED
    assert len(failures(style)) == len(FAILED)


@pytest.mark.parametrize("style", [style for style in STYLES if style not in ("none", "line")])
def test_the_last_frame_is_the_code_that_raised(failures: Failures, style: str) -> None:
    odd = by_name(failures(style), "odd")
    assert odd.path == "/project/tests/test_prices.py"
    assert odd.frames[-1] == Location("/project/shop/prices.py", 8)
    assert Location("/project/tests/test_prices.py", 20) in odd.frames
    assert any("no rate for odd - kind" in line for line in odd.traceback)


@pytest.mark.parametrize("style", ["plain", "colour", "terminal", "short", "verbose-xdist"])
def test_a_fixture_that_fails_is_a_failure_of_its_test(failures: Failures, style: str) -> None:
    filled = by_name(failures(style), "test_filled_basket")
    assert filled.message.startswith("LookupError: no rate")
    assert filled.frames[0] == Location("/project/tests/test_prices.py", 9)
    assert filled.frames[-1].path == "/project/shop/prices.py"


@pytest.mark.parametrize("style", STYLES)
def test_what_a_test_prints_is_taken_for_no_failure(failures: Failures, style: str) -> None:
    assert not any("decoy" in failure.name for failure in failures(style))


def test_what_a_test_prints_is_kept_apart_from_its_traceback(failures: Failures) -> None:
    gross = by_name(failures("plain"), "gross")
    assert not any("decoy - printed" in line for line in gross.traceback if not line.strip().startswith("print("))
    assert gross.captured[-1] == "FAILED tests/test_decoy.py::test_decoy - printed by a test"


def test_colours_and_the_terminal_change_nothing(failures: Failures) -> None:
    assert failures("colour")[0].traceback == failures("plain")[0].traceback
    assert failures("terminal")[0].traceback == failures("plain")[0].traceback


def test_a_file_that_cannot_be_collected_is_a_failure(failures: Failures) -> None:
    (failure,) = failures("collection")
    assert failure.name == "tests/test_import.py"
    assert failure.function == ""
    assert failure.frames[-1] == Location("/project/tests/test_import.py", 1)
    assert "E   ModuleNotFoundError: No module named 'shop.stock'" in failure.traceback


def test_the_line_style_names_the_raising_line(failures: Failures) -> None:
    assert by_name(failures("line"), "odd").frames == (Location("/project/shop/prices.py", 8),)


def test_a_run_that_passes_has_no_failures(failures: Failures) -> None:
    assert failures("passed") == ()


@pytest.mark.parametrize(
    "output",
    ["", "hello\n", "FAILED to open the file\n", "== FAILURES ==\n", "\x1b[31mERROR\x1b[0m x - y\n", "\0\xff\r\r\b\n"],
)
def test_output_of_other_programs_says_nothing_of_tests(output: str) -> None:
    assert find_failures(CommandEnded(workspace="/w", cwd="/w", exit=1, output=output), READER) is None


def test_paths_are_those_of_the_directory_where_the_command_ran(recorded: Callable[[str], CommandEnded]) -> None:
    event = recorded("plain")
    moved = CommandEnded(workspace="/w", cwd="/w/sub", exit=1, output=event.output.replace("shop/", "../shop/"))
    found = find_failures(moved, READER)
    assert found
    assert found[0].path == "/w/sub/tests/test_prices.py"
    assert any(frame.path == "/w/shop/prices.py" for failure in found for frame in failure.frames)


def test_of_two_runs_in_one_command_both_count(recorded: Callable[[str], CommandEnded]) -> None:
    first, second = recorded("plain"), recorded("collection")
    both = CommandEnded(workspace="/project", cwd="/project", exit=1, output=first.output + second.output)
    names = {failure.name for failure in find_failures(both, READER) or ()}
    assert names == FAILED | {"tests/test_import.py"}


def test_a_beginning_that_was_cut_off_does_no_harm(recorded: Callable[[str], CommandEnded]) -> None:
    output = recorded("plain").output
    for cut in range(0, len(output), 97):
        find_failures(CommandEnded(workspace="/w", cwd="/w", exit=1, output=output[cut:]), READER)


DOCTEST = """\
=================================== FAILURES ===================================
__________________________ [doctest] shop.prices.add ___________________________
002 Adds.
004     >>> add(1, 2)
Expected:
    4
Got:
    3

/w/shop/prices.py:4: DocTestFailure
=========================== short test summary info ============================
FAILED shop/prices.py::shop.prices.add
1 failed in 0.17s
"""


def test_a_doctest_that_fails_is_one_failure() -> None:
    found = find_failures(CommandEnded(workspace="/w", cwd="/w", exit=1, output=DOCTEST), READER)
    assert found
    assert [(failure.name, failure.path) for failure in found] == [
        ("shop/prices.py::shop.prices.add", "/w/shop/prices.py")
    ]
    assert found[0].frames == (Location("/w/shop/prices.py", 4),)


VITEST = """\
 FAIL  |unit| src/broken.test.ts [ src/broken.test.ts ]
Error: Cannot find module './no'
 ❯ src/broken.test.ts:1:1

⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[1/2]⎯

 FAIL  |unit| src/a.test.ts > sums > adds
AssertionError: expected 4 to be 3 // Object.is equality
 ❯ src/a.test.ts:6:27

⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[2/2]⎯
"""


def test_the_name_of_a_vitest_project_is_no_part_of_a_path() -> None:
    found = find_failures(CommandEnded(workspace="/w", cwd="/w", exit=1, output=VITEST), READER)
    assert found
    assert [(failure.name, failure.path) for failure in found] == [
        ("|unit| src/a.test.ts > sums > adds", "/w/src/a.test.ts"),
        ("|unit| src/broken.test.ts", "/w/src/broken.test.ts"),
    ]


TOOLS = Path(__file__).parent / "tools" / "recorded"


@pytest.mark.parametrize(
    ("recording", "file", "lines"),
    [
        ("jest-parentheses", "page.test.js", [[6, 2], [10]]),
        ("vitest-parentheses", "page.test.ts", [[8, 4], [12]]),
    ],
)
def test_frames_have_the_paths_of_files_in_folders_with_blanks_and_parentheses(
    recording: str, file: str, lines: list[list[int]]
) -> None:
    """jest itself splits them at the last parenthesis."""
    output = (TOOLS / f"{recording}.txt").read_text()
    found = find_failures(CommandEnded(workspace="/project", cwd="/project", exit=1, output=output), READER) or ()
    tests = [failure for failure in found if "broken" not in failure.path]
    path = f"/project/app/(my group)/{file}"
    assert [failure.path for failure in tests] == [path, path]
    assert [[frame.line for frame in failure.frames] for failure in tests] == lines
    assert {frame.path for failure in tests for frame in failure.frames} == {path}


@pytest.mark.parametrize(
    ("frame", "path"),
    [
        ("at Object.<anonymous> (src/app/(group)/page.test.tsx:3:5)", "src/app/(group)/page.test.tsx"),
        ("at async src/a.ts:3:5", "src/a.ts"),
        ("at new Foo (/w/a.js:3:5)", "a.js"),
        ("at src/(group)/a.js:3:5", "src/(group)/a.js"),
    ],
)
def test_a_script_frame_begins_behind_its_function(frame: str, path: str) -> None:
    output = f"FAIL  unit  src/my dir/a.test.js\n  ● adds\n\n    Error: no\n\n      {frame}\n\nTest Suites: 1 failed\n"
    (failure,) = find_failures(CommandEnded(workspace="/w", cwd="/w", exit=1, output=output), READER) or ()
    assert failure.frames == (Location(f"/w/{path}", 3),)


def test_a_jest_test_without_a_frame_is_in_the_file_that_failed() -> None:
    output = "FAIL  unit  src/my dir/a.test.js\n  ● adds\n\n    Error: no\n\nTest Suites: 1 failed\n"
    (failure,) = find_failures(CommandEnded(workspace="/w", cwd="/w", exit=1, output=output), READER) or ()
    assert failure.path == "/w/src/my dir/a.test.js"


PASSED_AND_LOGGED = (TOOLS / "unittest-logged.txt").read_text()
LOGGED = PASSED_AND_LOGGED.partition(".\n---")[0]


@pytest.mark.parametrize(
    ("output", "exit", "found"),
    [
        (LOGGED, 0, 0),
        (LOGGED, 1, 1),
        (LOGGED, None, 1),
        (PASSED_AND_LOGGED, 0, 0),
        (PASSED_AND_LOGGED, None, 0),
        (LOGGED.replace("ERROR:root:handled", "Exception in thread Thread-1 (f):"), 0, 1),
    ],
)
def test_a_traceback_that_a_passing_command_prints_was_caught(output: str, exit: int | None, found: int) -> None:
    event = CommandEnded(workspace="/w", cwd="/w", exit=exit, output=output)
    assert len(find_failures(event, READER) or ()) == found


CRASHED = LOGGED.partition("\n")[2]
PASSED = "===== 3 passed in 0.05s =====\n"


@pytest.mark.parametrize(
    ("output", "crashes"),
    [
        (PASSED + CRASHED, 1),
        (CRASHED + PASSED, 0),
        (CRASHED + PASSED + CRASHED, 1),
        (PASSED + CRASHED + "\nSuccess: no issues found in 3 source files\n", 1),
        ("All checks passed!\n" + CRASHED, 1),
        (CRASHED + "\nAll checks passed!\n", 1),
        (CRASHED + PASSED + "All checks passed!\n", 0),
    ],
)
def test_a_program_that_crashes_behind_green_tests_has_crashed(output: str, crashes: int) -> None:
    """Of what has no exit status a summary speaks for its own tool."""
    event = CommandEnded(workspace="/w", cwd="/w", exit=None, output=output)
    assert [failure.trigger for failure in find_failures(event, READER) or ()] == ["crash"] * crashes
