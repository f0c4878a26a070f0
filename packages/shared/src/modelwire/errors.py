"""Owns what can go wrong on the wire, and whose fault it is. It raises nothing by itself."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

Fault = Literal["client", "daemon", "engine"]


class ErrorCode(StrEnum):
    """Codes of `error` messages; `fault_of` says whose fault each is."""

    MALFORMED = "malformed"  # not msgpack, not a map, or a field is missing or of the wrong type
    TOO_LARGE = "too_large"
    WRONG_VERSION = "wrong_version"
    UNKNOWN_KIND = "unknown_kind"
    BAD_REQUEST = "bad_request"  # well formed, but it makes no sense
    DUPLICATE_OP = "duplicate_op"
    CONTEXT_OVERFLOW = "context_overflow"
    OVERLOADED = "overloaded"  # a limit of the daemon was reached
    STOPPING = "stopping"
    INTERNAL = "internal"
    DAEMON_LOST = "daemon_lost"  # said by the client library: the daemon went away with the operation
    NOT_READY = "not_ready"
    ENGINE_LOST = "engine_lost"
    ENGINE_FAILED = "engine_failed"


_ENGINE = {ErrorCode.NOT_READY, ErrorCode.ENGINE_LOST, ErrorCode.ENGINE_FAILED}
_DAEMON = {ErrorCode.OVERLOADED, ErrorCode.STOPPING, ErrorCode.INTERNAL, ErrorCode.DAEMON_LOST}


def fault_of(code: str) -> Fault:
    """Whose fault an error is; an unknown code (a newer daemon's) counts as the daemon's."""
    if code in _ENGINE:
        return "engine"
    if code in _DAEMON or code not in set(ErrorCode):
        return "daemon"
    return "client"


def why(fault: Exception) -> str:
    """In words that can stand behind a path: an operating system's error says it again, and its number."""
    return str(getattr(fault, "strerror", None) or fault)


class Plain(Exception):
    """A fault whose words are ours and hold no word of a prompt: the log may have them, as those of no other fault."""


class WireError(Plain):
    """What an `error` message says: `code`, a sentence that tells what to do, and whether a retry can help."""

    def __init__(
        self,
        code: ErrorCode | str,
        message: str,
        *,
        retry: bool = False,
        numbers: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = str(code)
        self.message = message
        self.retry = retry
        self.numbers = dict(numbers or {})

    @property
    def fault(self) -> Fault:
        return fault_of(self.code)


class DaemonUnreachable(Plain):
    """No daemon answers at an endpoint, or not in time. The message says which and what to do."""


class EndpointError(Plain):
    """An endpoint cannot be used: not owner-only, taken, too long or of a refused kind. The message says what to do."""
