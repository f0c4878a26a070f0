"""Offers follow the test runs of their workspaces."""

from pathlib import Path

import pytest
from attrs import evolve

from intentd.plan.commands import Command
from intentd.plan.events import CommandEnded
from intentd.plan.offers import MAX_NEW, MAX_WORKSPACES, OfferBook
from intentd.plan.tools import Reader, catalogue
from intentd.plan.triggers import Failure, Location, find_failures

RECORDED = Path(__file__).parent / "tools" / "recorded"
EVENT = CommandEnded(workspace="/w", cwd="/w", exit=1, output="")
FIRST = Failure(name="t.py::first", path="/w/t.py", message="m")
SECOND = Failure(name="t.py::second", path="/w/t.py", message="m")


def test_a_failed_run_offers_its_failures_first_one_first() -> None:
    book = OfferBook()
    assert book.take(EVENT, (FIRST, SECOND))
    assert [offer.failure for offer in book.of("/w")] == [FIRST, SECOND]
    assert book.all() == book.of("/w")
    assert book.find("/w", None) == book.of("/w")[0]


def test_other_commands_change_no_offers() -> None:
    book = OfferBook()
    book.take(EVENT, (FIRST,))
    assert not book.take(EVENT, None)
    assert not book.take(EVENT, ())  # tests that were interrupted say nothing of what had failed
    assert len(book.of("/w")) == 1


def test_a_run_that_passes_takes_the_offers_away() -> None:
    book = OfferBook()
    book.take(evolve(EVENT, argv=("make",)), (FIRST,))
    assert book.take(evolve(EVENT, argv=("make",), exit=0), ())
    assert book.all() == ()


def test_the_newest_offer_is_that_of_the_workspace_that_failed_last() -> None:
    book = OfferBook()
    for workspace in ("/a", "/b", "/a"):
        book.take(evolve(EVENT, workspace=workspace), (FIRST,))
    assert [offer.workspace for offer in book.all()] == ["/a", "/b"]


def test_an_offer_is_found_by_its_id_in_its_workspace_only() -> None:
    book = OfferBook()
    book.take(EVENT, (FIRST, SECOND))
    second = book.of("/w")[1]
    assert book.find("/w", second.id) == second
    assert book.find("/w", str(second.number)) == second
    assert book.find("/other", second.id) is None


@pytest.mark.parametrize(
    ("path", "name", "told"),
    [
        ("/w/shop/cart.py", "/w/shop/cart.py: TypeError", "shop/cart.py: TypeError"),
        ("/w/tests/test_cart.py", "test_cart.py::test_sum", "tests/test_cart.py::test_sum"),
        ("/w/shop/cart.py", "../shop/cart.py: F401", "shop/cart.py: F401"),
        ("/usr/lib/json/__init__.py", "/usr/lib/json/__init__.py: TypeError", "/usr/lib/json/__init__.py: TypeError"),
        ("/w2/cart.py", "/w2/cart.py: TypeError", "/w2/cart.py: TypeError"),
        ("", "mypy: no such file", "mypy: no such file"),
    ],
)
def test_people_read_an_offers_file_as_seen_from_the_workspace(path: str, name: str, told: str) -> None:
    """The prompt has it as its tool calls it (S10)."""
    book = OfferBook()
    failure = evolve(FIRST, name=name, path=path, frames=(Location(path, 3), Location("/w/other.py", 4)))
    book.take(evolve(EVENT, cwd="/w/tests"), (failure,))
    (offer,) = book.of("/w")
    assert (offer.name, offer.line, offer.failure.name) == (told, 3, name)


def test_a_failure_that_is_found_again_keeps_its_number() -> None:
    book = OfferBook()
    book.take(EVENT, (FIRST, SECOND))
    book.take(EVENT, (SECOND,))
    assert [offer.number for offer in book.of("/w")] == [2]
    book.take(EVENT, (FIRST, SECOND))
    assert [offer.number for offer in book.of("/w")] == [3, 2]


