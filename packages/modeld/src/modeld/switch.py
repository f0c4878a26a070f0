"""Owns which model is loaded, and its change: to none, to another, and back where that one is refused.

It knows nothing of the operations that wait meanwhile.
"""

from typing import Protocol

from attrs import define

from modeld.engine.messages import Failed, Ready
from modelwire.errors import ErrorCode
from modelwire.messages import Load, Unload


class Loader(Protocol):
    """What ends and starts engine processes. Neither call blocks; a message tells when it is done."""

    def unload(self) -> None:
        """Nothing may run. `EngineUnloaded` follows."""

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
    _refusal: str | None = None  # why the way is back to the model before
    _known: Ready | None = None  # what was ready last, of any model

    @property
    def was_ready(self) -> bool:
        """Whether any model was, in this daemon's life."""
        return self._known is not None

    def begin(self, wish: Load | Unload) -> bool:
        """False where there is nothing to do."""
        self._refusal = None
        self._wanted = self.model if isinstance(wish, Unload) else wish.model or self.model
        if isinstance(wish, Unload):
            change = self.state != "unloaded"
            if change:
                self.loader.unload()
        else:
            change = bool(self.state) or self._wanted != self.model
            if change:
                self._load(self._wanted)
        return change

    def wake(self) -> None:
        """Loads what was unloaded."""
        self._load(self.model)

    def ready(self, ready: Ready) -> bool:
        """Whether sessions of before hold tokens of another model."""
        other = self._known is not None and self._known.model.fingerprint != ready.model.fingerprint
        self.loaded = self._known = ready
        self.state = ""
        return other

    def unloaded(self) -> None:
        self.state = "unloaded"

    def lost(self) -> None:
        self.loaded, self.state = None, "restarting"

    def refused(self, message: str) -> bool:
        """Goes back to the model before. False where it is that one which was refused."""
        if self._refusal is not None or self._wanted == self.model:
            return False
        self._refusal = message
        self._load(self.model)
        return True

    def given_up(self, message: str) -> str:
        """Nothing is loaded until an operation wants it; what that will be is known. Says why."""
        self.loaded, self.state = self._known, "unloaded"
        refusal, self._refusal = self._refusal, None
        return message if refusal is None else f"{refusal}. The model before cannot be loaded either: {message}"

    def finish(self) -> Failed | None:
        """Ends a change that is done; says why it was not the one that was wanted."""
        if self._refusal is None:
            self.model = self._wanted
            return None
        refusal, self._refusal = self._refusal, None
        return Failed(code=ErrorCode.NOT_READY, message=f"{refusal}. The model before is loaded again")

    def _load(self, model: str | None) -> None:
        self.loaded, self.state = None, "loading"
        self.loader.load(model)
