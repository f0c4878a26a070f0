"""The open buffers of an editor: whose they are, which lines a range touches, what is kept of diagnostics."""

from pathlib import Path

import pytest
from lsprotocol.types import Diagnostic, DiagnosticSeverity, Position, Range

from intentd.sources.lsp.buffers import MAX_DIAGNOSTICS, MAX_MESSAGE, Buffer, Buffers, diagnostics_of

URI = "file:///w/a.py"


def opened(text: str = "one\ntwo\nthree") -> Buffer:
    made = Buffers().open(URI, text, 1)
    assert made is not None
    return made


def said(line: int, last: int, character: int, message: str = "wrong") -> Diagnostic:
    return Diagnostic(range=Range(Position(line, 0), Position(last, character)), message=message)


def test_what_has_no_path_of_its_own_is_not_kept() -> None:
    buffers = Buffers()
    for uri in ("untitled:Untitled-1", "https://example.org/a.py", "git:/w/a.py"):
        assert buffers.open(uri, "x = 1", 1) is None
    assert len(buffers) == 0


def test_where_nothing_marks_a_root_a_file_belongs_to_the_nearest_folder_of_the_editor(tmp_path: Path) -> None:
    outer, inner, other = tmp_path, tmp_path / "inner", tmp_path / "other"
    buffers = Buffers(folders=tuple(map(str, (outer, inner, other))))
    (inner / "deep").mkdir(parents=True)
    marked = other / "marked"
    marked.mkdir(parents=True)
    (marked / "pyproject.toml").touch()
    for path, workspace in (
        (inner / "deep/a.py", inner),
        (other / "a.py", other),
        (outer / "a.py", outer),
        (marked / "a.py", marked),
    ):
        buffer = buffers.open(path.as_uri(), "", 1)
        assert buffer is not None
        assert buffer.workspace == str(workspace)
    alone = Buffers(folders=(str(inner),)).open((other / "a.py").as_uri(), "", 1)
    assert alone is not None
    assert alone.workspace == str(other)


@pytest.mark.parametrize(
    ("start", "end", "lines"),
    [
        ((0, 1), (0, 1), (0, 1)),
        ((0, 0), (1, 0), (0, 1)),
        ((0, 0), (1, 1), (0, 2)),
        ((1, 2), (2, 9), (1, 3)),
        ((2, 5), (9, 0), (2, 3)),
    ],
)
def test_a_range_that_ends_before_a_lines_first_character_leaves_that_line_out(
    start: tuple[int, int], end: tuple[int, int], lines: tuple[int, int]
) -> None:
    assert opened().lines_of(Range(Position(*start), Position(*end))) == lines


def test_of_diagnostics_a_bounded_number_of_bounded_length_is_kept() -> None:
    kept = diagnostics_of(said(number, number, 4, "x" * 1999 + " y" * 99) for number in range(2 * MAX_DIAGNOSTICS))
    assert len(kept) == MAX_DIAGNOSTICS
    assert {len(one.message) for one in kept} == {MAX_MESSAGE - 1}
    (whole,) = diagnostics_of([said(1, 3, 0)])
    assert (whole.line, whole.last, whole.severity) == (1, 2, 1)


def test_of_too_many_diagnostics_those_are_kept_that_would_be_asked_about_first() -> None:
    others = [said(number, number, 4) for number in range(2 * MAX_DIAGNOSTICS)]
    hint = Diagnostic(range=Range(Position(999, 0), Position(999, 4)), message="hint", severity=DiagnosticSeverity.Hint)
    kept = diagnostics_of([*others, hint], 999)
    assert len(kept) == MAX_DIAGNOSTICS
    assert kept[0].message == "hint"
    assert min(one.line for one in kept) > MAX_DIAGNOSTICS


def test_what_is_told_as_before_stays_where_edits_have_moved_it_and_what_is_found_anew_does_not() -> None:
    """Another tool has found something, and the editor tells all that it knows, where it was found."""
    buffers = Buffers()
    buffer = buffers.open(URI, "one\ntwo\nthree", 1)
    assert buffer is not None
    buffer.forward([said(1, 2, 3)])
    above = type("Change", (), {"range": Range(Position(0, 0), Position(0, 0)), "text": "zero\n"})
    buffers.edit(URI, 2, [above], lambda *_: None)
    for others in ([said(0, 0, 3, "other")], []):
        buffer.forward([*others, said(1, 1, 0)])  # its end is clipped to the line that stands there now
        moved = next(one for one in buffer.diagnostics if one.message == "wrong")
        assert (moved.line, moved.last) == (2, 3)
    again = said(1, 1, 3)
    again.data = 2
    buffer.forward([said(1, 1, 3), again])
    assert [one.line for one in buffer.diagnostics] == [1, 2]
    buffer.forward([])
    buffer.forward([said(1, 1, 3)])
    assert [one.line for one in buffer.diagnostics] == [1]


def test_a_line_break_before_a_line_takes_what_is_said_of_it_along() -> None:
    buffers = Buffers()
    buffer = buffers.open(URI, "one\ntwo\nthree", 1)
    assert buffer is not None
    buffer.diagnostics = diagnostics_of([said(1, 1, 3)])
    line_break = type("Change", (), {"range": Range(Position(1, 0), Position(1, 0)), "text": "\n"})
    buffers.edit(URI, 2, [line_break], lambda *_: None)
    assert [(one.line, one.last) for one in buffer.diagnostics] == [(2, 2)]  # nobody forwards it, and it still holds


def test_an_edit_moves_what_is_said_ends_the_selection_and_brings_its_version() -> None:
    buffers = Buffers()
    buffer = buffers.open(URI, "one\ntwo\nthree", 1)
    assert buffer is not None
    buffer.diagnostics, buffer.selection = diagnostics_of([said(1, 2, 3)]), (0, 1)
    whole = type("Change", (), {"range": Range(Position(0, 0), Position(0, 0)), "text": "zero\n"})
    buffers.edit(URI, 7, [whole], lambda *_: None)
    assert (buffer.diagnostics[0].line, buffer.diagnostics[0].last) == (2, 3)
    assert buffer.view().selection == ()
    assert buffer.document.version == 7
    assert buffer.as_lsp(buffer.diagnostics[0]).range == Range(Position(2, 0), Position(2, 3))
    buffers.edit("file:///w/unknown.py", 8, [whole], lambda *_: None)


def test_an_edit_without_a_range_is_the_whole_text() -> None:
    buffers = Buffers()
    buffer = buffers.open(URI, "one\ntwo", 1)
    assert buffer is not None
    buffers.edit(URI, 2, [type("Change", (), {"text": "three\r\n"})], lambda *_: None)
    assert buffer.document.text == "three\r\n"
