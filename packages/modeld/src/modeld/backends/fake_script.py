"""Owns how a fake backend is to behave: sizes, delays, faults. It is data; it can be read from a line of JSON."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

from attrs import asdict, field, fields_dict, frozen, validators

from modeld.backends.fake_vocabulary import CHATML


class Fault(StrEnum):
    """What can go wrong at an `extend`."""

    FAIL = "fail"  # BackendError, and the sequence is spoilt
    CELLS = "cells"  # OutOfCells
    CRASH = "crash"  # the process exits at once, without a word
    ABORT = "abort"  # the process aborts as a native library does
    HANG = "hang"  # it never returns


def _faults(faults: Mapping[int | str, str]) -> dict[int, Fault]:
    return {int(at): Fault(fault) for at, fault in faults.items()}


@frozen(kw_only=True)
class FakeScript:
    """A fake backend's behaviour.

    `faults`: by the number of the `extend` since the start, 1 the first. `token_ms`, `step_ms`: what each token and
    each `extend` takes. `poll_tokens`: how often the stop flag is read inside a chunk (with `stop` "node").
    `ubatch`: a stopped chunk keeps whole multiples of it, 0 keeps nothing. `alphabet`: the characters that it says;
    with `end_one_in` n, it ends its answer at about one of n positions. `answer`: what it says to every chat prompt,
    whatever that holds. `load_error`: it refuses to load, saying so.
    `fingerprint`: another one is another model. `in_order`: it keeps the cells of every sequence in order; without, its
    logits show that it does not. `piece`: the positions that it moves at once. `export`: it has `save` and `load`.
    """

    fork: Literal["cells", "content"] = field(default="cells", validator=validators.in_(("cells", "content")))
    stop: Literal["node", "step"] = field(default="node", validator=validators.in_(("node", "step")))
    rollback: bool = True
    context: int = field(default=2048, validator=validators.ge(1))
    cells: int = field(default=4096, validator=validators.ge(1))
    sequences: int = field(default=8, validator=validators.ge(1))
    chunk: int = field(default=256, validator=validators.ge(1))
    token_ms: float = 0.0
    step_ms: float = 0.0
    load_ms: float = 0.0
    poll_tokens: int = field(default=16, validator=validators.ge(1))
    ubatch: int = 0
    refuse_trim: bool = False
    refuse_fork: bool = False
    in_order: bool = True
    export: bool = True
    piece: int = field(default=64, validator=validators.ge(1))
    faults: Mapping[int, Fault] = field(factory=dict, converter=_faults)
    alphabet: str = field(default="abcdefgh \né😀", validator=validators.min_len(1))
    end_one_in: int = 0
    answer: str = ""
    bos: bool = False
    chat_template: str | None = CHATML
    load_error: str = ""
    fingerprint: str = "fake"

    @classmethod
    def from_json(cls, text: str) -> "FakeScript":
        """Raises ValueError that says which option is wrong; an empty text is the default script."""
        try:
            options: Any = json.loads(text or "{}")
        except ValueError as fault:
            raise ValueError(f"the fake backend's options are not JSON: {fault}") from None
        if not isinstance(options, dict):
            raise ValueError('the fake backend\'s options are a JSON object, for example {"token_ms": 1}')
        unknown = sorted(options.keys() - fields_dict(cls).keys())
        if unknown:
            known = ", ".join(fields_dict(cls))
            raise ValueError(f"the fake backend has no option {', '.join(unknown)}; it has {known}")
        try:
            return cls(**options)
        except (TypeError, ValueError) as fault:
            raise ValueError(f"an option of the fake backend is wrong: {fault.args[0]}") from None

    def to_json(self) -> str:
        return json.dumps(asdict(self))
