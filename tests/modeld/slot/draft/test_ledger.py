"""Off where it does not pay, and on again with backoff."""

from modeld.slot.draft.ledger import ALLOWANCE, CREDIT, FIRST_REST, LONGEST_REST, Ledger

SINGLE = 0.010


def lose_until_off(ledger: Ledger) -> float:
    """The time that was lost, in single rows."""
    before = ledger.lost
    for _ in range(1_000):
        if ledger.on:
            ledger.enter(accepted=0, seconds=3 * SINGLE, single=SINGLE)
    assert not ledger.on
    return (ledger.lost - before) / SINGLE


def rest_of(ledger: Ledger) -> int:
    for tokens in range(1, 2 * LONGEST_REST):
        ledger.rest(1)
        if ledger.on:
            return tokens
    raise AssertionError("it never tries again")


def test_drafting_is_switched_off_once_the_probe_has_lost_its_budget() -> None:
    """D3: drafting never makes generation slower beyond the probe's budget."""
    assert lose_until_off(Ledger()) <= ALLOWANCE + 2


def test_each_failed_retry_rests_twice_as_long_up_to_a_bound() -> None:
    ledger = Ledger()
    rests = []
    for _ in range(12):
        lose_until_off(ledger)
        rests.append(rest_of(ledger))
    assert rests[:3] == [FIRST_REST, 2 * FIRST_REST, 4 * FIRST_REST]
    assert rests[-1] == LONGEST_REST


def test_a_retry_may_lose_half_of_what_the_first_try_may() -> None:
    ledger = Ledger()
    lose_until_off(ledger)
    rest_of(ledger)
    assert lose_until_off(ledger) <= ALLOWANCE / 2 + 2


def test_drafting_that_pays_stays_on_and_shortens_the_next_rest() -> None:
    ledger = Ledger()
    for _ in range(3):
        lose_until_off(ledger)
        rest_of(ledger)
    for _ in range(int(CREDIT)):
        ledger.enter(accepted=7, seconds=4 * SINGLE, single=SINGLE)
    assert ledger.on
    lose_until_off(ledger)
    assert rest_of(ledger) == FIRST_REST


def test_another_answer_waits_no_longer_than_the_first_rest_but_as_long() -> None:
    """D3: answers that are short and many would each lose a retry's budget."""
    ledger = Ledger()
    for _ in range(4):
        lose_until_off(ledger)
        rest_of(ledger)
    lose_until_off(ledger)
    ledger.begin()
    assert rest_of(ledger) == FIRST_REST


def test_a_good_past_does_not_hide_a_bad_present_for_long() -> None:
    ledger = Ledger()
    for _ in range(1_000):
        ledger.enter(accepted=7, seconds=4 * SINGLE, single=SINGLE)
    assert lose_until_off(ledger) <= CREDIT + ALLOWANCE + 3


def test_time_saved_and_lost_are_counted_apart() -> None:
    ledger = Ledger()
    ledger.enter(accepted=3, seconds=0.020, single=0.010)
    ledger.enter(accepted=0, seconds=0.025, single=0.010)
    assert (round(ledger.saved, 6), round(ledger.lost, 6)) == (0.020, 0.015)
