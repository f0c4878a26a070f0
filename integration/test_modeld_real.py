"""Guesses on the packaged model, as a client sees them: a real daemon, a real socket, real KV."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bench.daemons import BIN, daemon, model_is_ready, private_runtime, wait_until
from modelwire import Client, WireError
from modelwire.messages import DecodeConfig, Done, Outcome, Progress, Prompt, Reason, Started, Text

ANSWER = DecodeConfig(max_tokens=24)
SHORT: Prompt = (Text(text="A list of the planets of the solar system, from the inside:\n1. Mercury\n2."),)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    command = [str(BIN / "modeld"), "serve", "--context", "2048"]
    with private_runtime(), daemon("modeld", command, tmp_path_factory.mktemp("logs")) as server:
        wait_until(model_is_ready, server, "loading the model")
        yield


@pytest.fixture
async def client(served: None) -> AsyncIterator[Client]:
    async with Client(name="test", timeout=60) as client:
        yield client


@pytest.fixture
def long() -> Prompt:
    """About 900 tokens of code: several chunks of a guess."""
    return (Text(text=Path(__file__).read_text()[:3000]),)


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
    """S2, S4, S5"""
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
