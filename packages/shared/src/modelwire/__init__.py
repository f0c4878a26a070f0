"""The wire between modeld, intentd and their clients: messages, codec, errors, endpoints, router, clients."""

from modelwire.blocking import BlockingClient, BlockingConnection, BlockingStream
from modelwire.client import Client, Connection, OperationStream
from modelwire.codec import Codec, DecodeFault, Envelope
from modelwire.endpoint import Claim, check_endpoint, default_endpoint, runtime_dir
from modelwire.errors import DaemonUnreachable, EndpointError, ErrorCode, WireError, fault_of
from modelwire.messages import PROTOCOL_VERSION
from modelwire.protocol import CONTROL, MODELD, Protocol
from modelwire.router import Router

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
