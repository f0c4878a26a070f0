"""Owns who of the door's clients are editors, and takes in what they show. It answers and guesses nothing."""

from collections.abc import Callable
from pathlib import Path

from attrs import define, field

from intentd.messages import Closed, EditorOpened, Shown
from intentd.plan.desks import Desks
from intentd.workspace import Workspace
from modelwire.messages import Accepted, Acknowledged, Done, Reason

Send = Callable[[str, str, object], None]


@define(eq=False)
class EditorClients:
    """`changed` is called when what may be asked has changed; `starts_modeld` when an editor wants modeld started."""

    desks: Desks
    send: Send
    changed: Callable[[], None]
    starts_modeld: Callable[[], None]
    _open: dict[str, str] = field(factory=dict)

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, client: str, op: str, message: EditorOpened) -> None:
        """The operation ends with the editor."""
        self._open[client] = op
        self.send(client, op, Accepted())
        if message.starts_modeld:
            self.starts_modeld()

    def shown(self, client: str, op: str, message: Shown) -> None:
        view = message.view
        if Workspace(Path(view.workspace)).opted_out():
            self.desks.close(client, view.path)
        else:
            self.desks.show(client, view)
        self.changed()
        self.send(client, op, Acknowledged(found=True))

    def closed(self, client: str, op: str, message: Closed) -> None:
        found = self.desks.close(client, message.path)
        self.changed()
        self.send(client, op, Acknowledged(found=found))

    def cancelled(self, client: str, op: str) -> bool:
        """Whether `op` was an editor's life; it leaves in good order then."""
        if self._open.get(client) != op:
            return False
        self.gone(client)
        self.send(client, op, Done(reason=Reason.CANCELLED))
        return True

    def gone(self, client: str) -> None:
        self._open.pop(client, None)
        if self.desks.leave(client):
            self.changed()
