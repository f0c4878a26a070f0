"""A client against a scripted daemon over a real socket: questions, operations, and a daemon that fails."""

import asyncio
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from modelwire import link
from modelwire.client import MERGE_FROM, Client, Connection, OperationStream
from modelwire.errors import DaemonUnreachable, EndpointError, WireError
from modelwire.link import MISSED_BEATS
from modelwire.messages import (
    Accepted,
    Acknowledged,
    Cancel,
    Close,
    Decode,
    Done,
    EnsurePrefix,
    Error,
    GetStatus,
    Hello,
    Outcome,
    PrefillSuffix,
    Prompt,
    Reason,
    Restore,
    Status,
    Text,
    TokenIds,
    Tokenize,
    Tokens,
    Turn,
)
from modelwire.protocol import CONTROL, MODELD, Protocol
from modelwire.testing import PATIENCE_S, Script, ScriptedDaemon

PROMPT: Prompt = (Text(text="abc"),)


def turn(client: Client, **fields: Any) -> OperationStream:
    return client.turn(session="s", prefix=PROMPT, **fields)


async def test_a_client_learns_who_is_there_and_says_its_name(daemon: ScriptedDaemon) -> None:
    async with Client(daemon.endpoint, name="editor") as client:
        assert client.welcome.instance == daemon.instance
        assert (await client.describe()).backend == "scripted"
        assert (await client.status()).state == "idle"
        assert await client.tokenize(PROMPT) == (97, 98, 99)
        assert await client.close_session("s")
        assert "alive" in repr(client)
    assert daemon.received(Hello) == [Hello(client="editor")]
    await daemon.wait_until(lambda: Close() in daemon.received(Close), "the farewell")


async def test_replies_come_in_order_and_end_with_done(daemon: ScriptedDaemon) -> None:
    async with Client(daemon.endpoint) as client:
        kinds = [type(reply).__name__ async for reply in turn(client)]
        assert kinds == ["Accepted", "Started", "Progress", "Tokens", "Tokens", "Tokens", "Done"]


async def test_every_operation_can_be_asked_for(daemon: ScriptedDaemon) -> None:
    async with Client(daemon.endpoint) as client:
        assert (await client.ensure_prefix(session="s", prompt=PROMPT).done()).reason == Reason.PREFILLED
        assert (await client.prefill_suffix(session="s", prompt=PROMPT, speculative=True).done()).head == 3
        assert await client.decode(session="s", lane="l", deadline_ms=5).text() == "Hello, world"
        handle = (await client.snapshot("s")).handle
        assert (await client.restore(handle, session="t", lane="l").done()).reason == Reason.PREFILLED
    assert daemon.received(Restore) == [Restore(handle="handle of s", session="t", lane="l")]
    assert daemon.received(EnsurePrefix) == [EnsurePrefix(session="s", prompt=PROMPT)]
    assert daemon.received(PrefillSuffix) == [PrefillSuffix(session="s", prompt=PROMPT, speculative=True)]
    assert daemon.received(Decode) == [Decode(session="s", lane="l", deadline_ms=5)]


async def test_operations_run_beside_each_other_on_one_connection(daemon: ScriptedDaemon) -> None:
    async with Client(daemon.endpoint) as client:
        streams = [turn(client) for _ in range(20)]
        assert await asyncio.gather(*(stream.text() for stream in streams)) == ["Hello, world"] * 20


async def test_an_error_is_raised_with_all_that_it_says(daemon: ScriptedDaemon) -> None:
    error = Error(code="context_overflow", message="shorten it", numbers={"prompt": 9, "context": 4})
    daemon.script = Script(answers={Turn: lambda _: [Accepted(), error], GetStatus: lambda _: [error]})
    async with Client(daemon.endpoint) as client:
        for asking in (turn(client).done(), turn(client).text(), client.status()):
            with pytest.raises(WireError, match="shorten it") as caught:
                await asking
            assert (caught.value.code, caught.value.fault) == ("context_overflow", "client")
            assert caught.value.numbers == {"prompt": 9, "context": 4}


async def test_the_end_can_be_asked_for_again(daemon: ScriptedDaemon) -> None:
    async with Client(daemon.endpoint) as client:
        stream = turn(client)
        assert await stream.text() == "Hello, world"
        assert (await stream.done()).reason == Reason.END
        assert await stream.text() == ""
        assert not await stream.cancel()
        assert "ended" in repr(stream)


async def test_a_cancel_is_confirmed_and_the_operation_ends_cancelled(daemon: ScriptedDaemon) -> None:
    daemon.script.held = True
    async with Client(daemon.endpoint) as client:
        stream = turn(client)
        assert await stream.cancel()
        assert (await stream.done()).reason == Reason.CANCELLED