def test_no_two_offers_of_a_workspace_have_one_number() -> None:
    """Also where a tool says the same of two lines, and where a line has moved that another command had found."""
    book = OfferBook()
    third, seventh, ninth = (
        Failure(
            trigger="diagnostic",
            tool="mypy",
            name="a.py: arg-type",
            path="/w/a.py",
            message="m",
            frames=(Location("/w/a.py", line),),
        )
        for line in (3, 7, 9)
    )
    for _ in range(2):
        book.take(evolve(EVENT, argv=("mypy", ".")), (third, seventh))
        assert [(offer.number, offer.failure) for offer in book.of("/w")] == [(1, third), (2, seventh)]
    book.take(evolve(EVENT, argv=("mypy", ".")), (seventh,))
    assert [(offer.number, offer.failure) for offer in book.of("/w")] == [(2, seventh)]
    book.take(evolve(EVENT, argv=("mypy", "-p", "a")), (ninth,))
    assert [(offer.number, offer.failure) for offer in book.of("/w")] == [(3, ninth), (2, seventh)]


def test_offers_of_another_tool_stay_behind_the_new_ones() -> None:
    book = OfferBook()
    book.take(evolve(EVENT, argv=("pytest",)), (FIRST,))
    error = Failure(trigger="diagnostic", tool="mypy", name="a.py: arg-type", path="/w/a.py", message="m")
    book.take(evolve(EVENT, argv=("mypy", ".")), (error,))
    assert [offer.failure for offer in book.of("/w")] == [error, FIRST]
    book.take(evolve(EVENT, argv=("mypy", "a.py"), exit=0), None)
    assert [offer.failure for offer in book.of("/w")] == [FIRST]


def test_only_the_tests_that_passed_lose_their_offers() -> None:
    book = OfferBook()
    other = Failure(name="u.py::third", path="/w/u.py", message="m")
    book.take(evolve(EVENT, argv=("pytest",)), (FIRST, SECOND, other))
    book.take(evolve(EVENT, argv=("pytest", "t.py::second"), exit=0), ())
    assert [offer.failure for offer in book.of("/w")] == [FIRST, other]
    book.take(evolve(EVENT, argv=("pytest", "-k", "third"), exit=0), ())
    assert len(book.of("/w")) == 2
    book.take(evolve(EVENT, argv=("pytest", "t.py"), exit=0), ())
    assert [offer.failure for offer in book.of("/w")] == [other]
    book.take(evolve(EVENT, argv=("make", "test"), exit=0), None)
    assert len(book.of("/w")) == 1


@pytest.mark.parametrize(
    "words",
    [
        "pip install pytest",
        "uv add pytest",
        "grep pytest setup.cfg",
        "pytest --collect-only",
        "python -m pytest --co -q",
        "pytest --version",
        "pytest -h",
        "mypy --version",
        "ruff format .",
        "ruff rule F401",
        "ruff check --show-files",
        "pytest --cache-show=*",
        "pytest --setup-only",
        "pytest --fixtures-per-test tests",
        "gcc -dumpversion",
        "gcc -MM a.c",
        "cc -print-file-name=include",
        "npx jest --showConfig",
        "npx jest --clearCache",
        "npx vitest list",
        "npx tsc --init",
        "tsc -v",
        "tsc --showConfig",
    ],
)
def test_a_command_that_has_run_nothing_takes_no_offer_away(words: str) -> None:
    book = OfferBook()
    error = Failure(trigger="diagnostic", tool="mypy", name="a.py: arg-type", path="/w/a.py", message="m")
    found = [FIRST, error, *(evolve(error, tool=tool) for tool in ("ruff", "gcc", "jest", "vitest", "tsc"))]
    book.take(evolve(EVENT, argv=("make", "check")), found)
    assert not book.take(evolve(EVENT, argv=tuple(words.split()), exit=0), None)
    assert [offer.failure for offer in book.of("/w")] == found


