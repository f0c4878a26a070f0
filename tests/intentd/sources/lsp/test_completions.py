"""Completions of one document, without an editor: what is told of them, what ends them, what is late."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from intentd.messages import Complete, CompletionUsed
from intentd.plan.document import Place
from intentd.shown import Diagnostic
from intentd.sources.lsp.buffers import Buffer, Buffers
from intentd.sources.lsp.inline import DEADLINE_MS, Completions
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import Done, Outcome, Reason, Timings, Tokens, Usage
from modelwire.testing import PATIENCE_S

HEIGHT = "width * height"
DONE = Done(
    reason=Reason.END,
    usage=Usage(prompt=9, prefilled=7, outcome=Outcome.COLD),
    timings=Timings(prefill=400.0, decode=100.0),
)


class Daemon:
    """A link to a daemon that says what the test puts in."""

    connected = True

    def __init__(self) -> None:
        self.asked: list[Complete] = []
        self.told: list[CompletionUsed] = []
        self.fault: WireError | None = None
        self.open = 0
        self._replies: asyncio.Queue[object] = asyncio.Queue()

    def says(self, *replies: object) -> None:
        for reply in replies:
            self._replies.put_nowait(reply)

    def say(self, message: CompletionUsed) -> None:
        self.told.append(message)

    async def start(self, message: Complete) -> "Daemon":
        self.asked.append(message)
        if self.fault:
            raise self.fault
        return self

    async def __aenter__(self) -> AsyncIterator[object]:
        self.open += 1
        return self._stream()

    async def __aexit__(self, *_: object) -> None:
        self.open -= 1

    async def _stream(self) -> AsyncIterator[object]:
        while True:
            yield (reply := await self._replies.get())
            if isinstance(reply, Done):
                return


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


@pytest.fixture
def buffer() -> Buffer:
    made = Buffers().open("file:///w/area.py", "def area(width, height):\n    return \n\nx = 1\n", 1)
    assert made is not None
    return made


async def until(met: Callable[[], Any]) -> None:
    """All happens in this process: so many turns of the loop are more than enough."""
    for _ in range(1000):
        if met():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


async def answer(asking: "asyncio.Task[str | None]") -> str | None:
    async with asyncio.timeout(PATIENCE_S):
        return await asking


def completions(daemon: Any, *, clock: Callable[[], float] = lambda: 0.0) -> Completions:
    """Its time stands still, unless it is told."""
    return Completions(daemon, clock)


async def test_what_is_made_ahead_has_no_deadline_and_what_is_asked_has_one(daemon: Daemon, buffer: Buffer) -> None:
    made = completions(daemon)
    made.prepare(buffer, 1, 11)
    daemon.says(Tokens(text=HEIGHT), DONE)
    await until(lambda: made._made[buffer.uri].ahead.complete)
    assert await made.ask(buffer, 1, 11) == HEIGHT
    assert daemon.told == [CompletionUsed(outcome="hit", ahead=True)]
    asking = asyncio.create_task(made.ask(buffer, 0, 8))
    await until(lambda: len(daemon.asked) == 2)
    daemon.says(Tokens(text="s"), DONE)
    assert await answer(asking) == "s"
    assert [(one.ahead, one.deadline_ms) for one in daemon.asked] == [(True, None), (False, DEADLINE_MS)]
    assert daemon.told[-1] == CompletionUsed(outcome="miss", ahead=False)


async def test_at_the_deadline_whole_lines_will_do_and_nothing_else(daemon: Daemon, buffer: Buffer) -> None:
    times = iter((0.0, 0.0, 0.0, DEADLINE_MS / 1000, 0.0, DEADLINE_MS / 1000))
    made = completions(daemon, clock=lambda: next(times))
    waiting = asyncio.create_task(made.ask(buffer, 1, 11))
    await until(lambda: daemon.open)
    late = await answer(asyncio.create_task(made.ask(buffer, 1, 11)))
    assert late is None
    daemon.says(Tokens(text="width\n    * hei"))
    await until(lambda: made._made[buffer.uri].ahead.text)
    assert await answer(asyncio.create_task(made.ask(buffer, 1, 11))) == "width"
    made.drop(buffer.uri)
    assert await answer(waiting) is None


async def test_what_nobody_asked_for_is_told_with_its_cost(daemon: Daemon, buffer: Buffer) -> None:
    made = completions(daemon)
    made.prepare(buffer, 1, 11)
    daemon.says(Tokens(text=HEIGHT), DONE)
    await until(lambda: made._made[buffer.uri].ahead.complete)
    made.prepare(buffer, 1, 11)
    assert len(daemon.asked) == 1  # it is there already
    made.drop(buffer.uri)
    assert daemon.told == [CompletionUsed(ahead=True, prefilled=7, seconds=0.5)]
    assert len(made) == 0


async def test_what_is_dropped_is_not_made_any_further(daemon: Daemon, buffer: Buffer) -> None:
    made = completions(daemon)
    made.prepare(buffer, 1, 11)
    await until(lambda: daemon.open)
    made.prepare(buffer, 0, 8)
    await until(lambda: len(daemon.asked) == 2)
    assert daemon.open == 1
    made.closed(buffer.uri)
    await until(lambda: not daemon.open)


async def test_who_types_another_way_ends_what_is_being_made(daemon: Daemon, buffer: Buffer) -> None:
    made = completions(daemon)
    made.prepare(buffer, 1, 11)
    daemon.says(Tokens(text="width\n    * hei"))
    await until(lambda: made._made[buffer.uri].ahead.text)
    made.edited(buffer, buffer.document.replace(Place(1, 11), Place(1, 11), "w"))
    assert daemon.open == 1
    made.edited(buffer, buffer.document.replace(Place(1, 12), Place(1, 12), "x"))
    await until(lambda: not daemon.open)
    assert len(made) == 0
    assert daemon.told == [CompletionUsed(ahead=True)]


async def test_a_person_who_has_moved_on_is_shown_nothing_of_the_place_before(daemon: Daemon, buffer: Buffer) -> None:
    """I2: neither version nor question is a newer one."""
    made = completions(daemon)
    asking = asyncio.create_task(made.ask(buffer, 1, 11))
    await until(lambda: daemon.open)
    daemon.says(Tokens(text="width\n    * hei"))
    await until(lambda: made._made[buffer.uri].ahead.text)
    made.prepare(buffer, 0, 8)
    assert await answer(asking) is None
    made.closed(buffer.uri)


async def test_a_guess_that_failed_is_not_asked_again_for_a_text_that_has_changed(
    daemon: Daemon, buffer: Buffer
) -> None:
    """I2"""
    made = completions(daemon)
    made.prepare(buffer, 1, 11)
    asking = asyncio.create_task(made.ask(buffer, 1, 11))
    await until(lambda: daemon.open)
    buffer.document.version += 1
    daemon.says(Done(reason=Reason.PREEMPTED))
    assert await answer(asking) is None
    assert len(daemon.asked) == 1


async def test_without_a_daemon_nothing_is_made(daemon: Daemon, buffer: Buffer) -> None:
    daemon.connected = False
    made = completions(daemon)
    made.prepare(buffer, 1, 11)
    assert await made.ask(buffer, 1, 11) is None
    assert len(made) == 0


async def test_an_edit_above_ends_what_was_made_though_its_place_is_the_same(daemon: Daemon, buffer: Buffer) -> None:
    """I2"""
    made = completions(daemon)
    made.prepare(buffer, 1, 11)
    daemon.says(Tokens(text=HEIGHT), DONE)
    await until(lambda: made._made[buffer.uri].ahead.complete)
    assert await made.ask(buffer, 1, 11) == HEIGHT
    made.edited(buffer, buffer.document.replace(Place(0, 4), Place(0, 8), "perimeter"))
    assert daemon.told[-1] == CompletionUsed(rejected=1)
    asking = asyncio.create_task(made.ask(buffer, 1, 11))
    daemon.says(Tokens(text="2 * (width + height)"), DONE)
    assert await answer(asking) == "2 * (width + height)"


async def test_what_is_typed_to_its_end_or_taken_is_accepted_and_gone(daemon: Daemon, buffer: Buffer) -> None:
    made = completions(daemon)
    made.prepare(buffer, 1, 11)
    daemon.says(Tokens(text=HEIGHT), DONE)
    await until(lambda: made._made[buffer.uri].ahead.complete)
    assert await made.ask(buffer, 1, 11) == HEIGHT
    made.edited(buffer, buffer.document.replace(Place(1, 11), Place(1, 11), "w"))
    assert await made.ask(buffer, 1, 12) == HEIGHT[1:]
    made.edited(buffer, buffer.document.replace(Place(1, 12), Place(1, 12), HEIGHT[1:]))
    assert daemon.told[1:] == [CompletionUsed(accepted=1)]
    assert len(made) == 0


async def test_a_question_for_what_is_being_made_has_part_of_it(daemon: Daemon, buffer: Buffer) -> None:
    made = completions(daemon)
    made.prepare(buffer, 1, 11)
    asking = asyncio.create_task(made.ask(buffer, 1, 11))
    await until(lambda: daemon.open)
    daemon.says(Tokens(text=HEIGHT), DONE)
    assert await answer(asking) == HEIGHT
    assert daemon.told == [CompletionUsed(outcome="partial", ahead=True)]


@pytest.mark.parametrize("reason", [Reason.EXPIRED, Reason.SUPERSEDED, Reason.CANCELLED])
async def test_a_question_that_came_to_nothing_is_not_asked_twice(
    daemon: Daemon, buffer: Buffer, reason: Reason
) -> None:
    """Behind a long answer it ends by its deadline, and the editor gets null."""
    made = completions(daemon)
    asking = asyncio.create_task(made.ask(buffer, 1, 11))
    daemon.says(Done(reason=reason))
    assert await answer(asking) is None
    assert len(daemon.asked) == 1
    assert not daemon.told


async def test_the_older_of_two_questions_for_what_is_being_made_gets_nothing(daemon: Daemon, buffer: Buffer) -> None:
    """I2"""
    made = completions(daemon)
    older = asyncio.create_task(made.ask(buffer, 1, 11))
    await until(lambda: daemon.open)
    newer = asyncio.create_task(made.ask(buffer, 1, 11))
    daemon.says(Tokens(text=HEIGHT), DONE)
    assert await answer(newer) == HEIGHT
    assert await answer(older) is None


async def test_what_was_held_back_to_the_end_is_part_of_it_and_marks_are_not(daemon: Daemon, buffer: Buffer) -> None:
    made = completions(daemon)
    asking = asyncio.create_task(made.ask(buffer, 1, 11))
    daemon.says(Tokens(text="width<|im_end|> <"), DONE)
    assert await answer(asking) == "width <"


async def test_only_the_text_around_the_place_is_sent(daemon: Daemon, buffer: Buffer) -> None:
    """S10: what a tool says of the text must not make two prompts of one."""
    made = completions(daemon)
    buffer.diagnostics, buffer.selection = (Diagnostic(line=1, last=1, message="nothing is returned"),), (0, 1)
    made.prepare(buffer, 1, 11)
    await until(lambda: daemon.asked)
    assert (daemon.asked[0].view.diagnostics, daemon.asked[0].view.selection) == ((), ())
    made.closed(buffer.uri)


async def test_a_guess_that_a_daemon_could_not_make_is_asked_for(daemon: Daemon, buffer: Buffer) -> None:
    made = completions(daemon)
    daemon.fault = WireError(ErrorCode.NOT_READY, "paused", retry=True)
    made.prepare(buffer, 1, 11)
    await until(lambda: made._made[buffer.uri].failed)
    daemon.fault = None
    asking = asyncio.create_task(made.ask(buffer, 1, 11))
    daemon.says(Tokens(text=HEIGHT), DONE)
    assert await answer(asking) == HEIGHT
    assert [one.ahead for one in daemon.asked] == [True, False]
    assert daemon.told == [CompletionUsed(outcome="miss", ahead=False)]


@pytest.mark.parametrize("reason", [None, Reason.PREEMPTED])
async def test_a_guess_that_could_not_be_made_says_nothing_of_guesses(
    daemon: Daemon, buffer: Buffer, reason: Reason | None
) -> None:
    """Else a pause alone would switch them off: each rest is refused, and nobody can ask for what is not there."""
    made = completions(daemon)
    if reason is None:
        daemon.fault = WireError(ErrorCode.NOT_READY, "paused", retry=True)
    else:
        daemon.says(Done(reason=reason))
    made.prepare(buffer, 1, 11)
    await until(lambda: made._made[buffer.uri].failed)
    made.drop(buffer.uri)
    assert not daemon.told
