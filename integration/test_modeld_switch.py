"""Unloading, loading, stories and records of a daemon as it is started, on the fake backend."""

import json
import signal
from pathlib import Path

import pytest

from integration.served import hit
from integration.test_modeld_fake import (
    ENDLESS_PREFILL,
    LONG,
    SLOW_DECODE,
    SLOW_PREFILL,
    Daemons,
    bounded,
    daemons,
    is_gone,
    moments,
    reply_of,
    text,
    until_state,
)
from modeld.recording import read
from modeld.schedule.journal import replay
from modeld.schedule.messages import CancelAsked, EngineLost, EngineSwitched, ShutdownAsked, Submitted
from modelwire.client import Client
from modelwire.errors import WireError
from modelwire.messages import DecodeConfig, Progress, Started, Tokens

__all__ = ["daemons"]
SHORT = DecodeConfig(max_tokens=2)


def model(daemons: Daemons, name: str, **script: object) -> Path:
    """A file that the fake backend takes for a model."""
    path = daemons.directory / name
    path.write_text(json.dumps({"fingerprint": name, **script}))
    return path


async def test_an_unloaded_model_has_no_process_and_the_next_turn_says_what_it_would_have_said(
    daemons: Daemons,
) -> None:
    """S13."""
    await daemons.serve()
    async with Client(daemons.endpoint) as client:
        await bounded(client.turn(session="s", prefix=text("once upon"), decode=SHORT).done())
        longer = client.turn(session="t", prefix=text("once upon"), decode=DecodeConfig(max_tokens=4))
        whole = await bounded(longer.text())
        engine = (await client.status()).engine_pid
        assert await bounded(client.unload())
        assert is_gone(engine)
        status = await client.status()
        assert (status.state, status.engine_pid, status.figures["tapes"]) == ("unloaded", 0, 0)
        assert not await bounded(client.unload())
        assert (await client.describe()).model.name == "fake"
        more = client.decode(session="s", decode=SHORT)
        assert whole.endswith(await bounded(more.text()))
        assert (await client.status()).state == "idle"
        assert (await client.status()).figures["engine_restarts"] == 0


async def test_an_unload_ends_a_guess_and_waits_for_a_real_operation(daemons: Daemons) -> None:
    """S2."""
    await daemons.serve(ENDLESS_PREFILL | {"step_ms": 20})
    async with Client(daemons.endpoint) as client, Client(daemons.endpoint) as other:
        guess = client.turn(session="s", prefix=text(LONG), speculative=True)
        await reply_of(guess, Progress)
        turn = client.turn(session="t", prefix=text("go"), decode=DecodeConfig(max_tokens=20))
        await reply_of(turn, Started)
        assert await bounded(other.unload())
        assert turn.over
        assert (await bounded(turn.done())).usage.generated == 20
        assert (await bounded(guess.done())).reason == "preempted"
        again = client.turn(session="s", prefix=text(LONG), speculative=True)
        await until_state(other, "guessing")
        await reply_of(again, Progress)
        assert await bounded(other.unload())
        assert (await bounded(again.done())).reason == "preempted"


async def test_another_model_is_loaded_and_sessions_of_the_one_before_are_empty(daemons: Daemons) -> None:
    await daemons.serve()
    other = model(daemons, "other", context=1000)
    async with Client(daemons.endpoint) as client:
        await bounded(client.turn(session="s", prefix=text("once"), decode=SHORT).done())
        assert await bounded(client.load(str(other)))
        description = await client.describe()
        assert (description.model.fingerprint, description.limits.context) == ("other", 1000)
        with pytest.raises(WireError, match="of another model") as fault:
            await bounded(client.decode(session="s").done())
        assert fault.value.code == "bad_request"
        assert not await bounded(client.load(str(other)))
        await bounded(client.unload())
        await bounded(client.turn(session="s", prefix=text("once"), decode=SHORT).done())
        assert (await client.describe()).model.fingerprint == "other"


