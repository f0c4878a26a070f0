"""Owns what an engine process is started with. It is parsed elsewhere, and passed to the child as one line of JSON."""

import json
import os
from typing import Literal

from attrs import asdict, field, frozen, validators


def _available_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


BACKENDS = ("llamacpp", "openvino", "fake")
DEVICES = ("CPU", "GPU", "AUTO")
FEWEST_SEQUENCES, MOST_SEQUENCES = 2, 251
_positive = validators.ge(1)


@frozen(kw_only=True)
class EngineConfig:
    """Lengths are tokens.

    `model` is a file; None is the packaged model. `context` is the longest tape, or what the model was trained for
    where that is less; `extra_cells` are KV positions beyond it, for the tapes of guesses and other sessions.
    `spare_cells` is how many of all positions guesses and ownerless tapes may hold (None: those of one context),
    `parking_mb` the host memory for tapes of sessions that had to go.
    With `draft` "off" every token takes a pass of its own.
    `device` is what OpenVINO computes on, and with `lookup` "on" it copies ahead from the prompt, in every request.
    `fake` is the script of the fake backend as JSON; a `model` of that backend is a file with such a script.
    """

    backend: Literal["llamacpp", "openvino", "fake"] = field(default="llamacpp", validator=validators.in_(BACKENDS))
    model: str | None = None
    profile: Literal["exact", "fast"] = field(default="exact", validator=validators.in_(("exact", "fast")))
    context: int = field(default=8192, validator=validators.ge(256))
    extra_cells: int = field(default=4096, validator=validators.ge(0))
    sequences: int = field(default=8, validator=[validators.ge(FEWEST_SEQUENCES), validators.le(MOST_SEQUENCES)])
    threads: int = field(factory=_available_processors, validator=_positive)
    spare_cells: int | None = None
    parking_mb: int = field(default=256, validator=validators.ge(0))
    chunk: int = field(default=512, validator=_positive)
    draft: Literal["on", "off"] = field(default="on", validator=validators.in_(("on", "off")))
    device: Literal["CPU", "GPU", "AUTO"] = field(default="CPU", validator=validators.in_(DEVICES))
    lookup: Literal["on", "off"] = field(default="off", validator=validators.in_(("on", "off")))
    fake: str = ""
    log_level: str = "WARNING"
    log_format: Literal["text", "json"] = "text"

    @classmethod
    def from_json(cls, text: str) -> "EngineConfig":
        return cls(**json.loads(text))

    def to_json(self) -> str:
        return json.dumps(asdict(self))