def test_a_withdrawn_offer_is_gone() -> None:
    book = OfferBook()
    book.take(EVENT, (FIRST, SECOND))
    first = book.of("/w")[0]
    assert book.withdraw(first)
    assert not book.withdraw(first)
    assert [offer.failure for offer in book.all()] == [SECOND]


def test_the_book_keeps_a_bounded_number_of_workspaces() -> None:
    book = OfferBook()
    for number in range(MAX_WORKSPACES + 5):
        book.take(evolve(EVENT, workspace=f"/{number}"), (FIRST,))
    assert len(book.all()) == MAX_WORKSPACES


@pytest.mark.parametrize(
    ("words", "exit"),
    [
        ("pytest -x", 1),
        ("pytest -qx tests", 1),
        ("python -m pytest --maxfail=1", 1),
        ("python -m unittest -f", 1),
        ("npx jest --bail", 1),
        ("vitest run --bail=1", 1),
        ("pytest", 2),
        ("pytest", 3),
        ("npx jest", 130),
        ("pytest -v", 137),
        ("timeout 60 pytest -v", 124),
    ],
)
def test_a_run_that_may_have_stopped_early_takes_no_offer_of_what_it_has_not_come_to(words: str, exit: int) -> None:
    book = OfferBook()
    argv = tuple(words.split())
    first, second = (evolve(one, tool=Command(argv, "/w").tool or "") for one in (FIRST, SECOND))
    book.take(evolve(EVENT, argv=argv), (first, second))
    assert book.take(evolve(EVENT, argv=argv, exit=exit), (evolve(second, message="other"),))
    assert [(offer.failure.name, offer.failure.message) for offer in book.of("/w")] == [
        ("t.py::second", "other"),
        ("t.py::first", "m"),
    ]
    book.take(evolve(EVENT, argv=argv, exit=0), ())
    assert book.of("/w") == ()


def test_a_test_that_fails_otherwise_than_before_is_one_offer() -> None:
    """Also where the command does not say which tests it selects."""
    book = OfferBook()
    book.take(evolve(EVENT, argv=("pytest",)), (FIRST, SECOND))
    book.take(evolve(EVENT, argv=("pytest", "-k", "first")), (evolve(FIRST, message="other"),))
    assert [offer.failure.message for offer in book.of("/w")] == ["other", "m"]


@pytest.mark.parametrize(
    ("recording", "exit", "left"),
    [
        ("pytest-fine", 0, []),
        ("pytest-first", 1, ["tests/test_shop.py::test_total_of_two", "t.py::first", "t.py::second"]),
        ("pytest-interrupted", 2, ["tests/test_interrupted.py::test_fails", "t.py::first", "t.py::second"]),
        ("pytest-internal", 3, ["t.py::first", "t.py::second"]),
        ("pytest-usage", 4, ["t.py::first", "t.py::second"]),
        ("pytest-none", 5, ["t.py::first", "t.py::second"]),
    ],
)
def test_only_a_run_that_has_run_its_tests_takes_offers_away(recording: str, exit: int, left: list[str]) -> None:
    """pytest's exit statuses: fine, failed, interrupted, an error of its own, wrong words, no tests."""
    book = OfferBook()
    book.take(evolve(EVENT, argv=("pytest",)), (FIRST, SECOND))
    output = (RECORDED / f"{recording}.txt").read_text()
    event = evolve(EVENT, argv=("pytest",), exit=exit, output=output)
    book.take(event, find_failures(event, Reader(catalogue().tools)))
    assert [offer.failure.name for offer in book.of("/w")] == left


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("===== 1 passed in 0.01s =====\n", []),
        ("===== 1 passed, 1 rerun in 0.01s =====\n", []),
        ("===== 1 passed, 2 subtests passed in 0.01s =====\n", []),
        ((RECORDED / "pytest-subtests-fine.txt").read_text(), []),
        ("===== 1 passed, 1 error in 0.01s =====\n", [FIRST]),
        ("All checks passed!\n", [FIRST]),
        ("Ran 3 tests in 0.1s\n\nOK\n", [FIRST]),
        ("the server starts\nOK\n", [FIRST]),
    ],
)
def test_what_a_pipe_passes_on_speaks_for_the_tool_whose_words_it_has(said: str, left: list[Failure]) -> None:
    book, piped = OfferBook(), evolve(EVENT, exit=None)
    book.take(piped, (FIRST,))
    passing = evolve(piped, output=said)
    book.take(passing, find_failures(passing, Reader(catalogue().tools)))
    assert [offer.failure for offer in book.of("/w")] == left


