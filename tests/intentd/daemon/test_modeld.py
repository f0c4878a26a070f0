"""The daemon without modeld, and when modeld dies and comes back."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from intentd import planner, speculator
from intentd.messages import Complete, GetPrompt, ShownPrompt
from intentd.plan.offers import OfferBook
from intentd.planner import Planner
from intentd.shelf import TemplateShelf
from intentd.shown import View
from intentd.speculator import Speculator
from modelwire.client import Client
from modelwire.errors import EndpointError, ErrorCode, WireError
from modelwire.keys import Keys, to_hex
from modelwire.messages import Describe, Error, GetStatus, ModelDescription, Reason, Turn
from modelwire.testing import MODEL, PATIENCE_S
from tests.intentd.daemon.talk import House, ask, turns, warm


async def test_without_modeld_the_answer_says_how_to_start_it(house: House) -> None:
    await house.modeld.die()
    async with house.connect() as door:
        await house.command(door, "plain")
        status = await house.until(door, lambda status: not status.modeld_reachable and bool(status.offers))
        assert status.reason == "modeld does not answer"
        with pytest.raises(
            WireError, match=r"no modeld answers at ipc://.*: start it with 'modeld serve --socket ipc:"
        ):
            await ask(house, door)


async def test_a_prompt_that_is_shown_before_modeld_was_there_says_that_it_may_differ(house: House) -> None:
    await house.modeld.die()
    await house.restart()
    async with house.connect() as door:
        await house.command(door, "plain")
        shown: ShownPrompt = await door.ask(GetPrompt(cwd=str(house.workspace)))
        assert shown.doubt.startswith("modeld has not answered yet")
        await house.modeld.start()
        await house.until(door, lambda status: status.modeld_reachable)
        await house.modeld.die()  # what it takes is known from here on
        shown = await door.ask(GetPrompt(cwd=str(house.workspace)))
        assert shown.doubt == ""


async def test_a_modeld_over_tcp_that_does_not_answer_is_said_not_to_be_ready(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(speculator, "TIMEOUT_S", 0.01)
    monkeypatch.setenv("GUESSAHEAD_KEYS", str(tmp_path / "keys"))
    endpoint = "tcp://127.0.0.1:1"
    asking = Speculator(endpoint, Planner(TemplateShelf(tmp_path)), OfferBook())
    with pytest.raises(EndpointError, match="modeld keys trust"):
        await asking.reach()
    Keys().trust(endpoint, to_hex(Keys().own().public))
    with pytest.raises(WireError, match="is not ready yet") as caught:
        await asking.reach()
    assert caught.value.code == ErrorCode.NOT_READY


async def test_a_modeld_that_comes_back_is_given_the_guess_again(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        await house.modeld.die()
        assert not warm(await house.until(door, lambda status: not status.modeld_reachable))
        await house.modeld.start()
        await house.until(door, warm)
        first = turns(house, speculative=True)[0]
        assert sum(turn.suffix == first.suffix for turn in turns(house, speculative=True)) == 2


async def test_a_modeld_that_goes_while_something_changes_all_the_time_is_missed(house: House) -> None:
    async def change() -> None:
        while True:
            house.app.speculator.poke()
            await asyncio.sleep(0.01)

    async with house.connect() as door:
        await house.until(door, lambda status: status.modeld_reachable)
        changing = asyncio.create_task(change())
        try:
            await house.modeld.die()
            await house.until(door, lambda status: not status.modeld_reachable)
        finally:
            changing.cancel()


def become(house: House, *, state: str = "idle", pid: int = 1, model: ModelDescription = MODEL) -> None:
    """What the scripted modeld says of itself from now on."""
    (description,) = house.modeld._question("test", Describe())
    (status,) = house.modeld._question("test", GetStatus())
    name = "" if state in ("loading", "restarting") else model.name
    answers = house.modeld.script.answers
    answers[GetStatus] = lambda _: [evolve(status, state=state, engine_pid=pid, model=name)]
    limits = evolve(description.limits, context=4096 if model is MODEL else 2048)
    answers[Describe] = lambda _: [evolve(description, model=model, limits=limits)]


async def test_another_model_is_noticed_with_all_that_depends_on_it(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, lambda status: status.reason == "every offer is warm")
        count = len(turns(house, speculative=True))
        become(house, pid=1, model=evolve(MODEL, name="other", fim_tokens=("<p>", "<s>", "<m>")))
        speculator = house.app.speculator
        await house.until(door, lambda _: speculator.context == 2048 and speculator.gap == ("<p>", "<s>", "<m>"))
        await house.modeld.wait_until(lambda: len(turns(house, speculative=True)) == 2 * count)


async def test_what_an_engine_that_is_gone_has_prefilled_is_prefilled_again(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, lambda status: status.reason == "every offer is warm")
        count = len(turns(house, speculative=True))
        become(house, pid=7)
        await house.modeld.wait_until(lambda: len(turns(house, speculative=True)) == 2 * count)


async def test_what_ended_an_engine_is_not_tried_again_with_the_next_one(house: House) -> None:
    answers = house.modeld.script.answers
    answers[Turn] = lambda _: [Error(code="engine_lost", message="gone")]
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, lambda status: status.reason == "the guess for an offer failed")
        count = len(turns(house, speculative=True))
        become(house, state="restarting", pid=7)
        await house.modeld.wait_for(GetStatus, len(house.modeld.received(GetStatus)) + 3)
        become(house, pid=7)
        await house.modeld.wait_for(Describe, 2)
        await house.modeld.wait_for(GetStatus, len(house.modeld.received(GetStatus)) + 3)
        assert len(turns(house, speculative=True)) == count


async def test_a_model_that_was_unloaded_is_not_woken_for_what_was_warm(house: House) -> None:
    become(house, pid=1)
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, lambda status: status.reason == "every offer is warm")
        count = len(turns(house, speculative=True))
        become(house, state="unloaded", pid=0)
        status = await house.until(door, lambda status: status.reason == "modeld has unloaded its model")
        assert not any(offer.warm for offer in status.offers)
        assert len(turns(house, speculative=True)) == count
        become(house, pid=7)
        await house.until(door, warm)


async def test_a_modeld_that_is_lost_in_an_answer_is_said(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        house.modeld.script.die_after = 3
        with pytest.raises(WireError) as caught:
            await ask(house, door)
        assert caught.value.retry


async def test_a_modeld_that_is_lost_while_a_prompt_is_made_is_found_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    making: list[object] = []

    def slow(make: Callable[..., Any]) -> Callable[..., Any]:
        def wait(*values: Any, **options: Any) -> Any:
            making.append(make)
            go_on.wait(PATIENCE_S)
            return make(*values, **options)

        return wait

    for name in ("build_view", "build_inline"):
        monkeypatch.setattr(planner, name, slow(getattr(planner, name)))
    path = str(house.workspace / "a.py")
    view = View(workspace=str(house.workspace), path=path, version=1, text="x = 1", selection=(0, 1))
    async with house.connect() as door, asyncio.timeout(PATIENCE_S):
        question = asyncio.create_task(ask(house, door, view=view))
        completion = door.start(Complete(view=view, line=0, character=4))
        await house.until(door, lambda _: len(making) == 2)
        await house.modeld.die()
        await house.until(door, lambda status: not status.modeld_reachable)
        await house.modeld.start()
        go_on.set()
        assert (await question)[0] == "Hello, world"
        assert (await completion.done()).reason is Reason.END


async def test_nobody_finds_a_connection_to_modeld_that_closes(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: asyncio.Queue[bool] = asyncio.Queue()
    close = Client.close

    async def watched(client: Client) -> None:
        seen.put_nowait(house.app.speculator.reachable)
        await close(client)

    async with house.connect() as door, asyncio.timeout(PATIENCE_S):
        await house.until(door, lambda status: status.modeld_reachable)
        monkeypatch.setattr(Client, "close", watched)
        await house.modeld.die()
        assert await seen.get() is False
