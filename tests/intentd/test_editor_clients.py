"""Who of the door's clients are editors: from their opening to their end, in good order or not."""

import asyncio
from pathlib import Path

import pytest

from intentd.editor_clients import EditorClients
from intentd.messages import Closed, EditorOpened, Shown
from intentd.plan.desks import Desks
from intentd.shown import View
from intentd.workspace import Workspace
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import Accepted, Acknowledged, Done, Reason


class Said:
    """What is sent, and how often something was called."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, object]] = []
        self.changed, self.wanted = 0, list[bool]()
        self.answers = asyncio.Event()
        self.answers.set()

    def clients(self) -> EditorClients:
        return EditorClients(Desks(), self._send, self._change, self.wanted.append, self._opted_out)

    async def _opted_out(self, workspace: str) -> bool:
        """Takes as long as `answers` is closed."""
        await self.answers.wait()
        return Workspace(Path(workspace)).opted_out()

    def _send(self, client: str, op: str, message: object) -> None:
        self.sent.append((client, op, message))

    def _change(self) -> None:
        self.changed += 1


@pytest.fixture
async def said() -> Said:
    return Said()


def view(workspace: Path, version: int = 1) -> View:
    return View(
        workspace=str(workspace), path=str(workspace / "a.py"), version=version, text=f"x = {version}", selection=(0, 1)
    )


def test_modeld_is_started_for_an_editor_that_wants_it_and_only_while_one_is_there(said: Said) -> None:
    clients = said.clients()
    clients.opened("quiet", "1", EditorOpened(name="lsp", starts_modeld=False))
    assert (len(clients), said.wanted) == (1, [])
    clients.opened("other", "1", EditorOpened(name="lsp", starts_modeld=True))
    assert (len(clients), said.wanted) == (2, [True])
    assert said.sent == [("quiet", "1", Accepted()), ("other", "1", Accepted())]
    clients.opened("third", "1", EditorOpened(name="lsp", starts_modeld=True))
    for client in ("quiet", "other"):
        clients.gone(client)
    assert said.wanted == [True, True]
    assert clients.cancelled("third", "1")
    clients.gone("third")
    assert said.wanted == [True, True, False]


async def test_what_is_shown_can_be_asked_about_until_it_is_closed_or_opted_out(said: Said, tmp_path: Path) -> None:
    """I3"""
    clients = said.clients()
    shown = Shown(view=view(tmp_path))
    await clients.shown("vim", "1", shown)
    assert len(clients.desks.offers()) == 1
    (tmp_path / ".noguessahead").touch()
    await clients.shown("vim", "2", shown)
    assert not clients.desks.offers()
    (tmp_path / ".noguessahead").unlink()
    await clients.shown("vim", "3", shown)
    clients.closed("vim", "4", Closed(path=shown.view.path))
    assert not clients.desks.offers()
    assert said.changed == 4
    assert said.sent[-1] == ("vim", "4", Acknowledged(found=True))


def test_an_editor_that_comes_again_ends_its_first_life_S8(said: Said) -> None:
    clients = said.clients()
    for op in ("first", "second"):
        clients.opened("vim", op, EditorOpened(name="lsp", starts_modeld=False))
    assert said.sent[1:] == [("vim", "first", Done(reason=Reason.CANCELLED)), ("vim", "second", Accepted())]
    assert not clients.cancelled("vim", "first")
    assert clients.cancelled("vim", "second")


async def test_an_editor_leaves_once_and_takes_what_it_showed_with_it(said: Said, tmp_path: Path) -> None:
    """S8"""
    clients = said.clients()
    clients.opened("vim", "life", EditorOpened(name="lsp", starts_modeld=False))
    await clients.shown("vim", "1", Shown(view=view(tmp_path)))
    assert not clients.cancelled("vim", "another operation")
    assert not clients.cancelled("emacs", "life")
    assert clients.cancelled("vim", "life")
    assert said.sent[-1] == ("vim", "life", Done(reason=Reason.CANCELLED))
    assert (len(clients), clients.desks.offers(), said.changed) == (0, (), 2)
    clients.gone("vim")
    assert said.changed == 2
    await clients.shown("vim", "2", Shown(view=view(tmp_path)))  # it was taken as gone, and is not
    clients.gone("vim")
    assert (clients.desks.offers(), said.changed) == ((), 4)


async def test_what_came_last_counts_where_a_workspace_takes_long_to_look_at(said: Said, tmp_path: Path) -> None:
    clients = said.clients()

    async def meanwhile(*, version: int) -> asyncio.Task[None]:
        task = asyncio.create_task(clients.shown("vim", "1", Shown(view=view(tmp_path, version))))
        await asyncio.sleep(0)
        return task

    said.answers.clear()
    tasks = [await meanwhile(version=1), await meanwhile(version=2)]
    said.answers.set()
    await asyncio.gather(*tasks)
    assert [one.view.text for one in clients.desks.offers() if one.view] == ["x = 2"]

    said.answers.clear()
    tasks = [await meanwhile(version=3)]
    clients.closed("vim", "2", Closed(path=str(tmp_path / "a.py")))
    assert said.sent[-1] == ("vim", "2", Acknowledged(found=True))
    tasks += [await meanwhile(version=4)]
    clients.gone("vim")
    said.answers.set()
    await asyncio.gather(*tasks)
    assert not clients.desks.offers()


async def test_what_is_shown_of_a_workspace_that_does_not_answer_cannot_be_asked_about(
    said: Said, tmp_path: Path
) -> None:
    """I3: it may have opted out."""
    clients = said.clients()
    await clients.shown("vim", "1", Shown(view=view(tmp_path)))

    async def mute(_: str) -> bool:
        raise WireError(ErrorCode.NOT_READY, "its drive does not answer", retry=True)

    clients.opted_out = mute
    with pytest.raises(WireError):
        await clients.shown("vim", "2", Shown(view=view(tmp_path, 2)))
    assert not clients.desks.offers()
