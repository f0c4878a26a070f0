"""The daemon without modeld, and when modeld dies and comes back."""

import pytest

from modelwire.errors import WireError
from tests.intentd.daemon.talk import House, ask, turns, warm


async def test_without_modeld_the_answer_says_how_to_start_it(house: House) -> None:
    await house.modeld.die()
    async with house.connect() as door:
        await house.command(door, "plain")
        status = await house.until(door, lambda status: not status.modeld_reachable and bool(status.offers))
        assert status.reason == "modeld does not answer"
        with pytest.raises(WireError, match=r"no modeld answers at ipc://.*: start it with 'modeld serve'"):
            await ask(house, door)


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


async def test_a_modeld_that_is_lost_in_an_answer_is_said(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        house.modeld.script.die_after = 3
        with pytest.raises(WireError) as caught:
            await ask(house, door)
        assert caught.value.retry
