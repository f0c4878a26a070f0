"""Owns what the driver needs of its surroundings, as protocols: an engine and a way to reply."""

from collections.abc import Callable
from typing import Any, Protocol

from modeld.engine.messages import ToEngine
from modeld.switch import Loader

Reply = Callable[[str, str, Any], None]
"""(client, op, message). It may call `Driver.client_gone` from within."""


class Engine(Loader, Protocol):
    """The engine process as seen from the front. None of it blocks."""

    def send(self, message: ToEngine) -> None:
        """Raises `WireError` for a message that is too large."""

    def set_stop(self) -> None: ...

    def clear_stop(self) -> None: ...
