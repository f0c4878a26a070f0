"""Owns what a question is about: an offer of the terminal's, or what an editor shows. It answers none.

It looks at no files: whether the workspace has opted out is told.
"""

import re

from intentd.messages import Ask, GetPrompt
from intentd.plan.desks import offering
from intentd.plan.offers import INTENTS, Intent, OfferBook, Offering
from intentd.plan.views import only
from intentd.shown import View
from intentd.workspace import OPT_OUT_FILE
from modelwire.errors import ErrorCode, WireError

_ACTION = re.compile(r"[a-z][a-z0-9_-]{0,39}")


def asked_for(
    message: Ask | GetPrompt, offers: OfferBook, workspace: str, *, opted_out: bool
) -> tuple[Offering, Intent]:
    """`workspace` is the view's, or the root of where the question comes from. Raises `WireError` with words for the
    person.
    """
    if isinstance(message, Ask) and message.view is not None:
        _check(workspace, opted_out)
        return _asked_of(message.view, message.intent)
    found = offers.find(workspace, message.offer)
    if message.intent not in INTENTS:
        raise _refusal(f"nobody can {message.intent!r}; there are {', '.join(INTENTS)}")
    _check(workspace, opted_out)
    if found:
        return found, message.intent
    if message.offer:
        raise _refusal(f"there is no offer {message.offer!r} in {workspace}: 'intentd offers' lists them")
    raise _refusal(f"no failure is known in {workspace}: run the command with 'intentd run -- COMMAND'")


def _asked_of(view: View, intent: Intent) -> tuple[Offering, Intent]:
    if (view.diagnostics and intent not in INTENTS) or not _ACTION.fullmatch(intent):
        raise _refusal(f"nobody can {intent!r}; there are {', '.join(INTENTS)}, and for a selection its actions")
    if not view.diagnostics and not view.selection:
        raise _refusal("the view shows nothing to ask about: no diagnostic and no selection")
    return offering(only(view, next(iter(view.diagnostics), None), view.selection)), intent


def _check(workspace: str, opted_out: bool) -> None:
    if opted_out:
        raise _refusal(has_opted_out(workspace))


def has_opted_out(workspace: str) -> str:
    return f"{workspace} has opted out: remove {OPT_OUT_FILE} to ask about it"


def _refusal(words: str) -> WireError:
    return WireError(ErrorCode.BAD_REQUEST, words)