async def test_leaving_the_block_cancels_what_has_not_ended(daemon: ScriptedDaemon) -> None:
    daemon.script.held = True
    async with Client(daemon.endpoint) as client:
        async with turn(client) as stream:
            assert isinstance(await anext(stream), Accepted)
        assert daemon.received(Cancel) == [Cancel(target=stream.id)]
        async with turn(client) as stream:
            daemon.release()
            await stream.done()
        assert len(daemon.received(Cancel)) == 1


async def test_a_stream_that_nobody_reads_stays_small_and_whole(daemon: ScriptedDaemon) -> None:
    daemon.script.tokens = ["x"] * 2000
    async with Client(daemon.endpoint) as client:
        stream = turn(client)
        await asyncio.wait_for(daemon.wait_for(Turn), 5)
        while not stream.over:
            await client.status()
        assert len(stream._unread) <= MERGE_FROM + 2
        assert await stream.text() == "x" * 2000


async def test_a_guess_that_matches_makes_the_request_a_hit(daemon: ScriptedDaemon) -> None:
    async with Client(daemon.endpoint) as client:
        assert (await turn(client, speculative=True).done()).reason == Reason.PREFILLED
        assert (await turn(client).done()).usage.outcome == Outcome.HIT


async def test_a_real_operation_preempts_a_held_guess(daemon: ScriptedDaemon) -> None:
    daemon.script.held = True
    async with Client(daemon.endpoint) as client:
        guess = turn(client, speculative=True)
        await daemon.wait_for(Turn)
        daemon.script.held = False
        started = [reply async for reply in turn(client)][1]
        assert started.preempted == guess.id
        assert (await guess.done()).reason == Reason.PREEMPTED


async def insist(client: Client) -> str:
    """A request at the very moment of the daemon's end may be lost; the error says that a retry can help."""
    for _ in range(100):
        try:
            return await turn(client).text()
        except WireError as fault:
            if fault.code != "daemon_lost" or not fault.retry:
                raise
    raise AssertionError("a hundred requests were lost")


# --- a daemon that fails ----------------------------------------------------------------------------------


async def test_without_a_daemon_the_error_says_how_to_start_one(endpoint: str) -> None:
    with pytest.raises(DaemonUnreachable) as caught:
        await Client(endpoint).__aenter__()
    assert str(caught.value) == f"no modeld answers at {endpoint}: start it with 'modeld serve --socket {endpoint}'"


async def test_a_client_refuses_a_directory_that_others_can_enter(endpoint: str, directory: Path) -> None:
    os.chmod(directory, 0o755)  # noqa: PTH101
    with pytest.raises(EndpointError, match="is open to others"):
        await Client(endpoint).__aenter__()


async def test_a_daemon_that_does_not_answer_is_unreachable(daemon: ScriptedDaemon) -> None:
    async with Client(daemon.endpoint) as client:
        client._timeout = 0.05
        daemon.script.drop = {GetStatus, Hello}
        with pytest.raises(DaemonUnreachable, match=r"is there, but did not answer within 0\.05 s"):
            await client.status()
    with pytest.raises(DaemonUnreachable, match="modeld serve"):
        await Client(daemon.endpoint, timeout=0.05).__aenter__()


async def test_a_prompts_ids_are_waited_for_as_long_as_what_they_stand_behind(daemon: ScriptedDaemon) -> None:
    async with Client(daemon.endpoint, timeout=0.05) as client:
        daemon.script.drop = {Tokenize, GetStatus}
        ids = asyncio.create_task(client.tokenize(PROMPT))
        await daemon.wait_for(Tokenize)
        with pytest.raises(DaemonUnreachable, match="did not answer"):
            await client.status()  # asked later, and for this the time is over
        [asked] = [request for request in daemon.requests if isinstance(request.message, Tokenize)]
        daemon.send(asked.client, asked.op, TokenIds(ids=(1, 2)))
        assert await ids == (1, 2)


@pytest.mark.parametrize("patience", [0.05, None])
async def test_a_question_that_nobody_waits_for_any_more_is_withdrawn(
    daemon: ScriptedDaemon, patience: float | None
) -> None:
    """It must not stay queued there, and stop guesses when its turn comes."""
    async with Client(daemon.endpoint) as client:
        daemon.script.drop = {Tokenize}
        if patience:
            with pytest.raises(DaemonUnreachable, match=r"is there, but did not answer within 0\.05 s"):
                await client.tokenize(PROMPT, within=patience)
        else:
            waiting = asyncio.create_task(client.tokenize(PROMPT))
            await daemon.wait_for(Tokenize)
            waiting.cancel()
        [cancel] = await daemon.wait_for(Cancel)
        assert cancel.target == next(request.op for request in daemon.requests if isinstance(request.message, Tokenize))
        daemon.script.drop = set()
        assert await client.tokenize(PROMPT) == (97, 98, 99)


