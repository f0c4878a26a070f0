"""I3 from end to end: planted secrets in files, in what was changed and in what commands print reach no prompt."""

from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from intentd.intake import Intake
from intentd.plan.events import CommandEnded
from intentd.plan.privacy import REDACTED, Scrubbed
from intentd.plan.templates import Template, parse
from intentd.plan.tools import catalogue
from intentd.plan.triggers import Failure
from intentd.plan.turns import build
from intentd.texts import Look, Texts
from modelwire.messages import ChatMessage
from tests.intentd.plan.privacy.corpus import Planted, planted

INTAKE = Intake(catalogue())
CLEAN = "import os\n\n\ndef main():\n    return os\n"
OUTPUT = """=================================== FAILURES ===================================
____________________________________ test_x ____________________________________

    def test_x():
>       assert 1 == 2
E       assert 1 == 2

module.py:4: AssertionError
----------------------------- Captured stdout call -----------------------------
{0}
=========================== short test summary info ============================
FAILED module.py::test_x - assert 1 == 2
"""


@pytest.fixture
def template() -> Template:
    return parse("test_failed.toml", files("intentd").joinpath("templates", "test_failed.toml").read_text())


@pytest.fixture
def prompts(tmp_path: Path, template: Template) -> Callable[[Planted], Iterator[str]]:
    """What would be sent where a secret is in the file, was in it, has come into it, and was printed."""
    texts, module = Texts(), tmp_path / "module.py"

    def prompt(failure: Failure, now: str, before: str) -> str:
        module.write_text(now)
        look: Look = texts.look(str(tmp_path))
        known = {str(module): lambda: texts.fit(before.encode())}
        turn = build(failure, template, workspace=str(tmp_path), context=32768, read=look.read, before=known)
        (message,) = turn.suffix
        assert isinstance(message, ChatMessage)
        return message.content

    def failed(printed: str) -> Failure:
        output = OUTPUT.format(printed)
        event = CommandEnded(workspace=str(tmp_path), cwd=str(tmp_path), exit=1, output=output, argv=("pytest",))
        (failure,) = INTAKE.failures(event, cut=False, started_ns=0) or ()
        return failure

    def every(plant: Planted) -> Iterator[str]:
        yield prompt(failed("quiet"), plant.text, plant.text)
        yield prompt(failed("quiet"), CLEAN, plant.text)
        yield prompt(failed("quiet"), plant.text, CLEAN)
        yield prompt(failed(plant.text), CLEAN, CLEAN)

    return every


Prompts = Callable[[Planted], Iterator[str]]


def left(prompts: Prompts, plants: list[Planted]) -> list[tuple[str, str, int]]:
    """(kind, place, which of the prompts) of the secrets of which a piece is in a prompt."""
    return [
        (plant.kind, plant.place, number)
        for plant in plants
        for number, prompt in enumerate(prompts(plant))
        if any(piece in prompt for piece in plant.pieces)
    ]


def test_no_planted_secret_is_in_a_prompt(prompts: Prompts) -> None:
    """I3: at least 200 of 20 kinds, whole and split, each in a file, on either side of a diff, and printed."""
    plants = list(planted())
    assert len(plants) >= 200
    assert len({plant.kind for plant in plants}) >= 20
    assert left(prompts, plants) == []


def test_what_stood_around_a_secret_is_in_the_prompt(prompts: Prompts) -> None:
    """Else the test above would pass for an empty prompt."""
    for plant in [plant for plant in planted() if plant.place == "file"][::10]:
        assert all(REDACTED in prompt for prompt in prompts(plant))


@pytest.mark.parametrize("broken", ["intentd.texts.scrub", "intentd.intake.scrub_long"])
def test_without_the_scanner_the_secrets_are_there(
    prompts: Prompts, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """The measurement itself: it sees what a broken scanner lets through, in files and diffs as in what was printed."""
    monkeypatch.setattr(broken, lambda text, **_: Scrubbed(text))
    plants = [plant for plant in planted() if plant.place == "file" and "\n" not in plant.pieces][::10]
    seen = {number for _, _, number in left(prompts, plants)}
    assert seen == ({0, 1, 2} if "texts" in broken else {3})
