"""Owns the calls to llama.cpp's cache of keys and values. What is to be where is `kv_cache`'s.

How the library chooses cells (`find_slot`): from its head on, which is behind the cells written last or at the lowest
cell freed since, it takes the free ones one by one. In the cache of sliding-window layers it takes those, too, that one
sequence alone holds and that have left the window: then that sequence can no longer be cut back so far. While all cells
below the head are occupied and enough above are free, as an `Arena` sees to, it never looks at one of those.
"""

import ctypes

import numpy as np
from llama_cpp import llama_cpp as llama

from modeld.backends.llamacpp import vendor_log

_BYTES = ctypes.POINTER(ctypes.c_uint8)


class LlamaMemory:
    """A `Memory` over a context."""

    def __init__(self, ctx: llama.llama_context_p) -> None:
        self._ctx = ctx
        self._memory = llama.llama_get_memory(ctx)

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        llama.llama_memory_seq_cp(self._memory, source, target, start, end)

    def remove(self, sequence: int, start: int, end: int) -> bool:
        return bool(llama.llama_memory_seq_rm(self._memory, sequence, start, end))

    def first(self, sequence: int) -> int:
        """The lowest position that the cache has of a sequence; -1 for none."""
        return int(llama.llama_memory_seq_pos_min(self._memory, sequence))

    def length(self, sequence: int) -> int:
        """One more than the highest position."""
        return int(llama.llama_memory_seq_pos_max(self._memory, sequence)) + 1

    def save(self, sequence: int) -> bytes:
        size = llama.llama_state_seq_get_size(self._ctx, sequence)
        state = np.empty(size, np.uint8)
        written = llama.llama_state_seq_get_data(self._ctx, state.ctypes.data_as(_BYTES), size, sequence)
        if not size or written != size:
            raise RuntimeError(f"the state of a sequence could not be saved: {vendor_log.complaint()}")
        return state.tobytes()

    def load(self, sequence: int, state: bytes) -> None:
        pointer = ctypes.cast(ctypes.c_char_p(state), _BYTES)
        if llama.llama_state_seq_set_data(self._ctx, pointer, len(state), sequence) != len(state):
            raise RuntimeError(f"the state of a sequence could not be restored: {vendor_log.complaint()}")
