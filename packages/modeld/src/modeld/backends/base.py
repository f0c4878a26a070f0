"""Owns what the slot needs from a library that runs models: a small Protocol, capabilities, the vocabulary.

Two kinds of library fit. One exposes *sequences* in a KV cache that can be forked and trimmed, and logits (llama.cpp).
The other takes whole prompts, finds their beginnings in a prefix cache of its own and gives tokens (OpenVINO GenAI).
Both are told the whole tape on every call: the first needs only what is new of it, the second recognises it only whole.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from modelwire.messages import DecodeConfig, ModelDescription

Ids = NDArray[np.int32]
"""Token ids, shape (n,)."""
Logits = NDArray[np.float32]
"""Raw scores of one position, shape (vocabulary,)."""
TEST_SEQUENCES = 3
"""Beyond those that can be used, for the test of exactness: tapes may hold all the others for days."""


@frozen(kw_only=True)
class Capabilities:
    """What a loaded backend can do; told by it, or found by a probe at load.

    `fork`: "cells" shares KV between sequences by `fork`; "content" recognises equal beginnings by itself, so `fork`,
    `trim` and `drop` are bookkeeping that always succeeds. `rollback`: `trim` can remove the end of a sequence.
    `stop`: how fine the stop flag is honoured, inside a chunk ("node") or after it ("step"). `logits`: it gives logits,
    so it is a `LogitsBackend`; otherwise a `NativeBackend`. `native_lookup`: it copies ahead from the prompt by itself.
    `export_state`: it has `save` and `load`. `device`: what computes.
    """

    fork: Literal["cells", "content"]
    rollback: bool
    stop: Literal["node", "step"]
    logits: bool
    native_lookup: bool = False
    export_state: bool = False
    device: str = "CPU"


@frozen(kw_only=True)
class Extended:
    """How far `extend` came: `length` positions are resident; `stopped` if the stop flag ended it early.

    `computed`: how many tokens went through the model, where that can differ from what was asked for.
    """

    length: int
    stopped: bool
    computed: int | None = None


class BackendError(Exception):
    """The library failed in a way that leaves the backend usable; what it said is in the message."""


class OutOfCells(BackendError):
    """There is no room in the KV cache for this chunk. Nothing was changed."""


class Stopped(BackendError):
    """The stop flag ended it. Nothing was lost by it."""


class LoadError(Exception):
    """The model cannot be served. The message is one line that says what was wrong and what to do."""


class StopFlag(Protocol):
    """The byte by which the front process stops the running operation. Read here, written only there."""

    @property
    def address(self) -> int:
        """Address of the byte; it is followed by a zero byte and stays valid while the backend lives."""

    def is_set(self) -> bool: ...


class Vocabulary(Protocol):
    """Text to ids and back. `tokenise` never makes a special token, whatever the text spells."""

    @property
    def size(self) -> int: ...

    @property
    def special(self) -> Mapping[str, int]:
        """The special tokens that a template may use, by their text."""

    @property
    def prepend(self) -> Sequence[int]:
        """What a prompt begins with unless its template says so itself: the BOS token where the model wants one."""

    @property
    def end_ids(self) -> frozenset[int]:
        """Tokens that end a generation."""

    @property
    def chat_template(self) -> str | None:
        """Jinja source from the model file."""

    def tokenise(self, text: str) -> Sequence[int]: ...

    def piece(self, token: int) -> bytes:
        """The bytes of a token; empty for special tokens."""

    def text_of(self, token: int) -> str:
        """How the vocabulary spells a token, special ones included (for templates that name BOS and EOS)."""


class Backend(Protocol):
    """A loaded model, used by one thread.

    Sequences are numbered from 0 to `sequences` - 1 and share `cells` positions of KV. `TEST_SEQUENCES` more follow.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def model(self) -> ModelDescription: ...

    @property
    def build(self) -> str:
        """The library's version and what it uses of this machine's processor: results may depend on both."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def cells(self) -> int:
        """KV positions, all sequences together; shared ones count once."""

    @property
    def sequences(self) -> int: ...

    @property
    def context(self) -> int:
        """The longest tape of one operation."""

    @property
    def chunk(self) -> int:
        """The largest number of tokens that one `extend` takes."""

    def extend(self, sequence: int, tape: Ids, start: int, rows: int) -> Extended:
        """Make positions `start` … len(tape) - 1 of a sequence resident; those before `start` are so already.

        Logits are kept for the last `rows` positions, for `LogitsBackend.logits`. If the stop flag ends it, a beginning
        may have become resident (`Extended.length`) and there are no logits. Raises `OutOfCells` with nothing changed,
        `BackendError` otherwise.
        """

    def fork(self, source: int, target: int, length: int) -> None:
        """Let the empty sequence `target` share the first `length` positions of `source`."""

    def trim(self, sequence: int, length: int) -> bool:
        """Forget all positions from `length` on. False where the library refuses; then nothing has changed."""

    def drop(self, sequence: int) -> None:
        """Forget a sequence."""

    def tidy(self, wanted: Callable[[], bool] = lambda: False) -> None:
        """Do now, while nobody waits, what would otherwise delay a later call. What is resident stays so.

        It ends early, and goes on the next time, where `wanted` says that somebody waits or the stop flag is set.
        """

    @property
    def relocated(self) -> int:
        """Positions whose cells were moved since the load, to keep those of every sequence in order."""

    def close(self) -> None: ...


@runtime_checkable
class ExportingBackend(Backend, Protocol):
    """A backend with the capability `export_state`."""

    def save(
        self, sequence: int, length: int, enough: Callable[[int, int], bool] = lambda positions, size: False
    ) -> tuple[bytes, ...]:
        """The state of the first `length` positions, for this loaded model alone.

        `enough` is asked after each piece, with the positions and bytes copied so far. Raises `Stopped` where it says
        so or the stop flag is set, otherwise `BackendError` or MemoryError; nothing has changed then.
        """

    def load(self, sequence: int, state: Sequence[bytes], length: int) -> None:
        """Make what `save` gave resident in an empty sequence. Raises `OutOfCells` with nothing changed.

        Raises `Stopped` where the stop flag ended it; the sequence is empty again.
        """


@runtime_checkable
class LogitsBackend(Backend, Protocol):
    """A backend whose decode loop is ours (`slot.generate`)."""

    def logits(self, row: int) -> Logits:
        """Logits of one of the `rows` of the last `extend`, 0 the first. A view that the next `extend` overwrites."""


@frozen(kw_only=True)
class Scored:
    """An answer: tokens, and the logarithm of each one's probability."""

    tokens: tuple[int, ...]
    scores: tuple[float, ...]


@runtime_checkable
class NativeBackend(Backend, Protocol):
    """A backend that generates by itself, and recognises beginnings in blocks of `block` positions."""

    @property
    def block(self) -> int: ...

    @property
    def passes(self) -> int:
        """Of the model, since the load."""

    @property
    def scores(self) -> Sequence[float]:
        """The logarithm of the probability of each token that the last `generate` gave, so far as it came."""

    def refusal(self, config: DecodeConfig, history: int) -> str | None:
        """What it cannot do of a request with `history` tokens before the answer, and what to do; None: nothing."""

    def reference(self, tapes: Sequence[Ids], tokens: int, advanced: Callable[[], None]) -> Sequence[Scored] | None:
        """Greedy answers of `tokens` tokens, as if nothing had been seen before and with nothing copied ahead.

        End tokens end nothing here. `advanced` is called now and then, as a sign of life. None if the stop flag ended
        it. Raises `BackendError`.
        """

    def generate(self, sequence: int, tape: Ids, config: DecodeConfig) -> Iterator[Sequence[int]]:
        """Generate after `tape`; every item is what one step gave.

        It ends at an end token (which it yields), at `max_tokens`, or after the step in which the stop flag was set.
        Stop strings are looked for above it.
        """
