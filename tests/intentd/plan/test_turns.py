"""The turn: what it says, that it is the same whenever its inputs are, and that it fits."""

from collections.abc import Callable, Sequence

import pytest
from attrs import evolve

from intentd.plan.templates import Template
from intentd.plan.triggers import Failure, Location
from intentd.plan.turns import CHARACTERS_PER_TOKEN, MAX_FILES, PlannedTurn, TurnError, anchor, build
from modelwire.messages import ChatMessage, DecodeConfig

Failures = Callable[[str], Sequence[Failure]]
TurnOf = Callable[..., PlannedTurn]
STYLES = ("plain", "quiet", "colour", "terminal", "short", "line", "native", "none", "no-summary", "verbose-xdist")


@pytest.fixture
def turn_of(project: dict[str, str], template: Template) -> Callable[..., PlannedTurn]:
    def turn(failure: Failure, *, context: int = 4096, files: dict[str, str] | None = None) -> PlannedTurn:
        read = (project if files is None else files).get
        return build(failure, template, workspace="/project", context=context, read=read)

    return turn


def text_of(turn: PlannedTurn) -> str:
    (message,) = turn.suffix
    assert isinstance(message, ChatMessage)
    return message.content


def named(failures: Sequence[Failure], name: str) -> Failure:
    return next(failure for failure in failures if name in failure.name)


def test_a_turn_shows_the_test_then_the_code_then_the_traceback(failures: Failures, turn_of: TurnOf) -> None:
    text = text_of(turn_of(named(failures("plain"), "odd")))
    order = [
        "tests/test_prices.py:\n```\n",
        '@pytest.mark.parametrize("kind"',
        "shop/prices.py:\n```\n",
        "def rate(kind):",
        "E           LookupError: no rate for odd - kind",
        "Say in a few sentences why tests/test_prices.py::test_kinds[odd - kind] fails",
    ]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)


def test_files_that_fit_are_shown_whole_and_once_and_of_others_the_block(
    failures: Failures, turn_of: TurnOf, project: dict[str, str]
) -> None:
    failure = named(failures("plain"), "odd")
    path = "/project/shop/prices.py"
    small = text_of(turn_of(failure))
    assert small.count(project[path].rstrip()) == 1
    padding = "\n".join(f"FILLER_{number} = {number}" for number in range(2000))
    large = text_of(turn_of(failure, files={**project, path: f"{project[path]}\n{padding}"}))
    assert "def rate(kind):" in large
    assert "FILLER" not in large


TEST = "from shop import mean\n\n\ndef test_mean():\n    assert mean([1, 2, 3]) == 2\n"
ASSERTION = Failure(
    name="tests/test_mean.py::test_mean",
    path="/project/tests/test_mean.py",
    message="assert 3 == 2",
    frames=(Location("/project/tests/test_mean.py", 5),),
)


@pytest.mark.parametrize(
    "files",
    [
        {"shop.py": "def mean(values):\n    return max(values)\n"},
        {"src/shop/__init__.py": "async def mean(values):\n    return max(values)\n"},
        {
            "shop/__init__.py": "from shop.sums import average as mean\n",
            "shop/sums.py": "from .raw import average\n",
            "shop/raw.py": "def average(values):\n    return max(values)\n",
        },
    ],
    ids=["module", "package", "handed on"],
)
def test_the_function_that_a_failed_assertion_calls_is_shown(turn_of: TurnOf, files: dict[str, str]) -> None:
    there = {"/project/tests/test_mean.py": TEST, **{f"/project/{path}": text for path, text in files.items()}}
    text = text_of(turn_of(ASSERTION, files=there))
    assert text.count("return max(values)") == 1


def test_names_that_lead_nowhere_or_in_circles_are_left_out(turn_of: TurnOf) -> None:
    missing = {"/project/tests/test_mean.py": TEST}
    circle = {"/project/shop/__init__.py": "from shop import mean\n"}
    assert "(not available)" in text_of(turn_of(ASSERTION, files=missing))
    assert "(not available)" in text_of(turn_of(ASSERTION, files={**missing, **circle}))


def test_the_stable_part_does_not_depend_on_the_failure(failures: Failures, turn_of: TurnOf) -> None:
    assert len({turn_of(failure).prefix for style in STYLES for failure in failures(style)}) == 1


