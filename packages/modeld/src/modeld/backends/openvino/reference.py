"""Owns answers as they are when nothing is reused and nothing copied ahead: a pipeline of its own, in its own process.

The pipeline that serves has seen everything before, and cannot be told to forget. So what it says is held against one
that sees every prompt for the first time. As a process it can be ended at any moment, and takes its memory with it.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from attrs import asdict, evolve, frozen

from modeld.backends.base import BackendError, Ids, Scored, StopFlag
from modeld.backends.openvino import decoding
from modeld.backends.openvino.loading import OpenVinoSettings, open_pipeline
from modeld.backends.openvino.pipeline import BLOCK, Pipeline
from modelwire import own_path
from modelwire.messages import DecodeConfig

_POLL_S = 0.02
_POLLS = 50
_WATCH_S = 0.5
_SECONDS = 300.0


@frozen(kw_only=True)
class Question:
    """Answers of `tokens` tokens to each of the tapes, by the model in `folder`."""

    folder: str
    fingerprint: str
    settings: OpenVinoSettings
    tapes: tuple[tuple[int, ...], ...]
    tokens: int


class Reference:
    """Sees every prompt for the first time."""

    def __init__(self, folder: Path, fingerprint: str, settings: OpenVinoSettings, longest: int) -> None:
        plain = evolve(settings, lookup=False)
        blocks = -(-longest // BLOCK) + 2
        self._pipeline: Pipeline = open_pipeline(folder, fingerprint, plain, blocks, reuse=False)

    def answer(self, tape: Ids, tokens: int) -> Scored:
        config = decoding.generation(DecodeConfig(max_tokens=tokens), frozenset(), len(tape), lookup=False)
        request = self._pipeline.begin(tape, config)
        said, scores = list[int](), list[float]()
        try:
            while request.running:
                given = request.step()
                said += given.tokens
                scores += given.scores
        finally:
            request.end()
        return Scored(tokens=tuple(said), scores=tuple(scores))


def ask(question: Question, stop: StopFlag, advanced: Callable[[], None]) -> list[Scored] | None:
    """From a process of its own; None if the stop flag ended it. `advanced` is called meanwhile, once a second.

    Raises `BackendError`.
    """
    command = [sys.executable, "-P", "-m", "modeld.backends.openvino.reference", str(os.getpid())]
    environment = {**os.environ, **own_path.inherited()}
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        told = _told(process, json.dumps(asdict(question)), stop, advanced)
    finally:
        process.kill()
        process.communicate()
    if told is None:
        return None
    return [Scored(tokens=tuple(map(int, one["tokens"])), scores=tuple(one["scores"])) for one in told]


def _told(
    process: "subprocess.Popen[str]", question: str, stop: StopFlag, advanced: Callable[[], None]
) -> "list[dict[str, list[float]]] | None":
    until, given, polls = time.monotonic() + _SECONDS, question, 0
    while not stop.is_set():
        try:
            out, _ = process.communicate(given or None, timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            given, polls = "", polls + 1
            if polls % _POLLS == 0:
                advanced()
            if time.monotonic() > until:
                raise BackendError(f"the reference did not answer in {_SECONDS:.0f} s") from None
            continue
        if process.returncode:
            raise BackendError(f"the reference ended with status {process.returncode}")
        told: list[dict[str, list[float]]] = json.loads(out)
        return told
    return None


def _exit_with(parent: int) -> None:
    """An engine that is killed cannot end this process."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_S)
        os._exit(0)

    threading.Thread(target=watch, name="exit with engine", daemon=True).start()


def main() -> None:
    _exit_with(int(sys.argv[1]))
    asked = json.load(sys.stdin)
    settings = OpenVinoSettings(**asked["settings"])
    tapes: Sequence[Ids] = [np.array(tape, np.int32) for tape in asked["tapes"]]
    longest = max(map(len, tapes)) + asked["tokens"]
    reference = Reference(Path(asked["folder"]), asked["fingerprint"], settings, longest)
    json.dump([asdict(reference.answer(tape, asked["tokens"])) for tape in tapes], sys.stdout)


if __name__ == "__main__":
    main()
