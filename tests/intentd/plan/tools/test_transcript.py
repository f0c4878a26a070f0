"""However much a command prints, what is kept is bounded: its beginning and its end."""

from hypothesis import given
from hypothesis import strategies as st

from intentd.plan.plain import MAX_LINE, MAX_WORD
from intentd.plan.tools import Transcript


def test_a_hundred_megabytes_keep_their_beginning_and_their_end() -> None:
    transcript = Transcript(head=1000, tail=4000)
    transcript.feed(b"first line\n")
    page = b"x" * 63 + b"\n"
    for _ in range(1600):
        transcript.feed(page * 1024)
    transcript.feed(b"last line\n")
    transcript.check()
    kept = list(transcript.lines())
    assert (kept[0], kept[-2]) == ("first line", "last line")
    assert all(row in ("first line", "last line", "", "x" * 63) for row in kept)
    assert sum(map(len, kept)) < 80_000


@given(st.lists(st.binary(max_size=40)), st.integers(0, 50), st.integers(1, 50))
def test_nothing_is_lost_before_the_bounds_and_the_bounds_hold(chunks: list[bytes], head: int, tail: int) -> None:
    transcript = Transcript(head=head, tail=tail)
    for chunk in chunks:
        transcript.feed(chunk)
        transcript.check()
    whole = b"".join(chunks)
    if len(whole) <= head + tail:
        assert transcript.dropped == 0
    list(transcript.lines())


def test_single_bytes_are_joined_into_pieces() -> None:
    transcript = Transcript(head=0, tail=100_000)
    for _ in range(20_000):
        transcript.feed(b"y")
    assert list(transcript.lines()) == ["y" * (MAX_LINE - MAX_WORD)]
    transcript.check()