async def test_when_the_daemon_dies_open_operations_end_as_lost_and_can_be_retried(daemon: ScriptedDaemon) -> None:
    daemon.script.held = True
    async with Client(daemon.endpoint) as client:
        streams = [turn(client), turn(client)]
        await daemon.wait_for(Turn, 2)
        await daemon.die()
        for stream in streams:
            with pytest.raises(WireError) as caught:
                await stream.done()
            assert (caught.value.code, caught.value.retry, caught.value.fault) == ("daemon_lost", True, "daemon")
        with pytest.raises(DaemonUnreachable):
            await client.status()
        with pytest.raises(DaemonUnreachable):
            await turn(client).done()


async def test_a_restarted_daemon_is_found_again_by_the_next_question_or_operation(daemon: ScriptedDaemon) -> None:
    async with Client(daemon.endpoint) as client:
        for restart in (2, 3):
            await daemon.die()
            await daemon.start()
            assert await insist(client) == "Hello, world"
            assert client.welcome.instance == f"instance-{restart}"
        assert (await client.status()).instance == "instance-3"


async def test_the_last_words_of_a_dying_daemon_count(daemon: ScriptedDaemon) -> None:
    for _ in range(10):
        async with Client(daemon.endpoint) as client:
            daemon.script.die_after = 7  # the last of the seven is `done`
            assert await turn(client).text() == "Hello, world"
        await daemon.die()
        await daemon.start()


async def test_a_daemon_that_dies_in_the_middle_loses_the_operation(daemon: ScriptedDaemon) -> None:
    async with Client(daemon.endpoint) as client:
        daemon.script.die_after = 4
        stream = turn(client)
        replies = [await anext(stream) for _ in range(4)]
        assert replies[-1] == Tokens(text="Hello", ids=(0,))
        with pytest.raises(WireError, match="went away"):
            await anext(stream)


async def test_a_daemon_that_falls_silent_is_lost_after_three_beats(daemon: ScriptedDaemon) -> None:
    daemon.script.beat_ms = 20
    async with Client(daemon.endpoint) as client:
        daemon.script.silent_after = 1
        daemon.script.drop = {Hello}
        with pytest.raises(WireError) as caught:
            await turn(client).done()
        assert caught.value.code == "daemon_lost"
        await daemon.wait_until(lambda: daemon.beats >= 2)


async def test_a_slow_operation_of_a_living_daemon_is_not_lost(daemon: ScriptedDaemon) -> None:
    daemon.script = Script(held=True, beat_ms=100)
    async with Client(daemon.endpoint) as client:
        stream = turn(client)
        await daemon.wait_until(lambda: daemon.beats > MISSED_BEATS + 1, "more beats than a silent one gets")
        daemon.release()
        assert await stream.text() == "Hello, world"


async def test_a_reply_that_cannot_be_read_fails_its_operation_alone(daemon: ScriptedDaemon) -> None:
    stranger = Protocol(service="modeld", kinds=CONTROL, requests=(Turn,), terminal=())
    async with Connection(daemon.endpoint, stranger) as connection:
        with pytest.raises(KeyError):
            connection.start(Turn(session="s", prefix=PROMPT))
        answer = await connection.ask(Cancel(target="9"))
        assert answer == Acknowledged(found=False)


async def test_an_operation_that_cannot_be_sent_says_so_at_once(daemon: ScriptedDaemon) -> None:
    async with Client(daemon.endpoint) as client:
        with pytest.raises(WireError, match="not valid Unicode"):
            client.turn(session="s", prefix=(Text(text="\udcff"),))
        with pytest.raises(WireError, match="shorten the prompt"):
            client.turn(session="s", prefix=(Text(text="x" * 2**24),))
        assert await turn(client).text() == "Hello, world"


async def test_closing_the_client_ends_what_is_open(daemon: ScriptedDaemon) -> None:
    daemon.script.held = True
    async with Client(daemon.endpoint) as client:
        stream = turn(client)
    with pytest.raises(WireError):
        await stream.done()
    with pytest.raises(RuntimeError, match="async with"):
        await client.status()
    with pytest.raises(RuntimeError, match="async with"):
        _ = Client(daemon.endpoint).welcome


async def test_done_is_given_with_what_the_daemon_said(daemon: ScriptedDaemon) -> None:
    done = Done(reason=Reason.SUPERSEDED, head=4)
    daemon.script.answers = {Turn: lambda _: [done]}
    async with Client(daemon.endpoint) as client:
        assert await turn(client).done() == done


