"""OpenVINO on the packaged model, as a client sees it: a real daemon, a real socket, real steps."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bench.daemons import BIN, daemon, model_is_ready, private_runtime, wait_until
from integration.served import hit
from modelwire import Client
from modelwire.client import OperationStream
from modelwire.errors import WireError
from modelwire.messages import DecodeConfig, Done, Outcome, Progress, Prompt, Reason, Started, Text, Tokens

ANSWER = DecodeConfig(max_tokens=16)
SHORT: Prompt = (Text(text="A list of the planets of the solar system, from the inside:\n1. Mercury\n2."),)
OPTIONS = ("--backend", "openvino", "--context", "8192", "--extra-cells", "1024", "--threads", "1", "--chunk", "128")
PATIENCE_S = 60.0
CODE = Path(__file__).read_text()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    command = [str(BIN / "modeld"), "serve", *OPTIONS]
    with private_runtime(), daemon("modeld", command, tmp_path_factory.mktemp("logs")) as server:
        wait_until(model_is_ready, server, "loading the model")
        yield


@pytest.fixture
async def client(served: None) -> AsyncIterator[Client]:
    async with Client(name="test", timeout=PATIENCE_S) as client:
        yield client


def code(number: int, characters: int = 1500) -> Prompt:
    """Some hundred tokens that no other test has."""
    return (Text(text=f"# Part {number}\n{CODE[:characters]}"),)


async def after_a_step(stream: OperationStream) -> None:
    """A step of its prefill is finished, and the next one runs."""
    async with asyncio.timeout(PATIENCE_S):
        async for reply in stream:
            if isinstance(reply, Progress) and reply.done > reply.reused:
                return


async def asked(client: Client, session: str, prompt: Prompt, decode: DecodeConfig = ANSWER) -> tuple[str, Done]:
    stream = client.turn(session=session, prefix=prompt, decode=decode)
    return await stream.text(), await stream.done()


async def test_a_hit_needs_no_pass_and_gives_the_cold_answer(client: Client) -> None:
    """S4, S6, S10: the token that follows was computed with the guess."""
    prompt = code(1)
    guess = await client.turn(session="s", prefix=prompt, decode=ANSWER, speculative=True).done()
    assert (guess.reason, guess.usage.reused) == (Reason.PREFILLED, 0)
    hit, done = await asked(client, "s", prompt)
    assert (done.usage.outcome, done.usage.forward_passes) == (Outcome.HIT, 0)
    assert done.usage.reused == done.usage.prompt
    again, _ = await asked(client, "other", prompt)
    assert again == hit


async def test_a_request_stops_a_guess_after_a_step_and_what_is_finished_stays(client: Client) -> None:
    """S2, S3, S5: the guess's steps are whole requests, so the ones that ended are recognised."""
    prompt = code(2)
    guess = client.turn(session="s", prefix=prompt, decode=ANSWER, speculative=True)
    await after_a_step(guess)
    request = client.turn(session="short", prefix=SHORT, decode=ANSWER)
    replies = [reply async for reply in request]
    assert [reply.preempted for reply in replies if isinstance(reply, Started)] == [guess.id]
    stopped = await guess.done()
    assert stopped.reason is Reason.PREEMPTED
    assert 0 < stopped.usage.prefilled < stopped.usage.prompt
    _, done = await asked(client, "s", prompt)
    assert done.usage.outcome is Outcome.PARTIAL
    assert done.usage.reused == stopped.usage.prefilled
    assert done.usage.reused + done.usage.prefilled == done.usage.prompt


async def test_a_cancel_ends_an_answer_after_a_step_and_the_session_goes_on(client: Client) -> None:
    """S9, S4"""
    prompt = code(3, 300)
    whole, _ = await asked(client, "whole", prompt)
    stream = client.turn(session="s", prefix=prompt, decode=DecodeConfig(max_tokens=400))
    heard = list[int]()
    async with asyncio.timeout(PATIENCE_S):
        async for reply in stream:
            if isinstance(reply, Tokens):
                heard += reply.ids
                await stream.cancel()
                break
        heard += [token async for reply in stream if isinstance(reply, Tokens) for token in reply.ids]
    done = await stream.done()
    assert (done.reason, done.usage.generated) == (Reason.CANCELLED, len(heard))
    assert (await asked(client, "s", prompt))[0] == whole


async def test_questions_cancels_and_beats_are_answered_while_8000_tokens_are_prefilled(client: Client) -> None:
    """A step holds the engine's interpreter, and the front has its own."""
    stream = client.turn(session="long", prefix=(Text(text=CODE * 4),), decode=ANSWER)
    await after_a_step(stream)
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(20):
            assert (await client.status()).state == "busy"
            await client.describe()
        await stream.cancel()
        done = await stream.done()
    assert (done.reason, done.usage.prompt > 7000) == (Reason.CANCELLED, True)
    assert 0 < done.usage.prefilled < 4000


async def test_copying_ahead_that_was_not_built_in_changes_nothing(client: Client) -> None:
    """D1"""
    prompt = code(4, 400)
    one, _ = await asked(client, "one", prompt, DecodeConfig(max_tokens=12, speculative_ngram=0))
    other, _ = await asked(client, "other", prompt, DecodeConfig(max_tokens=12, speculative_ngram=3))
    assert one == other


async def test_what_openvino_cannot_do_is_refused_with_what_to_do(client: Client) -> None:
    config = DecodeConfig(max_tokens=8, repeat_penalty=1.2, repeat_last_n=16)
    with pytest.raises(WireError, match="set repeat_last_n to"):
        await asked(client, "s", SHORT, config)


async def test_s13_a_killed_engine_is_started_again_and_the_session_goes_on(client: Client) -> None:
    """S8, S13"""
    prompt = code(5, 300)
    before, _ = await asked(client, "s", prompt)
    stream = client.turn(session="s", prefix=code(6), decode=DecodeConfig(max_tokens=20))
    await after_a_step(stream)
    hit((await client.status()).engine_pid)
    async with asyncio.timeout(PATIENCE_S):
        assert (await stream.done()).reason in (Reason.LENGTH, Reason.END)  # run again: it had sent no token
    after, done = await asked(client, "s", prompt)
    assert (after, done.usage.outcome) == (before, Outcome.COLD)
