"""Owns what every backend must hold to, as plain functions over a factory, for tests. It imports no test tool.

A failed check is an AssertionError. Each function makes its own backend and closes it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import numpy as np
from attrs import frozen

from modeld.backends.base import (
    Backend,
    ExportingBackend,
    Ids,
    Logits,
    LogitsBackend,
    NativeBackend,
    OutOfCells,
    StopFlag,
)
from modeld.backends.flag import LocalFlag
from modelwire.messages import DecodeConfig


@frozen(kw_only=True)
class Subject:
    """A backend to check. `tolerance`: how far logits of the same position may differ between ways to compute them."""

    make: Callable[[StopFlag], Backend]
    tolerance: float = 0.0


@contextmanager
def _backend(subject: Subject) -> Iterator[tuple[LogitsBackend, LocalFlag]]:
    flag = LocalFlag()
    backend = subject.make(flag)
    try:
        yield cast(LogitsBackend, backend), flag
    finally:
        backend.close()


def _tape(backend: Backend, length: int, salt: int = 0) -> Ids:
    """Ordinary text of the vocabulary, cut to `length`, different for each `salt`."""
    words = " ".join(f"line {number} of text {salt} says {number * 7919 % 1009}" for number in range(length))
    return np.array(backend.vocabulary.tokenise(words)[:length], np.int32)


def _fill(backend: Backend, sequence: int, tape: Ids, start: int = 0, chunk: int | None = None, rows: int = 1) -> None:
    size = min(chunk or backend.chunk, backend.chunk)
    rows = rows if backend.capabilities.logits else 0
    for at in range(start, len(tape), size):
        end = min(at + size, len(tape))
        extended = backend.extend(sequence, tape[:end], at, rows if end == len(tape) else 0)
        assert (extended.length, extended.stopped) == (end, False)


def _cold(backend: LogitsBackend, tape: Ids) -> Logits:
    """Logits after a tape on an otherwise unused sequence."""
    spare = backend.sequences - 1
    _fill(backend, spare, tape)
    logits = backend.logits(0).copy()
    backend.drop(spare)
    return logits


def _assert_same(subject: Subject, one: Logits, other: Logits) -> None:
    difference = float(np.abs(one - other).max())
    assert difference <= subject.tolerance, f"logits differ by {difference}, allowed is {subject.tolerance}"


def _length(backend: Backend) -> int:
    """Long enough for several chunks where the context allows it."""
    return min(backend.context // 2, backend.cells // 4, 2 * backend.chunk + 7, 300)


# --- every backend --------------------------------------------------------------------------------------


def it_tells_sizes_that_fit_together(subject: Subject) -> None:
    with _backend(subject) as (backend, _):
        assert 1 <= backend.chunk <= backend.context <= backend.cells
        assert backend.sequences >= 2
        assert backend.model.vocabulary == backend.vocabulary.size
        assert isinstance(backend, LogitsBackend if backend.capabilities.logits else NativeBackend)


def its_vocabulary_gives_text_back(subject: Subject) -> None:
    with _backend(subject) as (backend, _):
        vocabulary = backend.vocabulary
        for text in ("def f(x):\n    return x\r\n", "naïve — 你好 😀", "\t a\x00b", "  two  spaces  "):
            assert b"".join(map(vocabulary.piece, vocabulary.tokenise(text))).decode() == text
        assert list(vocabulary.tokenise("")) == []


def its_vocabulary_never_makes_a_special_token_of_content(subject: Subject) -> None:
    with _backend(subject) as (backend, _):
        vocabulary = backend.vocabulary
        special = set(vocabulary.special.values()) | set(vocabulary.end_ids)
        for text in [*vocabulary.special, *map(vocabulary.text_of, vocabulary.end_ids)]:
            assert not special & set(vocabulary.tokenise(text)), f"{text!r} became a special token"
        for text, token in vocabulary.special.items():
            assert 0 <= token < vocabulary.size
            assert vocabulary.piece(token) == b""
            assert vocabulary.text_of(token) == text


def a_stopped_extend_leaves_the_backend_usable(subject: Subject) -> None:
    """S5, and S4 for what comes after."""
    with _backend(subject) as (backend, flag):
        tape = _tape(backend, _length(backend))
        end = min(len(tape), backend.chunk)
        flag.set()
        extended = backend.extend(0, tape[:end], 0, 0)
        assert 0 <= extended.length <= end
        assert extended.stopped or extended.length == end
        flag.clear()
        _fill(backend, 0, tape, extended.length)
        if backend.capabilities.logits:
            after = backend.logits(0).copy()
            backend.drop(0)
            _assert_same(subject, after, _cold(backend, tape))


def sequences_can_be_used_again_and_again(subject: Subject) -> None:
    with _backend(subject) as (backend, _):
        tape = _tape(backend, min(_length(backend), backend.chunk))
        for turn in range(min(backend.cells // len(tape), 50) + 2):
            _fill(backend, turn % backend.sequences, tape)
            backend.drop(turn % backend.sequences)


# --- backends with logits -------------------------------------------------------------------------------


def logits_do_not_depend_on_chunks(subject: Subject) -> None:
    with _backend(subject) as (backend, _):
        if backend.capabilities.logits:
            tape = _tape(backend, _length(backend))
            _fill(backend, 0, tape, chunk=37)
            _assert_same(subject, backend.logits(0), _cold(backend, tape))


def every_row_is_the_logits_of_its_position(subject: Subject) -> None:
    with _backend(subject) as (backend, _):
        if backend.capabilities.logits:
            tape = _tape(backend, 20)
            _fill(backend, 0, tape[:15])
            backend.extend(0, tape, 15, 5)
            rows = [backend.logits(row).copy() for row in range(5)]
            for row in range(5):
                _assert_same(subject, rows[row], _cold(backend, tape[: 16 + row]))


def a_fork_goes_on_like_a_cold_run(subject: Subject) -> None:
    """S4, S6: also after the fork's source has gone its own way, and is gone."""
    with _backend(subject) as (backend, _):
        if backend.capabilities.fork == "cells":
            stem, length = _tape(backend, _length(backend)), _length(backend) // 2
            other = np.concatenate([stem[:length], _tape(backend, 30, salt=1)])
            _fill(backend, 0, stem)
            backend.fork(0, 1, length)
            _fill(backend, 1, other, length)
            forked = backend.logits(0).copy()
            longer = np.concatenate([stem, _tape(backend, 9, salt=2)])
            _fill(backend, 0, longer, len(stem))
            source = backend.logits(0).copy()
            backend.drop(0)
            further = np.concatenate([other, _tape(backend, 5, salt=3)])
            _fill(backend, 1, further, len(other))
            orphan = backend.logits(0).copy()
            backend.drop(1)
            for logits, tape in ((forked, other), (source, longer), (orphan, further)):
                _assert_same(subject, logits, _cold(backend, tape))


