"""Owns generation by a backend that decodes by itself: its steps become an answer. It samples nothing."""

from collections.abc import Generator
from contextlib import closing
from typing import cast

import numpy as np
from attrs import evolve

from modeld.backends.base import NativeBackend, StopFlag
from modeld.engine.messages import DraftFigures
from modeld.slot.generate import Answer
from modeld.slot.prefill import Counts, Work
from modeld.slot.shelf import Shelf
from modelwire.messages import DecodeConfig, Reason


def generate_natively(
    backend: NativeBackend,
    shelf: Shelf,
    stop: StopFlag,
    work: Work,
    config: DecodeConfig,
    answer: Answer,
    counts: Counts,
) -> DraftFigures:
    """Generates after `work.history` until the answer has a reason, as `Decoder.run` does.

    How many tokens it tried ahead the library does not tell, only which of them stand.
    """
    if stop.is_set():
        answer.end(Reason.PREEMPTED)
        return DraftFigures()
    shelf.cut(work.tape, work.resident)
    fitting = evolve(config, max_tokens=min(config.max_tokens, backend.context - len(work.history) + 1))
    before, first, tokens, accepted = backend.passes, None, 0, 0
    steps = backend.generate(work.tape.sequence, work.history, fitting)
    with closing(cast(Generator[list[int], None, None], steps)):
        for step in steps:
            counts.passes = backend.passes - before
            tokens, accepted = tokens + len(step), accepted + len(step) - 1
            first = (tokens, counts.passes) if first is None else first
            for token in step:
                if answer.reason is None and answer.add(token):
                    work.history = np.append(work.history, np.int32(token))
            if answer.reason is None and stop.is_set():
                answer.end(Reason.PREEMPTED)
            answer.send()
            if answer.reason is not None:
                break
    if answer.reason is None:
        answer.end(Reason.PREEMPTED if stop.is_set() else Reason.CONTEXT)
        answer.send()
    _record(shelf, work)
    begun, passes = first or (0, 0)
    return DraftFigures(
        accepted=accepted,
        passes=counts.passes - passes,
        tokens=tokens - begun,
        on=backend.capabilities.native_lookup,
    )


def _record(shelf: Shelf, work: Work) -> None:
    """The backend has cached what it fed itself: all but the last token."""
    fed = work.history[work.tape.length : len(work.history) - 1]
    if shelf.make_room(work.tape, len(fed)):
        shelf.appended(work.tape, fed)
    work.resident = work.tape.length
