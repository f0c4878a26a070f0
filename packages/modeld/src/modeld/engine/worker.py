"""Owns the engine process: it builds the backend and the slot, and answers the front's messages one after the other."""

import argparse
import inspect
import logging
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from pathlib import Path

from attrs import asdict

from modeld.backends.base import TEST_SEQUENCES, Backend, BackendError, LoadError, LogitsBackend
from modeld.engine.config import EngineConfig
from modeld.engine.edition import EDITION, OUTDATED
from modeld.engine.frames import Channel
from modeld.engine.messages import Encode, Ended, Failed, FromEngine, Probe, Probed, Quit, Ready, Refused, Run, Save
from modeld.engine.stop_flag import SharedStopFlag
from modeld.models import facts
from modeld.models.packaged import packaged
from modeld.models.requantised import requantised
from modeld.slot import Slot, SlotSettings
from modeld.slot.draft import Costs, Drafters, Lengths, NoDrafts, PromptLookup, time_widths
from modeld.slot.draft.timing import WIDTHS
from modeld.slot.exactness import WIDEST
from modeld.slot.native_exactness import CONTEXT
from modelwire import logs
from modelwire.errors import ErrorCode
from modelwire.messages import Exactness

_log = logging.getLogger(__name__)

_SAMPLE_LENGTH = 32_000
"""Characters: more tokens than the test of exactness needs, and tokenised in milliseconds."""


def build(config: EngineConfig, stop: SharedStopFlag) -> Backend:
    """Raises `LoadError`."""
    return {"fake": _build_fake, "openvino": _build_openvino, "llamacpp": _build_llamacpp}[config.backend](config, stop)


def _build_fake(config: EngineConfig, stop: SharedStopFlag) -> Backend:
    from modeld.backends.fake import FakeBackend, FakeScript  # a real engine does not need it

    try:
        script = FakeScript.from_json(Path(config.model).read_text("utf-8") if config.model else config.fake)
    except (OSError, ValueError) as fault:
        raise LoadError(str(fault)) from None
    return FakeBackend(script, stop)


def _build_llamacpp(config: EngineConfig, stop: SharedStopFlag) -> Backend:
    try:  # a native library, which can be missing or made for another processor
        from modeld.backends.llamacpp.loading import LlamaSettings, load
        from modeld.backends.llamacpp.quantiser import quantise
    except (ImportError, OSError, RuntimeError) as fault:
        raise LoadError(
            f"llama.cpp cannot be loaded: {fault}; pip install --force-reinstall llama-cpp-python"
        ) from None
    path = Path(config.model).expanduser() if config.model else requantised(packaged(), quantise)
    settings = LlamaSettings(
        profile=config.profile,
        context=config.context,
        extra_cells=config.extra_cells,
        sequences=config.sequences,
        threads=config.threads,
        chunk=config.chunk,
    )
    return load(path, settings, stop)


def _build_openvino(config: EngineConfig, stop: SharedStopFlag) -> Backend:
    try:
        from modeld.backends.openvino.loading import OpenVinoSettings, load
    except (ImportError, OSError, RuntimeError) as fault:
        raise LoadError(f"OpenVINO GenAI cannot be loaded: {fault}; pip install 'modeld[openvino]'") from None
    from modeld.backends.llamacpp.quantiser import quantise

    path = Path(config.model).expanduser() if config.model else requantised(packaged(), quantise)
    settings = OpenVinoSettings(
        profile=config.profile,
        device=config.device,
        context=config.context,
        extra_cells=config.extra_cells,
        sequences=config.sequences,
        threads=config.threads,
        chunk=config.chunk,
        lookup=config.lookup == "on",
    )
    return load(path, settings, stop)


def serve(channel: Channel, config: EngineConfig, stop: SharedStopFlag) -> None:
    """Until `Quit` or the end of the stream."""
    started = time.monotonic()
    try:
        backend = build(config, stop)
    except LoadError as fault:
        channel.send(Refused(message=str(fault)))
        return
    try:
        drafters = _drafters(config, backend)
        known = None if config.backend == "fake" else facts.recall(Exactness, _key(config, backend))
        channel.send(_ready(config, backend, 1000 * (time.monotonic() - started), known or Exactness()))

        def found(verdict: Exactness) -> None:
            if config.backend != "fake":  # what a script pretends is nobody's fact
                facts.remember(verdict, _key(config, backend))

        settings, awaited = _slot_settings(config), channel.waits
        desk = Desk(backend, stop, channel.send, settings, drafters=drafters, found=found, awaited=awaited)
        for message in channel:
            if isinstance(message, Quit):
                return
            desk.handle(message)
    finally:
        backend.close()


def _drafters(config: EngineConfig, backend: Backend) -> Drafters:
    """Prompt lookup, where a batch of several rows is known to cost less than as many single ones."""
    can = backend.capabilities.logits and backend.capabilities.rollback
    if config.draft == "off" or not can or not isinstance(backend, LogitsBackend):
        return NoDrafts()
    # Profile `exact` keeps K and V in types for which llama.cpp has no tiles.
    tile = config.profile == "fast"
    seconds = _scripted_costs(config) if config.backend == "fake" else time_widths(backend, time.monotonic, tile=tile)
    return PromptLookup(Lengths(Costs.measured(seconds))) if seconds else NoDrafts()


