"""Questions: who is answered, what cannot be, and what ends an answer."""

import asyncio
import threading
from functools import partial
from typing import Any

import pytest

from intentd import door as doors
from intentd.intake import Intake
from intentd.messages import Ask, CommandFinished, CommandStarted, EditorOpened
from intentd.present import terminal
from intentd.shown import View
from modelwire.errors import WireError
from modelwire.messages import Accepted, Cancel, Done, Reason, Tokens, Turn
from modelwire.protocol import NOBODY
from modelwire.testing import PATIENCE_S
from tests.intentd.daemon.talk import House, ask, turns, warm


async def test_a_question_that_nobody_waits_for_before_it_has_begun_is_forgotten(house: House) -> None:
    """S8: it would count against the bound for ever, and keep the daemon there."""
    door = house.app.door
    door._begin("client", "1", door._asked(Ask(cwd=str(house.workspace))))
    door._gone("client")
    for _ in range(3):
        await asyncio.sleep(0)
    assert not door._answers


async def test_a_question_with_the_id_of_one_that_is_being_answered_does_not_end_that_one_S8(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, sent = house.app.door, list[tuple[str, str]]()
    monkeypatch.setattr(door._router, "send", lambda _, op, message: sent.append((op, getattr(message, "code", ""))))
    for _ in range(2):
        door._begin("client", "1", door._asked(Ask(cwd=str(house.workspace))))
    door._gone("client")
    assert sent == [(NOBODY, "duplicate_op")]


async def test_a_question_that_is_cancelled_twice_ends_once_S8(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async with house.connect() as door, asyncio.timeout(PATIENCE_S):
        await house.command(door, "plain")
        house.modeld.script.held = True
        stream = door.start(Ask(cwd=str(house.workspace)))
        await house.modeld.wait_until(lambda: len(turns(house, speculative=False)) == 1)
        sent, router = list[tuple[str, object]](), house.app.door._router
        pass_on = router._pass_on

        def seen(socket: Any, peer: Any, op: str, message: Any, data: bytes) -> None:
            sent.append((op, message))
            pass_on(socket, peer, op, message, data)

        monkeypatch.setattr(router, "_pass_on", seen)
        await asyncio.gather(*(door.ask(Cancel(target=stream.id)) for _ in range(2)))
        assert (await stream.done()).reason is Reason.CANCELLED
        assert [type(message) for op, message in sent if op == stream.id].count(Done) == 1


async def test_a_command_that_is_announced_again_ends_its_first_operation_S8(house: House) -> None:
    async with house.connect() as door, asyncio.timeout(PATIENCE_S):
        command = CommandStarted(run="r", argv=("true",), cwd=str(house.workspace))
        first, second = door.start(command), door.start(command)
        assert (await first.done()).reason is Reason.CANCELLED
        await door.ask(CommandFinished(run="r", exit=0, signal=None, output=b"", total=0))
        assert (await second.done()).reason is Reason.END


@pytest.mark.parametrize("leave", [False, True])
async def test_whoever_stops_asking_stops_the_model(house: House, leave: bool) -> None:
    """S9: by a cancel, and by leaving."""
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        house.modeld.script.held = True
        async with house.connect() as other:
            stream = other.start(Ask(cwd=str(house.workspace)))
            await house.modeld.wait_until(lambda: len(turns(house, speculative=False)) == 1)
            if leave:
                house.app.door._gone(next(iter(house.app.door._answers))[0])
            else:
                assert await stream.cancel()
                assert house.modeld.received(Cancel)
                assert (await stream.done()).reason is Reason.CANCELLED
        await house.until(door, lambda status: status.state != "answering")
        await house.modeld.wait_until(
            lambda: not house.modeld._held or all(h.message.speculative for h in house.modeld._held)
        )


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"cwd": "/"}, "no failure is known in /: run the command with 'intentd run"),
        ({"offer": "nothing"}, "there is no offer 'nothing' in"),
        ({"intent": "moon"}, "nobody can 'moon'; there are explain, fix"),
    ],
)
async def test_what_cannot_be_answered_is_said(house: House, change: dict[str, Any], word: str) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        with pytest.raises(WireError, match=word):
            await door.start(Ask(**{"cwd": str(house.workspace), **change})).done()


