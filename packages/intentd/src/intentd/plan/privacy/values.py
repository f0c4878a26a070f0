"""Owns where the value of a name begins and ends, over line breaks and from literal to literal; it judges none."""

import re

from attrs import evolve, frozen

from intentd.plan.privacy.looks import MAX_JUDGED, RESULT, is_code, is_mixed, is_no_word, looks_random
from intentd.plan.privacy.names import BEFORE, PAIR, in_environment
from intentd.plan.privacy.views import is_cut

QUOTED = re.compile(
    r"[fbruFBRU]{0,2}((\\)?[\"'`])"
    r"(?P<body>(?:[^\"'`\\\n]++|(?(2)\\{3}[\"'`]|\\.)|(?!\1)\\?[\"'`]|\\[^\"'`\n])*+)(?P<end>\1)?"
)
"""What is escaped does not end it; if its own quotes are, what is escaped twice."""
_BARE = re.compile(r"[^\s\"'`,;<>]+(?:[,;][^\s\"'`,;<>]+)*")
_QUOTE = re.compile(r"[\"'`]")
_SHELL = re.compile(r"[<>]?[^\s\"'`,;<>]+(?:(?:[,;<>]{1,3}(?!/)|[\"'`](?=\w))[^\s\"'`,;<>]+)*(?:[<>]{1,3}(?=\s|\Z))?")
"""A bare value that only a blank ends, or what is around it."""
_QUERY = re.compile(r"[?&][\w.-]*\Z")
_OF_VARIABLE = re.compile(r"\$\{[\w.-]*\Z")
_ELSE = re.compile(
    r"[\"'`]?(?:\$\{(?:[\w.-]{1,60}:[-=]?|\w{1,60}[-=])){1,16}(?P<other>(?![?+]|\d{1,4}[:}])[^}\n]{1,200})\}"
    r"|-?(?P<own>(?![?+]|\d{1,4}[:}])[^}\n]{1,200})\}"
)
"""What a variable holds else: behind another name, and behind its own."""
_MADE = re.compile(r"[A-Za-z_][A-Za-z_.-]{0,60}:?[ \t]+[fbr]?[\"'`]|[^\s\"'`,;<>]{1,200}(?<=-)>")
"""As in `ConvertTo-SecureString "…"` and `user->name`: what makes the value."""
_QUOTE_BEFORE = re.compile(r"([\"'`])[\w.-]*\Z")
_REST = re.compile(r"[^\s\"'`<>]*")
_MARKS = r"[ \t]*+\n[ \t]*+(?:[+\->|│#*]|E(?=[ \t]))?+[ \t]*+"
_NEXT = re.compile(_MARKS)
_BLOCK = re.compile(rf"[|>][+-]?\d?[+-]?{_MARKS}(\S[^\n]*)")
"""Of YAML: its text begins on the next line."""
_LINE_GAP = re.compile(rf"[\"'`]?[ \t]{{0,8}}[+.\\]?{_MARKS}")
_LITERALS = re.compile(rf"\\?[\"'`][ \t]{{0,8}}[+.]?(?:[ \t]{{0,8}}|{_MARKS})(?=[fbrFBR]?[\"'`])")
_PIECE = re.compile(r"(?:[fbrFBR]?[\"'`])?([^\s\"'`:=(){}\[\],;<>]+=*)([\"'`]?)(?=[\s,;)\]}]|$)")
_REST_OF_LITERAL = re.compile(rf"([^\s\"'`]++)(?=(?:{_MARKS}[^\s\"'`]{{0,200}}+){{0,20}}+([\"'`]))")
_REST_ALONE = re.compile(r"(?![\w.-]+[=:]|\[[\w.-]+\](?!\S))([^\s\"'`]+)(?=[ \t]*(?:\n|\Z))")
_ODD = re.compile(r"\w[^\w.,;:/-]|[^\w.,;:/-]\w")
_ALONE = re.compile(r"[\"'`,;)\]}]*[ \t]*(?:\n|$)")
APP_PASSWORD = re.compile(r"[a-z]{4}(?: [a-z]{4}){3}(?=[ \t]*(?:[#\n]|\Z))")
"""As Google writes the password of one program."""
MAX_GOES_ON = 4_000
MAX_PIECES = 400
JUDGED_PIECES = 8
"""So many of them are judged with a value: a text of names alone would have all of it judged for each of them."""
MAX_BARE = 1_000
MAX_AROUND = 8
_NEXT_FIELD = re.compile(r"[,;][\w\"']{1,40}[:=]")
_OPENING = {")": "(", "]": "[", "}": "{"}


@frozen
class Value:
    """A value as it stands: between quotes or bare; `last` on its line or followed by more.

    `enclosed`: it is bare, and a bracket around it closes behind it.
    """

    text: str
    start: int
    quoted: bool
    last: bool
    enclosed: bool = False


