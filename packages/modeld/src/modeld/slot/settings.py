"""Owns the settings of a slot. They are parsed elsewhere."""

from typing import Protocol

from attrs import frozen


class Today(Protocol):
    """The date that chat templates may print; a `datetime.date` is one. It is read once, so that prompts stay equal."""

    def strftime(self, format: str, /) -> str: ...


@frozen(kw_only=True)
class SlotSettings:
    """`guess_chunk_ms` is what one chunk of a guess may cost, `chunk_floor` the fewest tokens of it.

    `ids_cache_bytes` bounds the memory for texts whose ids are remembered.
    """

    guess_chunk_ms: float = 150.0
    chunk_floor: int = 16
    ids_cache_bytes: int = 8 * 1024 * 1024
    today: Today | None = None
