"""Offers follow the test runs of their workspaces."""

from attrs import evolve

from intentd.plan.events import CommandEnded
from intentd.plan.offers import MAX_WORKSPACES, OfferBook
from intentd.plan.triggers import FailedTest

EVENT = CommandEnded(workspace="/w", cwd="/w", exit=1, output="")
FIRST = FailedTest(test="t.py::first", path="/w/t.py", message="m")
SECOND = FailedTest(test="t.py::second", path="/w/t.py", message="m")


def test_a_failed_run_offers_its_failures_first_one_first() -> None:
    book = OfferBook()
    assert book.take(EVENT, (FIRST, SECOND))
    assert [offer.trigger for offer in book.of("/w")] == [FIRST, SECOND]
    newest = book.newest()
    assert newest
    assert newest.trigger is FIRST
    assert book.find("/w", None) == newest


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
    assert book.newest() is None


def test_the_newest_offer_is_that_of_the_workspace_that_failed_last() -> None:
    book = OfferBook()
    for workspace in ("/a", "/b", "/a"):
        book.take(evolve(EVENT, workspace=workspace), (FIRST,))
    newest = book.newest()
    assert newest
    assert newest.workspace == "/a"
    assert [offer.workspace for offer in book.all()] == ["/a", "/b"]


def test_an_offer_is_found_by_its_id_in_its_workspace_only() -> None:
    book = OfferBook()
    book.take(EVENT, (FIRST, SECOND))
    second = book.of("/w")[1]
    assert book.find("/w", second.id) == second
    assert book.find("/other", second.id) is None


def test_the_book_keeps_a_bounded_number_of_workspaces() -> None:
    book = OfferBook()
    for number in range(MAX_WORKSPACES + 5):
        book.take(evolve(EVENT, workspace=f"/{number}"), (FIRST,))
    assert len(book.all()) == MAX_WORKSPACES