@pytest.mark.parametrize("turns_of_the_loop", [0, 1])
async def test_closing_the_client_ends_an_operation_that_still_looks_for_the_daemon(
    daemon: ScriptedDaemon, turns_of_the_loop: int
) -> None:
    async with Client(daemon.endpoint) as client:
        await daemon.die()
        daemon.script.drop = {Hello, Turn}
        await daemon.start()
        async with asyncio.timeout(PATIENCE_S):
            while client.connected:  # noqa: ASYNC110  (libzmq's thread notices it, without an event of ours)
                await asyncio.sleep(0)
        stream = turn(client)
        for _ in range(turns_of_the_loop):
            await asyncio.sleep(0)
    with pytest.raises(WireError, match="went away"):
        async with asyncio.timeout(PATIENCE_S):
            await stream.done()


@pytest.mark.parametrize("turns", range(8))
async def test_a_close_that_is_cancelled_leaves_nothing_open(daemon: ScriptedDaemon, turns: int) -> None:
    client = Client(daemon.endpoint)
    await client.__aenter__()
    context = client._context
    assert context
    stream = turn(client)
    closing = asyncio.create_task(client.close())
    for _ in range(turns):
        await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    if turns:  # else it has not begun
        assert context.closed
    else:
        await client.close()
    await asyncio.gather(stream.done(), return_exceptions=True)


async def test_a_close_that_fails_and_is_cancelled_meanwhile_tells_of_the_cancellation(
    daemon: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    client = Client(daemon.endpoint)
    await client.__aenter__()
    context = client._context
    assert context
    closing = asyncio.create_task(client.close())
    await asyncio.sleep(0)
    closing.cancel()
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", none)
        with pytest.raises(asyncio.CancelledError):
            await closing
    await asyncio.to_thread(context.term)


async def test_closing_a_stream_is_no_fault_where_its_client_is_closed_meanwhile(daemon: ScriptedDaemon) -> None:
    """Its cancel waits for another one, who looks for the daemon."""
    async with Client(daemon.endpoint) as client, asyncio.timeout(PATIENCE_S):
        await daemon.die()
        daemon.script.drop = {Hello, Turn}
        await daemon.start()
        while client.connected:  # noqa: ASYNC110  (libzmq's thread notices it, without an event of ours)
            await asyncio.sleep(0)
        stream = OperationStream("1", client, MODELD)
        looking = asyncio.create_task(client.status())
        await asyncio.sleep(0)
        closing = asyncio.create_task(stream.aclose())
        await asyncio.sleep(0)
        await client.close()
        await closing
        await asyncio.gather(looking, return_exceptions=True)


async def test_where_no_descriptor_is_left_nobody_can_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(24, "Too many open files")

    (tmp_path / "r").mkdir(mode=0o700)
    monkeypatch.setattr(socket, "socket", none)
    with pytest.raises(DaemonUnreachable):
        link.probe(f"ipc://{tmp_path}/r/m.sock", "modeld")


@pytest.mark.parametrize("hello_is_answered", [True, False])
@pytest.mark.parametrize("turns_of_the_loop", [0, 1, 2, 3, 4])
async def test_closing_the_client_ends_a_question_that_still_looks_for_the_daemon(
    daemon: ScriptedDaemon, turns_of_the_loop: int, hello_is_answered: bool
) -> None:
    async with Client(daemon.endpoint) as client, asyncio.timeout(PATIENCE_S):
        await daemon.die()
        daemon.script.drop = set() if hello_is_answered else {Hello}
        await daemon.start()
        while client.connected:  # noqa: ASYNC110  (libzmq's thread notices it, without an event of ours)
            await asyncio.sleep(0)
        questions = [asyncio.create_task(client.status()) for _ in range(2)]
        for _ in range(turns_of_the_loop):
            await asyncio.sleep(0)
        await client.close()
        # On a quick machine the answer may be there already; what must not be is a question without an end.
        for end in await asyncio.gather(*questions, return_exceptions=True):
            assert isinstance(end, WireError | DaemonUnreachable | RuntimeError | Status), end


@pytest.mark.parametrize("answer", [Acknowledged(found=True), None])
async def test_what_does_not_welcome_is_no_daemon_and_the_next_try_is_free(
    daemon: ScriptedDaemon, answer: Acknowledged | None
) -> None:
    """Not another kind of reply, nor one without a beat."""
    if answer:
        daemon.script.answers[Hello] = lambda hello: [answer]
    daemon.script.beat_ms = 0
    with pytest.raises(DaemonUnreachable):
        async with asyncio.timeout(PATIENCE_S), Client(daemon.endpoint):
            pass
    daemon.script = Script()
    async with Client(daemon.endpoint) as client:
        assert (await client.status()).state == "idle"