@pytest.mark.parametrize("style", STYLES)
def test_the_same_inputs_make_the_same_bytes(failures: Failures, turn_of: TurnOf, style: str) -> None:
    """S10"""
    first, second = failures(style), failures(style)
    assert [turn_of(failure) for failure in first] == [turn_of(failure) for failure in second]
    assert [turn_of(failure).key for failure in first] == [turn_of(failure).key for failure in second]


def test_s10_turns_that_differ_in_anything_that_is_sent_have_other_keys() -> None:
    one, other = (ChatMessage(role="user", content=content) for content in "ab")
    turns = [
        PlannedTurn(prefix=prefix, suffix=suffix, decode=DecodeConfig(max_tokens=most), limit=9)
        for prefix, suffix in (((one,), (other,)), ((one,), ()), ((one, other), ()), ((), (one, other)))
        for most in (1, 2)
    ]
    assert len({turn.key for turn in turns}) == len(turns)


def test_colours_and_control_characters_change_no_byte(failures: Failures, turn_of: TurnOf) -> None:
    """S10"""
    plain = turn_of(failures("plain")[0])
    assert turn_of(failures("terminal")[0]) == plain
    assert turn_of(failures("colour")[0]) == plain


@pytest.mark.parametrize("context", [1024, 2048, 4096, 32768])
def test_a_turn_fits_into_the_context(failures: Failures, template: Template, context: int) -> None:
    failure = evolve(
        failures("plain")[0],
        traceback=tuple(f"line {number} " + "x" * 300 for number in range(5000)),
        captured=("y" * 10_000,),
        frames=tuple(Location(f"/project/m{number}.py", 7) for number in range(50)),
    )

    def body(path: str) -> str:
        return "def f():\n" + f"    call('{path}', {'z' * 200})\n" * 700

    before = {f"/project/m{number}.py": lambda: "    call()\n" * 90 for number in range(50)}
    turn = build(failure, template, workspace="/project", context=context, read=body, before=before)
    (system,) = turn.prefix
    assert isinstance(system, ChatMessage)
    room = (context - turn.decode.max_tokens) * CHARACTERS_PER_TOKEN
    assert len(system.content) + len(text_of(turn)) <= min(room, template.characters + 3000)


def test_a_context_without_room_is_said(failures: Failures, turn_of: TurnOf) -> None:
    with pytest.raises(TurnError, match="context of 512 tokens is too small"):
        turn_of(failures("plain")[0], context=512)


def test_what_cannot_be_read_is_left_out(failures: Failures, turn_of: TurnOf) -> None:
    """I3"""
    text = text_of(turn_of(named(failures("plain"), "odd"), files={}))
    assert "def rate" in text  # pytest itself has printed it
    assert "shop/prices.py:\n```" not in text
    assert "(not available)" in text


def test_a_test_is_tied_to_its_name_and_a_diagnostic_to_its_line(failures: Failures, project: dict[str, str]) -> None:
    odd = named(failures("plain"), "odd")
    assert anchor(odd, project.get) == "test_kinds"
    assert anchor(evolve(odd, name="tests/test_prices.py::Child::test_inherited"), project.get) == ""
    place = Location("/project/shop/prices.py", 8)
    error = Failure(trigger="diagnostic", tool="mypy", name="n", path=place.path, message="m", frames=(place,))
    assert anchor(error, project.get) == project[place.path].split("\n")[7].strip()
    assert anchor(evolve(error, path="/project/missing.py"), project.get) is None


def test_a_turn_looks_at_a_bounded_number_of_files(failures: Failures, template: Template) -> None:
    looked = list[str]()
    failure = evolve(failures("plain")[0], frames=tuple(Location(f"/project/m{n}.py", 7) for n in range(50)))
    build(failure, template, workspace="/project", context=4096, read=looked.append)
    assert len(looked) == MAX_FILES


def test_a_dollar_in_contents_is_no_placeholder(failures: Failures, turn_of: TurnOf) -> None:
    failure = evolve(named(failures("plain"), "odd"), traceback=("$source ${code} $$",))
    assert "$source ${code} $$" in text_of(turn_of(failure))
