"""Answers that stream: one at a time, also while a daemon is awaited, and each one's end is told."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from intentd.messages import Ask
from intentd.sources.lsp.answers import Answers
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import Done, Reason, Tokens
from modelwire.testing import PATIENCE_S

QUESTION = Ask(cwd="/w", intent="explain")
LOST = WireError(ErrorCode.DAEMON_LOST, "intentd is gone", retry=True)


class Stream:
    """Says what the test puts in; a fault is raised."""

    def __init__(self) -> None:
        self.replies: asyncio.Queue[Any] = asyncio.Queue()
        self.over = False

    async def __aenter__(self) -> AsyncIterator[Any]:
        return self._said()

    async def __aexit__(self, *_: object) -> None:
        self.over = True

    async def _said(self) -> AsyncIterator[Any]:
        while True:
            reply = await self.replies.get()
            if isinstance(reply, Exception):
                raise reply
            yield reply
            if isinstance(reply, Done):
                return

    async def cancel(self) -> bool:
        self.replies.put_nowait(Done(reason=Reason.CANCELLED))
        return True


class Daemon:
    """A link whose daemon is there once the test says so."""

    def __init__(self, *, there: bool = True) -> None:
        self.streams: list[Stream] = []
        self.there = asyncio.Event()
        if there:
            self.there.set()

    async def start(self, question: Ask) -> Stream:
        await self.there.wait()
        self.streams.append(Stream())
        return self.streams[-1]


class Seen:
    """What a person has seen, in order."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def begin(self, answer: str, title: str) -> None:
        self.said.append((answer, "begin"))

    def text(self, answer: str, text: str) -> None:
        self.said.append((answer, text))

    def end(self, answer: str, reason: str) -> None:
        self.said.append((answer, f"end {reason}"))


def asking(answers: Answers, seen: Seen) -> "asyncio.Task[Any]":
    return asyncio.create_task(answers.run(QUESTION, "explain", seen))


async def settled() -> None:
    """All happens in this process: so many turns of the loop are more than enough."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_an_answer_is_stopped_while_its_daemon_is_still_awaited() -> None:
    """S9"""
    daemon, seen = Daemon(there=False), Seen()
    answers = Answers(daemon)  # type: ignore[arg-type]
    waiting = asking(answers, seen)
    await settled()
    assert await answers.stop("answer-2") is False
    assert await answers.stop("answer-1") is True
    async with asyncio.timeout(PATIENCE_S):
        assert (await waiting).reason == "cancelled"
    daemon.there.set()
    await settled()
    assert not daemon.streams
    assert seen.said == [("answer-1", "begin"), ("answer-1", "end cancelled")]
    assert len(answers) == 0


async def test_of_questions_that_wait_for_a_daemon_the_newest_is_answered() -> None:
    daemon, seen = Daemon(there=False), Seen()
    answers = Answers(daemon)  # type: ignore[arg-type]
    older, newer = asking(answers, seen), asking(answers, seen)
    await settled()
    assert older.done()
    daemon.there.set()
    await settled()
    (stream,) = daemon.streams
    stream.replies.put_nowait(Tokens(text="so"))
    stream.replies.put_nowait(Done(reason=Reason.END))
    async with asyncio.timeout(PATIENCE_S):
        assert (await newer).text == "so"
    assert (await older).reason == "cancelled"


async def test_a_newer_question_ends_the_answer_before_it_which_keeps_what_it_has_said() -> None:
    daemon, seen = Daemon(), Seen()
    answers = Answers(daemon)  # type: ignore[arg-type]
    older = asking(answers, seen)
    await settled()
    daemon.streams[0].replies.put_nowait(Tokens(text="so far"))
    await settled()
    newer = asking(answers, seen)
    async with asyncio.timeout(PATIENCE_S):
        before = await older
    assert (before.text, before.reason) == ("so far", "cancelled")
    await settled()
    assert await answers.stop() is True
    async with asyncio.timeout(PATIENCE_S):
        assert (await newer).reason == "cancelled"


async def test_an_answer_whose_daemon_is_killed_has_failed_and_was_not_stopped() -> None:
    daemon, seen = Daemon(), Seen()
    answers = Answers(daemon)  # type: ignore[arg-type]
    lost = asking(answers, seen)
    await settled()
    daemon.streams[0].replies.put_nowait(Tokens(text="half"))
    daemon.streams[0].replies.put_nowait(LOST)
    with pytest.raises(WireError, match="is gone"):
        async with asyncio.timeout(PATIENCE_S):
            await lost
    assert seen.said[-1] == ("answer-1", "end failed")
    assert daemon.streams[0].over
    assert len(answers) == 0


async def test_a_request_that_is_cancelled_just_when_its_stream_is_there_ends_that() -> None:
    """S9"""
    daemon, seen = Daemon(there=False), Seen()
    waiting = asking(Answers(daemon), seen)  # type: ignore[arg-type]
    await settled()
    daemon.there.set()
    async with asyncio.timeout(PATIENCE_S):
        while not daemon.streams:  # noqa: ASYNC110  (an event would tell of it some turns of the loop later)
            await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    (stream,) = daemon.streams
    assert stream.replies.get_nowait() == Done(reason=Reason.CANCELLED)
    assert seen.said[-1] == ("answer-1", "end cancelled")


async def test_a_request_that_is_cancelled_while_a_daemon_is_awaited_asks_nothing() -> None:
    daemon, seen = Daemon(there=False), Seen()
    answers = Answers(daemon)  # type: ignore[arg-type]
    waiting = asking(answers, seen)
    await settled()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    daemon.there.set()
    await settled()
    assert not daemon.streams
    assert seen.said[-1] == ("answer-1", "end cancelled")