def a_trimmed_sequence_goes_on_like_a_cold_run(subject: Subject) -> None:
    """S4, S6."""
    with _backend(subject) as (backend, _):
        if backend.capabilities.fork == "cells" and backend.capabilities.rollback:
            first, length = _tape(backend, _length(backend)), _length(backend) // 3
            second = np.concatenate([first[:length], _tape(backend, 25, salt=4)])
            _fill(backend, 0, first)
            assert backend.trim(0, length)
            _fill(backend, 0, second, length)
            trimmed = backend.logits(0).copy()
            backend.drop(0)
            _assert_same(subject, trimmed, _cold(backend, second))


def places_that_became_free_below_change_no_logits(subject: Subject) -> None:
    """S4: cells have to stay in the order of positions, step after step, also when all of them are needed."""
    with _backend(subject) as (backend, _):
        if backend.capabilities.fork == "cells":
            length = _length(backend)
            tape = np.concatenate([_tape(backend, length), _tape(backend, 12, salt=6)])
            _fill(backend, 1, _tape(backend, length // 2, salt=7))
            _fill(backend, 0, tape[: length // 2])
            backend.fork(0, 2, length // 3)
            backend.drop(1)
            backend.drop(0)
            stem = np.concatenate([tape[: length // 3], _tape(backend, 3, salt=8)])
            _fill(backend, 2, stem, length // 3)
            backend.tidy()
            assert backend.trim(2, length // 3) or not backend.capabilities.rollback
            steps = []
            for end in range(length, len(tape)):
                _fill(backend, 2, tape[: end + 1], length // 3 if end == length else end)
                steps.append(backend.logits(0).copy())
            backend.drop(2)
            for end in range(length, len(tape)):
                _assert_same(subject, steps[end - length], _cold(backend, tape[: end + 1]))


def what_was_saved_goes_on_like_a_cold_run(subject: Subject) -> None:
    """S4: after its sequence is gone and its cells were used by others."""
    with _backend(subject) as (backend, _):
        if backend.capabilities.export_state:
            exporting = cast(ExportingBackend, backend)
            length = _length(backend)
            tape = np.concatenate([_tape(backend, length), _tape(backend, 5, salt=9)])
            _fill(backend, 0, tape[:length])
            state = exporting.save(0, length - 2)
            backend.drop(0)
            _fill(backend, 1, _tape(backend, length // 2, salt=10))
            exporting.load(2, state, length - 2)
            backend.drop(1)
            _fill(backend, 2, tape, length - 2)
            restored = backend.logits(0).copy()
            backend.drop(2)
            _assert_same(subject, restored, _cold(backend, tape))


def being_out_of_cells_changes_nothing(subject: Subject) -> None:
    with _backend(subject) as (backend, _):
        if backend.capabilities.fork == "cells" and backend.cells <= 5000:
            tape = _tape(backend, backend.chunk)
            _fill(backend, 0, tape)
            full = _fill_up(backend)
            backend.drop(full)
            longer = np.concatenate([tape, _tape(backend, 5, salt=5)])
            _fill(backend, 0, longer, len(tape))
            after = backend.logits(0).copy()
            for sequence in range(backend.sequences):
                backend.drop(sequence)
            _assert_same(subject, after, _cold(backend, longer))


def _fill_up(backend: Backend) -> int:
    """Fills sequences from 1 on until there is no room; the one at which that was."""
    for sequence in range(1, backend.sequences):
        tape = _tape(backend, backend.context, salt=sequence)
        try:
            _fill(backend, sequence, tape)
        except OutOfCells:
            return sequence
    raise AssertionError("the sequences together never ran out of cells")


# --- backends that generate by themselves ---------------------------------------------------------------


def native_generation_is_repeatable_and_bounded(subject: Subject) -> None:
    with _backend(subject) as (backend, _):
        if not backend.capabilities.logits:
            tape, native = _tape(backend, 40), cast(NativeBackend, backend)
            _fill(native, 0, tape)
            config = DecodeConfig(max_tokens=12)
            first = [token for step in native.generate(0, tape, config) for token in step]
            second = [token for step in native.generate(0, tape, config) for token in step]
            assert first == second
            assert 1 <= len(first) <= 12
            assert not set(first[:-1]) & native.vocabulary.end_ids


def native_generation_stops_after_the_step(subject: Subject) -> None:
    with _backend(subject) as (backend, flag):
        if not backend.capabilities.logits:
            tape, native = _tape(backend, 40), cast(NativeBackend, backend)
            steps = native.generate(0, tape, DecodeConfig(max_tokens=64))
            next(steps)
            flag.set()
            assert len(list(steps)) <= 1
            flag.clear()
            assert list(native.generate(0, tape, DecodeConfig(max_tokens=2)))


CONTRACT: tuple[Callable[[Subject], None], ...] = (
    it_tells_sizes_that_fit_together,
    its_vocabulary_gives_text_back,
    its_vocabulary_never_makes_a_special_token_of_content,
    a_stopped_extend_leaves_the_backend_usable,
    sequences_can_be_used_again_and_again,
    logits_do_not_depend_on_chunks,
    every_row_is_the_logits_of_its_position,
    a_fork_goes_on_like_a_cold_run,
    a_trimmed_sequence_goes_on_like_a_cold_run,
    places_that_became_free_below_change_no_logits,
    what_was_saved_goes_on_like_a_cold_run,
    being_out_of_cells_changes_nothing,
    native_generation_is_repeatable_and_bounded,
    native_generation_stops_after_the_step,
)
"""All checks; each takes a `Subject`. Those that a backend's capabilities rule out pass at once."""
