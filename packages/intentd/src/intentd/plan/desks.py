"""Owns what lies before people in their editors: the views of the documents used last, and what is asked next of them.

Each editor has a desk. It guesses nothing and reads no files.
"""

import hashlib
from collections.abc import Iterator

from attrs import frozen

from intentd.plan.commands import Command
from intentd.plan.offers import Offering
from intentd.plan.view_turns import failure_of
from intentd.plan.views import likeliest, only
from intentd.shown import View

MAX_VIEWS = 2
"""So many documents of each editor are guessed for."""
MAX_DIAGNOSTICS = 2
"""So many of each document."""
SHOWN = "shown-"
"""How the id of an offer begins that an editor shows."""
EDITOR = Command((), "/")


@frozen
class _Used:
    view: View
    at: float


class Desks:
    """The views of all editors, the one used last at the end; of those that nobody has used the one shown first.

    Of an editor that knows nothing of use it is the one shown last.
    """

    def __init__(self) -> None:
        self._views: dict[tuple[str, str], _Used] = {}

    def show(self, editor: str, view: View, used: float | None) -> None:
        """`used` says when, as in `Shown`. One that has nothing to ask about takes no place."""
        key = editor, view.path
        if used is None:
            self._views.pop(key, None)
        mine = {key: _Used(view, used or 0.0)}
        views = self._views | mine if used is None or key in self._views else mine | self._views
        if next(_offers(view), None) is None:
            del views[key]
        self._views = dict(sorted(views.items(), key=lambda one: one[1].at))
        keys = [one for one in self._views if one[0] == editor]
        for one in keys[:-MAX_VIEWS]:
            del self._views[one]

    def close(self, editor: str, path: str) -> bool:
        """Whether it was there."""
        return self._views.pop((editor, path), None) is not None

    def leave(self, editor: str) -> bool:
        """The editor has gone. Whether it had shown something."""
        mine = [key for key in self._views if key[0] == editor]
        for key in mine:
            del self._views[key]
        return bool(mine)

    def offers(self) -> tuple[Offering, ...]:
        """What is likely to be asked, the likeliest first."""
        return tuple(offer for used in reversed(self._views.values()) for offer in _offers(used.view))

    def check(self) -> None:
        """No editor has more than its share."""
        editors = [editor for editor, _ in self._views]
        assert all(editors.count(editor) <= MAX_VIEWS for editor in editors)
        times = [used.at for used in self._views.values()]
        assert times == sorted(times)


def offering(view: View) -> Offering:
    """Of a view that shows one thing to ask about. The same view has the same id, whenever it is shown."""
    digest = hashlib.sha256(repr(view).encode()).hexdigest()[:16]  # which prompt is sent hangs on it
    return Offering(
        id=f"{SHOWN}{digest}", number=0, failure=failure_of(view), workspace=view.workspace, command=EDITOR, view=view
    )


def _offers(view: View) -> Iterator[Offering]:
    if view.selection:
        yield offering(only(view, None, view.selection))
    for index, diagnostic in enumerate(likeliest(view)):
        if index < MAX_DIAGNOSTICS:
            yield offering(only(view, diagnostic))
