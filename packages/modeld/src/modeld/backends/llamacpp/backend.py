"""Owns a loaded llama.cpp model and its KV cache behind the `LogitsBackend` protocol. How it is loaded is `loading`'s.

Only the C API is used: it tells "no room" from "aborted", and never copies a whole context.
"""

import ctypes
from collections.abc import Callable, Sequence
from importlib.metadata import version

import numpy as np
from llama_cpp import llama_cpp as llama

from modeld.backends.base import (
    TEST_SEQUENCES,
    BackendError,
    Capabilities,
    Extended,
    Ids,
    Logits,
    OutOfCells,
    StopFlag,
    Stopped,
)
from modeld.backends.kv_cache import END, KvCache
from modeld.backends.llamacpp import vendor_log
from modeld.backends.llamacpp.memory import LlamaMemory
from modeld.backends.llamacpp.vocabulary import LlamaVocabulary
from modelwire.messages import ModelDescription

_DONE, _NO_ROOM, _ABORTED = 0, 1, 2
_PIECE = 512
"""Positions that are moved at once; about ten milliseconds for a small model."""
OWN_SEQUENCES = 2 + TEST_SEQUENCES
"""Sequences of the library that the cache and the test of exactness need beside those that can be used."""


class LlamaBackend:
    """Takes over the ownership of `model` and `ctx`. One thread; after `close` no method may be called.

    An error other than `BackendError` means that what is resident is no longer known.
    """

    def __init__(
        self,
        model: llama.llama_model_p,
        ctx: llama.llama_context_p,
        *,
        description: ModelDescription,
        vocabulary: LlamaVocabulary,
        types: tuple[int, int],
        context: int,
        chunk: int,
        in_order: bool,
        stop: StopFlag,
    ) -> None:
        self._model_pointer: llama.llama_model_p | None = model
        self._ctx = ctx
        system = (llama.llama_print_system_info() or b"").decode()
        self.build = f"{version('llama-cpp-python')} {system} KV {types}"
        self._stop = stop  # the library holds its address
        self._memory = LlamaMemory(ctx)
        self._window = llama.llama_model_n_swa(model)
        self.capabilities = Capabilities(fork="cells", rollback=True, stop="node", logits=True, export_state=True)
        self.model = description
        self.vocabulary = vocabulary
        self.context = context
        self.chunk = chunk
        self.cells: int = llama.llama_n_ctx(ctx)
        self.sequences: int = llama.llama_n_seq_max(ctx) - OWN_SEQUENCES
        self._cache = KvCache(
            self._memory,
            cells=self.cells,
            sequences=self.sequences + TEST_SEQUENCES,
            piece=min(_PIECE, self._window or _PIECE),
            in_order=in_order or self._window > 0,  # with a window, the library would take cells that are in use
            stop=stop.is_set,
            window=self._window > 0,
        )
        self._rows = range(0)
        self._batch = _Batch(chunk)

    def __repr__(self) -> str:
        state = "closed" if self._model_pointer is None else f"{self.cells} cells, {self.sequences} sequences"
        return f"LlamaBackend({self.model.name}, {state})"

    def extend(self, sequence: int, tape: Ids, start: int, rows: int) -> Extended:
        count = len(tape) - start
        if not 0 < count <= self.chunk or not 0 <= rows <= count:
            raise ValueError(
                f"{count} tokens with {rows} rows; a chunk has 1 to {self.chunk} tokens, at most all as rows"
            )
        self._rows = range(0)
        if self._stop.is_set():
            return Extended(length=start, stopped=True)
        try:
            self._cache.make_room(count)
        except Stopped:
            return Extended(length=start, stopped=True)
        code = llama.llama_decode(self._ctx, self._batch.fill(sequence, tape[start:], start, rows))
        if code == _DONE:
            self._rows = range(count - rows, count)
            self._cache.wrote(sequence, start, count)
            return Extended(length=len(tape), stopped=False)
        if code == _NO_ROOM:
            raise OutOfCells(f"no room for {count} tokens in a KV cache of {self.cells}")
        if code == _ABORTED:
            length = self._settle(sequence, start, len(tape))
            self._cache.wrote(sequence, start, length - start)
            return Extended(length=length, stopped=True)
        self._cut(sequence, start)
        raise BackendError(f"llama_decode returned {code}: {vendor_log.complaint()}")

    def logits(self, row: int) -> Logits:
        pointer = llama.llama_get_logits_ith(self._ctx, self._rows[row])
        if not pointer:
            raise BackendError(f"there are no logits for row {row}")
        return np.ctypeslib.as_array(pointer, shape=(self.vocabulary.size,))

    def fork(self, source: int, target: int, length: int) -> None:
        if not self._holds(source, length):
            raise BackendError(f"sequence {source} does not hold {length} positions any more")
        self._cache.fork(source, target, length)
        if self._memory.length(target) != length:
            raise RuntimeError(f"a fork of {length} positions has {self._memory.length(target)}")

    def trim(self, sequence: int, length: int) -> bool:
        return self._holds(sequence, length) and self._cache.forget(sequence, length)

    def drop(self, sequence: int) -> None:
        if not self._cache.forget(sequence, 0):
            raise RuntimeError(f"sequence {sequence} cannot be dropped")

    def save(
        self, sequence: int, length: int, enough: Callable[[int, int], bool] = lambda positions, size: False
    ) -> tuple[bytes, ...]:
        if not self._holds(sequence, length):
            raise BackendError(f"sequence {sequence} does not hold {length} positions any more")
        return self._cache.save(sequence, length, enough)

    def load(self, sequence: int, state: Sequence[bytes], length: int) -> None:
        self._cache.load(sequence, state, length)
        if self._memory.length(sequence) != length:
            raise RuntimeError(f"a restored state of {length} positions has {self._memory.length(sequence)}")

    def tidy(self, wanted: Callable[[], bool] = lambda: False) -> None:
        self._cache.tidy(wanted)

    @property
    def relocated(self) -> int:
        return self._cache.relocated

    def close(self) -> None:
        if self._model_pointer is not None:
            llama.llama_free(self._ctx)
            llama.llama_model_free(self._model_pointer)
            self._model_pointer = None

    def _holds(self, sequence: int, length: int) -> bool:
        """Whether the model could go on from `length`.

        Positions from the smallest to the largest are all there. With a sliding window the cache may give the place of
        older ones to other sequences; so much of them as the window shows from `length` must be left.
        """
        needed = max(0, length - self._window) if self._window else 0
        return length <= self._memory.length(sequence) and self._memory.first(sequence) <= needed

    def _settle(self, sequence: int, start: int, end: int) -> int:
        """How much is resident after an abort: whole micro-batches stay, the one that was stopped is removed."""
        length = self._memory.length(sequence)
        if not start <= length <= end:
            raise RuntimeError(f"{length} positions after an aborted batch for {start} to {end}")
        return length

    def _cut(self, sequence: int, length: int) -> None:
        if not self._memory.remove(sequence, length, END) or self._memory.length(sequence) != length:
            raise RuntimeError(f"sequence {sequence} could not be put back to {length} positions")


