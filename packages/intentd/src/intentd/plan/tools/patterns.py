"""Owns the tools' patterns as data: reading a tool's TOML file and saying what is wrong with one. It matches nothing.

A file describes one tool. Patterns are in RE2's language, which matches in linear time whatever the pattern, so a
pattern that somebody added cannot hang the reader.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal, cast

import re2
from attrs import field, fields, frozen

from intentd.plan.tools.finding import KINDS, Kind
from modelwire.errors import why

MAX_FILE_BYTES = 256 * 1024
PATTERN_KEYS = ("begin", "inside", "end", "last", "again", "avoid", "unless")
PATTERN_LISTS = ("location", "message", "name")
GROUPS = frozenset({"kind", "name", "code", "test", "file", "line", "column", "message"})

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_NAMED = re.compile(r"\(\?P<(\w+)>")


class PatternError(ValueError):
    """A tool's file cannot be used. The message names the file, the place and what to do."""


@frozen(kw_only=True)
class Scope:
    """A stretch of output in which some rules hold; `file` in its begin is the file of findings that name none."""

    name: str
    begin: Any
    end: Any = None


@frozen(kw_only=True)
class Rule:
    """How one kind of finding looks.

    A block opens at a line that matches `begin`. It goes on while lines match `inside`, up to a line that matches `end`
    or ends its `scope` (not part of it), or that matches `last` (part of it); without these three it is that one line.
    After `last`, a line that matches `again` within a few lines joins what follows (chained exceptions). `kind` "none"
    swallows the block; a table of kinds is looked up by the group `kind`. `location`, `message` and `name` (one pattern
    or several, the first that matches counts) are looked for in the block's lines and add to the groups of `begin`.
    `pick` says which location counts, `pick_message` which run of lines has the message in its first. A location whose
    file matches `avoid` counts only if there is no other. A finding whose message matches `unless`, or that lacks a
    group that is `required`, is none.
    """

    kind: Kind | Literal["none"] | Mapping[str, Kind]
    begin: Any
    inside: Any = None
    end: Any = None
    last: Any = None
    again: Any = None
    location: tuple[Any, ...] = ()
    message: tuple[Any, ...] = ()
    name: tuple[Any, ...] = ()
    avoid: Any = None
    unless: Any = None
    scope: str | None = None
    pick: Literal["first", "last"] = "first"
    pick_message: Literal["first", "last"] = "first"
    required: tuple[str, ...] = ()


@frozen(kw_only=True)
class Tool:
    """One tool: its rules in the order in which they are tried. Tools with a lower `order` are tried first."""

    name: str
    order: int = 50
    scopes: tuple[Scope, ...] = ()
    rules: tuple[Rule, ...] = field(default=())


@frozen(kw_only=True)
class Catalogue:
    """The tools to read with, and what was wrong with files that are ignored (one line each)."""

    tools: tuple[Tool, ...]
    problems: tuple[str, ...] = ()


def catalogue(folder: Path | None = None) -> Catalogue:
    """The tools that come with us and those in the user's `folder`; one of the same name takes the place of ours."""
    ours = [
        (path.name, path.read_text("utf-8"))
        for path in resources.files(__package__).iterdir()
        if path.name.endswith(".toml")
    ]
    problems: list[str] = []
    own = list(_own_files(folder, problems)) if folder else []
    tools: dict[str, Tool] = {}
    for name, text in [*sorted(ours), *own]:
        try:
            tool = parse_tool(name, text)
        except PatternError as error:
            problems.append(str(error))
        else:
            tools[tool.name] = tool
    return Catalogue(
        tools=tuple(sorted(tools.values(), key=lambda tool: (tool.order, tool.name))), problems=tuple(problems)
    )


def _own_files(folder: Path, problems: list[str]) -> Iterable[tuple[str, str]]:
    try:
        files = sorted(folder.glob("*.toml"))
    except OSError:  # the settings tell of that
        files = []
    for path in files:
        try:
            if not path.is_file():
                problems.append(f"{path}: it is no file; it is ignored: put the tool's file there")
                continue
            if path.stat().st_size > MAX_FILE_BYTES:
                problems.append(f"{path}: longer than {MAX_FILE_BYTES} bytes; it is ignored: make it shorter")
                continue
            yield str(path), path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            problems.append(f"{path}: cannot be read ({why(error)}); it is ignored: make it a readable UTF-8 file")


