"""Owns the literals of the expression behind a name: what a variable holds else, what is wrapped, what a call gets."""

import re

from intentd.plan.privacy.values import QUOTED, Value

MAX_EXPRESSION = 400
MAX_LITERALS = 8
_STEP = re.compile(r"[fbruFBRU]{0,2}\\?[\"'`]|[()\[\]{};,\n]|(?<![=!<>:])=(?![=>])")
_IS_VALUE = re.compile(
    r"(?:\bor|\|\||\?[?:]?|\?[^?:\n]{1,80}:|\belse|\blambda:|SecureString|\bdefault ?=|->|(?<![\w\]>)])\("
    r"|\b(?:Secret(?:Str|Bytes|String)?|Password|[Ss]tr|String|bytes?|bytearray|from|quote(?:_plus)?)\()[\s+\->|│]*\Z"
)
"""Before a literal that is what the whole expression is, and not what a call is told."""
_MORE_BEFORE = re.compile(r"(?:\bor|\|\||\?\?|\?:|[=?:])[ \t]*\Z")
_MORE_BEHIND = re.compile(r"[ \t+\->|│]*(?:or\b|\|\||\?\?|\?|:)")


def literals(text: str, at: int) -> tuple[list[tuple[Value, bool]], int]:
    """Those of the expression at a place, and whether its value may be what stands in them; to where all are known.

    It looks no further than MAX_EXPRESSION and MAX_LITERALS: of what is longer, only half is known.
    """
    found = list[tuple[Value, bool]]()
    depth, begin, limit = 0, at, at + MAX_EXPRESSION
    while step := _STEP.search(text, at, limit):
        start, at = step.span()
        if step[0][-1] in "\"'`":
            literal = QUOTED.match(text, start)
            if literal is None or len(found) == MAX_LITERALS:
                break
            value = Value(literal["body"], literal.start("body"), True, literal["end"] is None)
            argument = text[max(0, start - 9) : start].rstrip().endswith(",")
            found.append((value, not argument and _stands(_IS_VALUE, text, start)))
            at = literal.end()
        elif step[0] in "([":
            depth += 1
        elif step[0] in ")]" and depth:
            depth -= 1
        elif step[0] in "{};)]" or (depth == 0 and not (step[0] == "\n" and _goes_on(text, start))):
            return found, at
    half = found[len(found) // 2][0].start if found else limit
    return found, min(half, (begin + limit) // 2)


def _goes_on(text: str, end: int) -> bool:
    return _stands(_MORE_BEFORE, text, end) or _MORE_BEHIND.match(text, end + 1, end + 80) is not None


def _stands(pattern: re.Pattern[str], text: str, end: int) -> bool:
    return pattern.search(text, max(0, end - 100), end) is not None
