"""Offers follow the test runs of their workspaces."""

from attrs import evolve

from intentd.plan.events import CommandEnded
from intentd.plan.offers import MAX_WORKSPACES, OfferBook
from intentd.plan.triggers import Failure

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
    book.take(EVENT, (FIRST,))
    assert book.take(evolve(EVENT, exit=0), ())
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


def test_a_failure_that_is_found_again_keeps_its_number() -> None:
    book = OfferBook()
    book.take(EVENT, (FIRST, SECOND))
    book.take(EVENT, (SECOND,))
    assert [offer.number for offer in book.of("/w")] == [2]
    book.take(EVENT, (FIRST, SECOND))
    assert [offer.number for offer in book.of("/w")] == [3, 2]


def test_offers_of_another_tool_stay_behind_the_new_ones() -> None:
    book = OfferBook()
    book.take(evolve(EVENT, argv=("pytest",)), (FIRST,))
    error = Failure(trigger="diagnostic", tool="mypy", name="a.py: arg-type", path="/w/a.py", message="m")
    book.take(evolve(EVENT, argv=("mypy", ".")), (error,))
    assert [offer.failure for offer in book.of("/w")] == [error, FIRST]
    book.take(evolve(EVENT, argv=("mypy", "src"), exit=0), None)
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