@pytest.mark.parametrize("content", ["not a model", '{"load_error": "too large for this machine"}'])
async def test_a_model_that_cannot_be_loaded_is_said_to_who_asked_and_everything_goes_on(
    daemons: Daemons, content: str
) -> None:
    await daemons.serve()
    bad = daemons.directory / "bad"
    bad.write_text(content)
    async with Client(daemons.endpoint) as client:
        await bounded(client.turn(session="s", prefix=text("once"), decode=SHORT).done())
        with pytest.raises(WireError, match="loaded again") as fault:
            await bounded(client.load(str(bad)))
        assert fault.value.code == "not_ready"
        assert (await bounded(client.decode(session="s", decode=SHORT).done())).usage.generated == 2
        assert (await client.describe()).model.fingerprint == "fake"


async def test_an_engine_that_is_killed_in_the_test_of_exactness_costs_nobody_anything(daemons: Daemons) -> None:
    """S12, S13: the session is as it was, nothing was counted as failed, and the test begins again."""
    await daemons.serve({"token_ms": 2, "chunk": 64}, "--exactness-after", "1")
    async with Client(daemons.endpoint) as client:
        before = await bounded(client.turn(session="s", prefix=text("once"), decode=SHORT).text())
        async for _ in moments():
            if (status := await client.status()).exactness.running:
                break
        hit(status.engine_pid)
        async for _ in moments():
            if (await client.status()).figures["engine_restarts"] == 1:
                break
        assert await bounded(client.turn(session="s", prefix=text("once"), decode=SHORT).text()) == before
        status = await client.status()
        assert (status.figures["operations_total"], status.figures["guesses_failed"]) == (2, 0)
        async for _ in moments():
            if (await client.status()).exactness.running:
                break


async def test_s13_a_snapshot_outlives_the_engine_and_ends_with_an_unload(daemons: Daemons) -> None:
    await daemons.serve()
    async with Client(daemons.endpoint) as client:
        await bounded(client.turn(session="s", prefix=text(LONG), decode=SHORT).done())
        taken = await bounded(client.snapshot("s"))
        assert taken.bytes > 0
        expected = await bounded(client.decode(session="s", decode=SHORT).text())
        hit((await client.status()).engine_pid)
        back = await bounded(client.restore(taken.handle, session="t").done())
        assert back.usage.prefilled == back.head == taken.head
        assert await bounded(client.decode(session="t", decode=SHORT).text()) == expected
        await bounded(client.unload())
        with pytest.raises(WireError, match="before a load or unload"):
            await bounded(client.restore(taken.handle, session="t").done())
        assert await bounded(client.decode(session="t", decode=SHORT).text())


async def test_s13_a_model_whose_file_is_gone_when_it_is_wanted_again_does_not_end_the_daemon(daemons: Daemons) -> None:
    file = model(daemons, "fake")
    await daemons.serve(None, "--model", str(file))
    async with Client(daemons.endpoint) as client:
        await bounded(client.ensure_prefix(session="s", prompt=text("once")).done())
        await bounded(client.unload())
        file.rename(file.with_suffix(".away"))
        for wanted in (client.decode(session="s", decode=SHORT).done(), client.load()):
            with pytest.raises(WireError, match="No such file") as fault:
                await bounded(wanted)
            assert fault.value.code == "not_ready"
            assert (await client.status()).state == "unloaded"
        file.with_suffix(".away").rename(file)
        assert (await bounded(client.decode(session="s", decode=SHORT).done())).usage.generated == 2


async def test_an_idle_model_is_unloaded_after_the_time_that_was_set(daemons: Daemons) -> None:
    await daemons.serve(None, "--unload-after", "1")
    async with Client(daemons.endpoint) as client:
        await until_state(client, "unloaded")
        assert (await bounded(client.turn(session="s", prefix=text("go"), decode=SHORT).done())).usage.generated == 2


async def test_a_daemon_whose_model_is_unloaded_stops_at_once(daemons: Daemons) -> None:
    process = await daemons.serve()
    async with Client(daemons.endpoint) as client:
        await bounded(client.unload())
    process.send_signal(signal.SIGTERM)
    assert await bounded(process.wait()) == 0


