"""The engine's loop in this process, with the fake backend: every message ends exactly once (S8)."""

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest

from modeld.backends.base import BackendError, LoadError
from modeld.backends.fake import FakeBackend, FakeScript
from modeld.engine.config import EngineConfig
from modeld.engine.frames import Channel
from modeld.engine.messages import (
    Encode,
    Encoded,
    Ended,
    Failed,
    FromEngine,
    Probe,
    Probed,
    Probing,
    Quit,
    Ready,
    Refused,
    Run,
)
from modeld.engine.stop_flag import SharedStopFlag
from modeld.engine.worker import Desk, _key, build, serve
from modeld.slot import Slot, SlotSettings
from modeld.slot.runs import RunCache
from modelwire.messages import DecodeConfig, Outcome, Text


class Front:
    """The other end of the channel, blocking."""

    def __init__(self, connection: socket.socket) -> None:
        self._channel = Channel(connection, 1)
        self._answers = iter(self._channel)
        self.send = self._channel.send

    def next(self) -> FromEngine:
        message: Any = next(self._answers)
        return message  # type: ignore[no-any-return]

    def ask(self, message: object) -> list[FromEngine]:
        """All answers, the last one is the end."""
        self.send(message)
        answers = [self.next()]
        while not isinstance(answers[-1], Ended | Failed | Encoded | Probed):
            answers.append(self.next())
        return answers


@pytest.fixture
def engine() -> Iterator[Callable[..., Front]]:
    closers: list[Callable[[], None]] = []

    def start(draft: Literal["on", "off"] = "on", **script: object) -> Front:
        ours, theirs = socket.socketpair()
        ours.settimeout(10)
        flag = SharedStopFlag.create()
        channel = Channel(theirs, 1)
        config = EngineConfig(backend="fake", fake=json.dumps(script), draft=draft)
        thread = threading.Thread(target=serve, args=(channel, config, flag))
        thread.start()

        def close() -> None:
            ours.shutdown(socket.SHUT_RDWR)
            thread.join(10)
            assert not thread.is_alive()
            channel.close()
            ours.close()
            flag.close()

        closers.append(close)
        return Front(ours)

    yield start
    for close in closers:
        close()


def _run(text: str = "hello", **options: Any) -> Run:
    return Run(client="c", session="s", guess=False, prompt=(Text(text=text),), **options)


def test_it_says_ready_then_serves(engine: Callable[..., Front]) -> None:
    front = engine()
    assert isinstance(front.next(), Ready)
    answers = front.ask(_run(decode=DecodeConfig(max_tokens=3)))
    assert isinstance(answers[-1], Ended)
    assert answers[-1].usage.generated == 3
    assert isinstance(front.ask(Encode(prompt=(Text(text="abc"),)))[-1], Encoded)


@pytest.mark.parametrize("ask", [_run, lambda text: Encode(prompt=(Text(text=text),))])
def test_megabytes_of_prompt_are_refused_before_they_are_tokenised_and_the_engine_goes_on(
    engine: Callable[..., Front], monkeypatch: pytest.MonkeyPatch, ask: Callable[[str], Any]
) -> None:
    front = engine(context=1000)
    front.next()
    with monkeypatch.context() as broken:
        broken.setattr(RunCache, "ids", pytest.fail)
        [failed] = front.ask(ask("x" * 4_000_000))
    assert isinstance(failed, Failed)
    assert failed.code == "context_overflow"
    assert failed.numbers == {"bytes": 4_000_000, "limit": 16_000, "context": 1000}
    assert "shorten it to less than 16000 bytes" in failed.message
    assert isinstance(front.ask(_run())[-1], Ended)


def test_more_ids_than_a_message_holds_are_not_sent(
    engine: Callable[..., Front], monkeypatch: pytest.MonkeyPatch
) -> None:
    front = engine()
    front.next()
    monkeypatch.setattr("modeld.slot.slot.MAX_ITEMS", 9)
    assert isinstance(front.ask(Encode(prompt=(Text(text="x" * 9),)))[-1], Encoded)
    failed = front.ask(Encode(prompt=(Text(text="x" * 10),)))[-1]
    assert isinstance(failed, Failed)
    assert (failed.code, failed.numbers) == ("too_large", {"tokens": 10, "limit": 9})


def test_what_cannot_be_loaded_is_refused(engine: Callable[..., Front]) -> None:
    refused = engine(load_error="no such model; get one").next()
    assert refused == Refused(message="no such model; get one")


def test_a_wrong_script_is_refused(engine: Callable[..., Front]) -> None:
    refused = engine(no_such_option=1).next()
    assert isinstance(refused, Refused)
    assert "no_such_option" in refused.message


def test_quit_ends_it(engine: Callable[..., Front]) -> None:
    front = engine()
    assert isinstance(front.next(), Ready)
    front.send(Quit())


def test_a_failure_of_the_library_ends_the_run_and_the_next_one_works(engine: Callable[..., Front]) -> None:
    front = engine(faults={"1": "fail"})
    front.next()
    failed = front.ask(_run())[-1]
    assert isinstance(failed, Failed)
    assert (failed.code, failed.retry) == ("engine_failed", True)
    assert isinstance(front.ask(_run())[-1], Ended)


@pytest.mark.parametrize(
    ("fault", "code"), [(RuntimeError("about some prompt"), "internal"), (BackendError("about it"), "engine_failed")]
)
def test_an_exception_of_the_slot_ends_the_run_forgets_all_and_the_next_one_works(
    engine: Callable[..., Front],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: Exception,
    code: str,
) -> None:
    """S8; and the log tells where, never what the exception quotes."""
    front = engine()
    front.next()
    front.ask(_run())
    with monkeypatch.context() as broken:

        def fails(*_: object) -> None:
            raise fault

        broken.setattr(Slot, "run", fails)
        failed = front.ask(_run())[-1]
    assert isinstance(failed, Failed)
    assert failed.code == code
    assert "prompt" not in failed.message
    assert type(fault).__name__ in caplog.text
    assert "about" not in caplog.text
    ended = front.ask(_run())[-1]
    assert isinstance(ended, Ended)
    assert ended.usage.outcome is Outcome.COLD


