"""Owns what of a model's answer a person sees: no hidden reasoning, no special tokens. It works on text as it comes."""

import re

_OPEN, _CLOSE = "<think>", "</think>"
_SPECIAL = re.compile(r"<\|[A-Za-z0-9_]{2,40}\|>|<｜[^｜<>]{2,40}｜>")
_LONGEST = 48


class Visible:
    """Feed it text; it gives what may be shown of it. What might be the beginning of a mark is held back."""

    def __init__(self) -> None:
        self._held = ""
        self._hidden = False

    def feed(self, text: str) -> str:
        self._held += text
        shown = ""
        while True:
            mark = _CLOSE if self._hidden else _OPEN
            before, found, after = self._held.partition(mark)
            if not found:
                break
            shown += "" if self._hidden else before
            self._held, self._hidden = after, not self._hidden
        return self._clean(shown, final=False)

    def end(self) -> str:
        """What was held back."""
        return self._clean("", final=True)

    def _clean(self, shown: str, *, final: bool) -> str:
        if self._hidden:
            self._held = self._held[-len(_CLOSE) :]
            return _SPECIAL.sub("", shown)
        at = len(self._held) if final else _mark_begins(self._held)
        shown, self._held = shown + self._held[:at], self._held[at:]
        return _SPECIAL.sub("", shown)


def _mark_begins(text: str) -> int:
    """Where something begins that may become a mark; the end where nothing does."""
    at = text.rfind("<", max(0, len(text) - _LONGEST))
    if at < 0:
        return len(text)
    rest = text[at:]
    may = _OPEN.startswith(rest) or (re.fullmatch(r"<[|｜]?[^|｜<>\n]*[|｜]?", rest) is not None and rest[1:2] in "|｜")
    return at if may else len(text)
