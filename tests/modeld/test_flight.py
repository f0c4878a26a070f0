"""One live operation and the times that its client is told."""

from modeld.engine.messages import Ended
from modeld.flight import Flight
from modeld.schedule.messages import OpKey
from modelwire.messages import Done, Reason, Text, Timings, Turn, Usage

TURN = Turn(session="s", prefix=(Text(text="a"),))


def told(first_pass_at: float | None) -> Timings:
    flight = Flight(OpKey("ann", "1"), TURN, arrived=10.0)
    flight.ended(
        Ended(reason=Reason.END, length=0, usage=Usage(), timings=Timings(prefill=7.0), first_pass_at=first_pass_at)
    )
    last = flight.last_reply(None, now=12.0)
    assert isinstance(last, Done)
    return last.timings


def test_s2_the_first_pass_counts_from_the_arrival_whatever_the_engine_waited_for() -> None:
    assert told(10.25) == Timings(prefill=7.0, queue=2000.0, first_pass=250.0, total=2000.0)


def test_an_operation_without_a_pass_is_told_zero() -> None:
    assert told(None).first_pass == 0.0