def test_what_one_tool_finds_through_a_pipe_replaces_nothing_of_another() -> None:
    book, piped = OfferBook(), evolve(EVENT, exit=None)
    error = Failure(trigger="diagnostic", tool="mypy", name="a.py: arg-type", path="/elsewhere/a.py", message="m")
    book.take(piped, (FIRST, error))
    book.take(piped, (evolve(error, message="other"),))
    assert [(offer.failure.tool, offer.failure.message) for offer in book.of("/w")] == [
        ("mypy", "other"),
        ("pytest", "m"),
    ]


def test_a_test_that_is_mended_loses_its_offer_though_another_tool_in_the_pipe_is_still_red() -> None:
    book, piped = OfferBook(), evolve(EVENT, exit=None)
    error = Failure(trigger="diagnostic", tool="mypy", name="a.py: arg-type", path="/w/a.py", message="m")
    book.take(piped, (FIRST, error))
    book.take(evolve(piped, output="===== 1 passed in 0.05s =====\nFound 1 error in 1 file\n"), (error,))
    assert [offer.failure for offer in book.of("/w")] == [error]


def test_of_more_failures_than_are_offered_none_loses_the_offer_that_it_has() -> None:
    book = OfferBook()
    many = [Failure(name=f"t.py::test_{number}", path="/w/t.py", message="m") for number in range(MAX_NEW + 10)]
    book.take(EVENT, many[::-1])
    assert len(book.of("/w")) == MAX_NEW
    book.take(EVENT, many)
    assert [offer.failure for offer in book.of("/w")] == [*many[:MAX_NEW], *many[MAX_NEW:][::-1]]


@pytest.mark.parametrize("words", ["pytest tests/test_subtests.py", "pytest tests/test_subtests.py::test_address"])
def test_a_test_whose_value_has_colons_is_one_offer_that_its_file_withdraws(words: str) -> None:
    book = OfferBook()
    event = evolve(EVENT, argv=("pytest",), output=(RECORDED / "pytest-subtests.txt").read_text())
    book.take(event, find_failures(event, Reader(catalogue().tools)))
    (local,) = [offer.failure for offer in book.of("/w") if "[::1]" in offer.failure.name]
    assert (local.path, local.function) == ("/w/tests/test_subtests.py", "test_address")
    book.take(evolve(EVENT, argv=tuple(words.split()), exit=0), ())
    assert not [offer for offer in book.of("/w") if "test_address" in offer.failure.name]


def test_a_test_that_has_failed_in_its_subtests_is_withdrawn_when_it_passes() -> None:
    book = OfferBook()
    event = evolve(EVENT, argv=("pytest",), output=(RECORDED / "pytest-subtests.txt").read_text())
    book.take(event, find_failures(event, Reader(catalogue().tools)))
    for test in ("test_each", "test_bare", "test_address", "TestGroup", "ClockTest::test_minutes"):
        book.take(evolve(EVENT, argv=("pytest", f"tests/test_subtests.py::{test}"), exit=0), ())
    assert book.of("/w") == ()