def value_of(text: str, head: re.Match[str]) -> Value | None:
    """The value after a separator, on the same line or alone on the next."""
    if head.re is BEFORE:
        start, end = head.span("value")
        bare = text[start - 1] not in "\"'"
        return Value(head["value"], start, not bare, bare and _ends_line(text, end))
    at = head.end()
    block = _BLOCK.match(text, at) if head[0].rstrip().endswith(":") else None
    if block:
        return Value(block[1].rstrip(), block.start(1), True, True)
    broken = _NEXT.match(text, at)
    if broken:
        piece = _PIECE.match(text, broken.end())
        if piece is None or not (piece[2] or looks_random(piece[1], 16)):
            return None
        return Value(piece[1], piece.start(1), True, True)
    line = text[max(0, head.start() - 200) : head.start()].rpartition("\n")[2]
    variable = _OF_VARIABLE.search(line) if head[0].endswith((":", ":=")) else None
    default = _ELSE.match(text, at)
    group = "other" if default and default["other"] else "own"
    if default and (variable or group == "other"):
        return Value(default[group], default.start(group), True, False)
    if variable:
        return None
    quoted = QUOTED.match(text, at)
    quote = _QUOTE_BEFORE.search(line) if quoted and not _QUOTE.search(head[0]) else None
    if quoted and quote and quote[1] == quoted[1] and line.count(quote[1]) % 2 and not text[at + 1 : at + 2].isalnum():
        return Value("", at, True, False)  # It ends the literal that the name stands in.
    if quoted:
        return Value(quoted["body"], quoted.start("body"), True, quoted["end"] is None)
    short = _BARE.match(text, at, at + MAX_BARE)
    sure = in_environment(head)
    longer = (sure and APP_PASSWORD.match(text, at)) or _SHELL.match(text, at, at + MAX_BARE)
    ends = longer and short and _ends_line(text, longer.end()) and not _QUOTE.search(longer[0])
    found = longer if sure or ends else short
    if found is None or (not sure and (found[0][-1] in "([{" or _MADE.match(text, at))):
        return None
    field = _QUERY.search(text, max(0, head.start() - 40), head.start())
    behind = "&" if field else "}" if head.re is PAIR else ""
    part = found[0].partition(behind)[0] if behind else found[0] if sure else _without_brackets(found[0])
    end = at + len(part)
    if end == at:
        return None
    last = _ends_line(text, end) or (sure and end == at + MAX_BARE)
    return Value(part, at, False, last, enclosed=not behind and part != found[0])


def _without_brackets(text: str) -> str:
    """A bare value without the brackets around it that close at its end."""
    bare = text
    for _ in range(MAX_AROUND):
        rest = bare.rstrip(",;:.")
        opening = _OPENING.get(rest[-1:])
        if opening is None or rest.count(rest[-1]) <= rest.count(opening):
            break
        bare = rest[:-1]
    return text if bare != text and _NEXT_FIELD.search(bare) else bare


def whole(text: str, value: Value) -> Value:
    """The value with what is behind MAX_BARE."""
    rest = _REST.match(text, value.start + MAX_BARE) if len(value.text) == MAX_BARE else None
    if rest is None:
        return value
    return Value(text[value.start : rest.end()], value.start, value.quoted, _ends_line(text, rest.end()))


def _ends_line(text: str, end: int) -> bool:
    rest = text[end : end + 3].lstrip(" \t")
    return not rest or rest[0] in "\n#"


def continuation(text: str, value: Value, sure: bool, most: int = MAX_PIECES) -> tuple[str, int, int] | None:
    """What goes on of a value that a line break or a literal's end cut; `sure`: what is there is secret already."""
    first = end = value.start + len(value.text)
    parts = ""
    for _ in range(most):
        piece = _next_literal(text, end) if value.quoted and not value.last else None
        piece = piece or _next_line(text, end, value, sure)
        if piece is None:
            break
        if not piece.last:
            value = evolve(value, last=False)
        first = first if parts else piece.start
        parts, end = parts + piece.text, piece.start + len(piece.text)
        if len(parts) > MAX_GOES_ON:
            break
    return (parts, first, end) if parts else None


def _next_literal(text: str, end: int) -> Value | None:
    """The literal that code puts behind this one."""
    gap = _LITERALS.match(text, end)
    literal = QUOTED.match(text, gap.end()) if gap else None
    if literal is None or not literal["body"] or " " in literal["body"]:
        return None
    return Value(literal["body"], literal.start("body"), True, False)


def _next_line(text: str, end: int, value: Value, sure: bool) -> Value | None:
    """The token at the beginning of the next line, if it looks like more of the value above it."""
    gap = _LINE_GAP.match(text, end) if value.last else None
    if gap is None or RESULT.match(text, gap.end()):
        return None
    literal = _REST_OF_LITERAL.match(text, gap.end()) if value.quoted else None
    if literal and literal[2] == text[value.start - 1]:
        return Value(literal[1], literal.start(), True, literal.end() < literal.start(2))
    cut = is_cut(text, end, gap.end())
    rest = _REST_ALONE.match(text, gap.end()) if sure and not value.quoted else None
    if rest and (is_no_word(rest[1]) or (_ODD.search(rest[1]) and not is_code(rest[1]))):
        return Value(rest[1], rest.start(), False, True)
    piece = _PIECE.match(text, gap.end())
    if piece is None:
        return None
    token = piece[1][:MAX_JUDGED]
    mixed = any(map(str.isdigit, token)) and any(map(str.isalpha, token))
    closes = value.quoted and bool(piece[2])
    alone = _ALONE.match(text, piece.end()) is not None
    padded = len(token) > 3 and token.endswith("=")
    if not (
        closes
        or (sure and (padded or (alone and mixed and value.quoted)))
        or (cut and alone and not value.quoted and (sure or not is_code(value.text[:MAX_JUDGED])))
        or looks_random(token, 12)
        or is_mixed(value.text[:MAX_JUDGED] + token)
    ):
        return None
    return Value(piece[1], piece.start(1), value.quoted, value.last)
