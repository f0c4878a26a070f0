"""Text that may be shown: whole characters, nothing of a stop string, whatever the tokens' borders."""

from hypothesis import given
from hypothesis import strategies as st

from modeld.slot.stops import StopText


def _shown(pieces: list[bytes], stops: tuple[str, ...]) -> tuple[list[str], bool]:
    text = StopText(stops)
    shown = [text.feed(piece) for piece in pieces]
    stopped = text.stopped
    return [*shown, text.flush()], stopped


def test_a_stop_string_over_several_tokens_is_held_back_and_never_shown() -> None:
    assert _shown([b"one ", b"<e", b"nd", b"> more", b"x"], ("<end>",)) == (["one ", "", "", "", "", ""], True)


def test_text_that_only_looked_like_a_stop_string_is_shown_as_soon_as_that_is_clear() -> None:
    assert _shown([b"a<e", b"n", b"x"], ("<end>",)) == (["a", "", "<enx", ""], False)
    assert _shown([b"aa", b"a", b"b"], ("aab",)) == (["", "a", "", ""], True)


def test_held_text_comes_out_at_the_end() -> None:
    assert _shown([b"a<en"], ("<end>",)) == (["a", "<en"], False)


def test_the_earliest_of_several_stop_strings_cuts() -> None:
    assert _shown([b"one two three"], ("three", "two", "wo")) == (["one ", ""], True)


def test_characters_come_whole_and_half_a_one_at_the_end_is_left_out() -> None:
    assert _shown([b"\xf0\x9f", b"\x98\x80x", b"\xc3"], ()) == (["", "😀x", "", ""], False)


def test_bytes_that_are_no_text_are_marked() -> None:
    assert "".join(_shown([b"a\xff", b"b"], ())[0]) == "a\ufffdb"


def test_a_stop_string_may_be_a_character_in_pieces() -> None:
    assert _shown([b"a\xc3", b"\xa9b"], ("é",)) == (["a", "", ""], True)


@given(
    st.text("abé", max_size=30),
    st.lists(st.text("abé", min_size=1, max_size=4), max_size=3),
    st.lists(st.integers(1, 4)),
)
def test_any_cutting_shows_the_text_before_the_first_stop_string(text: str, stops: list[str], cuts: list[int]) -> None:
    data, pieces = text.encode(), []
    for cut in [*cuts, len(text.encode()) + 1]:
        pieces.append(data[:cut])
        data = data[cut:]
    shown, stopped = _shown(pieces, tuple(stops))
    ends = [text.index(stop) for stop in stops if stop in text]
    assert stopped == bool(ends)
    if not ends:
        assert "".join(shown) == text
    else:
        # A stop string counts from the moment that it is complete: of all, the one that is complete first.
        first = min(text.index(stop) + len(stop) for stop in stops if stop in text)
        assert "".join(shown) in {text[: text.index(s)] for s in stops if s in text and text.index(s) <= first}
