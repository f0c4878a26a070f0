"""What hangs in tests, and how to see that it does no more, or that an offer has come through it."""

import asyncio
import threading
from typing import Any

from intentd.messages import DaemonStatus
from intentd.workers import Workers
from modelwire.testing import PATIENCE_S

SOON_S = 1.0


def loop(*_: Any, **__: Any) -> Any:
    while True:
        pass


def workers_alive() -> int:
    return sum(thread.name == "intentd worker" for thread in threading.enumerate())


async def ends(workers: Workers) -> None:
    """Returns when nothing hangs there any more."""
    for piece in workers._pieces:
        if piece.thread.ident is not None:  # it has begun
            await asyncio.to_thread(piece.thread.join, PATIENCE_S)


def warm(status: DaemonStatus) -> bool:
    return any(offer.warm for offer in status.offers)