def parse_tool(file: str, text: str) -> Tool:
    """The tool that `text` describes. Raises PatternError with `file`, the line and the key."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PatternError(f"{file}: not TOML: {error}; the file is ignored: correct it") from None
    place = _Place(file, text)
    place.keys(table, {"tool", "order", "scope", "rule"}, {"tool", "rule"})
    scopes = tuple(_scope(place.table("scope", n), row) for n, row in enumerate(place.rows(table, "scope")))
    names = {scope.name for scope in scopes}
    rules = tuple(_rule(place.table("rule", n), row, names) for n, row in enumerate(place.rows(table, "rule")))
    name = place.text(table, "tool")
    order = table.get("order", 50)
    if type(order) is not int:
        place.fail("order", "must be a whole number")
    return Tool(name=name, order=order, scopes=scopes, rules=rules)


def _scope(place: "_Place", row: dict[str, Any]) -> Scope:
    place.keys(row, {"name", "begin", "end"}, {"name", "begin"})
    patterns = {key: place.pattern(row, key) for key in ("begin", "end") if key in row}
    return Scope(name=place.text(row, "name"), **patterns)


def _rule(place: "_Place", row: dict[str, Any], scopes: set[str]) -> Rule:
    place.keys(row, {item.name for item in fields(Rule)}, {"kind", "begin"})
    values: dict[str, Any] = {key: place.pattern(row, key) for key in PATTERN_KEYS if key in row}
    values |= {key: place.patterns(row, key) for key in PATTERN_LISTS if key in row}
    values["kind"] = _kind(place, row["kind"])
    for key in ("pick", "pick_message"):
        if row.get(key, "first") not in ("first", "last"):
            place.fail(key, 'must be "first" or "last"')
        values[key] = row.get(key, "first")
    if "scope" in row:
        values["scope"] = place.text(row, "scope")
        if values["scope"] not in scopes:
            place.fail("scope", f"there is no [[scope]] of the name {values['scope']!r}")
    required = row.get("required", [])
    if not isinstance(required, list) or not all(item in GROUPS for item in required):
        place.fail("required", f"must be a list out of {', '.join(sorted(GROUPS))}")
    return Rule(**values, required=tuple(required))


def _kind(place: "_Place", value: object) -> Any:
    named = list(value.values()) if isinstance(value, dict) else [value]
    allowed = KINDS if isinstance(value, dict) else (*KINDS, "none")
    if not named or any(kind not in allowed for kind in named):
        place.fail("kind", f"must be one of {', '.join(KINDS)}, or a table of them")
    return value


@frozen
class _Place:
    """Where in a file we are, so that a problem can say so."""

    file: str
    source: str
    header: str = ""
    index: int = 0

    def table(self, header: str, index: int) -> "_Place":
        return _Place(self.file, self.source, header, index)

    def fail(self, key: str, what: str) -> None:
        where = f"[[{self.header}]] {self.index + 1}, " if self.header else ""
        raise PatternError(
            f'{self.file}:{self._line(key)}: {where}key "{key}": {what}; the file is ignored: correct it'
        )

    def _line(self, key: str) -> int:
        """The line of the key, or of its table when it is missing."""
        tables, at = -1 if self.header else 0, 1
        for number, line in enumerate(self.source.splitlines(), 1):
            words = line.replace(" ", "")
            if words.startswith("[["):
                tables += words.startswith(f"[[{self.header}]]") if self.header else 1
                at = number if tables == self.index and self.header else at
            elif tables == self.index and words.startswith(f"{key}="):
                return number
        return at

    def keys(self, row: dict[str, Any], known: set[str], needed: set[str]) -> None:
        for key in row.keys() - known:
            self.fail(key, f"is not known (known: {', '.join(sorted(known))})")
        for key in needed - row.keys():
            self.fail(key, "is missing")

    def rows(self, table: dict[str, Any], key: str) -> list[dict[str, Any]]:
        rows = table.get(key, [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            self.fail(key, f"must be written as [[{key}]]")
        return cast("list[dict[str, Any]]", rows)

    def text(self, row: dict[str, Any], key: str) -> str:
        value = row[key]
        if not isinstance(value, str) or not value:
            self.fail(key, "must be a text")
        return cast(str, value)

    def pattern(self, row: dict[str, Any], key: str) -> Any:
        return self._compiled(key, self.text(row, key))

    def patterns(self, row: dict[str, Any], key: str) -> tuple[Any, ...]:
        """One pattern, or a list of them."""
        if not isinstance(row[key], list):
            return (self.pattern(row, key),)
        return tuple(self.pattern({key: text}, key) for text in row[key])

    def _compiled(self, key: str, text: str) -> Any:
        try:
            pattern = re2.compile(text, _OPTIONS)
        except re2.error as error:
            said = error.args[0].decode() if isinstance(error.args[0], bytes) else error.args[0]
            self.fail(key, f"is not a pattern of RE2 ({said})")
        names = _NAMED.findall(text)
        if not GROUPS.issuperset(names):
            self.fail(key, f"has groups of unknown names: {', '.join(sorted(set(names) - GROUPS))}")
        if len(names) != len(set(names)):
            self.fail(key, "has two groups of one name; make it a list of two patterns")
        return pattern
