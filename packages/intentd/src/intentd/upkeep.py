"""Owns keeping a service up that must not end by a fault of its own. What it serves is not its business."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from modelwire.logs import told

log = logging.getLogger(__name__)

AGAIN_S = 2.0


async def kept_up(run: Callable[[], Awaitable[None]]) -> None:
    """Until it is cancelled. After a fault, which the log tells once, it is begun again in a while.

    A fault of its clean-up takes the place of the cancellation, and is raised.
    """
    said, task = "", asyncio.current_task()
    while True:
        try:
            await run()
        except Exception as fault:
            if task and task.cancelling():
                raise
            if said != (said := told(fault)):
                log.error("a part failed, and is begun again:\n%s", said)
        await asyncio.sleep(AGAIN_S)
