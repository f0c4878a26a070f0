"""Guesses on the packaged model, as a client sees them: a real daemon, a real socket, real KV."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.daemons import BIN, daemon, model_is_ready, private_runtime, wait_until
from integration.served import hit
from modelwire import Client, WireError
from modelwire.client import OperationStream
from modelwire.link import Link
from modelwire.messages import (
    Acknowledged,
    DecodeConfig,
    Done,
    Error,
    Outcome,
    Progress,
    Prompt,
    Reason,
    Started,
    Text,
    Tokens,
)

ANSWER = DecodeConfig(max_tokens=24)
SHORT: Prompt = (Text(text="A list of the planets of the solar system, from the inside:\n1. Mercury\n2."),)
OTHERS: tuple[Prompt, ...] = (
    (Text(text="def add(a, b):\n    return"),),
    (Text(text="Once upon a time, in a small village, there lived"),),
)
Heard = list[tuple[Link, str, Any]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    command = [str(BIN / "modeld"), "serve", "--context", "2048", "--chunk", "128"]
    with private_runtime(), daemon("modeld", command, tmp_path_factory.mktemp("logs")) as server:
        wait_until(model_is_ready, server, "loading the model")
        yield


@pytest.fixture
async def client(served: None) -> AsyncIterator[Client]:
    async with Client(name="test", timeout=60) as client:
        yield client


@pytest.fixture
def long() -> Prompt:
    """About 900 tokens of code: seven chunks or more."""
    return (Text(text=Path(__file__).read_text()[:3000]),)


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    """Whatever comes from the daemon, also what a stream that is over would not show: (link, op, message)."""
    log: Heard = []
    take = Link._take

    def listen(link: Link, frames: list[bytes]) -> None:
        envelope = link._codec.decode(frames[0])
        log.append((link, envelope.op, envelope.message))
        take(link, frames)

    monkeypatch.setattr(Link, "_take", listen)
    return log


def said_of(heard: Heard, client: Client, stream: OperationStream) -> list[Any]:
    """All replies to an operation (S8: the last one, and no other, is its end)."""
    replies = [message for link, op, message in heard if (link, op) == (client._link, stream.id)]
    assert [reply for reply in replies if isinstance(reply, Done | Error)] == replies[-1:]
    return replies


async def until_one(stream: OperationStream, kind: type[Any]) -> Any:
    async with asyncio.timeout(60):
        return await anext(reply async for reply in stream if isinstance(reply, kind))


async def ready_engine(client: Client) -> int:
    """Its pid, asked before there is what it is killed for: that may be over when the answer comes."""
    await client.tokenize(SHORT)
    return (await client.status()).engine_pid


async def cold(client: Client, prompt: Prompt) -> str:
    """The answer where nothing of the prompt is resident, and nothing of it is afterwards."""
    stream = client.turn(session="cold", prefix=prompt, decode=ANSWER)
    text = await stream.text()
    done = await stream.done()
    assert done.usage.reused == 0
    await client.close_session("cold")
    return text


async def test_a_hit_needs_no_pass_and_gives_the_cold_answer(client: Client, long: Prompt) -> None:
    """S4, S6, S10"""
    expected = await cold(client, long)
    guess = await client.turn(session="s", prefix=long, decode=ANSWER, speculative=True).done()
    assert (guess.reason, guess.usage.reused) == (Reason.PREFILLED, 0)
    stream = client.turn(session="s", prefix=long, decode=ANSWER)
    assert await stream.text() == expected
    usage = (await stream.done()).usage
    assert (usage.outcome, usage.forward_passes, usage.reused) == (Outcome.HIT, 0, usage.prompt)


async def test_a_request_stops_a_guess_which_keeps_its_chunks_and_both_give_cold_answers(
    client: Client, long: Prompt
) -> None:
    """S1, S2, S3, S4, S5"""
    expected_long, expected_short = await cold(client, long), await cold(client, SHORT)
    guess = client.turn(session="s", prefix=long, decode=ANSWER, speculative=True)
    async for reply in guess:
        if isinstance(reply, Progress) and reply.done > reply.reused:
            break  # a chunk is finished, and the next one runs
    request = client.turn(session="other", prefix=SHORT, decode=ANSWER)
    replies = [reply async for reply in request]
    assert [reply.preempted for reply in replies if isinstance(reply, Started)] == [guess.id]
    assert "".join(getattr(reply, "text", "") for reply in replies) == expected_short
    stopped = await guess.done()
    assert stopped.reason is Reason.PREEMPTED
    assert stopped.usage.chunks_finished >= 1
    assert 0 < stopped.usage.prefilled < stopped.usage.prompt
    asked = [reply async for reply in client.turn(session="s", prefix=long, decode=ANSWER)]
    assert "".join(getattr(reply, "text", "") for reply in asked) == expected_long
    done = asked[-1]
    assert isinstance(done, Done)
    assert (done.usage.outcome, done.usage.reused) == (Outcome.PARTIAL, stopped.usage.prefilled)


async def test_a_snapshot_goes_on_as_its_session_would_have(client: Client, long: Prompt) -> None:
    """S4, S11: after others have taken its room, from the saved KV, bit for bit as far as greedy text shows."""
    await client.turn(session="s", prefix=long, decode=DecodeConfig(max_tokens=4)).done()
    taken = await client.snapshot("s")
    assert taken.bytes > 1_000_000
    expected = await client.decode(session="s", decode=ANSWER).text()
    await client.close_session("s")
    await client.turn(session="other", prefix=(Text(text="Else: "), *long), decode=DecodeConfig(max_tokens=1)).done()
    for session in ("t", "u"):
        back = await client.restore(taken.handle, session=session).done()
        assert (back.head, back.usage.prompt) == (taken.head, taken.head)
        assert back.usage.prefilled <= 1  # the token that was generated last never went through the model
        assert await client.decode(session=session, decode=ANSWER).text() == expected
    async with Client(name="other", timeout=60) as other:
        with pytest.raises(WireError, match="no snapshot of yours"):
            await other.restore(taken.handle, session="mine").done()
    for session in ("t", "u", "other"):
        await client.close_session(session)


async def test_what_was_unloaded_goes_on_where_it_was(client: Client) -> None:
    """S13: the sessions outlive the model's process, and the next operation loads it again."""
    await client.turn(session="s", prefix=SHORT, decode=DecodeConfig(max_tokens=4)).done()
    longer = DecodeConfig(max_tokens=4 + ANSWER.max_tokens)
    whole = await client.turn(session="t", prefix=SHORT, decode=longer).text()
    before = (await client.status()).engine_pid
    assert await client.unload()
    assert (await client.status()).state == "unloaded"
    assert whole.endswith(await client.decode(session="s", decode=ANSWER).text())
    assert (await client.status()).engine_pid not in (0, before)
    for session in ("s", "t"):
        await client.close_session(session)


