"""Owns the settings of a slot. They are parsed elsewhere."""

from typing import Protocol

from attrs import frozen


class Today(Protocol):
    """The date that chat templates may print; a `datetime.date` is one. It is read once, so that prompts stay equal."""

    def strftime(self, format: str, /) -> str: ...


@frozen(kw_only=True)
class SlotSettings:
    """`guess_chunk_ms` is what one chunk of a guess may cost, `chunk_floor` the fewest tokens of it.

    `spare_cells` is how many KV positions guesses and ownerless tapes may hold (None: those of one context), and
    `parking_bytes` the host memory for tapes of sessions that had to go; one comes back where that saves at least
    `parking_least` tokens.

    `ids_cache_bytes` bounds the memory for texts whose ids are remembered. `sample` is ordinary text to test exactness
    with.
    """

    guess_chunk_ms: float = 150.0
    chunk_floor: int = 16
    ids_cache_bytes: int = 8 * 1024 * 1024
    spare_cells: int | None = None
    parking_bytes: int = 256 * 1024 * 1024
    parking_least: int = 64
    sample: str = ""
    today: Today | None = None