def _scripted_costs(config: EngineConfig) -> dict[int, float]:
    """What a fake's batches take is in its script; to time it could take hours, and would count as its use."""
    from modeld.backends.fake import FakeScript

    script = FakeScript.from_json(Path(config.model).read_text("utf-8") if config.model else config.fake)
    return {rows: (script.step_ms + rows * script.token_ms) / 1000 for rows in WIDTHS} if script.step_ms > 0 else {}


def _ready(config: EngineConfig, backend: Backend, load_ms: float, exactness: Exactness) -> Ready:
    return Ready(
        backend=config.backend,
        profile=config.profile,
        model=backend.model,
        capabilities=asdict(backend.capabilities),
        context=backend.context,
        cells=backend.cells,
        load_ms=load_ms,
        exactness=exactness,
    )


class Desk:
    """Hands messages to the slot and sees to it that each one ends exactly once, whatever the slot does."""

    def __init__(
        self,
        backend: Backend,
        stop: SharedStopFlag,
        send: Callable[[FromEngine], None],
        settings: SlotSettings | None = None,
        *,
        drafters: Drafters | None = None,
        found: Callable[[Exactness], None] = lambda verdict: None,
        awaited: Callable[[], bool] = lambda: False,
    ) -> None:
        self._backend = backend
        self._stop = stop
        self._send = send
        self._settings = settings or SlotSettings()
        self._drafters = drafters
        self._found = found
        self._awaited = awaited
        self._slot = self._new_slot()

    def handle(self, request: object) -> None:
        ended = False

        def emit(message: FromEngine) -> None:
            nonlocal ended
            ended = ended or isinstance(message, Ended | Failed)
            self._send(message)

        try:
            match request:
                case Run():
                    self._slot.run(request, emit)
                case Encode():
                    self._send(self._slot.encode(request))
                case Save():
                    self._send(self._slot.save(request))
                case Probe():
                    self._send(self._probed(emit))
                case _:
                    raise TypeError(f"an engine does not take {type(request).__name__}")
        except (ConnectionError, MemoryError):  # an engine that has no memory ends; the next one may have some
            raise
        except Exception as fault:
            _log_without_text(fault)
            self._forget_everything()
            if not ended:
                self._send(_failure(fault))

    def _probed(self, emit: Callable[[FromEngine], None]) -> Probed | Failed:
        probed = self._slot.probe(emit)
        if isinstance(probed, Probed) and probed.finished and probed.exactness.verdict != "untested":
            try:
                self._found(probed.exactness)
            except (LoadError, OSError) as fault:
                _log.warning("the verdict on exactness cannot be kept: %s", fault)
        return probed

    def _new_slot(self) -> Slot:
        return Slot(
            self._backend,
            stop=self._stop,
            clock=time.monotonic,
            settings=self._settings,
            drafters=self._drafters,
            awaited=self._awaited,
        )

    def _forget_everything(self) -> None:
        """After a fault nobody knows what is resident. An engine that cannot forget ends, and a new one starts."""
        for sequence in range(self._backend.sequences + TEST_SEQUENCES):
            self._backend.drop(sequence)
        self._slot = self._new_slot()


def _key(config: EngineConfig, backend: Backend) -> tuple[str, ...]:
    """All that exactness depends on, and how deep and wide the test can go: it is done again where that is more."""
    depth = min(backend.context, CONTEXT)
    settings = (config.profile, str(config.threads), str(config.chunk), str(depth), str(WIDEST))
    return (backend.model.fingerprint, *settings, backend.build)


def _slot_settings(config: EngineConfig) -> SlotSettings:
    return SlotSettings(
        spare_cells=config.spare_cells,
        parking_bytes=config.parking_mb * 1024 * 1024,
        sample=_sample(),
        today=date.today(),
    )


def _sample() -> str:
    """Ordinary text that every machine has: some of the standard library."""
    with suppress(OSError):
        return inspect.getsource(argparse)[:_SAMPLE_LENGTH]
    return ""


def _failure(fault: Exception) -> Failed:
    if isinstance(fault, BackendError):
        return Failed(code=ErrorCode.ENGINE_FAILED, message=f"the model failed: {fault}; try again", retry=True)
    return Failed(
        code=ErrorCode.INTERNAL,
        message=f"the engine failed ({type(fault).__name__}); its log says where. What was resident is forgotten",
        retry=True,
    )


def _log_without_text(fault: Exception) -> None:
    """Where it happened, without the message: that may quote a prompt."""
    _log.error("%s\n%s", type(fault).__name__, "".join(traceback.format_tb(fault.__traceback__)))


def _exit_with_front(life: int) -> None:
    """End this process as soon as the front is gone, also in the middle of a native call."""

    def wait() -> None:
        os.read(life, 1)
        os._exit(0)

    threading.Thread(target=wait, name="exit with front", daemon=True).start()


def main(arguments: list[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    *arguments, edition = arguments
    if edition != EDITION:  # nothing else of what it says can be trusted to mean the same here
        sys.exit(OUTDATED)
    config = EngineConfig.from_json(arguments[0])
    epoch, connection, flag, life = map(int, arguments[1:])
    logs.set_up(f"engine {epoch}", level=config.log_level, form=config.log_format)
    _exit_with_front(life)
    channel = Channel(socket.socket(fileno=connection), epoch)
    serve(channel, config, SharedStopFlag(flag))
    channel.close()


if __name__ == "__main__":
    main(sys.argv[1:])