def test_a_run_that_ended_and_then_raised_is_not_ended_twice(
    engine: Callable[..., Front], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S8."""
    front = engine()
    front.next()
    run = Slot.run

    def ends_then_fails(slot: Slot, request: Run, emit: Callable[[FromEngine], None]) -> None:
        run(slot, request, emit)
        raise RuntimeError

    with monkeypatch.context() as broken:
        broken.setattr(Slot, "run", ends_then_fails)
        assert isinstance(front.ask(_run())[-1], Ended)
        answers = front.ask(_run())
    assert not any(isinstance(answer, Failed) for answer in answers)


def test_an_exception_while_encoding_ends_the_question(
    engine: Callable[..., Front], monkeypatch: pytest.MonkeyPatch
) -> None:
    front = engine()
    front.next()

    def fails(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(Slot, "encode", fails)
    assert isinstance(front.ask(Encode(prompt=(Text(text="abc"),)))[-1], Failed)


def test_a_message_that_is_not_for_an_engine_fails_and_harms_nothing(engine: Callable[..., Front]) -> None:
    front = engine()
    front.next()
    assert isinstance(front.ask(Refused(message="what?"))[-1], Failed)
    assert isinstance(front.ask(_run())[-1], Ended)


def test_the_child_is_told_what_it_needs_and_no_more() -> None:
    """The command line of a process can be read by others: it holds settings only."""
    assert set(json.loads(EngineConfig().to_json())) == {
        *("backend", "model", "profile", "context", "threads", "sequences", "extra_cells", "chunk", "fake"),
        *("spare_cells", "parking_mb", "draft", "device", "lookup", "log_level", "log_format"),
    }


def test_a_probe_tells_how_exact_the_backend_is_and_leaves_it_usable(engine: Callable[..., Front]) -> None:
    front = engine()
    ready = front.next()
    assert isinstance(ready, Ready)
    assert ready.exactness.verdict == "untested"
    *parts, probed = front.ask(Probe())
    fractions = [part.progress for part in parts if isinstance(part, Probing)]
    assert len(fractions) == len(parts) > 10
    assert fractions == sorted(fractions)
    assert fractions[0] == 0 < fractions[-1] < 1
    assert isinstance(probed, Probed)
    assert (probed.finished, probed.exactness.verdict) == (True, "exact")
    assert isinstance(front.ask(_run())[-1], Ended)


@pytest.mark.parametrize(("fails", "kept"), [(False, ["exact"]), (True, [])])
def test_s4_only_a_verdict_is_remembered(monkeypatch: pytest.MonkeyPatch, fails: bool, kept: list[str]) -> None:
    """Where there was no memory for what it is held against, there may be at the next start."""

    def reference(*arguments: object) -> None:
        raise BackendError("no memory for a second copy of the model")

    if fails:
        monkeypatch.setattr(FakeBackend, "reference", reference)
    found: list[str] = []
    flag = SharedStopFlag.create()
    backend = FakeBackend(FakeScript(fork="content", cells=9000, context=2048), flag)
    settings = SlotSettings(sample=" ".join(f"word {n * 7919 % 1009}" for n in range(400)))
    desk = Desk(backend, flag, lambda message: None, settings, found=lambda verdict: found.append(verdict.verdict))
    desk.handle(Probe())
    flag.close()
    assert found == kept


def test_a_fake_whose_script_says_that_it_pays_drafts_unless_it_is_switched_off(engine: Callable[..., Front]) -> None:
    script = {"alphabet": "a", "step_ms": 0.5, "token_ms": 0.001}
    for draft, drafts in (("on", True), ("off", False)):
        front = engine(draft, **script)
        assert isinstance(front.next(), Ready)
        ended = front.ask(_run("aaaaaaaa", decode=DecodeConfig(max_tokens=30)))[-1]
        assert isinstance(ended, Ended)
        assert (ended.usage.generated, ended.usage.drafted > 0) == (30, drafts)


def test_without_openvino_its_backend_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("modeld.backends.openvino")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "openvino", None)
    monkeypatch.setitem(sys.modules, "openvino_genai", None)
    flag = SharedStopFlag.create()
    with pytest.raises(LoadError, match=r"pip install 'modeld\[openvino\]'"):
        build(EngineConfig(backend="openvino"), flag)
    flag.close()


def test_s2_what_an_engine_does_of_itself_yields_to_the_next_message(
    engine: Callable[..., Front], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def tidy(backend: FakeBackend, wanted: Callable[[], bool]) -> None:
        seen.append(wanted())
        front.send(Encode(prompt=(Text(text="abc"),)))
        seen.append(wanted())

    monkeypatch.setattr(FakeBackend, "tidy", tidy)
    front = engine()
    front.next()
    front.ask(_run())
    assert isinstance(front.next(), Encoded)
    assert seen == [False, True]


def test_s4_a_verdict_is_remembered_with_how_deep_the_test_can_go() -> None:
    """Kernels switch with the depth: what a small context was tested for says nothing of a large one."""
    flag = SharedStopFlag.create()
    keys = [
        _key(EngineConfig(backend="fake"), FakeBackend(FakeScript(context=context, cells=9000), flag))
        for context in (256, 512, 2048, 8192)
    ]
    flag.close()
    assert len(set(keys)) == 3
    assert keys[2] == keys[3]
