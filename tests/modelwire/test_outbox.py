"""What waits for a slow client: ordered, merged, bounded."""

from hypothesis import given
from hypothesis import strategies as st

from modelwire.messages import Acknowledged, Done, Error, Progress, Reason, Tokens
from modelwire.outbox import Outbox
from modelwire.protocol import MODELD

CODEC = MODELD.codec()
SLOW = Error(code="overloaded", message="slow")


def outbox(limit: int = 10_000) -> Outbox:
    return Outbox(MODELD, CODEC, limit)


def push(box: Outbox, op: str, message: object) -> bool:
    return box.push(op, message, len(CODEC.encode(op, message)))


def drain(box: Outbox) -> list[tuple[str, object]]:
    sent: list[tuple[str, object]] = []
    while box:
        envelope = CODEC.decode(box.head())
        sent.append((envelope.op, envelope.message))
        box.pop()
        box.check()
    assert box.size == 0
    return sent


def test_tokens_of_an_operation_merge_and_nothing_is_lost() -> None:
    box = outbox()
    for index in range(3):
        assert push(box, "a", Tokens(text=f"{index}", ids=(index,)))
    assert drain(box) == [("a", Tokens(text="012", ids=(0, 1, 2)))]


def test_of_progress_only_the_newest_is_sent() -> None:
    box = outbox()
    push(box, "a", Progress(reused=0, done=1, total=9))
    push(box, "a", Progress(reused=0, done=5, total=9))
    assert drain(box) == [("a", Progress(reused=0, done=5, total=9))]


def test_a_confirmed_cancel_stays_behind_the_tokens_that_came_before_it_S9() -> None:
    box = outbox()
    push(box, "a", Tokens(text="1"))
    push(box, "c", Acknowledged(found=True))
    push(box, "a", Done(reason=Reason.CANCELLED))
    assert [op for op, _ in drain(box)] == ["a", "c", "a"]


def test_nothing_merges_into_a_message_that_was_tried() -> None:
    box = outbox()
    push(box, "a", Tokens(text="1"))
    first = box.head()
    push(box, "a", Tokens(text="2"))
    push(box, "a", Tokens(text="3"))
    assert box.head() == first
    assert drain(box) == [("a", Tokens(text="1")), ("a", Tokens(text="23"))]


def test_what_merges_stays_small_enough_for_one_message() -> None:
    codec = MODELD.codec(200)
    box, text = Outbox(MODELD, codec, 10_000), ""
    for index in range(40):
        tokens = Tokens(text=f"{index} ", ids=(index,))
        text += tokens.text
        assert box.push("a", tokens, len(codec.encode("a", tokens)))
    sent = [message for _, message in drain(box)]
    assert 1 < len(sent) < 40
    assert "".join(message.text for message in sent if isinstance(message, Tokens)) == text


def test_beyond_the_limit_nothing_is_taken() -> None:
    box = outbox(limit=100)
    assert push(box, "a", Tokens(text="x" * 40))
    assert not push(box, "a", Tokens(text="y" * 40))
    assert box.size <= 100
    assert drain(box) == [("a", Tokens(text="x" * 40))]


def test_giving_up_ends_every_operation_once_and_keeps_ends_that_lost_nothing_S8() -> None:
    box = outbox()
    push(box, "a", Tokens(text="1"))
    push(box, "a", Done(reason=Reason.END))  # without its tokens this end would be a lie
    push(box, "b", Done(reason=Reason.END))
    push(box, "c", Tokens(text="1"))
    box.give_up(SLOW, ["c", "d"])
    box.check()
    assert drain(box) == [("a", SLOW), ("b", Done(reason=Reason.END)), ("c", SLOW), ("d", SLOW)]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["text", "progress", "pop", "head"]))))
def test_in_any_order_of_events_each_operations_text_arrives_whole_and_in_order(events: list[tuple[str, str]]) -> None:
    box, wanted, sent = outbox(10**6), {"a": "", "b": ""}, {"a": "", "b": ""}

    def take() -> None:
        envelope = CODEC.decode(box.head())
        sent[envelope.op] += getattr(envelope.message, "text", "")
        box.pop()

    for index, (op, what) in enumerate(events):
        if what == "text":
            push(box, op, Tokens(text=f"{index} "))
            wanted[op] += f"{index} "
        elif what == "progress":
            push(box, op, Progress(reused=0, done=index, total=index))
        elif box:
            take() if what == "pop" else box.head()
        box.check()
    while box:
        take()
    assert sent == wanted
