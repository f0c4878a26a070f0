"""Owns what a command's words say: which tool it starts, which tests it selects, which reports it writes."""

import posixpath
import re
from collections.abc import Iterator, Set

from attrs import frozen

from intentd.plan.triggers import TEST_RUNNERS, Failure

_TOOLS = {"py.test": "pytest", "dmypy": "mypy", "g++": "gcc", "cc": "gcc", "clang": "gcc", "clang++": "gcc"}
_KNOWN = frozenset({"pytest", "unittest", "mypy", "ruff", "tsc", "jest", "vitest", "gcc"})
_JUNIT = ("--junitxml", "--junit-xml", "--outputFile")
_REPORTLOG = ("--report-log",)
_SETTINGS = (".ini", ".toml", ".cfg", ".xml", ".json", ".jsonl")
_STOPS_EARLY = {
    "pytest": re.compile(r"-[a-z]*x[a-z]*|--exitfirst|--maxfail|--sw|--stepwise"),
    "unittest": re.compile(r"-[a-z]*f[a-z]*|--failfast"),
    "jest": re.compile(r"-b|--bail"),
    "vitest": re.compile(r"--bail"),
}
_PYTEST_INTERRUPTED = frozenset({2, 3})
"""Its exit statuses for Ctrl-C or files that it could not collect, and for an error of its own."""
_STOPPED = re.compile(r"!{3,} (?:\S+ )?(?:stopping after \d+ failures|Interrupted: .*|KeyboardInterrupt) !{3,}")
"""What pytest says of itself, also where its settings and not the command's words make it stop."""
_SELECTS_BY_WORDS = frozenset({"-k", "-m", "-t", "--testNamePattern"})


@frozen
class Command:
    """A command by its words and the directory where it ran."""

    argv: tuple[str, ...]
    cwd: str

    @property
    def tool(self) -> str | None:
        """The tool that the words name, also behind `python -m`, `npx`, `uv run` and their like."""
        for word in self.argv:
            name = posixpath.basename(word)
            name = _TOOLS.get(name, name)
            if name in _KNOWN:
                return name
        return None

    def may_have_stopped_early(self, exit: int | None, output: str) -> bool:
        """Whether a run that failed need not have come to all of its tests: it speaks for those that it names alone."""
        if _STOPPED.search(output) or (self.tool == "pytest" and exit in _PYTEST_INTERRUPTED):
            return True
        words = _STOPS_EARLY.get(self.tool or "")
        return words is not None and any(words.fullmatch(word.partition("=")[0]) for word in self._words_behind_tool())

    def covers(self, other: "Command", failure: Failure, tools: Set[str]) -> bool:
        """Whether this command, which found something with `tools`, has looked again at what `other` found.

        It has if it is the same command, or of the same tool and selects the failure.
        """
        if self == other:
            return True
        mine = tools | ({self.tool} if self.tool else set())
        same = failure.tool in mine or (failure.tool == "junit" and bool(mine & TEST_RUNNERS))
        return same and self._selects(failure)

    def _selects(self, failure: Failure) -> bool:
        """Files and ids among the words narrow a run. What an expression selects is not known."""
        if any(word.partition("=")[0] in _SELECTS_BY_WORDS for word in self._words_behind_tool()):
            return False
        named = [word for word in self._words_behind_tool() if self._names_a_place(word)]
        return not named or any(self._is_in(failure, word) for word in named)

    def _words_behind_tool(self) -> tuple[str, ...]:
        for at, word in enumerate(self.argv):
            name = posixpath.basename(word)
            if _TOOLS.get(name, name) in _KNOWN:
                return self.argv[at + 1 :]
        return self.argv[1:]

    @staticmethod
    def _names_a_place(word: str) -> bool:
        if word.startswith("-") or "=" in word.partition("[")[0] or word.endswith(_SETTINGS):
            return False
        return "/" in word or "." in word

    def _is_in(self, failure: Failure, word: str) -> bool:
        file, _, test = word.partition("::")
        path = posixpath.normpath(posixpath.join(self.cwd, file))
        if failure.path != path and not failure.path.startswith(path.rstrip("/") + "/"):
            return False
        name = failure.name.partition("::")[2]
        return not test or name == test or name.startswith((f"{test}::", f"{test}["))

    def reports(self) -> Iterator[tuple[str, str]]:
        """("junit" or "reportlog", absolute path) of the reports that the command was told to write."""
        for word, after in zip(self.argv, (*self.argv[1:], ""), strict=False):
            option, equals, path = word.partition("=")
            path = path if equals else after
            kind = "junit" if option in _JUNIT else "reportlog" if option in _REPORTLOG else None
            if kind and path and (kind == "reportlog" or path.endswith(".xml")):
                yield kind, posixpath.normpath(posixpath.join(self.cwd, path))
