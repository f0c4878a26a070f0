"""Offers: where they come from, whose they are, and when they go away."""

import asyncio
import errno
import gc
import os
from functools import partial
from typing import Any

import pytest

from intentd.messages import CommandFinished, CommandQuiet, CommandStarted, GetOffers, Offers
from intentd.present import terminal
from modelwire.errors import WireError
from modelwire.messages import Reason
from tests.intentd.conftest import RECORDED
from tests.intentd.daemon.talk import House, ask, asked_text, offers, warm


async def test_offers_belong_to_their_workspace(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        below: Offers = await door.ask(GetOffers(cwd=str(house.workspace / "tests")))
        elsewhere: Offers = await door.ask(GetOffers(cwd="/"))
        assert len(below.offers) == 4
        assert below.offers[0].title == "explain why tests/test_prices.py::test_gross_adds_tax fails"
        assert elsewhere.offers == ()
        await ask(house, door, offer=below.offers[2].id)
        assert "TestBasket::test_two_items" in asked_text(house)


async def test_a_question_that_comes_in_the_turn_in_which_the_daemon_stops_leaves_nothing_behind(house: House) -> None:
    """Its work was never begun; Python would warn of that at the daemon's end."""
    house.app.door._take("c", "1", GetOffers(cwd="/"))
    await house.restart()
    gc.collect()


async def test_other_tools_have_offers_too(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        output = (
            b"shop/prices.py:8: error: Missing return  [return]\nFound 1 error in 1 file (checked 3 source files)\n"
        )
        await house.printed(door, output, argv=("mypy", "."))
        first, *others = await offers(house, door)
        assert (first.trigger, first.title) == ("diagnostic", "explain shop/prices.py: return")
        assert len(others) == 4
        await ask(house, door)
        assert "def rate(kind)" in asked_text(house)
        assert "What mypy reported:" in asked_text(house)


async def test_offers_of_one_title_are_told_apart_in_the_list(
    house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their titles say no line: it would move with every edit, and a name is what an offer is known by."""
    monkeypatch.chdir(house.workspace)
    output = (
        b"shop/prices.py:8: error: Missing return  [return]\nshop/prices.py:9: error: No return here  [return]\n"
        b"Found 2 errors in 1 file (checked 3 source files)\n"
    )
    async with house.connect() as door:
        await house.printed(door, output, argv=("mypy", "."))
        assert await asyncio.to_thread(terminal.show_offers, house.config, as_json=False) == 0
        listed = [line[9:] for line in capsys.readouterr().out.splitlines()]
        assert listed == [
            "explain shop/prices.py: return: line 8: Missing return",
            "explain shop/prices.py: return: line 9: No return here",
        ]
        await house.until(door, lambda status: not status.figures["commands_running"])
        assert await asyncio.to_thread(terminal.show_status, house.config, as_json=False) == 0
        assert "explain shop/prices.py: return: line 9: No return here in " in capsys.readouterr().out


async def test_where_a_workspace_has_opted_out_the_list_says_so(
    house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(house.workspace)
    for says in ("nothing has failed here", f"intentd: {house.workspace} has opted out: remove .noguessahead to ask"):
        assert await asyncio.to_thread(terminal.show_offers, house.config, as_json=False) == 0
        assert capsys.readouterr().err.startswith(says)
        (house.workspace / ".noguessahead").touch()


async def test_what_came_through_a_pipe_is_judged_by_what_it_says(house: House) -> None:
    async with house.connect() as door:
        await house.printed(door, (RECORDED / "plain.txt").read_bytes(), argv=(), exit=None)
        assert len(await offers(house, door)) == 4
        await house.printed(door, b"Terminated\n", argv=(), exit=None)
        assert len(await offers(house, door)) == 4
        await house.printed(door, b"5 passed in 0.1s\n", argv=(), exit=None)
        assert await offers(house, door) == ()


async def test_a_command_that_watches_files_is_read_cycle_by_cycle(house: House) -> None:
    """And while it waits, it is no reason to guess nothing."""
    failing, said = (RECORDED / "plain.txt").read_bytes(), b"5 passed in 0.1s\n"
    async with house.connect() as door:
        running = door.start(CommandStarted(run="watch", argv=("ptw",), cwd=str(house.workspace)))

        async def cycle(output: bytes, *, quiet: bool = True) -> None:
            told = CommandQuiet(run="watch", quiet=quiet, output=output, total=len(output))
            assert (await door.ask(told)).found

        await cycle(failing)
        assert len(await offers(house, door)) == 4
        await house.until(door, warm)
        await cycle(b"", quiet=False)
        assert "command is running" in (await house.status(door)).reason
        await cycle(b"collecting ...\n")
        assert (await house.status(door)).figures["commands_running"] == 1
        await cycle(said)
        assert await offers(house, door) == ()
        await cycle(failing)
        await door.ask(CommandFinished(run="watch", exit=None, signal=2, output=b"", total=0))
        assert (await running.done()).reason is Reason.END
        assert len(await offers(house, door)) == 4
        assert not (await door.ask(CommandQuiet(run="watch", quiet=True))).found


async def test_a_workspace_that_is_disconnected_keeps_its_offers_and_others_notice_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreached = str(house.workspace)
    stats = {name: getattr(os, name) for name in ("stat", "lstat")}

    def lost(name: str, path: Any, **options: Any) -> os.stat_result:
        if str(path).startswith(unreached):
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        seen: os.stat_result = stats[name](path, **options)
        return seen

    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        with monkeypatch.context() as away:
            for name in stats:
                away.setattr(os, name, partial(lost, name))
            house.app.speculator.poke()
            await house.until(door, lambda status: "cannot be reached" in status.reason)
            assert (await door.ask(GetOffers(cwd="/"))).offers == ()
            assert not any(task.done() for task in house.app._tasks)
        await house.until(door, warm)
        assert len(await offers(house, door)) == 4


async def test_an_end_without_a_start_is_refused(house: House) -> None:
    async with house.connect() as door:
        with pytest.raises(WireError, match="never announced"):
            await door.ask(CommandFinished(run="x", exit=0, signal=None, output=b"", total=0))
