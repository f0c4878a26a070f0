"""Owns making a text fit for a prompt (I3): what looks like a secret is replaced before anything else sees the text.

It works on the plain text, since that is what a prompt holds. Lines stay where they are. A text should come in whole
and be cut afterwards: half a key does not look like one.
"""

import re

from attrs import frozen

from intentd.plan.plain import plain
from intentd.plan.privacy.assigned import assigned
from intentd.plan.privacy.keyblocks import key_blocks
from intentd.plan.privacy.known import known
from intentd.plan.privacy.views import Span, joined, whole

REDACTED = "[redacted]"
MAX_CHARACTERS = 256 * 1024
"""A longer text is not looked through, so none of it may be used."""


@frozen
class Scrubbed:
    """The text that may enter a prompt, and the kinds of what was taken out (never the secrets)."""

    text: str
    found: frozenset[str] = frozenset()


def scrub(text: str) -> Scrubbed:
    """The plain text without its secrets; nothing of it if it is longer than MAX_CHARACTERS."""
    if len(text) > MAX_CHARACTERS:
        return Scrubbed("", frozenset({"too long"}))
    seen = plain(text)
    found = _find(seen)
    if not found:
        return Scrubbed(seen)
    return Scrubbed(_redact(seen, sorted(found)), frozenset(found.values()))


def _find(text: str) -> dict[Span, str]:
    views = joined(text)
    found = dict.fromkeys(key_blocks(text, views), "Private Key")
    for view in (whole(text), *views):
        across = len(view.starts) > 1
        for kind, start, end in (*known(view, across), *assigned(view, across)):
            found |= dict.fromkeys(view.spans(start, end), kind)
    return found


def _redact(text: str, spans: list[Span]) -> str:
    """The text with each span replaced, the line breaks inside it kept."""
    parts, done = [], 0
    for span in spans:
        if span.end <= done:
            continue
        start = max(span.start, done)
        parts.append(text[done:start])
        if start == span.start or not _touches(parts):
            parts.append(REDACTED)
        parts.append("\n" * text.count("\n", start, span.end))
        done = span.end
    return "".join([*parts, text[done:]])


def _touches(parts: list[str]) -> bool:
    """Whether the text so far ends in a replacement (and line breaks)."""
    return re.search(re.escape(REDACTED) + r"\n*$", "".join(parts[-3:])) is not None
