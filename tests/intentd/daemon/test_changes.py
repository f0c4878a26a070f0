"""Files that change under an offer."""

import pytest

from intentd import planner, texts
from intentd.messages import GetPrompt, ShownPrompt
from intentd.sources import git
from modelwire.errors import WireError
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


CHECKED = "".join(f"shop/prices.py:{line}: error: Bad  [misc]\n" for line in range(1, 8)).encode()


@pytest.mark.parametrize("asks", [False, True])
async def test_an_offer_that_was_never_prepared_is_withdrawn_when_its_line_is_mended(
    house: House, asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "SETTLED_NS", 0)
    source = house.workspace / "shop" / "prices.py"
    async with house.connect() as door:
        await house.printed(door, CHECKED, argv=("mypy", "."))
        listed = await offers(house, door)
        lines = source.read_text().split("\n")
        assert len(listed) == 7
        gone = next(at for at in range(3, 7) if lines[at].strip() and lines.count(lines[at]) == 1)
        source.write_text("\n".join([*lines[:gone], *lines[gone + 1 :]]))
        if asks:
            with pytest.raises(WireError, match="no longer in its file"):
                await ask(house, door, offer=str(listed[gone].number))
            left = (await house.status(door)).offers
        else:
            left = await offers(house, door)
    assert [offer.number for offer in left] == [offer.number for offer in listed if offer != listed[gone]]


async def test_an_offer_is_withdrawn_when_its_file_is_gone(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        (house.workspace / "tests" / "test_prices.py").unlink()
        await house.until(door, lambda status: not status.offers)
        assert await offers(house, door) == ()


async def test_an_error_that_is_found_again_is_tied_to_its_line_as_that_is_now(house: House) -> None:
    source = house.workspace / "shop" / "prices.py"
    lines = source.read_text().split("\n")
    async with house.connect() as door:
        for text in (lines[0], '"""Rates."""'):
            source.write_text("\n".join([text, *lines[1:]]))
            await house.printed(door, b"shop/prices.py:1: error: Bad  [misc]\n", argv=("mypy", "."))
            await house.until(door, warm)
        assert len(await offers(house, door)) == 1


async def test_a_file_that_is_taken_away_to_be_replaced_withdraws_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        source = house.workspace / "tests" / "test_prices.py"
        whole = source.read_text()
        monkeypatch.setattr(texts, "SETTLED_NS", 10**18)
        source.unlink()
        assert len(await offers(house, door)) == 4
        source.write_text(whole)
        await house.until(door, warm)
        assert len(await offers(house, door)) == 4


async def test_a_file_that_is_being_written_withdraws_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        source = house.workspace / "tests" / "test_prices.py"
        whole = source.read_text()
        monkeypatch.setattr(texts, "SETTLED_NS", 10**18)
        source.write_text(whole[: len(whole) // 4])
        await house.until(door, lambda status: "is being written" in status.reason)
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


async def test_the_model_is_not_told_that_nothing_was_changed_where_nobody_knows(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        shown: ShownPrompt = await door.ask(GetPrompt(cwd=str(house.workspace)))
        assert "last commit:\n(not available)\n" in shown.messages[-1][1]
        commit(house.workspace)
        await house.command(door, "plain")
        shown = await door.ask(GetPrompt(cwd=str(house.workspace)))
        assert "last commit:\n(nothing in the files of that commit)\n" in shown.messages[-1][1]


@pytest.mark.parametrize("held", [None, b"\0", git.Unanswered()])
async def test_a_file_shows_no_change_where_git_does_not_say_what_it_held(
    house: House, monkeypatch: pytest.MonkeyPatch, held: object
) -> None:
    """It would show as added from its first line to its last."""

    def content(*_: object) -> object:
        if isinstance(held, Exception):
            raise held
        return held

    monkeypatch.setattr(texts, "SETTLED_NS", 0)
    commit(house.workspace)
    (house.workspace / "shop" / "prices.py").write_text("RATE = 2\n")
    async with house.connect() as door:
        with monkeypatch.context() as mute:
            mute.setattr(planner, "content", content)
            await house.command(door, "plain")
            shown: ShownPrompt = await door.ask(GetPrompt(cwd=str(house.workspace)))
        assert "last commit:\n(not available)\n" in shown.messages[-1][1]
        later: ShownPrompt = await door.ask(GetPrompt(cwd=str(house.workspace)))
    assert ("+RATE = 2\n" in later.messages[-1][1]) == isinstance(held, Exception)  # which is no finding
