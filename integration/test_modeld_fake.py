"""`modeld serve` as it is started, on the fake backend: real processes, a real socket, real signals."""

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
import zmq.asyncio
from attrs import define, field

from integration.served import hit
from modelwire.client import Client, OperationStream
from modelwire.errors import WireError
from modelwire.messages import (
    Accepted,
    ChatMessage,
    DecodeConfig,
    Done,
    Outcome,
    Progress,
    Prompt,
    Reason,
    Started,
    Text,
    Tokens,
    Turn,
)
from modelwire.protocol import MODELD

T = TypeVar("T")
PATIENCE_S = 30.0
LONG = "a long story. " * 70
"""About a thousand tokens for the fake vocabulary."""
ENDLESS_PREFILL = {"token_ms": 20, "chunk": 16}
"""Of LONG: 20 seconds, for what never comes to its end."""
SLOW_PREFILL = {"token_ms": 4, "chunk": 64}
SLOW_DECODE = {"step_ms": 20}


@define(eq=False)
class Daemons:
    """Processes of `modeld` in a directory of their own, all ended when the test is."""

    directory: Path
    started: list[asyncio.subprocess.Process] = field(factory=list)

    @property
    def endpoint(self) -> str:
        return f"ipc://{self.directory}/modeld.sock"

    @property
    def socket(self) -> Path:
        return self.directory / "modeld.sock"

    def listens(self) -> bool:
        """The file is there a moment before that."""
        with socket.socket(socket.AF_UNIX) as plain:
            return plain.connect_ex(str(self.socket)) == 0

    async def run(self, *arguments: str) -> asyncio.subprocess.Process:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MODELD_", "GUESSA"))}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "modeld", *arguments),
            env={**environment, "GUESSAHEAD_RUNTIME_DIR": str(self.directory), "XDG_CONFIG_HOME": str(self.directory)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        self.started.append(process)
        return process

    async def serve(self, script: dict[str, Any] | None = None, *arguments: str) -> asyncio.subprocess.Process:
        """A daemon that is ready."""
        process = await self.run("serve", "--backend", "fake", "--fake", json.dumps(script or {}), *arguments)
        assert process.stderr
        line = (await bounded(process.stderr.readline())).decode()
        assert line == f"modeld: serving fake (none, exact) on {self.endpoint}\n"
        return process

    async def result(self, *arguments: str) -> tuple[int, str, list[str]]:
        """Exit status, output and lines of standard error of a command that ends."""
        process = await self.run(*arguments)
        output, errors = await bounded(process.communicate())
        return process.returncode or 0, output.decode(), errors.decode().splitlines()

    async def close(self) -> None:
        for process in self.started:
            if process.returncode is None:
                process.kill()
            await process.communicate()


@pytest.fixture
async def daemons() -> AsyncIterator[Daemons]:
    directory = Path(tempfile.mkdtemp(prefix="ga-"))
    daemons = Daemons(directory)
    yield daemons
    await daemons.close()
    shutil.rmtree(directory)


async def bounded(waiting: Awaitable[T]) -> T:
    return await asyncio.wait_for(waiting, PATIENCE_S)


async def moments() -> AsyncIterator[None]:
    """For what cannot be waited for: look again and again, for a bounded time."""
    for _ in range(int(PATIENCE_S * 100)):
        yield
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to be")


async def until(met: Callable[[], bool]) -> None:
    async for _ in moments():
        if met():
            return


async def until_state(client: Client, state: str) -> None:
    async for _ in moments():
        if (await bounded(client.status())).state == state:
            return


async def reply_of(stream: OperationStream, kind: type[T]) -> T:
    """The next reply of a kind."""
    async with asyncio.timeout(PATIENCE_S):
        async for reply in stream:
            if isinstance(reply, kind):
                return reply
    raise AssertionError(f"{kind.__name__} did not come")


def is_gone(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def text(content: str) -> Prompt:
    return (Text(text=content),)


# --- operations -----------------------------------------------------------------------------------------


async def test_a_guess_makes_the_turn_a_hit_that_says_the_same(daemons: Daemons) -> None:
    await daemons.serve()
    prompt: Prompt = (ChatMessage(role="user", content="why does it fail?"),)
    async with Client(daemons.endpoint) as client:
        cold = client.turn(session="cold", prefix=prompt)
        expected = await bounded(cold.text())
    async with Client(daemons.endpoint) as client:
        guess = await bounded(client.turn(session="s", prefix=prompt, speculative=True).done())
        assert guess.reason is Reason.PREFILLED
        turn = client.turn(session="s", prefix=prompt)
        said = [reply.text async for reply in turn if isinstance(reply, Tokens)]
        usage = (await bounded(turn.done())).usage
        figures = (await client.status()).figures
    assert "".join(said) == expected
    assert (usage.outcome, usage.forward_passes) == (Outcome.HIT, 0)
    assert (figures["hits"], figures["guesses_adopted"], figures["wasted_s"]) == (1, 1, 0)


async def test_a_conversation_by_three_operations_says_what_one_turn_says(daemons: Daemons) -> None:
    await daemons.serve()
    system, question = ChatMessage(role="system", content="be brief"), ChatMessage(role="user", content="why?")
    async with Client(daemons.endpoint) as client:
        whole = await bounded(client.turn(session="one", prefix=(system, question)).text())
        client.ensure_prefix(session="three", prompt=(system,))
        client.prefill_suffix(session="three", prompt=(question,))
        assert await bounded(client.decode(session="three").text()) == whole


async def test_a_real_turn_preempts_a_guess(daemons: Daemons) -> None:
    """S2, S3."""
    await daemons.serve(ENDLESS_PREFILL)
    async with Client(daemons.endpoint) as client:
        guess = client.turn(session="s", prefix=text(LONG), speculative=True)
        await reply_of(guess, Progress)
        turn = client.turn(session="t", prefix=text("now"), decode=DecodeConfig(max_tokens=3))
        assert (await reply_of(turn, Started)).preempted == guess.id
        assert (await bounded(guess.done())).reason is Reason.PREEMPTED
        assert (await bounded(turn.done())).usage.generated == 3


async def test_a_discarded_guess_changes_nothing_of_what_its_session_says(daemons: Daemons) -> None:
    """S4."""
    await daemons.serve()
    said = {}
    async with Client(daemons.endpoint) as client:
        for session, guesses in (("plain", False), ("guessed", True)):
            await bounded(client.ensure_prefix(session=session, prompt=text("once upon")).done())
            if guesses:
                for wrong in (" no time", " a tile"):
                    guess = client.prefill_suffix(session=session, prompt=text(wrong), speculative=True)
                    assert (await bounded(guess.done())).reason is Reason.PREFILLED
            await bounded(client.prefill_suffix(session=session, prompt=text(" a time")).done())
            said[session] = await bounded(client.decode(session=session).text())
    assert said["plain"] == said["guessed"]


async def test_no_token_follows_a_confirmed_cancel(daemons: Daemons) -> None:
    """S9."""
    await daemons.serve(SLOW_DECODE)
    async with Client(daemons.endpoint) as client:
        stream = client.turn(session="s", prefix=text("go"), decode=DecodeConfig(max_tokens=1000))
        await reply_of(stream, Tokens)
        assert await bounded(stream.cancel())
        assert stream.over
        assert (await bounded(stream.done())).reason is Reason.CANCELLED
        assert not await bounded(stream.cancel())
        assert (await bounded(client.status())).state == "idle"


async def test_lanes_supersede_and_deadlines_expire(daemons: Daemons) -> None:
    await daemons.serve(SLOW_DECODE)
    endless = DecodeConfig(max_tokens=1000)
    async with Client(daemons.endpoint) as client:
        first = client.turn(session="s", prefix=text("go"), decode=endless, lane="inline")
        await reply_of(first, Tokens)
        late = client.turn(session="t", prefix=text("x"), deadline_ms=50)
        assert (await bounded(late.done())).reason is Reason.EXPIRED
        second = client.turn(session="s", prefix=text("gone"), decode=DecodeConfig(max_tokens=2), lane="inline")
        assert (await bounded(first.done())).reason is Reason.SUPERSEDED
        assert (await bounded(second.done())).usage.generated == 2


async def test_questions_are_answered_while_the_slot_is_busy(daemons: Daemons) -> None:
    await daemons.serve(SLOW_DECODE)
    async with Client(daemons.endpoint) as client:
        stream = client.turn(session="s", prefix=text("go"), decode=DecodeConfig(max_tokens=1000))
        await reply_of(stream, Tokens)
        assert (await bounded(client.status())).state == "busy"
        assert (await bounded(client.describe())).model.name == "fake"
        await stream.aclose()


async def test_a_daemon_that_loads_says_so_and_runs_what_waited(daemons: Daemons) -> None:
    script = json.dumps({"load_ms": 5000})
    await daemons.run("serve", "--backend", "fake", "--fake", script)
    await until(daemons.listens)
    async with Client(daemons.endpoint) as client:
        turn = client.turn(session="s", prefix=text("go"), decode=DecodeConfig(max_tokens=2))
        assert (await bounded(client.status())).state == "loading"
        with pytest.raises(WireError, match="not loaded yet") as fault:
            await client.describe()
        assert fault.value.retry
        assert (await bounded(turn.done())).usage.generated == 2


async def test_a_client_that_vanishes_takes_its_operation_with_it(daemons: Daemons) -> None:
    """S8."""
    await daemons.serve(SLOW_DECODE)
    async with Client(daemons.endpoint) as watcher:
        context = zmq.asyncio.Context()
        client = context.socket(zmq.DEALER)
        client.connect(daemons.endpoint)
        turn = Turn(session="s", prefix=text("go"), decode=DecodeConfig(max_tokens=1000))
        await client.send(MODELD.codec().encode("1", turn))
        await bounded(client.recv())
        assert (await bounded(watcher.status())).state == "busy"
        context.destroy(linger=0)
        await until_state(watcher, "idle")


# --- an engine that dies --------------------------------------------------------------------------------


async def test_an_operation_without_a_token_is_run_again_when_the_engine_is_killed(daemons: Daemons) -> None:
    """S8, S13."""
    await daemons.serve(SLOW_PREFILL)
    async with Client(daemons.endpoint) as client:
        turn = client.turn(session="s", prefix=text(LONG), decode=DecodeConfig(max_tokens=2))
        while (await reply_of(turn, Progress)).done == 0:
            pass
        before = await bounded(client.status())
        hit(before.engine_pid)
        done: Done = await bounded(turn.done())
        after = await bounded(client.status())
    assert (done.reason, done.usage.generated) == (Reason.LENGTH, 2)
    assert after.engine_pid != before.engine_pid
    assert after.figures["engine_restarts"] == 1


async def test_an_operation_that_sent_tokens_fails_when_the_engine_is_killed_and_its_session_goes_on(
    daemons: Daemons,
) -> None:
    """S8, S13."""
    await daemons.serve(SLOW_DECODE)
    async with Client(daemons.endpoint) as client:
        turn = client.turn(session="s", prefix=text("go"), decode=DecodeConfig(max_tokens=1000))
        await reply_of(turn, Tokens)
        hit((await bounded(client.status())).engine_pid)
        with pytest.raises(WireError) as fault:
            await bounded(turn.done())
        assert (fault.value.code, fault.value.retry) == ("engine_lost", True)
        more: Done = await bounded(client.decode(session="s", decode=DecodeConfig(max_tokens=2)).done())
    assert more.usage.generated == 2
    assert more.head > len("go") + 2


async def test_an_engine_that_crashes_again_and_again_takes_only_its_operations(daemons: Daemons) -> None:
    """S8: the second crash ends the operation; the daemon lives."""
    await daemons.serve({"faults": {"1": "crash"}})
    async with Client(daemons.endpoint) as client:
        with pytest.raises(WireError) as fault:
            await bounded(client.turn(session="s", prefix=text("go")).done())
        assert fault.value.code == "engine_lost"
        status = await bounded(client.status())
    assert status.figures["engine_restarts"] == 2
    assert "2 engines died one after another, the last one exited with status 70" in status.problem
    table = (await daemons.result("status"))[1].splitlines()
    assert table[1].split(None, 1) == ["problem", status.problem]


# --- starting and stopping ------------------------------------------------------------------------------


async def test_killing_the_daemon_leaves_nothing_that_holds_up_the_next_which_the_client_finds(
    daemons: Daemons,
) -> None:
    """No engine and no lock; and the client's sessions are cold."""
    process = await daemons.serve(ENDLESS_PREFILL)
    async with Client(daemons.endpoint) as client:
        turn = client.turn(session="s", prefix=text(LONG))
        await reply_of(turn, Progress)
        engine = (await bounded(client.status())).engine_pid
        process.kill()
        with pytest.raises(WireError) as fault:
            await bounded(turn.done())
        assert fault.value.code == "daemon_lost"
        await until(lambda: is_gone(engine))
        before = client.welcome.instance
        await daemons.serve()
        assert (await bounded(client.status())).instance != before
        with pytest.raises(WireError, match="session 's' is empty"):
            await bounded(client.decode(session="s").done())
        short = client.turn(session="s", prefix=text("go"), decode=DecodeConfig(max_tokens=2))
        assert (await bounded(short.done())).usage.generated == 2


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_a_signal_ends_every_operation_and_leaves_nothing(
    daemons: Daemons, number: signal.Signals, status: int
) -> None:
    """S8."""
    process = await daemons.serve(SLOW_DECODE)
    async with Client(daemons.endpoint) as client:
        running = client.turn(session="s", prefix=text("go"), decode=DecodeConfig(max_tokens=1000))
        waiting = client.turn(session="t", prefix=text("go"))
        await reply_of(running, Tokens)
        engine = (await bounded(client.status())).engine_pid
        process.send_signal(number)
        for stream in (waiting, running):
            with pytest.raises(WireError) as fault:
                await bounded(stream.done())
            assert (fault.value.code, fault.value.retry) == ("stopping", True)
    assert await bounded(process.wait()) == status
    assert is_gone(engine)
    assert not daemons.socket.exists()


async def test_a_daemon_that_loads_can_be_stopped(daemons: Daemons) -> None:
    process = await daemons.run("serve", "--backend", "fake", "--fake", json.dumps({"load_ms": 600_000}))
    await until(daemons.listens)
    async with Client(daemons.endpoint) as client:
        turn = client.turn(session="s", prefix=text("go"))
        await reply_of(turn, Accepted)
        process.send_signal(signal.SIGTERM)
        with pytest.raises(WireError) as fault:
            await bounded(turn.done())
        assert fault.value.code == "stopping"
    assert await bounded(process.wait()) == 0


async def test_a_second_signal_ends_a_daemon_whose_engine_hangs(daemons: Daemons) -> None:
    process = await daemons.serve({"faults": {"1": "hang"}})
    async with Client(daemons.endpoint) as client:
        turn = client.turn(session="s", prefix=text("go"))
        await reply_of(turn, Progress)
        engine = (await bounded(client.status())).engine_pid
        async for _ in moments():  # two at once may come as one
            if process.returncode is not None:
                break
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)  # `send_signal` would take the exit status from asyncio
        assert process.returncode == 128 + signal.SIGTERM
    await until(lambda: is_gone(engine))


async def test_a_second_daemon_on_the_socket_says_who_serves(daemons: Daemons) -> None:
    first = await daemons.serve()
    status, _, errors = await daemons.result("serve", "--backend", "fake")
    assert status == 1
    [line] = errors
    assert line.startswith("modeld: ")
    assert f"already served by pid {first.pid}" in line
    async with Client(daemons.endpoint) as client:
        assert (await bounded(client.status())).state == "idle"


async def test_a_directory_that_others_can_enter_is_refused_with_what_helps(daemons: Daemons) -> None:
    daemons.directory.chmod(0o755)
    status, _, errors = await daemons.result("serve", "--backend", "fake")
    assert (status, len(errors)) == (2, 1)
    assert errors[0].endswith(f"run chmod 700 {daemons.directory}")
    assert list(daemons.directory.iterdir()) == []


async def test_a_model_that_cannot_be_served_is_said_in_one_line(daemons: Daemons) -> None:
    other = daemons.directory / "notes.gguf"
    other.write_text("no model at all")
    for model in (str(daemons.directory / "missing.gguf"), str(other)):
        status, _, errors = await daemons.result("serve", "--model", model)
        assert status == 1
        [line] = errors
        assert line.startswith("modeld: ")
        assert Path(model).name in line
        assert not daemons.socket.exists()


# --- the command line -----------------------------------------------------------------------------------


async def test_the_commands_answer(daemons: Daemons) -> None:
    await daemons.serve()
    status, table, _ = await daemons.result("status")
    assert status == 0
    assert "state" in table
    assert "idle" in table
    _, figures, _ = await daemons.result("status", "--json")
    assert json.loads(figures)["state"] == "idle"
    _, description, _ = await daemons.result("describe", "--json")
    assert json.loads(description)["model"]["name"] == "fake"
    status, answer, errors = await daemons.result("ask", "why?", "--max-tokens", "5")
    assert (status, errors) == (0, ["modeld: the answer was cut after 5 tokens"])
    assert answer.strip()


async def test_without_a_daemon_the_commands_say_how_to_start_one(daemons: Daemons) -> None:
    for command in (["status"], ["describe"], ["ask", "why?"]):
        status, output, errors = await daemons.result(*command)
        assert (status, output) == (1, "")
        assert errors == [f"modeld: no modeld answers at {daemons.endpoint}: start it with 'modeld serve'"]
