"""Reading is bounded and takes only what a tool itself would write."""

import pytest

from intentd.plan.plain import plain_lines
from intentd.plan.tools import Reader, catalogue, file_and_test
from intentd.plan.tools.reader import MAX_FINDINGS

READER = Reader(catalogue().tools)


def lines(data: bytes) -> list[str]:
    return list(plain_lines(data.decode(errors="replace")))


def test_colours_inside_an_id_do_not_split_it() -> None:
    data = (
        b"=== short test summary info ===\r\n"
        b"\x1b[31mFAILED\x1b[0m tests/test_\x1b[1ma.py::\x1b[0mtest_x\x1b[4m[1\x1b[0m] - assert 0\r\n"
    )
    (finding,) = READER.read(lines(data))
    assert (finding.name, finding.message) == ("tests/test_a.py::test_x[1]", "assert 0")


def test_an_xdist_progress_line_is_a_failure_before_the_run_ends() -> None:
    (finding,) = READER.read(["[gw1] [ 20%] FAILED tests/test_a.py::test_x[a b] "])
    assert (finding.name, finding.file) == ("tests/test_a.py::test_x[a b]", "tests/test_a.py")


def test_a_progress_bar_that_is_drawn_over_leaves_only_its_last_state() -> None:
    data = b"".join(b"\rbuilding %3d%%" % n for n in range(101)) + b"\r\x1b[Kmain.c:3:5: error: no\r\n"
    (finding,) = READER.read(lines(data))
    assert (finding.file, finding.line) == ("main.c", 3)


def test_binary_output_is_read_without_an_error() -> None:
    assert READER.read(lines(bytes(range(256)) * 2000)) == []


def test_an_interrupted_program_did_not_crash() -> None:
    data = b'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nKeyboardInterrupt\n'
    assert READER.read(lines(data)) == []


def test_a_traceback_whose_end_never_came_is_none() -> None:
    assert READER.read(["Traceback (most recent call last):", '  File "a.py", line 1, in <module>']) == []


def test_the_line_after_a_traceback_is_still_read() -> None:
    data = (
        b'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: no\n'
        b"main.c:3:5: error: no\nb.py:1: error: bad  [misc]\n"
    )
    assert [finding.tool for finding in READER.read(lines(data))] == ["python", "gcc", "mypy"]


def test_two_tests_of_one_name_in_two_files_stay_two() -> None:
    block = [
        "=================================== FAILURES ===================================",
        "____________________________________ test_x ____________________________________",
        "E       assert 1 == 2",
        "",
        "tests/test_a.py:3: AssertionError",
        "____________________________________ test_x ____________________________________",
        "E       assert 3 == 4",
        "",
        "tests/test_b.py:9: AssertionError",
        "=========================== short test summary info ============================",
        "FAILED tests/test_a.py::test_x - assert 1 == 2",
        "FAILED tests/test_b.py::test_x - assert 3 == 4",
    ]
    told = [(f.name, f.file, f.line, f.message) for f in READER.read(block)]
    assert told == [
        ("tests/test_a.py::test_x", "tests/test_a.py", 3, "assert 1 == 2"),
        ("tests/test_b.py::test_x", "tests/test_b.py", 9, "assert 3 == 4"),
    ]


def test_an_endless_block_and_endless_findings_are_bounded() -> None:
    block = ["Traceback (most recent call last):", *['  File "a.py", line 1, in f'] * 5000, "ValueError: no"]
    assert READER.read(block) == []
    many = [f"a.c:{n}:1: error: no" for n in range(1, 5000)]
    assert len(READER.read(many)) == MAX_FINDINGS


def test_a_long_block_keeps_its_beginning_and_its_end() -> None:
    block = ["Traceback (most recent call last):", *[f'  File "a.py", line {n}, in f' for n in range(900)], "E: no"]
    (finding,) = READER.read(block)
    rows = finding.excerpt.splitlines()
    assert len(rows) == 121
    assert rows[0] == block[0]
    assert rows[-1] == "E: no"
    assert "left out" in rows[60]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("t.py::Case::test[a::b]", ("t.py", "Case::test[a::b]")),
        ("t.py::test[a]::b]", ("t.py", "test[a]::b]")),
        ("app/[slug]/t.py::test", ("app/[slug]/t.py", "test")),
        ("test[::1]", ("", "test[::1]")),
        ("test[tests/t.py::test]", ("", "test[tests/t.py::test]")),
        ("tests/t.py", ("", "tests/t.py")),
    ],
)
def test_an_id_is_told_from_a_name_with_colons_in_its_value(name: str, parts: tuple[str, str]) -> None:
    assert file_and_test(name) == parts
