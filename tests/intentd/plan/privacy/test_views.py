"""In a view a split secret is whole, and every character of it leads back to the text."""

from hypothesis import given
from hypothesis import strategies as st

from intentd.plan.privacy.views import Span, joined, whole


def test_a_wrapped_line_is_whole_in_a_view() -> None:
    assert "one=abcdef" in joined("one=abc\ndef\n")[0].text


def test_marks_and_quotes_between_lines_are_gone_in_the_second_view() -> None:
    texts = [
        '+x = "abc"\n+    "def"',
        "E   x = abc\nE   def",
        "> x = abc\n> def",
        'x = "abc" + "def"',
        "| x=abc\\\n| def",
    ]
    for text in texts:
        assert any("abcdef" in view.text for view in joined(text)), text


def test_a_line_that_ends_in_no_part_of_a_secret_stays_apart() -> None:
    assert joined("foo(a),\nbar(b)\n") == []


def test_a_span_of_a_view_leads_to_its_parts_in_the_text() -> None:
    text = "x=abc\ndef\n"
    view = joined(text)[0]
    start = view.text.index("abcdef")
    assert list(view.spans(start, start + 6)) == [Span(2, 5), Span(6, 9)]
    assert view.joins(start, start + 6) == [start + 3]
    assert view.joins(start, start + 3) == []


@given(st.text(alphabet="ab=\n+-\"' E>|\\"))
def test_every_character_of_a_view_is_the_same_in_the_text(text: str) -> None:
    for view in (whole(text), *joined(text)):
        assert [text[view.at(index)] for index in range(len(view.text))] == list(view.text)
        spans = list(view.spans(0, len(view.text)))
        assert "".join(text[span.start : span.end] for span in spans) == view.text
