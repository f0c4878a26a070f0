"""Owns the turn of a completion at a place: what stands before it, and behind it where the model has tokens for a gap.

What is guessed and what is asked come from here (S10). The view's text is fit for a prompt already (I3); no text of a
file ever becomes a special token.
"""

import re
from collections.abc import Sequence

from attrs import frozen

from intentd.plan.turns import CHARACTERS_PER_TOKEN, PlannedTurn, TurnError
from intentd.shown import View
from modelwire.messages import DecodeConfig, Prompt, Text

BEFORE, STEP = 3000, 1000
"""Characters before the place: at least so many where there are, and the window moves by such steps."""
BEHIND = 800
MAX_TOKENS = 32
_TOP = re.compile(r"[^\s#)\]}]")
"""How a line at the left edge begins that begins a block."""


@frozen(kw_only=True)
class Completion:
    """The turn, and the `lead`: what the answer begins with that stands in the line already."""

    turn: PlannedTurn
    lead: str


def build_inline(
    view: View, fit: View, line: int, character: int, *, gap: Sequence[str], context: int, scale: float = 1.0
) -> Completion:
    """`fit` is the view as it may be shown. `gap`: the model's tokens for (prefix, suffix, middle); empty for none.

    Raises `TurnError` where there is nothing to continue, or where the line holds what may not be shown.
    """
    at = line - fit.start
    lines = fit.lines()
    if not 0 <= at < len(lines) or lines[at] != view.lines()[at]:
        raise TurnError("the line cannot be shown to the model as it is")
    before, behind = lines[at][:character], lines[at][character:]
    lead = before if not before.strip() and not (gap and behind.strip()) else ""
    head = _window(lines[:at], context, scale)
    prefix = "\n".join([*head, before.removesuffix(lead) if lead else before])
    if not prefix.strip():
        raise TurnError("nothing stands before the place")
    suffix = "\n".join([behind, *lines[at + 1 :]])[:BEHIND] if gap else ""
    decode = DecodeConfig(max_tokens=MAX_TOKENS, stop=("\n",) if behind.strip() else ("\n\n",))
    turn = PlannedTurn(prefix=prompt_of(prefix, suffix, gap), suffix=(), decode=decode, limit=context - MAX_TOKENS)
    return Completion(turn=turn, lead=lead)


def prompt_of(prefix: str, suffix: str, gap: Sequence[str]) -> Prompt:
    """Most families want the prefix first; one that has no token for the middle wants it last."""
    if not gap:
        return (Text(text=prefix),)
    before, behind, middle = (Text(text=token, special=True) for token in (*gap, "", "", "")[:3])
    if not middle.text:
        return (behind, Text(text=suffix), before, Text(text=prefix))
    return (before, Text(text=prefix), behind, Text(text=suffix), middle)


def _window(lines: Sequence[str], context: int, scale: float) -> Sequence[str]:
    """The last lines, from the beginning of a block on. It stays where it is while a step's worth is typed."""
    limit = min(BEFORE, int((context - MAX_TOKENS) * CHARACTERS_PER_TOKEN * scale) - BEHIND - STEP)
    ends = [0]
    for line in lines:
        ends.append(ends[-1] + len(line) + 1)
    if ends[-1] <= limit + STEP:
        return lines
    earliest = ends[-1] // STEP * STEP - limit
    fitting = [at for at in range(len(lines)) if ends[at] >= earliest]
    tops = (at for at in fitting if _TOP.match(lines[at]) and at + 1 < len(lines))
    return lines[next(tops, fitting[0] if fitting else len(lines)) :]


class Lead:
    """Takes the lead off an answer as it comes. `wrong` once the answer does not begin with it."""

    def __init__(self, lead: str) -> None:
        self._left = lead
        self.wrong = False

    def feed(self, text: str) -> str:
        while self._left and text:
            if text[0] != self._left[0]:
                self.wrong = True
                return ""
            text, self._left = text[1:], self._left[1:]
        return "" if self.wrong else text