async def test_the_story_of_an_operation_is_told_by_the_command(daemons: Daemons) -> None:
    await daemons.serve(ENDLESS_PREFILL)
    async with Client(daemons.endpoint) as client:
        guess = client.turn(session="s", prefix=text(LONG), speculative=True)
        await reply_of(guess, Progress)
        turn = client.turn(session="s", prefix=text("a secret"), decode=SHORT)
        await bounded(turn.done())
        status, output, _ = await daemons.result("story", "--last")
        assert status == 0
        lines = output.splitlines()
        assert lines[0].startswith(f"turn {turn.id} of client ")
        assert lines[1] == "0.0 ms accepted, queued behind 1"
        assert f"started, preempted guess {guess.id} (waited " in lines[2]
        assert lines[-1].endswith("ms done: length, 2 tokens")
        assert "secret" not in output
        _, told, _ = await daemons.result("story", guess.id, "--json")
        assert "done: preempted" in json.loads(told)["lines"][-1]
    status, _, errors = await daemons.result("story", "77")
    assert (status, len(errors)) == (1, 1)


async def test_the_commands_load_and_unload(daemons: Daemons) -> None:
    await daemons.serve()
    other = model(daemons, "other")
    (daemons.directory / "x").mkdir()
    assert await daemons.result("unload") == (0, "unloaded: the next operation loads it again\n", [])
    assert await daemons.result("unload") == (0, "nothing is loaded\n", [])
    assert await daemons.result("load") == (0, "fake is loaded\n", [])
    assert await daemons.result("load", str(other.parent / "x" / ".." / other.name)) == (0, "fake is loaded\n", [])
    same = "fake is loaded already; if its file was replaced, unload it first\n"
    assert await daemons.result("load", str(other)) == (0, same, [])
    status, _, [line] = await daemons.result("load", str(daemons.directory / "missing"))
    assert status == 2
    assert "is no file" in line


async def test_what_a_daemon_records_can_be_replayed_and_holds_no_text(daemons: Daemons) -> None:
    record = daemons.directory / "events.jsonl"
    process = await daemons.serve(SLOW_PREFILL | SLOW_DECODE, "--record", str(record))
    async with Client(daemons.endpoint) as client:
        guess = client.turn(session="s", prefix=text("secret " + LONG), speculative=True)
        await reply_of(guess, Progress)
        first = client.turn(session="t", prefix=text("secret"), lane="/secret", decode=DecodeConfig(max_tokens=1000))
        await reply_of(first, Tokens)
        await bounded(client.turn(session="t", prefix=text("secret"), lane="/secret", decode=SHORT).done())
        doomed = client.turn(session="u", prefix=text("secret " + LONG), decode=SHORT)
        await reply_of(doomed, Progress)
        hit((await client.status()).engine_pid)
        await bounded(doomed.done())
        await bounded(client.unload())
        waiting = client.turn(session="v", prefix=text("secret"), decode=DecodeConfig(max_tokens=1000))
        await reply_of(waiting, Tokens)
        await bounded(waiting.cancel())
    process.send_signal(signal.SIGTERM)
    assert await bounded(process.wait()) == 0
    [segment] = read(record)
    assert replay(segment) is None
    kinds = {type(entry.event) for entry in segment.entries}
    assert {Submitted, CancelAsked, EngineLost, EngineSwitched, ShutdownAsked} <= kinds
    assert "secret" not in record.read_text()
    status, output, _ = await daemons.result("replay", str(record))
    assert status == 0
    assert "same commands" in output
    status, output, _ = await daemons.result("trace", str(record))
    assert status == 0
    assert {event["ph"] for event in json.loads(output)["traceEvents"]} == {"M", "i", "b", "e", "X"}


async def test_a_record_that_cannot_be_written_is_said_before_anything_is_loaded(daemons: Daemons) -> None:
    arguments = ("--record", str(daemons.directory / "no" / "where"))
    status, _, [line] = await daemons.result("serve", "--backend", "fake", *arguments)
    assert status == 1
    assert "cannot be written" in line
    assert not daemons.socket.exists()
