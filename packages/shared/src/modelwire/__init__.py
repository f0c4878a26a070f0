"""The wire between modeld, intentd and their clients: messages, codec, errors, endpoints, router, clients.

The names are loaded when they are first used: a command that only looks for a daemon must not pay for all of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modelwire.blocking import BlockingClient, BlockingConnection, BlockingStream
    from modelwire.client import Client, Connection, OperationStream
    from modelwire.codec import Codec, DecodeFault, Envelope
    from modelwire.endpoint import Claim, check_endpoint, default_endpoint, runtime_dir
    from modelwire.errors import DaemonUnreachable, EndpointError, ErrorCode, WireError, fault_of
    from modelwire.messages import PROTOCOL_VERSION
    from modelwire.protocol import CONTROL, MODELD, Protocol
    from modelwire.router import Router

_HOMES = {
    "modelwire.blocking": ("BlockingClient", "BlockingConnection", "BlockingStream"),
    "modelwire.client": ("Client", "Connection", "OperationStream"),
    "modelwire.codec": ("Codec", "DecodeFault", "Envelope"),
    "modelwire.endpoint": ("Claim", "check_endpoint", "default_endpoint", "runtime_dir"),
    "modelwire.errors": ("DaemonUnreachable", "EndpointError", "ErrorCode", "WireError", "fault_of"),
    "modelwire.messages": ("PROTOCOL_VERSION",),
    "modelwire.protocol": ("CONTROL", "MODELD", "Protocol"),
    "modelwire.router": ("Router",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CONTROL",
    "MODELD",
    "PROTOCOL_VERSION",
    "BlockingClient",
    "BlockingConnection",
    "BlockingStream",
    "Claim",
    "Client",
    "Codec",
    "Connection",
    "DaemonUnreachable",
    "DecodeFault",
    "EndpointError",
    "Envelope",
    "ErrorCode",
    "OperationStream",
    "Protocol",
    "Router",
    "WireError",
    "check_endpoint",
    "default_endpoint",
    "fault_of",
    "runtime_dir",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
