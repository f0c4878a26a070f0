"""Owns the turn: from a failure and a template to the messages for the model. Guess and question come from here.

`build` is a function of its arguments and of what `read` gives: the same inputs make the same bytes (S10). What is
stable stands first, and what changes with every run last. All texts that come in are fit for a prompt already (I3).
"""

import hashlib
import posixpath
from collections.abc import Callable, Iterator, Mapping

from attrs import field, frozen

from intentd.plan import names
from intentd.plan.changes import diff, fitting
from intentd.plan.names import Import
from intentd.plan.quotes import Hides, without_quotes
from intentd.plan.source import cut, cut_middle, line_of, part_around
from intentd.plan.templates import Template
from intentd.plan.triggers import Failure, Location
from intentd.shown import Focus
from modelwire.messages import ChatMessage, DecodeConfig, Prompt

Read = Callable[[str], str | None]
"""The scrubbed text of a file by its absolute path; None where it may not be read or is not there."""
Before = Callable[[], str | None]
"""The scrubbed text of a file at the last commit; None where that is not known."""

CHARACTERS_PER_TOKEN = 3
"""Ordinary code has more characters a token than that with every tokenizer in use. Numbers and many scripts have fewer:
a turn that was too long for that reason is made again with a smaller `scale` (`denser`)."""
MARGIN = 0.95
CHAT_TOKENS = 64
"""What a chat template adds, at most."""
MAX_FILES = 12
"""A traceback can name many files; so many of them are looked at."""
MAX_LOOKS = 32
"""So many files may be looked for that are not there, where a test names a module."""
MAX_HANDED_ON = 3
"""From a package to the module that defines it; a name that was handed on more often is not followed."""
_NAMES_CHARACTERS = 600
"""For the names of the failure and the workspace, which a template may use more than once."""
_LEAST_CHARACTERS = 300
NOTHING = "(not available)"
NO_CHANGES = "(nothing in the files of that commit)"
"""New files are not looked for."""
_SHARES, _SHARES_WITH_DIFF = (30, 30, 40, 0), (27, 27, 28, 18)
"""Of the room, in percent: for the source, the code, the traceback and the diff. They don't depend on what there is,
so that nothing moves when one of them grows."""
MAX_CHANGES = 6
"""So many changed files are looked at: first those that the failure names, then the others by their paths."""


class TurnError(Exception):
    """No turn can be built. The message says why."""


class Outdated(TurnError):
    """What failed is no longer there: its test, or the line that was complained about, is gone."""


class Passing(TurnError):
    """A fault of the moment, which is no finding: what was built before may still be what will be asked."""


@frozen(kw_only=True)
class PlannedTurn:
    """What is sent to modeld, guessed or asked. `key` is a digest of it all, since logs never hold prompts.

    `focus`: the part of an editor's document that it asks about. `limit`: so many tokens it may have, for its answer to
    find room. `words`: the characters in it that are the template's.
    """

    prefix: Prompt
    suffix: Prompt
    decode: DecodeConfig
    limit: int
    words: int = 0
    focus: Focus | None = None
    key: str = field(init=False)

    @key.default
    def _digest(self) -> str:
        return hashlib.sha256(repr((self.prefix, self.suffix, self.decode)).encode()).hexdigest()[:16]

    @property
    def messages(self) -> tuple[tuple[str, str], ...]:
        """The prompt for people, as (role, content)."""
        parts = (*self.prefix, *self.suffix)
        return tuple((part.role, part.content) for part in parts if isinstance(part, ChatMessage))

    def denser(self, tokens: int, scale: float) -> float:
        """The scale with which it should fit, by the `tokens` that it has when built with `scale`; less than that."""
        parts = (*self.prefix, *self.suffix)
        characters = sum(len(part.content if isinstance(part, ChatMessage) else part.text) for part in parts)
        seen = (characters - self.words) / (tokens * CHARACTERS_PER_TOKEN - self.words)
        return MARGIN * min(seen, scale)


