"""Owns which model is loaded, and its change: to none, to another, and back where that one is refused.

It knows nothing of the operations that wait meanwhile.
"""

from typing import Protocol

from attrs import define, field

from modeld.engine.messages import Failed, Ready
from modelwire.errors import ErrorCode
from modelwire.messages import Load, Unload


class Loader(Protocol):
    """What ends and starts engine processes. Neither call blocks; a message tells when it is done."""

    def unload(self) -> None:
        """The engine must be idle. `EngineUnloaded` follows."""

    def load(self, model: str | None) -> None:
        """Raises nothing: `Ready` or `Refused` follows."""


@define(eq=False)
class Switch:
    """`model` is the file that is loaded, or was last; None is the one of the settings.

    `state` is a word for `status` while no engine is ready, else empty. `loaded` describes what is loaded or was last;
    None while nothing is known of it.
    """

    loader: Loader
    model: str | None = None
    state: str = "loading"
    loaded: Ready | None = None
    _wanted: str | None = None
    _way_back: bool = False
    _fault: Failed | None = None
    _fingerprint: str = field(default="")

    def begin(self, wish: Load | Unload) -> bool:
        """False where there is nothing to do."""
        self._fault, self._way_back = None, False
        self._wanted = self.model if isinstance(wish, Unload) else wish.model or self.model
        if isinstance(wish, Unload):
            change = self.state != "unloaded"
            if change:
                self.loader.unload()
        else:
            change = self.state == "unloaded" or self._wanted != self.model
            if change:
                self._load(self._wanted)
        return change

    def wake(self) -> None:
        """Loads what was unloaded."""
        self._load(self.model)

    def ready(self, ready: Ready) -> bool:
        """Whether sessions of before hold tokens of another model."""
        other = self._fingerprint not in ("", ready.model.fingerprint)
        self._fingerprint = ready.model.fingerprint
        self.loaded, self.state = ready, ""
        return other

    def unloaded(self) -> None:
        self.state = "unloaded"

    def lost(self) -> None:
        self.loaded, self.state = None, "restarting"

    def refused(self, message: str) -> bool:
        """Goes back to the model before. False where that one was refused as well, or there is none."""
        if self._way_back:
            return False
        self._way_back = True
        self._fault = Failed(code=ErrorCode.NOT_READY, message=f"{message}. The model before is loaded again")
        self._load(self.model)
        return True

    def finish(self) -> Failed | None:
        """Ends a change that is done; says why it was not the one that was wanted."""
        if not self._way_back:
            self.model = self._wanted
        return self._fault

    def _load(self, model: str | None) -> None:
        self.loaded, self.state = None, "loading"
        self.loader.load(model)
