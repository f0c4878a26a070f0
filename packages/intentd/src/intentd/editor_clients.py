"""Owns who of the door's clients are editors, and takes in what they show. It answers and guesses nothing."""

from collections.abc import Awaitable, Callable

from attrs import define, field

from intentd.messages import Closed, EditorOpened, Shown
from intentd.plan.desks import Desks
from modelwire.messages import Accepted, Acknowledged, Done, Reason

Send = Callable[[str, str, object], None]
Look = Callable[[str], Awaitable[bool]]


@define(eq=False)
class EditorClients:
    """`changed` is called when what may be asked has changed; `wants_modeld` with whether an editor is there that wants
    modeld started, whenever one comes and when the last of them leaves.

    `opted_out` looks at a workspace, which may take a while; it raises `WireError` where that does not answer.
    """

    desks: Desks
    send: Send
    changed: Callable[[], None]
    wants_modeld: Callable[[bool], None]
    opted_out: Look
    _looked_at: dict[tuple[str, str], Shown] = field(factory=dict)
    _open: dict[str, str] = field(factory=dict)
    _wanting: set[str] = field(factory=set)

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, client: str, op: str, message: EditorOpened) -> None:
        """The operation ends with the editor, or where this is said again."""
        if client in self._open:
            self.send(client, self._open[client], Done(reason=Reason.CANCELLED))
        self._open[client] = op
        self.send(client, op, Accepted())
        if message.starts_modeld:
            self._wanting.add(client)
            self.wants_modeld(True)

    async def shown(self, client: str, op: str, message: Shown) -> None:
        """What is shown or closed meanwhile counts, not this. Raises `WireError`."""
        view = message.view
        self._looked_at[client, view.path] = message
        out = True
        try:
            out = await self.opted_out(view.workspace)
        finally:
            if self._looked_at.get((client, view.path)) is message:
                self._take(client, message, out)
        self.send(client, op, Acknowledged(found=True))

    def _take(self, client: str, shown: Shown, out: bool) -> None:
        path = shown.view.path
        del self._looked_at[client, path]
        if out:
            self.desks.close(client, path)
        else:
            self.desks.show(client, shown.view, shown.used)
        self.changed()

    def closed(self, client: str, op: str, message: Closed) -> None:
        coming = self._looked_at.pop((client, message.path), None)
        found = self.desks.close(client, message.path) or coming is not None
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
        if client in self._wanting:
            self._wanting.remove(client)
            if not self._wanting:
                self.wants_modeld(False)
        for key in [key for key in self._looked_at if key[0] == client]:
            del self._looked_at[key]
        if self.desks.leave(client):
            self.changed()
