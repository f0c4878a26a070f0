"""Files that change under an offer."""

import pytest

from intentd import planner, texts
from intentd.messages import GetPrompt, ShownPrompt
from intentd.sources import git
from modelwire.messages import Cancel, Turn
from tests.intentd.daemon.talk import House, ask, asked_text, commit, offers, turns, warm


async def test_a_file_that_changes_is_guessed_again_and_asked_as_it_is(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        source = house.workspace / "tests" / "test_prices.py"
        source.write_text(source.read_text().replace("== 120", "== 121"))
        await house.modeld.wait_until(lambda: "== 121" in str(turns(house, speculative=True)[-1].suffix))
        source.write_text(source.read_text().replace("== 121", "== 122"))
        await ask(house, door)
        assert "== 122" in asked_text(house)


async def test_an_offer_is_withdrawn_when_its_test_leaves_its_file(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        source = house.workspace / "tests" / "test_prices.py"
        source.write_text(source.read_text().replace("test_gross_adds_tax", "test_other"))
        status = await house.until(door, lambda status: len(status.offers) == 3)
        assert "test_gross" not in str(status.offers)


async def test_a_file_that_is_being_written_withdraws_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        source = house.workspace / "tests" / "test_prices.py"
        whole = source.read_text()
        monkeypatch.setattr(texts, "SETTLED_NS", 10**18)
        source.write_text(whole[: len(whole) // 4])
        await house.until(door, lambda status: not status.offers[0].warm)
        source.write_text("")
        source.write_text(whole)
        await house.until(door, warm)
        assert len(await offers(house, door)) == 4


async def test_a_guess_that_a_change_made_wrong_while_it_was_made_is_replaced(house: House) -> None:
    house.modeld.script.held = True
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.modeld.wait_for(Turn, 1)
        source = house.workspace / "tests" / "test_prices.py"
        source.write_text(source.read_text().replace("== 120", "== 121"))
        await house.modeld.wait_for(Cancel, 1)
        await house.modeld.wait_until(lambda: "== 121" in str(turns(house, speculative=True)[-1].suffix))
        assert len(turns(house, speculative=True)) == 2


@pytest.mark.parametrize("held", [None, b"\0", git.Unanswered()])
async def test_a_file_shows_no_change_where_git_does_not_say_what_it_held(
    house: House, monkeypatch: pytest.MonkeyPatch, held: object
) -> None:
    """It would show as added from its first line to its last."""

    def content(*_: object) -> object:
        if isinstance(held, Exception):
            raise held
        return held

    monkeypatch.setattr(planner, "content", content)
    commit(house.workspace)
    (house.workspace / "shop" / "prices.py").write_text("RATE = 2\n")
    async with house.connect() as door:
        await house.command(door, "plain")
        shown: ShownPrompt = await door.ask(GetPrompt(cwd=str(house.workspace)))
    assert "last commit:\n(nothing)\n" in shown.messages[-1][1]