async def test_s4_a_guess_changes_nothing_of_what_its_session_says(client: Client) -> None:
    """Neither a guessed suffix, nor another prefix, nor an answer that was generated ahead."""
    whole = await client.turn(session="whole", prefix=SHORT, decode=DecodeConfig(max_tokens=28)).text()
    begun = await client.turn(session="s", prefix=SHORT, decode=DecodeConfig(max_tokens=4)).text()
    suffix = client.prefill_suffix(session="s", prompt=OTHERS[0], speculative=True)
    assert (await suffix.done()).reason is Reason.PREFILLED
    another = client.ensure_prefix(session="s", prompt=OTHERS[1], speculative=True)
    assert (await another.done()).reason is Reason.PREFILLED
    ahead = client.turn(session="s", prefix=OTHERS[0], decode=ANSWER, speculative=True, ahead=True)
    assert await ahead.text()
    assert begun + await client.decode(session="s", decode=ANSWER).text() == whole
    for session in ("whole", "s"):
        await client.close_session(session)


async def test_s1_s8_s11_clients_that_ask_at_once_get_one_after_the_other_their_own_cold_answers(
    client: Client, heard: Heard, long: Prompt
) -> None:
    """And go on with their own texts, though their sessions and operations have the same names."""
    prompts = (SHORT, *OTHERS)
    expected = [await cold(client, prompt) for prompt in prompts]
    assert len(set(expected)) == len(prompts)
    heard.clear()
    async with Client(name="other", timeout=60) as other:
        who = (client, other, client, other, client, other)
        asked = [asker.turn(session="s", prefix=prompts[n % 3], decode=ANSWER) for n, asker in enumerate(who)]
        async with asyncio.timeout(60):
            assert await asyncio.gather(*(stream.text() for stream in asked)) == expected * 2
        for asker in (client, other):
            turns = [(op, type(m)) for link, op, m in heard if link is asker._link and isinstance(m, Started | Done)]
            own = [stream for stream, by in zip(asked, who, strict=True) if by is asker]
            assert turns == [(stream.id, kind) for stream in own for kind in (Started, Done)]
        for asker, stream, prompt in zip((client, other), asked[-2:], prompts[1:], strict=True):
            said_of(heard, asker, stream)
            more = await asker.decode(session="s", decode=DecodeConfig(max_tokens=6)).text()
            whole = asker.turn(session="whole", prefix=prompt, decode=DecodeConfig(max_tokens=30))
            assert await whole.text() == expected[prompts.index(prompt)] + more
        guess = other.turn(session="s", prefix=long, speculative=True)
        await until_one(guess, Progress)
        turn = client.turn(session="s", prefix=SHORT, decode=ANSWER)
        assert (await until_one(turn, Started)).preempted == "?"
        assert await turn.text() == expected[0]
        theirs = other.turn(session="s", prefix=SHORT, decode=ANSWER)
        await until_one(theirs, Started)
        for session in ("s", "whole"):
            await client.close_session(session)
        assert await theirs.text() == expected[0]


