"""What guesses were good for, and when that is too little."""

from hypothesis import given
from hypothesis import strategies as st

from intentd.plan.ledger import FIRST_RETRY_S, LEAST_SETTLED, Ledger


def waste(ledger: Ledger, count: int, now: float = 0.0) -> None:
    for _ in range(count):
        ledger.guessed("crash", 10)
        ledger.dropped("crash", 10, 0.5, now)


def test_a_trigger_that_nobody_asks_for_is_switched_off_and_tried_again() -> None:
    ledger = Ledger()
    waste(ledger, LEAST_SETTLED - 1)
    assert not ledger.switched_off(0.0)
    waste(ledger, 1)
    assert ledger.switched_off(0.0) == {"crash"}
    assert ledger.figures(0.0)["crash"]["retry_s"] == FIRST_RETRY_S
    assert not ledger.switched_off(FIRST_RETRY_S)
    waste(ledger, 1, FIRST_RETRY_S)  # the one more guess was in vain as well: it takes longer from here on
    assert ledger.figures(FIRST_RETRY_S)["crash"]["retry_s"] == 2 * FIRST_RETRY_S


def test_guesses_that_go_together_make_one_pause() -> None:
    ledger = Ledger()
    waste(ledger, LEAST_SETTLED + 3)
    assert ledger.figures(0.0)["crash"]["retry_s"] == FIRST_RETRY_S
    waste(ledger, 3, FIRST_RETRY_S)
    assert ledger.figures(FIRST_RETRY_S)["crash"]["retry_s"] == 2 * FIRST_RETRY_S


def test_a_guess_that_was_asked_for_switches_its_trigger_on() -> None:
    ledger = Ledger()
    waste(ledger, LEAST_SETTLED)
    ledger.asked("crash", "partial", guessed=True, now=1.0)
    assert not ledger.switched_off(1.0)


def test_one_trigger_does_not_pay_for_another() -> None:
    ledger = Ledger()
    waste(ledger, 30)
    ledger.asked("test_failed", "hit", guessed=True, now=0.0)
    assert ledger.switched_off(0.0) == {"crash"}
    assert ledger.figures(0.0)["crash"]["wasted"] == 300
    assert ledger.figures(0.0)["crash"]["wasted_s"] == 15.0
    assert ledger.figures(0.0)["test_failed"]["hits"] == 1


@given(st.lists(st.sampled_from(["guess", "preempt", "hit", "partial", "warm", "cold", "drop", "lose", "use"])))
def test_what_is_counted_adds_up(steps: list[str]) -> None:
    ledger, warm = Ledger(), 0
    for now, step in enumerate(steps):
        if step == "guess":
            ledger.guessed("t", 7)
            warm += 1
        elif step == "preempt":
            ledger.preempted("t")
        elif step == "use":
            ledger.used("t", now)
        elif step == "lose":
            ledger.guessed("t", 3)
            ledger.lost("t", 3, 0.1)
        elif step != "drop":
            ledger.asked("t", step, guessed=warm > 0, now=now)
            warm = max(warm - 1, 0)
        elif warm:
            ledger.dropped("t", 7, 0.1, now)
            warm -= 1
        ledger.check()
