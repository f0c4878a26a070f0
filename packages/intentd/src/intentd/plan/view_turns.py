"""Owns the turn about what an editor shows: a diagnostic, or a selection. Guess and question come from here (S10).

The view's text is fit for a prompt already (I3). No line numbers stand in a prompt: they change with every line above.
"""

import posixpath
import re

from attrs import evolve

from intentd.plan.source import block_at, cut
from intentd.plan.templates import Template
from intentd.plan.triggers import Failure, Location
from intentd.plan.turns import CHARACTERS_PER_TOKEN, CHAT_TOKENS, NOTHING, PlannedTurn, scaled
from intentd.plan.views import focus
from intentd.shown import Focus, View
from modelwire.messages import ChatMessage

_SEVERITIES = {1: "error", 2: "warning", 3: "information", 4: "hint"}
_BLOCK = re.compile(r"^(?:async def|def|class|@)\b|^(?:export )?(?:async )?function\b|\{\s*$")
HEAD_LINES = 40
FOCUS_CHARACTERS = 2400
"""The most of the block that a question is about."""
ANSWER_TOKENS = 768
WORDS, LEAST = 1200, 800
"""What every template may need, so that all of them show the same: what was prefilled for one serves the others."""


def failure_of(view: View) -> Failure:
    """What can be asked of the view, for people and for the ledger: its first diagnostic, else its selection."""
    if view.diagnostics:
        one = view.diagnostics[0]
        return Failure(
            trigger="diagnostic",
            tool=one.source or "the editor",
            name=f"{view.name}: {one.code or one.message[:80]}",
            path=view.path,
            message=one.message,
            frames=(Location(view.path, one.line + 1),),
        )
    return Failure(trigger="selection", tool="the editor", name=view.name, path=view.path, message="")


def focus_of(view: View, template: Template, context: int, scale: float = 1.0) -> tuple[int, int]:
    """The lines that the turn of a view asks about. Raises `TurnError`."""
    return focus(view, min(_room(template, context, scale) * 3 // 10, FOCUS_CHARACTERS))


def build_view(view: View, template: Template, *, context: int, scale: float = 1.0) -> PlannedTurn:
    """Raises `TurnError` where the model's context (tokens) leaves no room."""
    room = _room(template, context, scale)
    first, last = focus_of(view, template, context, scale)
    failure = failure_of(view)
    asked = "\n".join(view.part(first, last)).rstrip()
    part = cut(asked, room // 2)
    user = template.fill_user(
        test=failure.name[:200],
        tool=failure.tool[:100],
        message=failure.message[:400],
        source=_block_around(view, first, last, room // 4) if view.selection else _shown(view, part),
        code=_shown(view, part) if view.selection else _head(view, first, room // 10),
        traceback=_told(view, room // 5) or NOTHING,
        diff=NOTHING,
    )
    system = template.fill_system(workspace=posixpath.basename(view.workspace) or "/")
    return PlannedTurn(
        prefix=(ChatMessage(role="system", content=system),),
        suffix=(ChatMessage(role="user", content=user),),
        decode=template.decode,
        limit=context - _answer(context),
        words=template.words,
        focus=Focus(first=first, last=last, whole=bool(part) and part == asked),
    )


def seen_whole(turn: PlannedTurn, view: View, fit: View) -> PlannedTurn:
    """The turn of a view, made of its `fit` form, with the word whether the model sees its focus as it is."""
    if turn.focus is None:
        return turn
    first, last = turn.focus.first, turn.focus.last
    whole = turn.focus.whole and view.part(first, last) == fit.part(first, last)
    return evolve(turn, focus=evolve(turn.focus, whole=whole))


def _answer(context: int) -> int:
    """Tokens that are left for an answer."""
    return min(ANSWER_TOKENS, context // 3)


def _room(template: Template, context: int, scale: float) -> int:
    """Characters for all contents together. Raises `TurnError`."""
    tokens = context - _answer(context) - CHAT_TOKENS
    return scaled(template, context, tokens * CHARACTERS_PER_TOKEN - max(WORDS, template.words), scale, LEAST)


def _shown(view: View, part: str) -> str:
    return f"{view.name}:\n```\n{part}\n```" if part else NOTHING


def _head(view: View, before: int, limit: int) -> str:
    """What stands above the first block of the file, where that is not what the question is about."""
    if view.start:
        return NOTHING
    lines = view.lines()[: min(HEAD_LINES, before)]
    end = next((index for index, line in enumerate(lines) if _BLOCK.search(line)), len(lines))
    return _shown(view, cut("\n".join(lines[:end]).strip(), limit))


def _block_around(view: View, first: int, last: int, limit: int) -> str:
    """The block that the selection is a part of."""
    lines = view.lines()
    start, end = block_at(lines, first - view.start, limit)
    if first <= view.start + start and view.start + end <= last:
        return NOTHING
    return _shown(view, "\n".join(lines[start:end]).rstrip())


def _told(view: View, limit: int) -> str:
    """The diagnostic with the line that it names."""
    if not view.diagnostics:
        return ""
    one = view.diagnostics[0]
    code = f" [{one.code}]" if one.code else ""
    line = view.lines()[one.line - view.start].strip() if view.holds(one.line) else ""
    told = f"{_SEVERITIES.get(one.severity, 'error')}: {one.message[:limit]}{code}"
    return f"```\n{told}\nin the line: {line[:400]}\n```"
