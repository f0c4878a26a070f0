"""Prompts: the one that is shown is the one that is sent; one that cannot be made does no harm."""

import threading
from typing import Any

import pytest
from attrs import evolve

from intentd import planner, texts
from intentd.intake import Intake
from intentd.messages import GetPrompt, ShownPrompt
from intentd.plan.events import Changed
from intentd.plan.privacy import Scrubbed
from intentd.plan.turns import TurnError
from modelwire.errors import WireError
from modelwire.testing import PATIENCE_S
from tests.intentd.daemon.talk import House, ask, prompt_of, turns, warm


async def test_a_text_that_is_slow_to_look_through_keeps_nobody_waiting(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, go_on = threading.Event(), threading.Event()

    def slow(text: str) -> Scrubbed:
        looking.set()
        go_on.wait(PATIENCE_S)
        return Scrubbed(text)

    monkeypatch.setattr(texts, "scrub", slow)
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, lambda _: looking.is_set())
        assert not warm(await house.status(door))
        assert not turns(house, speculative=True)
        go_on.set()
        await house.until(door, warm)


async def test_the_prompt_that_is_shown_is_the_prompt_that_is_sent(house: House) -> None:
    """S10"""
    async with house.connect() as door:
        await house.command(door, "plain")
        cwd = str(house.workspace)
        for intent in ("explain", "fix"):
            shown: ShownPrompt = await door.ask(GetPrompt(cwd=cwd, intent=intent, offer="3"))
            await ask(house, door, intent=intent, offer="3")
            sent = turns(house, speculative=False)[-1]
            assert "".join(content for _, content in shown.messages) == prompt_of(sent)


async def test_s10_a_kept_turn_is_given_for_the_same_context_and_changes_alone(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "content", lambda workspace, blob: b"before\n")
    async with house.connect() as door:
        await house.command(door, "plain")
    offering, make = house.app.offers.all()[0], house.app.planner.turn
    kept = await make(offering, "explain", 4096)
    with pytest.raises(TurnError, match="too small"):
        await make(offering, "explain", 10)
    changed = evolve(offering, changed=(Changed(offering.failure.path, "0" * 40),))
    assert "-before" in str((await make(changed, "explain", 4096)).suffix)
    assert await make(offering, "explain", 4096) == kept


async def test_a_guess_to_explain_serves_a_fix_up_to_the_last_sentence(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        await ask(house, door, intent="fix")
        (guess, *_), (question,) = turns(house, speculative=True), turns(house, speculative=False)
        assert prompt_of(guess) != prompt_of(question)
        assert prompt_of(guess).rpartition("\n")[0] == prompt_of(question).rpartition("\n")[0]


async def test_a_prompt_that_cannot_be_made_costs_no_more_the_more_often_it_is_wanted(house: House) -> None:
    """A fault that is kept holds on to everything that it was raised through."""
    async with house.connect() as door:
        await house.command(door, "plain")
    (offering, *_), lengths = house.app.offers.all(), set()
    for _ in range(3):
        with pytest.raises(TurnError, match="too small") as caught:
            await house.app.planner.turn(offering, "explain", 10)
        lengths.add(len(caught.traceback))
    assert len(lengths) == 1


async def test_a_prompt_that_cannot_be_made_stops_nothing_and_tells_no_contents(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Faults of ours: in a parser, a template, a reader of files."""
    contents = "words of a prompt"

    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError(contents)

    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        monkeypatch.setattr(planner, "build", fail)
        with monkeypatch.context() as broken:
            broken.setattr(Intake, "failures", fail)
            await house.command(door, "collection")
        await house.command(door, "short")
        status = await house.until(door, lambda status: "failed at making its prompt" in status.reason)
        assert status.offers
        with pytest.raises(WireError, match="failed at making its prompt; its log says where"):
            await ask(house, door)
    assert "RuntimeError" in caplog.text
    assert contents not in caplog.text


async def test_a_directory_that_is_not_there_and_a_misnamed_template_show_in_status_and_log(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    await house.restart()
    async with house.connect() as door:
        (lost,) = (await house.status(door)).problems
        house.config.templates.mkdir()
        (house.config.templates / "test_fialed.toml").touch()
        (misnamed,) = (await house.status(door)).problems
    assert lost.startswith(f"{house.config.templates}: there is no such directory of templates; ")
    assert misnamed.startswith(f"{house.config.templates}/test_fialed.toml: no template is called so; ")
    assert [caplog.text.count(problem) for problem in (lost, misnamed)] == [1, 1]


async def test_a_daemon_starts_and_tells_its_status_where_its_directories_cannot_be_looked_at(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    lost = house.config.templates.parent / ("x" * 300)
    house.config = evolve(house.config, templates=lost, tools=lost)
    await house.restart()
    async with house.connect() as door:
        problems = (await house.status(door)).problems
    assert [problem.startswith(f"{lost}: this directory of ") for problem in problems] == [True, True]
    assert [caplog.text.count(problem) for problem in problems] == [1, 1]


async def test_a_template_with_a_fault_shows_in_status(house: House) -> None:
    house.config.templates.mkdir()
    (house.config.templates / "test_failed.toml").write_text('title = "x"\nsystem = 5\n')
    async with house.connect() as door:
        await house.command(door, "plain")
        status = await house.until(door, warm)
        (problem,) = status.problems
        assert "test_failed.toml:2: 'system' must be a text; the built-in" in problem
