"""Turns messages into bytes and back. It does no I/O; every fault in the input becomes a `DecodeFault` that says what.

A message is one msgpack map: `v` (protocol version), `op` (the sender's id of the operation), `kind`, and the fields
of its class. What a fault says never quotes a value: a prompt must not end in a log.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any, Literal, NoReturn, get_args, get_origin

import attrs
import msgpack
from attrs import define, frozen
from cattrs import Converter, IterableValidationError, IterableValidationNote, transform_error
from cattrs.gen import make_dict_structure_fn

from modelwire.errors import ErrorCode, WireError
from modelwire.messages import PROTOCOL_VERSION, ChatMessage, Part, Prompt, Text

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
MAX_OP_LENGTH = 64
MAX_ITEMS = 2**20
"""Of all lists of a message together; msgpack makes room for what a list announces, before it has read it."""
MAX_NESTED = 10_000
"""Maps and lists in a message: each costs microseconds, in which nobody else is served."""
MAX_ENTRIES = 2**16
"""Of all maps of a message together."""
MAX_MAP_ENTRIES = 2**12
MAX_PARTS = 2**12
"""Of one prompt."""
_HEAD_BYTES = 256
"""So much is looked at of a message that is too large, to find whose it is."""


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
    """Encodes and decodes the message classes in `kinds` (wire name → attrs class).

    Of the classes in `brief` a field that has its default is left out, which whoever reads fills in: that is quicker.
    """

    def __init__(
        self,
        kinds: Mapping[str, type],
        *,
        brief: Iterable[type] = (),
        max_bytes: int = MAX_MESSAGE_BYTES,
        version: int = PROTOCOL_VERSION,
    ) -> None:
        self._classes = dict(kinds)
        self._names = {cls: name for name, cls in kinds.items()}
        self._max_bytes = max_bytes
        self._version = version
        self._converter = _strict_converter()
        self._shortener = Converter(omit_if_default=True)
        self._brief = frozenset(brief)
        self._packer = msgpack.Packer(default=_fields, autoreset=True)

    @property
    def max_bytes(self) -> int:
        return self._max_bytes

    def encode(self, op: str, message: object) -> bytes:
        """Raises KeyError for a class that is not of this protocol.

        Raises `WireError`: `too_large` above the size limit, `malformed` for text that is not Unicode and for integers
        beyond 64 bits.
        """
        brief = type(message) in self._brief
        fields = self._shortener.unstructure(message) if brief else _fields(message)
        whole = {"v": self._version, "op": op, "kind": self._names[type(message)], **fields}
        return packed(self._packer, whole, type(message).__name__, self._max_bytes)

    def decode(self, data: bytes | memoryview) -> Envelope:
        """Raises `DecodeFault` for anything that is not a message of this protocol within the limits."""
        if len(data) > self._max_bytes:
            raise DecodeFault(
                ErrorCode.TOO_LARGE,
                f"message of {len(data)} bytes; the limit (message_bytes) is {self._max_bytes} bytes",
                _op_in(data[:_HEAD_BYTES]),
            )
        fields = _unpack(data)
        op = fields.pop("op", None)
        if not _is_op(op):
            raise DecodeFault(ErrorCode.MALFORMED, f"'op' must be a string of 1 to {MAX_OP_LENGTH} characters")
        version = fields.pop("v", None)
        if type(version) is not int or version != self._version:
            says = f"protocol version {_shown(version)}; this side speaks {self._version}: update the older one"
            raise DecodeFault(ErrorCode.WRONG_VERSION, says, op)
        kind = fields.pop("kind", None)
        cls = self._classes.get(kind) if isinstance(kind, str) else None
        if cls is None:
            raise DecodeFault(ErrorCode.UNKNOWN_KIND, f"unknown kind {_shown(kind)}", op)
        try:
            return Envelope(op, self._converter.structure(fields, cls))
        except Exception as fault:
            reasons = "; ".join(transform_error(fault, path=str(kind), format_exception=_explain))
            raise DecodeFault(ErrorCode.MALFORMED, reasons[:400], op) from None


# --- a message to bytes ---------------------------------------------------------------------------------


def packed(packer: msgpack.Packer, value: object, name: str, max_bytes: int) -> bytes:
    """Raises `WireError` as `Codec.encode` does; `name` is what it calls the message."""
    try:
        data: bytes = packer.pack(value)
    except OverflowError:
        says = f"{name} cannot be sent: an integer in it has more than 64 bits; use a smaller one"
        raise WireError(ErrorCode.MALFORMED, says) from None
    except UnicodeEncodeError as fault:
        raise WireError(
            ErrorCode.MALFORMED, f"{name} cannot be sent: {_reason(fault)}; replace what is not valid Unicode"
        ) from None
    if len(data) > max_bytes:
        raise WireError(
            ErrorCode.TOO_LARGE,
            f"message of {len(data)} bytes; the limit (message_bytes) is {max_bytes}: shorten the prompt",
        )
    return data


def _fields(message: Any) -> dict[str, Any]:
    """Of an attrs object; the packer asks for those of the objects in it, and for integers that it cannot take."""
    if isinstance(message, int):
        raise OverflowError
    return {field.name: getattr(message, field.name) for field in message.__attrs_attrs__}


# --- bytes to a map -------------------------------------------------------------------------------------


def _is_op(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_OP_LENGTH


def _op_in(head: bytes | memoryview) -> str:
    """The op id in the beginning of a message; empty where it is not in there."""
    unpacker = msgpack.Unpacker(max_buffer_size=_HEAD_BYTES)  # which bounds what may be announced, too
    unpacker.feed(head)
    with suppress(Exception):  # as many kinds as below, and the end of what is there
        for _ in range(unpacker.read_map_header()):
            key, value = unpacker.unpack(), unpacker.unpack()
            if key == "op":
                return value if _is_op(value) else ""
    return ""


def _unpack(data: bytes | memoryview) -> dict[str, Any]:
    count = _Count()
    try:
        fields = msgpack.unpackb(
            data,
            raw=False,
            strict_map_key=True,
            list_hook=count.take_list,
            object_pairs_hook=count.take_map,
            max_array_len=min(len(data), MAX_ITEMS),
            max_map_len=min(len(data), MAX_MAP_ENTRIES),
        )
    except _TooMany as fault:
        raise DecodeFault(ErrorCode.TOO_LARGE, str(fault), _op_in(data[:_HEAD_BYTES])) from None
    except Exception as fault:  # ValueError, msgpack's own classes, UnicodeDecodeError, MemoryError: all mean the same
        raise DecodeFault(ErrorCode.MALFORMED, f"not a msgpack message: {_reason(fault)}") from None
    if not isinstance(fields, dict):
        raise DecodeFault(ErrorCode.MALFORMED, f"a message is a map, this is a {type(fields).__name__}")
    if not all(isinstance(key, str) for key in fields):
        raise DecodeFault(ErrorCode.MALFORMED, "the keys of a message are strings")
    return fields


class _TooMany(Exception):
    """A message holds more than it may."""


@define(eq=False)
class _Count:
    """What a message holds, counted while it is read: one with too much is given up before all of it is built."""

    nested: int = 0
    entries: int = 0
    items: int = 0

    def take_map(self, pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        self.entries += len(pairs)
        self._check()
        fields = dict(pairs)
        if len(fields) != len(pairs):
            raise ValueError("a map has a key twice")
        return fields

    def take_list(self, items: list[Any]) -> list[Any]:
        self.items += len(items)
        self._check()
        return items

    def _check(self) -> None:
        self.nested += 1
        if self.nested > MAX_NESTED:
            raise _TooMany(f"a message holds at most {MAX_NESTED} maps and lists, this has more: send less at once")
        if self.entries > MAX_ENTRIES:
            raise _TooMany(f"the maps of a message have at most {MAX_ENTRIES} entries together: send less at once")
        if self.items > MAX_ITEMS:
            raise _TooMany(f"the lists of a message have at most {MAX_ITEMS} items together: send less at once")


def _reason(fault: Exception) -> str:
    """Names a fault without what it quotes: `UnicodeError` has the whole text in its representation."""
    if isinstance(fault, UnicodeError):
        return fault.reason if isinstance(fault, UnicodeEncodeError | UnicodeDecodeError) else "not Unicode"
    return f"{type(fault).__name__} {fault!s:.80}".strip()


def _shown(value: Any) -> str:
    """A value of any depth and size, briefly."""
    return f"{value!r:.40}" if isinstance(value, int | float | str) else f"of type {type(value).__name__}"


# --- a map to a message ---------------------------------------------------------------------------------


class _Unfit(ValueError):
    """A value that does not fit its field; the text says what would."""


def _unfit(wanted: str, value: Any) -> NoReturn:
    raise _Unfit(f"expected {wanted}, got {type(value).__name__}")


def _explain(fault: BaseException, _: type | None) -> str:
    if isinstance(fault, _Unfit):
        return str(fault)
    return "required field missing" if isinstance(fault, KeyError) else "a value that does not fit"


def _strict_converter() -> Converter:
    """cattrs coerces primitives by default ("5" → 5, a map → its repr). That hides faults: this one refuses."""
    converter = Converter(prefer_attrib_converters=False, omit_if_default=False)
    for cls, hook in _HOOKS.items():
        converter.register_structure_hook(cls, hook)
    converter.register_structure_hook(str | bool, _structure_str_or_bool)
    converter.register_structure_hook(Part, lambda value, _: _structure_part(converter, value))
    converter.register_structure_hook_factory(_is_list, lambda cls: _structure_list(converter, cls))
    converter.register_structure_hook_factory(_is_mapping, lambda cls: _structure_mapping(converter, cls))
    converter.register_structure_hook_func(lambda cls: cls == tuple[int, ...], _structure_ids)
    converter.register_structure_hook_func(lambda cls: cls == Prompt, _structure_prompt(converter))
    converter.register_structure_hook_func(_is_literal, _structure_literal)
    converter.register_structure_hook_factory(attrs.has, lambda cls: _structure_map(converter, cls))
    return converter


def _is_literal(cls: Any) -> bool:
    return get_origin(cls) is Literal


def _structure_map(converter: Converter, cls: type) -> Callable[[Any, Any], Any]:
    """cattrs takes any container for a class; a map is wanted."""
    attrs.resolve_types(cls)
    structure: Callable[[Any, Any], Any] = make_dict_structure_fn(cls, converter)

    def hook(value: Any, _: Any) -> Any:
        return structure(value if type(value) is dict else _unfit("a map", value), cls)

    return hook


def _is_list(cls: Any) -> bool:
    return get_origin(cls) is tuple and get_args(cls)[-1] is Ellipsis


def _structure_list(converter: Converter, cls: Any) -> Callable[[Any, Any], tuple[Any, ...]]:
    item = get_args(cls)[0]
    structure = converter.get_structure_hook(item)

    def hook(value: Any, _: Any) -> tuple[Any, ...]:
        values = value if type(value) is list else _unfit("a list", value)
        if item is str and all(type(one) is str for one in values):  # a call for each costs ten times as much
            return tuple(values)
        return tuple(_each(values, lambda one: structure(one, item), cls))

    return hook


def _is_mapping(cls: Any) -> bool:
    return get_origin(cls) is Mapping


def _structure_mapping(converter: Converter, cls: Any) -> Callable[[Any, Any], dict[str, Any]]:
    item = get_args(cls)[1]
    structure = converter.get_structure_hook(item)

    def hook(value: Any, _: Any) -> dict[str, Any]:
        pairs = value.items() if type(value) is dict else _unfit("a map", value)
        return dict(_each(pairs, lambda pair: (_structure_str(pair[0], str), structure(pair[1], item)), cls))

    return hook


def _each(items: Iterable[Any], structure: Callable[[Any], Any], cls: Any) -> list[Any]:
    """The first that does not fit ends it. cattrs would tell of all: of a million, in minutes and gigabytes."""
    found = []
    for index, item in enumerate(items):
        try:
            found.append(structure(item))
        except Exception as fault:
            fault.add_note(IterableValidationNote("", index, None))
            raise IterableValidationError("one does not fit", [fault], cls) from None
    return found


def _structure_str(value: Any, _: Any) -> str:
    return value if type(value) is str else _unfit("a string", value)


def _structure_int(value: Any, _: Any) -> int:
    if type(value) is not int:
        _unfit("an integer", value)
    return value if -(2**63) <= value < 2**63 else _unfit("an integer of 64 bits", value)


def _structure_float(value: Any, _: Any) -> float:
    if type(value) is not float and type(value) is not int:
        _unfit("a number", value)
    return float(value) if math.isfinite(value) else _unfit("a finite number", value)


def _structure_bool(value: Any, _: Any) -> bool:
    return value if type(value) is bool else _unfit("a boolean", value)


def _structure_bytes(value: Any, _: Any) -> bytes:
    return value if type(value) is bytes else _unfit("bytes", value)


def _structure_enum(value: Any, cls: type[StrEnum]) -> StrEnum:
    with suppress(ValueError):
        if type(value) is str:
            return cls(value)
    _unfit(f"a known {cls.__name__.lower()}", value)


def _structure_str_or_bool(value: Any, _: Any) -> str | bool:
    return value if type(value) is str or type(value) is bool else _unfit("a string or a boolean", value)


def _structure_literal(value: Any, cls: Any) -> Any:
    wanted = get_args(cls)
    return value if type(value) is str and value in wanted else _unfit(f"one of {', '.join(wanted)}", value)


def _structure_part(converter: Converter, value: Any) -> Part:
    if not isinstance(value, dict) or ("text" in value) == ("role" in value):
        raise _Unfit("a part of a prompt has either 'text' or 'role' and 'content'")
    if "text" in value:
        return converter.structure(value, Text)
    return converter.structure(value, ChatMessage)


def _structure_prompt(converter: Converter) -> Callable[[Any, Any], Prompt]:
    structure = _structure_list(converter, Prompt)

    def hook(value: Any, cls: Any) -> Prompt:
        if type(value) is list and len(value) > MAX_PARTS:
            raise _Unfit(f"a prompt has at most {MAX_PARTS} parts, this has {len(value)}: join some of them")
        return structure(value, cls)

    return hook


def _structure_ids(value: Any, _: Any) -> tuple[int, ...]:
    """Token ids come by the thousand: one check for all of them instead of a call for each."""
    if type(value) is not list or not all(type(item) is int for item in value):
        raise _Unfit("expected a list of integers")
    if value and not 0 <= min(value) <= max(value) < 2**31:
        raise _Unfit("expected ids from 0 to 2147483647")
    return tuple(value)


_HOOKS: Mapping[type, Callable[[Any, Any], Any]] = {
    str: _structure_str,
    int: _structure_int,
    float: _structure_float,
    bool: _structure_bool,
    bytes: _structure_bytes,
    StrEnum: _structure_enum,
}