@pytest.mark.parametrize("says_goodbye", [True, False])
async def test_s8_what_runs_for_a_client_that_leaves_ends(
    client: Client, says_goodbye: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client(name="other", timeout=60) as other:
        if not says_goodbye:
            monkeypatch.setattr(other, "_farewell", lambda link: None)
        endless = other.turn(session="s", prefix=SHORT, decode=DecodeConfig(max_tokens=1500))
        await until_one(endless, Tokens)
    async with asyncio.timeout(60):
        while True:
            if (await client.status()).state == "idle":
                break
            await asyncio.sleep(0.01)
    assert "done: cancelled" in (await client.story())[-1]


async def test_s8_s9_a_cancelled_answer_ends_once_and_says_nothing_after_the_confirmation(
    client: Client, heard: Heard
) -> None:
    """And its session goes on at the last token that was sent (S4)."""
    whole = await client.turn(session="whole", prefix=SHORT, decode=DecodeConfig(max_tokens=80)).text()
    stream = client.turn(session="s", prefix=SHORT, decode=DecodeConfig(max_tokens=1000))
    await until_one(stream, Tokens)
    assert await stream.cancel()
    assert (await stream.done()).reason is Reason.CANCELLED
    more = await client.decode(session="s", decode=DecodeConfig(max_tokens=10)).text()
    replies = said_of(heard, client, stream)
    [confirmed] = [at for at, (_, _, m) in enumerate(heard) if isinstance(m, Acknowledged)]
    assert all(op != stream.id for _, op, _ in heard[confirmed:])
    text = "".join(reply.text for reply in replies if isinstance(reply, Tokens))
    said = text + more
    assert text
    assert said[: len(whole)] == whole[: len(said)]
    for session in ("whole", "s"):
        await client.close_session(session)


async def test_s9_a_close_is_confirmed_when_all_that_it_ends_is_over(client: Client, heard: Heard) -> None:
    endless = DecodeConfig(max_tokens=1500)
    running, waiting = (client.turn(session="s", prefix=SHORT, decode=endless) for _ in range(2))
    await until_one(running, Tokens)
    await client.close_session("s")
    for stream in (running, waiting):
        assert (await stream.done()).reason is Reason.CANCELLED
        said_of(heard, client, stream)
    [confirmed] = [at for at, (_, _, m) in enumerate(heard) if isinstance(m, Acknowledged)]
    assert all(op not in (running.id, waiting.id) for _, op, _ in heard[confirmed:])


async def test_s8_s13_what_runs_in_an_engine_that_is_killed_ends_once_or_is_run_again(
    client: Client, heard: Heard, long: Prompt
) -> None:
    """A guess, a request without a token, one that had said something."""
    expected, whole = await cold(client, long), await cold(client, SHORT)
    engine = await ready_engine(client)
    guess = client.turn(session="s", prefix=long, speculative=True)
    await until_one(guess, Progress)
    hit(engine)
    with pytest.raises(WireError, match="engine was lost"):
        await guess.done()
    engine = await ready_engine(client)
    turn = client.turn(session="s", prefix=long, decode=ANSWER)
    while not (await until_one(turn, Progress)).done:
        pass
    hit(engine)
    assert await turn.text() == expected
    engine = await ready_engine(client)
    answer = client.turn(session="t", prefix=SHORT, decode=DecodeConfig(max_tokens=1000))
    await until_one(answer, Tokens)
    hit(engine)
    with pytest.raises(WireError, match="ask again"):
        await answer.done()
    replies = [said_of(heard, client, stream) for stream in (guess, turn, answer)][-1]
    said = "".join(reply.text for reply in replies if isinstance(reply, Tokens))
    said += await client.decode(session="t", decode=ANSWER).text()
    assert said.startswith(whole)
    for session in ("s", "t"):
        await client.close_session(session)