def build(
    failure: Failure,
    template: Template,
    *,
    workspace: str,
    context: int,
    scale: float = 1.0,
    read: Read,
    before: Mapping[str, Before] | None = None,
    hides: Hides = lambda _: False,
) -> PlannedTurn:
    """Raises `TurnError` where the model's context (tokens) leaves no room.

    `scale`: of CHARACTERS_PER_TOKEN, what the contents have. `before` is for files that were changed, None where
    that is not known; `hides` is asked with names as the failure's tool prints them.
    """
    room = _room(template, context, scale)
    shares = _SHARES_WITH_DIFF if template.shows_diff else _SHARES
    files = _Files(workspace, read)
    user = template.fill_user(
        test=cut(failure.name, 200) or failure.name[:200],
        tool=failure.tool,
        message=failure.message[:400],
        source=_source(failure, files, room * shares[0] // 100) or NOTHING,
        code=_code(failure, files, room * shares[1] // 100) or NOTHING,
        traceback=_traceback(failure, hides, room * shares[2] // 100 - 40) or NOTHING,
        diff=_diff(failure, files, before, room * shares[3] // 100 - 40),
    )
    system = template.fill_system(workspace=posixpath.basename(workspace) or "/")
    return PlannedTurn(
        prefix=(ChatMessage(role="system", content=system),),
        suffix=(ChatMessage(role="user", content=user),),
        decode=template.decode,
        limit=context - template.decode.max_tokens,
        words=template.words,
    )


def anchor(failure: Failure, read: Read) -> str | None:
    """What must stay in the failure's file as long as it can be asked about; empty where that is just the file.

    It is the test's name, where that stands there (a class may inherit its tests), or the line that was named. None
    where the file cannot be read.
    """
    text = read(failure.path) if failure.path else None
    if text is None:
        return None
    lines = text.split("\n")
    if failure.function:
        return failure.function if failure.function in text else ""
    line = next((frame.line for frame in reversed(failure.frames) if frame.path == failure.path), 0)
    return lines[line - 1].strip() if failure.trigger != "test_failed" and 0 < line <= len(lines) else ""


def _room(template: Template, context: int, scale: float) -> int:
    """Characters for all contents together."""
    tokens = context - template.decode.max_tokens - CHAT_TOKENS
    room = tokens * CHARACTERS_PER_TOKEN - template.words - _NAMES_CHARACTERS
    return scaled(template, context, room, scale, _LEAST_CHARACTERS)


def scaled(template: Template, context: int, room: int, scale: float, least: int) -> int:
    """The characters of contents with such a `scale` for which there is `room`. Raises `TurnError` below `least`."""
    if min(template.characters, room) < least:
        raise TurnError(f"the model's context of {context} tokens is too small for the template {template.name!r}")
    return min(template.characters, max(int(room * scale), least))


class _Files:
    """The workspace's files as lines, each read once for a turn, and no more than MAX_FILES."""

    def __init__(self, workspace: str, read: Read) -> None:
        self._workspace = workspace
        self._read = read
        self._lines: dict[str, list[str]] = {}
        self._looked_for: set[str] = set()

    def lines(self, path: str) -> list[str]:
        if path not in self._lines and path and len(self._lines) < MAX_FILES:
            text = self._read(path)
            self._lines[path] = text.split("\n") if text else []
        return self._lines.get(path, [])

    def definition(self, wanted: Import, path: str) -> Location | None:
        """Where that is defined which the file `path` imports; it may have been handed on by a package."""
        for _ in range(MAX_HANDED_ON):
            places = names.places(wanted, path, self._workspace)
            found = next((place for place in places if self._is_there(place)), None)
            if found is None:
                return None
            line = line_of(self.lines(found), wanted.name)
            if line is not None:
                return Location(found, line)
            further = names.imported(self.lines(found), wanted.name)
            if further is None:
                return None
            wanted, path = further, found
        return None

    def _is_there(self, path: str) -> bool:
        """Files that are not there are looked for, too, so that a new one is seen; but not for ever."""
        if path not in self._lines and len(self._looked_for) < MAX_LOOKS and path not in self._looked_for:
            self._looked_for.add(path)
            return bool(self.lines(path) or self._lines.pop(path, None))
        return bool(self._lines.get(path))

    def show(self, path: str, part: str) -> str:
        """A part of a file under its name. No line numbers: they would change with every line above."""
        name = posixpath.relpath(path, self._workspace)
        return f"{name}:\n```\n{part}\n```"

    def diff(self, path: str, before: Before) -> str:
        """Nothing of a file that may not be read now: what it held before may not be shown either."""
        now = "\n".join(self.lines(path))
        held = before() if now else None
        return "" if held is None else diff(posixpath.relpath(path, self._workspace), held, now)


def _test_line(failure: Failure, files: _Files) -> int | None:
    """Where it is: the test's function, else the first line of its file in the traceback."""
    line = line_of(files.lines(failure.path), failure.function) if failure.function else None
    if line is None:
        line = next((frame.line for frame in failure.frames if frame.path == failure.path), None)
    return line


def _source(failure: Failure, files: _Files, limit: int) -> str:
    """The file of the test where it fits as a whole: it holds what the test uses. Else the test's block."""
    line = _test_line(failure, files)
    part = _whole(failure.path, files, limit - 100) if line else ""
    if line and not part:
        part = part_around(files.lines(failure.path), line, limit - 100)
    return files.show(failure.path, part) if part else ""


def _code(failure: Failure, files: _Files, limit: int) -> str:
    """What the traceback names, the code that raised first, then what the test itself names.

    Files that fit as a whole, of others the block.
    """
    line = _test_line(failure, files)
    seen = {part_around(files.lines(failure.path), line, limit)} if line else set[str]()
    shown: list[str] = []
    whole: set[str] = set()
    if line and _whole(failure.path, files, limit - 100):
        whole.add(failure.path)
    for frame in dict.fromkeys((*_nearest_first(failure), *_named(failure, line, files))):
        room = limit - sum(map(len, shown)) - 2 * len(shown) - 100
        if frame.path in whole or room <= 0:
            continue
        part = _whole(frame.path, files, room)
        if part:
            whole.add(frame.path)
        else:
            part = part_around(files.lines(frame.path), frame.line, room)
        if part and part not in seen:
            seen.add(part)
            shown.append(files.show(frame.path, part))
    return "\n\n".join(shown)


def _named(failure: Failure, line: int | None, files: _Files) -> Iterator[Location]:
    """What the test takes from the workspace's other files."""
    if line and failure.path.endswith(".py"):
        for wanted in names.named(files.lines(failure.path), line):
            if there := files.definition(wanted, failure.path):
                yield there


def _diff(failure: Failure, files: _Files, before: Mapping[str, Before] | None, limit: int) -> str:
    """What was changed since the last commit. That there was nothing is said only where it is known."""
    if not before:
        return NOTHING if before is None else NO_CHANGES
    named = dict.fromkeys([*(frame.path for frame in _nearest_first(failure)), failure.path])
    order = [path for path in named if path in before] + sorted(before.keys() - named)
    diffs = (files.diff(path, before[path]) for path in order[:MAX_CHANGES])
    shown = fitting(filter(None, diffs), limit)
    return f"```\n{shown}\n```" if shown else NOTHING


def _whole(path: str, files: _Files, room: int) -> str:
    """The file, or nothing where it does not fit."""
    text = "\n".join(files.lines(path)).rstrip()
    return text if len(text) <= room else ""


def _nearest_first(failure: Failure) -> Iterator[Location]:
    yield from dict.fromkeys(reversed(failure.frames))


def _traceback(failure: Failure, hides: Hides, limit: int) -> str:
    told = "\n".join(without_quotes(failure.traceback, hides)) or failure.message
    captured = "\n".join(without_quotes(failure.captured, hides))
    told = cut_middle(told, limit - min(len(captured), limit // 4))
    captured = cut_middle(captured, max(limit - len(told), 0))
    return f"```\n{told}\n{captured}".rstrip() + "\n```" if told else ""