class _Batch:
    """A `llama_batch` over numpy arrays. All tokens of a batch are of one sequence, so they point to one cell."""

    def __init__(self, room: int) -> None:
        self._token = np.zeros(room, np.int32)
        self._position = np.zeros(room, np.int32)
        self._sequence = np.zeros(1, np.int32)
        self._sequences = np.full(room, self._sequence.ctypes.data, np.uintp)
        self._sequence_count = np.ones(room, np.int32)
        self._output = np.zeros(room, np.int8)
        integers = ctypes.POINTER(ctypes.c_int32)
        self._batch = llama.llama_batch(
            token=self._token.ctypes.data_as(integers),
            pos=self._position.ctypes.data_as(integers),
            n_seq_id=self._sequence_count.ctypes.data_as(integers),
            seq_id=self._sequences.ctypes.data_as(ctypes.POINTER(integers)),
            logits=self._output.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )

    def fill(self, sequence: int, tokens: Ids, start: int, rows: int) -> llama.llama_batch:
        """A batch that is valid until the next `fill`."""
        count = len(tokens)
        self._token[:count] = tokens
        self._position[:count] = np.arange(start, start + count)
        self._sequence[0] = sequence
        self._output[: count - rows] = 0
        self._output[count - rows : count] = 1
        self._batch.n_tokens = count
        return self._batch
