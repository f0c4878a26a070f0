"""What was changed since the last commit: bounded, without line numbers, in a stable order."""

from collections.abc import Callable, Sequence

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from intentd.plan.changes import MAX_CHANGED_LINES, diff, fitting
from intentd.plan.templates import Template
from intentd.plan.triggers import Failure
from intentd.plan.turns import MAX_CHANGES, build
from modelwire.messages import ChatMessage

BEFORE = "".join(f"line {number}\n" for number in range(40))
Failures = Callable[[str], Sequence[Failure]]


def test_a_change_is_shown_with_what_stands_around_it() -> None:
    now = BEFORE.replace("line 20\n", "line twenty\nand more\n")
    assert diff("shop/a.py", BEFORE, now).split("\n") == [
        *("--- shop/a.py", "@@", " line 17", " line 18", " line 19"),
        *("-line 20", "+line twenty", "+and more"),
        *(" line 21", " line 22", " line 23"),
    ]


def test_lines_above_a_change_do_not_show_in_it() -> None:
    now = BEFORE.replace("line 20\n", "line twenty\n")
    assert diff("a", "# new\n" + BEFORE, "# new\n" + now) == diff("a", BEFORE, now)


def test_a_file_without_a_change_and_one_that_was_written_anew_show_nothing() -> None:
    assert diff("a", BEFORE, BEFORE) == ""
    other = "".join(f"other {number}\n" for number in range(MAX_CHANGED_LINES + 1))
    assert diff("a", BEFORE, other) == ""


@given(st.lists(st.sampled_from("abc "), max_size=30), st.lists(st.sampled_from("abc "), max_size=30))
def test_a_diff_tells_every_line_that_went_and_came(before: list[str], now: list[str]) -> None:
    old, new = "\n".join([*before, "end"]), "\n".join([*now, "end"])
    told = diff("a", old, new).split("\n")[1:]
    gone, come = ([line[1:] for line in told if line[:1] == sign] for sign in "-+")
    assert len(come) - len(gone) == len(now) - len(before)
    assert bool(told) == (old != new)


@given(st.lists(st.text(alphabet="ab\n", min_size=1, max_size=60), max_size=8), st.integers(0, 100))
def test_what_is_shown_fits(diffs: list[str], limit: int) -> None:
    assert len(fitting(iter(diffs), limit)) <= limit


def text_of(failure: Failure, template: Template, files: dict[str, str], before: dict[str, str] | None) -> str:
    known = None if before is None else {path: lambda text=text: text for path, text in before.items()}
    turn = build(failure, template, workspace="/project", context=8192, read=files.get, before=known)
    (message,) = turn.suffix
    assert isinstance(message, ChatMessage)
    return message.content


def test_the_diff_is_the_last_part_and_the_named_files_come_first(
    failures: Failures, template: Template, project: dict[str, str]
) -> None:
    failure = next(one for one in failures("plain") if "odd" in one.name)
    files = {**project, "/project/a.py": "a = 2\n", "/project/z.py": "z = 2\n"}
    before = {path: text + "# gone\n" for path, text in files.items() if "import" not in path}
    text = text_of(failure, template, files, before)
    order = ["LookupError: no rate for odd - kind\n", "last commit:\n```\n--- shop/prices.py"]
    order += ["--- tests/test_prices.py", "--- a.py", "--- z.py", "```\n\nSay in a few sentences"]
    assert [text.rindex(part) for part in order] == sorted(text.rindex(part) for part in order)
    changed = {**before, "/project/z.py": "z = 1\n"}
    other = text_of(failure, template, files, changed)
    assert other.partition("--- z.py")[0] == text.partition("--- z.py")[0]


def test_what_may_not_be_read_now_is_not_shown_as_it_was(
    failures: Failures, template: Template, project: dict[str, str]
) -> None:
    """I3: an ignored or refused file that is in the repository all the same."""
    text = text_of(failures("plain")[0], template, project, {"/project/hidden.py": "was = 'here'\n"})
    assert "was = 'here'" not in text
    assert "hidden.py" not in text
    assert "last commit:\n(not available)\n" in text


@pytest.mark.parametrize(("before", "told"), [(None, "(not available)"), ({}, "(nothing in the files of that commit)")])
def test_that_nothing_was_changed_is_said_only_where_git_said_so(
    failures: Failures, template: Template, before: dict[str, str] | None, told: str
) -> None:
    """What the model is told is true."""
    assert f"last commit:\n{told}\n" in text_of(failures("plain")[0], template, {}, before)


def test_a_bounded_number_of_files_is_compared(failures: Failures, template: Template) -> None:
    looked = list[str]()

    def before(path: str) -> Callable[[], str]:
        def look() -> str:
            looked.append(path)
            return "old\n"

        return look

    paths = [f"/project/m{number}.py" for number in range(50)]
    failure = evolve(failures("plain")[0], frames=())
    known = {path: before(path) for path in paths}
    build(failure, template, workspace="/project", context=8192, read=lambda _: "new\n", before=known)
    assert looked == sorted(paths)[:MAX_CHANGES]


@pytest.mark.parametrize("lines", [0, 5, 5000])
def test_a_long_diff_moves_nothing_before_it(
    failures: Failures, template: Template, project: dict[str, str], lines: int
) -> None:
    """S10."""
    path, failure = "/project/shop/prices.py", evolve(failures("plain")[0], traceback=("t" * 60,) * 400)
    before = {path: "\n".join(f"x = {n}" for n in range(min(lines, 700))) + "\n" + project[path]}
    text = text_of(failure, template, project, before)
    alone = text_of(failure, template, project, {})
    assert text.partition("last commit:")[0] == alone.partition("last commit:")[0]
    assert len(text) < template.characters + 3000
