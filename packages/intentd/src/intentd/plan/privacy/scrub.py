"""Owns making a text fit for a prompt (I3): what looks like a secret is replaced before anything else sees the text.

It works on the plain text, since that is what a prompt holds. Lines stay where they are. A text should come in whole
and be cut afterwards: half a key does not look like one.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from attrs import frozen

from intentd.plan.plain import plain
from intentd.plan.privacy.assigned import assigned
from intentd.plan.privacy.keyblocks import key_blocks
from intentd.plan.privacy.known import known
from intentd.plan.privacy.layouts import laid_out
from intentd.plan.privacy.looks import is_no_word
from intentd.plan.privacy.views import Span, joined, uncoloured

REDACTED = "[redacted]"
MAX_CHARACTERS = 256 * 1024
"""A longer text is not looked through, so none of it may be used."""
OVERLAP = 24 * 1024
"""Longer than any secret that spans lines."""
_LEFT_OUT = re.compile(r"(?<!\.)\.{3}(?!\.)")
"""As pytest writes it in the middle of a literal that is long."""
MAX_SHOWN = 60
MIN_SHOWN = 4
MIN_SHOWN_ALONE = 6
MIN_SHORTENED = 12
MAX_LITERAL = 400
MAX_ALIKE = 8
"""So many secrets that begin alike are compared with one place."""
MIN_WORDS = 17
"""So long is what is of small letters only, where it goes wherever it stands: a shorter one may be another word."""
MIN_DIFFERENT = 5
"""So many different characters it has."""
_INSIDE_BEFORE, _INSIDE_BEHIND = re.compile(r"[\w./-]\Z"), re.compile(r"[\w/{-]|\.\w")
"""Beside what is only a part of a name, a path or a version."""


@frozen
class Scrubbed:
    """The text that may enter a prompt, and the kinds of what was taken out (never the secrets)."""

    text: str
    found: frozenset[str] = frozenset()


def scrub(text: str) -> Scrubbed:
    """The plain text without its secrets; nothing of it if it is longer than MAX_CHARACTERS."""
    if len(text) > MAX_CHARACTERS:
        return Scrubbed("", frozenset({"too long"}))
    seen = plain(text.encode(errors="replace").decode())  # JSON can hold half a character
    found = _find(seen)
    if not found:
        return Scrubbed(seen)
    return Scrubbed(_redact(seen, sorted(found)), frozenset(found.values()))


def scrub_long(text: str, *, cut: bool = False) -> Scrubbed:
    """As `scrub`, of any length: in windows, each looked through with OVERLAP of what stands before it and behind it.

    `cut`: something before `text` is missing, so its first OVERLAP characters only serve to judge the others.
    """
    lines = plain(text).split("\n")
    done = _fitting(lines, 0, OVERLAP) if cut else 0
    kept, found = list[str](), frozenset[str]()
    while done < len(lines):
        begin = _fitting_before(lines, done, OVERLAP)
        end = max(_fitting(lines, begin, MAX_CHARACTERS), done + 1)
        stop = max(_fitting_before(lines, end, OVERLAP), done + 1) if end < len(lines) else end
        window = scrub("\n".join(lines[begin:end]))
        kept += window.text.split("\n")[done - begin : stop - begin]
        found, done = found | window.found, stop
    return Scrubbed("\n".join(kept), found)


def _fitting(lines: list[str], begin: int, room: int) -> int:
    """Behind the last of the lines from `begin` on that fit into so many characters."""
    end = begin
    while end < len(lines) and room > len(lines[end]):
        room -= len(lines[end]) + 1
        end += 1
    return end


def _fitting_before(lines: list[str], end: int, room: int) -> int:
    """The first of the lines before `end` that fit into so many characters."""
    begin = end
    while begin > 0 and room > len(lines[begin - 1]):
        room -= len(lines[begin - 1]) + 1
        begin -= 1
    return begin


def _find(text: str) -> dict[Span, str]:
    views = joined(text)
    found = dict.fromkeys(key_blocks(text, views), "Private Key") | dict.fromkeys(laid_out(text), "by its place")
    for view, across in (*((view, False) for view in uncoloured(text)), *((view, True) for view in views)):
        for kind, start, end in (*known(view, across), *assigned(view, across)):
            found |= dict.fromkeys(view.spans(start, end), kind)
    secrets = {text[span.start : span.end] for span in found}
    again = dict.fromkeys(_repeated(text, secrets), "repeated") | dict.fromkeys(_shortened(text, secrets), "shortened")
    return again | found


def _repeated(text: str, secrets: set[str]) -> Iterator[Span]:
    """Where they stand alone, without what told of them; but a name that was taken for a secret goes only there."""
    known = sorted(filter(_is_telling, secrets))
    begins = {secret[:MIN_SHORTENED] for secret in known}
    last, done = len(text) - MIN_SHORTENED + 1 if known else 0, 0
    for start in [at for at in range(last) if text[at : at + MIN_SHORTENED] in begins]:
        if start < done or _INSIDE_BEFORE.search(text, max(0, start - 1), start):
            continue
        place = bisect_right(known, text[start : start + MAX_LITERAL])
        for secret in reversed(known[max(0, place - MAX_ALIKE) : place]):
            end = start + len(secret)
            if text.startswith(secret, start) and not _INSIDE_BEHIND.match(text, end):
                yield Span(start, end)
                done = end
                break


def _is_telling(secret: str) -> bool:
    """Whether it can hardly be a part of the text that is no secret."""
    if not MIN_SHORTENED <= len(secret) <= MAX_LITERAL or len(set(secret)) < MIN_DIFFERENT or re.search(r"\s", secret):
        return False
    return is_no_word(secret) or (len(secret) >= MIN_WORDS and secret.isalpha() and secret.islower())


def _shortened(text: str, secrets: set[str]) -> Iterator[Span]:
    """What is left of a secret where its middle is left out, and it stands whole elsewhere in the text."""
    long = [secret for secret in secrets if len(secret) >= MIN_SHORTENED]
    if not long:
        return
    firsts = sorted(secret[:MAX_SHOWN] for secret in long)
    lasts = sorted(secret[: -MAX_SHOWN - 1 : -1] for secret in long)
    for gap in _LEFT_OUT.finditer(text):
        start, end = gap.span()
        before = _shown(text[max(0, start - MAX_SHOWN) : start].rpartition("...")[2], firsts)
        behind = _shown(text[end : end + MAX_SHOWN].partition("...")[0][::-1], lasts)
        alone = max(before, behind) >= MIN_SHOWN_ALONE and _in_literal(text, start, end)
        if alone or min(before, behind) >= MIN_SHOWN:
            yield Span(start - before, end + behind)


def _in_literal(text: str, start: int, end: int) -> bool:
    """Whether one quote opens before the place and closes behind it, on its line."""
    before = text[max(0, start - MAX_LITERAL) : start].rpartition("\n")[2]
    behind = text[end : end + MAX_LITERAL].partition("\n")[0]
    return any(before.count(quote) % 2 and quote in behind for quote in "\"'`")


def _shown(part: str, firsts: list[str]) -> int:
    """How many characters at the end of the part one of the secrets begins with; 0 for fewer than MIN_SHOWN."""
    for at in range(len(part) - MIN_SHOWN + 1):
        begin = bisect_left(firsts, part[at:])
        if begin < len(firsts) and firsts[begin].startswith(part[at:]):
            return len(part) - at
    return 0


def _redact(text: str, spans: list[Span]) -> str:
    """The text with each span replaced, the line breaks inside it kept."""
    parts, done = list[str](), 0
    for span in spans:
        if span.end <= done:
            continue
        start = max(span.start, done)
        parts += filter(None, [text[done:start]])
        if start == span.start or not _touches(parts):
            parts.append(REDACTED)
        parts += filter(None, ["\n" * text.count("\n", start, span.end)])
        done = span.end
    return "".join([*parts, text[done:]])


def _touches(parts: list[str]) -> bool:
    """Whether the text so far ends in a replacement (and line breaks)."""
    return re.search(re.escape(REDACTED) + r"\n*$", "".join(parts[-3:])) is not None
