"""Turns messages into bytes and back. It does no I/O; every fault in the input becomes a `DecodeFault` that says what.

A message is one msgpack map: `v` (protocol version), `op` (the sender's id of the operation), `kind`, and the fields
of its class.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import msgpack
from attrs import frozen
from cattrs import Converter, transform_error

from modelwire.errors import ErrorCode, WireError
from modelwire.messages import PROTOCOL_VERSION, ChatMessage, Part, Text

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
MAX_OP_LENGTH = 64

_T = TypeVar("_T")


@frozen
class Envelope:
    """A decoded message with the operation it belongs to."""

    op: str
    message: Any


class DecodeFault(WireError):
    """A message that could not be read. `op` is its operation where that much was legible, else empty."""

    def __init__(self, code: ErrorCode, message: str, op: str = "") -> None:
        super().__init__(code, message)
        self.op = op


class Codec:
    """Encodes and decodes the message classes in `kinds` (wire name → attrs class)."""

    def __init__(
        self,
        kinds: Mapping[str, type],
        *,
        max_bytes: int = MAX_MESSAGE_BYTES,
        version: int = PROTOCOL_VERSION,
    ) -> None:
        self._classes = dict(kinds)
        self._names = {cls: name for name, cls in kinds.items()}
        self._max_bytes = max_bytes
        self._version = version
        self._converter = _strict_converter()
        self._packer = msgpack.Packer(use_bin_type=True, autoreset=True)

    @property
    def max_bytes(self) -> int:
        return self._max_bytes

    def encode(self, op: str, message: object) -> bytes:
        """Raises KeyError for a class that is not of this protocol, `WireError(TOO_LARGE)` above the size limit."""
        fields = self._converter.unstructure(message)
        data = cast(
            bytes,
            self._packer.pack({"v": self._version, "op": op, "kind": self._names[type(message)], **fields}),
        )
        if len(data) > self._max_bytes:
            raise WireError(
                ErrorCode.TOO_LARGE,
                f"message of {len(data)} bytes; the limit is {self._max_bytes} bytes: shorten the prompt",
            )
        return data

    def decode(self, data: bytes | memoryview) -> Envelope:
        """Raises `DecodeFault` for anything that is not a message of this protocol within the limits."""
        if len(data) > self._max_bytes:
            raise DecodeFault(
                ErrorCode.TOO_LARGE, f"message of {len(data)} bytes; the limit is {self._max_bytes} bytes"
            )
        fields = _unpack(data)
        op = fields.pop("op", None)
        if not isinstance(op, str) or not 0 < len(op) <= MAX_OP_LENGTH:
            raise DecodeFault(ErrorCode.MALFORMED, f"'op' must be a string of 1 to {MAX_OP_LENGTH} characters")
        version = fields.pop("v", None)
        if version != self._version:
            raise DecodeFault(
                ErrorCode.WRONG_VERSION,
                f"protocol version {version!r:.40}; this side speaks {self._version}",
                op,
            )
        kind = fields.pop("kind", None)
        cls = self._classes.get(kind) if isinstance(kind, str) else None
        if cls is None:
            raise DecodeFault(ErrorCode.UNKNOWN_KIND, f"unknown kind {kind!r:.60}", op)
        try:
            return Envelope(op, self._converter.structure(fields, cls))
        except Exception as fault:
            raise DecodeFault(
                ErrorCode.MALFORMED, f"{kind}: {'; '.join(transform_error(fault, path=kind))[:400]}", op
            ) from None


def _unpack(data: bytes | memoryview) -> dict[str, Any]:
    try:
        fields = msgpack.unpackb(data, raw=False, strict_map_key=True)
    except (
        Exception
    ) as fault:  # msgpack raises ValueError, its own classes and UnicodeDecodeError; all mean the same here
        raise DecodeFault(
            ErrorCode.MALFORMED, f"not a msgpack message: {type(fault).__name__} {fault!s:.80}".strip()
        ) from None
    if not isinstance(fields, dict):
        raise DecodeFault(ErrorCode.MALFORMED, f"a message is a map, this is a {type(fields).__name__}")
    if not all(isinstance(key, str) for key in fields):
        raise DecodeFault(ErrorCode.MALFORMED, "the keys of a message are strings")
    return fields


def _strict_converter() -> Converter:
    """cattrs coerces primitives by default ("5" → 5, a map → its repr). That hides faults: this one refuses."""
    converter = Converter(prefer_attrib_converters=False, omit_if_default=False)

    def only(
        *allowed: type, refuse: type | None = None, name: str, convert: Callable[[Any], Any] | None = None
    ) -> Callable[[Any, Any], Any]:
        def hook(value: Any, _: Any) -> Any:
            if isinstance(value, allowed) and not (refuse is not None and isinstance(value, refuse)):
                return convert(value) if convert else value
            raise TypeError(f"expected {name}, got {type(value).__name__}")

        return hook

    converter.register_structure_hook(str, only(str, name="a string"))
    converter.register_structure_hook(int, only(int, refuse=bool, name="an integer"))
    converter.register_structure_hook(float, only(float, int, refuse=bool, name="a number", convert=float))
    converter.register_structure_hook(bool, only(bool, name="a boolean"))
    converter.register_structure_hook(bytes, only(bytes, name="bytes"))
    converter.register_structure_hook(str | bool, only(str, bool, name="a string or a boolean"))
    converter.register_structure_hook_func(lambda cls: cls == tuple[int, ...], _structure_ids)
    converter.register_structure_hook(Part, lambda value, _: _structure_part(converter, value))
    return converter


def _structure_part(converter: Converter, value: Any) -> Part:
    if not isinstance(value, dict) or ("text" in value) == ("role" in value):
        raise TypeError("a part of a prompt has either 'text' or 'role' and 'content'")
    if "text" in value:
        return converter.structure(value, Text)
    return converter.structure(value, ChatMessage)


def _structure_ids(value: Any, _: Any) -> tuple[int, ...]:
    """Token ids come by the thousand: one check for all of them instead of a call for each."""
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        raise TypeError("expected a list of integers")
    return tuple(value)