class Reading:
    """An output that is being read until the test lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        failures = Intake.failures

        def slow(*values: Any, **options: Any) -> Any:
            self.begun.set()
            self.go_on.wait(PATIENCE_S)
            return failures(*values, **options)

        monkeypatch.setattr(Intake, "failures", slow)


async def test_a_question_right_behind_a_command_is_about_that_command(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Reading(monkeypatch)
    async with house.connect() as door:
        command = asyncio.create_task(house.command(door, "plain"))
        await house.until(door, lambda _: reading.begun.is_set())
        question = asyncio.create_task(ask(house, door))
        assert not (await house.status(door)).offers
        reading.go_on.set()
        assert (await question)[0] == "Hello, world"
        await command


async def test_no_question_waits_for_an_output_that_it_is_not_about(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Reading(monkeypatch)
    shown = str(house.workspace / "a.py")
    view = View(workspace=str(house.workspace), path=shown, version=1, text="x = 1", selection=(0, 1))
    async with house.connect() as door, asyncio.timeout(PATIENCE_S):
        command = asyncio.create_task(house.command(door, "plain"))
        await house.until(door, lambda _: reading.begun.is_set())
        assert (await ask(house, door, view=view))[0] == "Hello, world"
        with pytest.raises(WireError, match="no failure is known in /:"):
            await door.start(Ask(cwd="/")).done()
        assert not command.done()
        reading.go_on.set()
        await command


async def test_a_client_that_was_stopped_for_long_reads_that_its_operations_have_ended(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S8: it comes back with beats and waits; it is no editor any more until it says so again."""
    async with house.connect() as door, asyncio.timeout(PATIENCE_S):
        await house.command(door, "plain")
        house.modeld.script.held = True
        streams = door.start(EditorOpened(name="lsp", starts_modeld=False)), door.start(Ask(cwd=str(house.workspace)))
        await house.modeld.wait_until(lambda: len(turns(house, speculative=False)) == 1)
        with monkeypatch.context() as stopped:
            stopped.setattr(doors, "SILENCE_MS", -1)
            house.app.door._part_from_silent()
        for stream in streams:
            with pytest.raises(WireError, match="said nothing for") as ended:
                await stream.done()
            assert ended.value.retry
        await house.until(door, lambda status: status.state != "answering" and status.figures["editors"] == 0)


@pytest.mark.parametrize(
    ("reason", "says"), [(Reason.END, ""), (Reason.LENGTH, "(max_tokens)"), (Reason.CONTEXT, "context is full")]
)
async def test_of_an_answer_that_was_cut_the_terminal_says_so(
    house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], reason: Reason, says: str
) -> None:
    monkeypatch.chdir(house.workspace)
    house.modeld.script.answers[Turn] = lambda _: [Accepted(), Tokens(text="It f"), Done(reason=reason)]
    async with house.connect() as door:
        await house.command(door, "plain")
        told = partial(terminal.ask, house.config, "explain", offer=None, as_json=False, stats=False)
        assert await asyncio.to_thread(told) == 0
    said = capsys.readouterr()
    assert said.out == "It f\n"
    assert bool(said.err) == bool(says)
    assert says in said.err


async def test_a_daemon_that_stops_ends_what_it_was_answering(house: House) -> None:
    """S8"""
    async with house.connect() as door:
        await house.command(door, "plain")
        house.modeld.script.held = True
        stream = door.start(Ask(cwd=str(house.workspace)))
        await house.modeld.wait_until(lambda: len(turns(house, speculative=False)) == 1)
        await house.app.door.close()
        with pytest.raises(WireError, match="intentd is stopping"):
            async with asyncio.timeout(PATIENCE_S):
                await stream.done()
