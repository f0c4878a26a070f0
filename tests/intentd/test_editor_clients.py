"""Who of the door's clients are editors: from their opening to their end, in good order or not."""

from pathlib import Path

import pytest

from intentd.editor_clients import EditorClients
from intentd.messages import Closed, EditorOpened, Shown
from intentd.plan.desks import Desks
from intentd.shown import View
from modelwire.messages import Accepted, Acknowledged, Done, Reason


class Said:
    """What is sent, and how often something was called."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, object]] = []
        self.changed = self.started = 0

    def clients(self) -> EditorClients:
        return EditorClients(Desks(), lambda *said: self.sent.append(said), self._change, self._start)

    def _change(self) -> None:
        self.changed += 1

    def _start(self) -> None:
        self.started += 1


@pytest.fixture
def said() -> Said:
    return Said()


def view(workspace: Path) -> View:
    return View(workspace=str(workspace), path=str(workspace / "a.py"), version=1, text="x = 1", selection=(0, 1))


def test_modeld_is_started_for_an_editor_that_wants_it(said: Said) -> None:
    clients = said.clients()
    clients.opened("quiet", "1", EditorOpened(name="lsp", starts_modeld=False))
    assert (len(clients), said.started) == (1, 0)
    clients.opened("other", "1", EditorOpened(name="lsp", starts_modeld=True))
    assert (len(clients), said.started) == (2, 1)
    assert said.sent == [("quiet", "1", Accepted()), ("other", "1", Accepted())]


def test_what_is_shown_can_be_asked_about_until_it_is_closed_or_opted_out(said: Said, tmp_path: Path) -> None:
    """I3"""
    clients = said.clients()
    shown = Shown(view=view(tmp_path))
    clients.shown("vim", "1", shown)
    assert len(clients.desks.offers()) == 1
    (tmp_path / ".noguessahead").touch()
    clients.shown("vim", "2", shown)
    assert not clients.desks.offers()
    (tmp_path / ".noguessahead").unlink()
    clients.shown("vim", "3", shown)
    clients.closed("vim", "4", Closed(path=shown.view.path))
    assert not clients.desks.offers()
    assert said.changed == 4
    assert said.sent[-1] == ("vim", "4", Acknowledged(found=True))


def test_an_editor_leaves_once_and_takes_what_it_showed_with_it(said: Said, tmp_path: Path) -> None:
    """S8"""
    clients = said.clients()
    clients.opened("vim", "life", EditorOpened(name="lsp", starts_modeld=False))
    clients.shown("vim", "1", Shown(view=view(tmp_path)))
    assert not clients.cancelled("vim", "another operation")
    assert not clients.cancelled("emacs", "life")
    assert clients.cancelled("vim", "life")
    assert said.sent[-1] == ("vim", "life", Done(reason=Reason.CANCELLED))
    assert (len(clients), clients.desks.offers(), said.changed) == (0, (), 2)
    clients.gone("vim")
    assert said.changed == 2
    clients.shown("vim", "2", Shown(view=view(tmp_path)))  # it was taken as gone, and is not
    clients.gone("vim")
    assert (clients.desks.offers(), said.changed) == ((), 4)
