"""Drafters of several clients (S11)."""

import numpy as np

from modeld.slot.draft import Costs, Lengths, PromptLookup

COSTS = {1: 0.010, 32: 0.011}


def lookup(capacity: int = 1000) -> PromptLookup:
    return PromptLookup(Lengths(Costs.measured(COSTS)), capacity=capacity)


def follow(drafters: PromptLookup, client: str, tokens: range) -> None:
    drafters.of(client).follow(np.array(tokens, np.int32))


def test_every_client_has_a_text_of_its_own() -> None:
    drafters = lookup()
    follow(drafters, "ann", range(100))
    follow(drafters, "bob", range(40, 50))
    assert (len(drafters.of("ann")), len(drafters.of("bob"))) == (100, 10)


def test_the_least_recently_used_texts_go_while_all_are_too_long() -> None:
    drafters = lookup()
    for client in ("ann", "bob", "eve"):
        follow(drafters, client, range(400))
    drafters.of("bob")
    drafters.of("dan")
    assert [len(drafters.of(client)) for client in ("bob", "eve", "dan", "ann")] == [400, 400, 0, 0]


def test_the_client_that_asks_is_never_forgotten() -> None:
    drafters = lookup()
    follow(drafters, "ann", range(2000))
    assert len(drafters.of("ann")) == 2000


def test_who_is_not_kept_is_forgotten() -> None:
    drafters = lookup()
    for client in ("ann", "bob"):
        follow(drafters, client, range(10))
    drafters.keep({"bob"})
    assert [len(drafters.of(client)) for client in ("ann", "bob")] == [0, 10]
