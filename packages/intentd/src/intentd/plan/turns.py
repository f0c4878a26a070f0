"""Owns the turn: from a trigger and a template to the messages for the model. Guess and question come from here.

`build` is a function of its arguments and of what `read` gives: the same inputs make the same bytes (S10). What is
stable stands first, and what changes with every run last.
"""

import hashlib
import posixpath
from collections.abc import Callable, Iterator

from attrs import frozen

from intentd.plan.plain import plain
from intentd.plan.secrets import without_secrets
from intentd.plan.source import cut, cut_middle, line_of, part_around
from intentd.plan.templates import Template
from intentd.plan.triggers import FailedTest, Location
from modelwire.messages import ChatMessage, DecodeConfig, Prompt

Read = Callable[[str], str | None]
"""The text of a file by its absolute path; None where it may not be read or is not there."""

CHARACTERS_PER_TOKEN = 3
"""Code has more characters a token than that with every tokenizer in use; so a prompt of so many surely fits."""
CHAT_TOKENS = 64
"""What a chat template adds, at most."""
_NAMES_CHARACTERS = 600
"""For the names of the test and the workspace, which a template may use more than once."""
_LEAST_CHARACTERS = 300
_NOTHING = "(not available)"


class TurnError(Exception):
    """No turn can be built. The message says why."""


@frozen(kw_only=True)
class PlannedTurn:
    """What is sent to modeld, guessed or asked."""

    prefix: Prompt
    suffix: Prompt
    decode: DecodeConfig

    @property
    def key(self) -> str:
        """A digest of the whole turn; it tells turns apart in logs, which never hold prompts."""
        return hashlib.sha256(repr((self.prefix, self.suffix, self.decode)).encode()).hexdigest()[:16]


def build(trigger: FailedTest, template: Template, *, workspace: str, context: int, read: Read) -> PlannedTurn:
    """Raises `TurnError` where the model's context (tokens) leaves no room."""
    room = _room(template, context)
    files = _Files(workspace, read)
    user = template.fill_user(
        test=_clean(cut(trigger.test, 200) or trigger.test[:200]),
        message=_clean(trigger.message[:400]),
        source=_source(trigger, files, room * 3 // 10) or _NOTHING,
        code=_code(trigger, files, room * 3 // 10) or _NOTHING,
        traceback=_traceback(trigger, room * 4 // 10 - 40) or _NOTHING,
    )
    system = template.fill_system(workspace=posixpath.basename(workspace) or "/")
    return PlannedTurn(
        prefix=(ChatMessage(role="system", content=system),),
        suffix=(ChatMessage(role="user", content=user),),
        decode=template.decode,
    )


def _room(template: Template, context: int) -> int:
    """Characters for all contents together."""
    tokens = context - template.decode.max_tokens - CHAT_TOKENS
    room = min(template.characters, tokens * CHARACTERS_PER_TOKEN - template.words - _NAMES_CHARACTERS)
    if room < _LEAST_CHARACTERS:
        raise TurnError(f"the model's context of {context} tokens is too small for the template {template.name!r}")
    return room


class _Files:
    """The workspace's files as lines, each read once for a turn."""

    def __init__(self, workspace: str, read: Read) -> None:
        self._workspace = workspace
        self._read = read
        self._lines: dict[str, list[str]] = {}

    def lines(self, path: str) -> list[str]:
        if path not in self._lines:
            self._lines[path] = _clean(self._read(path) or "").split("\n")
        return self._lines[path]

    def show(self, path: str, part: str) -> str:
        """A part of a file under its name. No line numbers: they would change with every line above."""
        name = posixpath.relpath(path, self._workspace)
        return f"{name}:\n```\n{part}\n```"


def _clean(text: str) -> str:
    return without_secrets(plain(text))


def _test_line(trigger: FailedTest, files: _Files) -> int | None:
    """Where the test is: its function, else the first line of its file in the traceback."""
    line = line_of(files.lines(trigger.path), trigger.function) if trigger.function else None
    if line is None:
        line = next((frame.line for frame in trigger.frames if frame.path == trigger.path), None)
    return line


def _source(trigger: FailedTest, files: _Files, limit: int) -> str:
    line = _test_line(trigger, files)
    part = part_around(files.lines(trigger.path), line, limit - 100) if line else ""
    return files.show(trigger.path, part) if part else ""


def _code(trigger: FailedTest, files: _Files, limit: int) -> str:
    """The blocks that the traceback names, the one that raised first, without the test itself."""
    line = _test_line(trigger, files)
    seen = {part_around(files.lines(trigger.path), line, limit)} if line else set[str]()
    shown: list[str] = []
    for frame in _nearest_first(trigger):
        room = limit - sum(map(len, shown)) - 2 * len(shown) - 100
        part = part_around(files.lines(frame.path), frame.line, room) if room > 0 else ""
        if part and part not in seen:
            seen.add(part)
            shown.append(files.show(frame.path, part))
    return "\n\n".join(shown)


def _nearest_first(trigger: FailedTest) -> Iterator[Location]:
    yield from dict.fromkeys(reversed(trigger.frames))


def _traceback(trigger: FailedTest, limit: int) -> str:
    told = _clean("\n".join(trigger.traceback)) or _clean(trigger.message)
    captured = _clean("\n".join(trigger.captured))
    told = cut_middle(told, limit - min(len(captured), limit // 4))
    captured = cut_middle(captured, max(limit - len(told), 0))
    return f"```\n{told}\n{captured}".rstrip() + "\n```" if told else ""
