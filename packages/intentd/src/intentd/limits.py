"""Owns the bounds that intentd's socket keeps. They are parsed elsewhere."""

from attrs import frozen

from modelwire.errors import ErrorCode, WireError


@frozen(kw_only=True)
class Limits:
    """`clients` that are there, `buffer_mb` for one that reads slowly, `questions` and wrapped `commands` at once."""

    clients: int = 1024
    buffer_mb: int = 8
    questions: int = 64
    commands: int = 256

    def check(self, name: str, count: int) -> None:
        """Raises `WireError(OVERLOADED)` where there are so many of something already."""
        if count >= (most := getattr(self, name)):
            says = f"{most} {name} are under way, the limit ({name} in intentd.toml): try later"
            raise WireError(ErrorCode.OVERLOADED, says, retry=True)
