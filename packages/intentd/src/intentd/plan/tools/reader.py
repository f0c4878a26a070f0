"""Owns finding in plain lines what went wrong, by the tools' patterns. It knows no tool and reads no bytes."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import re2
from attrs import Factory, define, frozen

from intentd.plan.tools.finding import Finding, Kind, excerpt
from intentd.plan.tools.merge import merged
from intentd.plan.tools.patterns import Rule, Scope, Tool

MAX_FINDINGS = 1_500
MAX_AUTOMATON_BYTES = 64 * 1024 * 1024
MAX_BLOCK_LINES = 2_000
MAX_WAITING = 12
"""Lines that may lie between a chained exception and the sentence that joins it to the next."""

Groups = dict[str, str]


class Reader:
    """Reads outputs with the given tools."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._index = _Index(tools)

    def read(self, lines: Iterable[str]) -> list[Finding]:
        """What went wrong, in the order of the output, each thing once; at most MAX_FINDINGS."""
        found: list[Finding] = []
        for finding in _Reading(self._index).findings(lines):
            found.append(finding)
            if len(found) >= MAX_FINDINGS:
                break
        return merged(found)


class _Index:
    """All that can begin, as one automaton, so that an ordinary line costs one look."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.begins: list[tuple[Tool, Rule | Scope, bool]] = []
        patterns: list[str] = []
        for tool in tools:
            for scope in tool.scopes:
                self.begins.append((tool, scope, True))
                patterns.append(scope.begin.pattern)
                if scope.end is not None:
                    self.begins.append((tool, scope, False))
                    patterns.append(scope.end.pattern)
            for rule in tool.rules:
                self.begins.append((tool, rule, True))
                patterns.append(rule.begin.pattern)
        options = re2.Options()
        options.max_mem = MAX_AUTOMATON_BYTES
        self._set = re2.Set.SearchSet(options)
        for pattern in patterns:
            self._set.Add(pattern)
        self._set.Compile()

    def at(self, line: str) -> list[tuple[Tool, Rule | Scope, bool]]:
        """What begins, or which scopes end, at this line, in the order of the tools."""
        return [self.begins[n] for n in sorted(self._set.Match(line) or ())] if self.begins else []


class _Reading:
    """One pass over one output."""

    def __init__(self, index: _Index) -> None:
        self._index = index
        self._scopes: dict[str, tuple[Scope, Groups]] = {}
        self._block: _Block | None = None

    def findings(self, lines: Iterable[str]) -> Iterator[Finding]:
        again: deque[str] = deque()
        for fresh in lines:
            again.append(fresh)
            while again:
                yield from self._line(again.popleft(), again)
        while self._block is not None:
            again.extend(self._block.give_up())
            yield from self._closed()
            while again:
                yield from self._line(again.popleft(), again)

    def _line(self, line: str, again: deque[str]) -> Iterator[Finding]:
        if self._block is not None:
            again.extendleft(reversed(self._block.take(line)))
        else:
            self._block = self._begin(line)
        if self._block is not None and self._block.done:
            yield from self._closed()

    def _begin(self, line: str) -> "_Block | None":
        for tool, what, begins in self._index.at(line):
            scope, groups = self._scopes.get(tool.name, (None, Groups()))
            if isinstance(what, Scope):
                self._turn(tool, what, begins, line)
            elif what.scope is None:
                return _Block(tool.name, what, groups, line)
            elif scope is not None and scope.name == what.scope:
                return _Block(tool.name, what, groups, line, until=scope.end)
        return None

    def _turn(self, tool: Tool, scope: Scope, begins: bool, line: str) -> None:
        if begins:
            self._scopes[tool.name] = (scope, _groups(scope.begin.search(line)))
            return
        now = self._scopes.get(tool.name)
        if now is not None and now[0].name == scope.name and not scope.begin.search(line):
            del self._scopes[tool.name]

    def _closed(self) -> Iterator[Finding]:
        block, self._block = self._block, None
        finding = block.finding() if block is not None else None
        if finding is not None:
            yield finding


@define
class _Block:
    """The lines of one finding while they come in."""

    tool: str
    rule: Rule
    scope: Groups
    first: str
    until: Any = None
    lines: list[str] = Factory(list)
    waiting: list[str] | None = None
    done: bool = False

    def __attrs_post_init__(self) -> None:
        self.lines.append(self.first)
        rule = self.rule
        self.done = rule.inside is None and rule.end is None and rule.last is None

    def take(self, line: str) -> list[str]:
        """Take the line, or be done and give back the lines that are not ours."""
        rule = self.rule
        if self.waiting is not None:
            return self._wait(line)
        ends = (end for end in (rule.end, self.until) if end is not None)
        if len(self.lines) >= MAX_BLOCK_LINES or any(end.search(line) for end in ends):
            self.done = True
            return [line]
        if rule.last is not None and rule.last.search(line):
            self.lines.append(line)
            self.waiting, self.done = ([], False) if rule.again is not None else (None, True)
            return []
        if rule.inside is not None and not rule.inside.search(line):
            self.done = True
            return [line]
        self.lines.append(line)
        return []

    def _wait(self, line: str) -> list[str]:
        waiting = self.waiting or []
        if self.rule.again.search(line):
            self.lines += [*waiting, line]
            self.waiting = None
            return []
        if len(waiting) >= MAX_WAITING or self.rule.begin.search(line):
            self.done = True
            return [*waiting, line]
        self.waiting = [*waiting, line]
        return []

    def give_up(self) -> list[str]:
        """The output ended: be done and give back the lines that only might have been ours."""
        self.done = True
        return self.waiting or []

    def finding(self) -> Finding | None:
        """What the block says; None if it is not what it looked like."""
        rule, groups = self.rule, dict(self.scope) | _groups(self.rule.begin.search(self.first))
        kind = _kind(rule, groups)
        groups |= _where(rule, self.lines) | self._what()
        if kind is None or not all(groups.get(name) for name in rule.required):
            return None
        if rule.unless is not None and rule.unless.search(groups.get("message", "")):
            return None
        return Finding(
            tool=self.tool,
            kind=kind,
            name=_name(groups),
            code=groups.get("code"),
            file=groups.get("file"),
            line=_number(groups.get("line")),
            column=_number(groups.get("column")),
            message=groups.get("message", "").strip(),
            excerpt=excerpt(self.lines),
        )

    def _what(self) -> Groups:
        """The groups of `message` and `name`, looked for in the lines."""
        found = _pick_message(self.rule, self.lines)
        for line in self.lines:
            hit = _first(self.rule.name, line)
            if hit:
                return found | _groups(hit)
        return found


@frozen
class _Spot:
    groups: Groups
    avoided: bool


def _where(rule: Rule, lines: list[str]) -> Groups:
    spots = []
    for line in lines:
        groups = _groups(_first(rule.location, line))
        if groups:
            spots.append(_Spot(groups, rule.avoid is not None and bool(rule.avoid.search(groups.get("file", "")))))
    wanted = [spot for spot in spots if not spot.avoided] or spots
    if not wanted:
        return {}
    return wanted[0 if rule.pick == "first" else -1].groups


def _pick_message(rule: Rule, lines: list[str]) -> Groups:
    """The first line of the first, or of the last, run of lines that match."""
    picked, in_run = Groups(), False
    for line in lines:
        hit = _first(rule.message, line)
        groups = _groups(hit)
        if groups and not in_run:
            picked = groups
            if rule.pick_message == "first":
                return picked
        in_run = hit is not None and (in_run or bool(groups))
    return picked


def _kind(rule: Rule, groups: Groups) -> Kind | None:
    if isinstance(rule.kind, str):
        return None if rule.kind == "none" else rule.kind
    return rule.kind.get(groups.get("kind", ""))


def _name(groups: Groups) -> str | None:
    """The name; unittest tells the test apart from the class it is in."""
    name, test = groups.get("name"), groups.get("test")
    if name and test and name.rpartition(".")[2] != test:
        return f"{name}.{test}"
    return name or test


def _first(patterns: tuple[Any, ...], line: str) -> Any:
    return next((hit for hit in (pattern.search(line) for pattern in patterns) if hit), None)


def _groups(hit: Any) -> Groups:
    return {name: value for name, value in hit.groupdict().items() if value} if hit else {}


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None
