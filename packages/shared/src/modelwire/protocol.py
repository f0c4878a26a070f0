"""Owns what the machinery of the wire must know of a protocol: its messages, which of them end an operation or merge.

`router` and `client` serve any protocol that is described so; `MODELD` is modeld's. The control messages are part of
every protocol: the machinery itself speaks them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, get_args

from attrs import field, frozen

from modelwire.codec import MAX_MESSAGE_BYTES, Codec
from modelwire.messages import (
    KINDS,
    PROTOCOL_VERSION,
    Acknowledged,
    Answer,
    Beat,
    Cancel,
    Done,
    Error,
    Hello,
    Progress,
    Request,
    Tokens,
    Welcome,
)

NOBODY = "?"
"""Op id of a reply that must not be taken for one to the live operation of that id, and ends none."""
CONTROL: Mapping[str, type] = {
    "hello": Hello,
    "welcome": Welcome,
    "beat": Beat,
    "cancel": Cancel,
    "acknowledged": Acknowledged,
    "error": Error,
}
"""Wire name → class of the messages that every protocol has."""

Merge = Callable[[Sequence[Any]], Any]
"""Makes one message of several consecutive ones of the same class and operation."""


def _join_tokens(parts: Sequence[Tokens]) -> Tokens:
    return Tokens(text="".join(part.text for part in parts), ids=tuple(token for part in parts for token in part.ids))


def _newest(parts: Sequence[Any]) -> Any:
    return parts[-1]


def _with_control(kinds: Mapping[str, type]) -> Mapping[str, type]:
    return {**CONTROL, **kinds}


def _with_control_requests(requests: Iterable[type]) -> frozenset[type]:
    return frozenset({Hello, Beat, Cancel, *requests})


def _with_control_terminals(terminal: Iterable[type]) -> frozenset[type]:
    return frozenset({Welcome, Acknowledged, Error, *terminal})


@frozen(kw_only=True)
class Protocol:
    """What is spoken at a daemon's endpoint.

    `kinds`: wire name → class. `requests`: the classes that a client may send. `terminal`: those that end an operation
    or answer a question; exactly one of them is sent for each op id. The control messages are added to these three.
    `merge`: the classes that may be merged when the reader is slow.
    """

    service: str
    kinds: Mapping[str, type] = field(converter=_with_control)
    requests: frozenset[type] = field(converter=_with_control_requests)
    terminal: frozenset[type] = field(converter=_with_control_terminals)
    merge: Mapping[type, Merge] = field(factory=lambda: {Tokens: _join_tokens, Progress: _newest})
    version: int = PROTOCOL_VERSION

    def codec(self, max_bytes: int = MAX_MESSAGE_BYTES) -> Codec:
        return Codec(self.kinds, brief=self.requests, version=self.version, max_bytes=max_bytes)


MODELD = Protocol(
    service="modeld",
    kinds=KINDS,
    requests=get_args(Request),
    terminal=(Done, *get_args(Answer)),
)
"""What modeld speaks; docs/protocol.md is its specification."""
