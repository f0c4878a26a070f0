"""Owns what a command's words say: which tool it starts, which tests it selects, which reports it writes."""

import posixpath
import re
from collections.abc import Iterator, Set

from attrs import frozen

from intentd.plan.triggers import TEST_RUNNERS, Failure

_TOOLS = {"py.test": "pytest", "dmypy": "mypy", "g++": "gcc", "cc": "gcc", "clang": "gcc", "clang++": "gcc"}
_KNOWN = frozenset({"pytest", "unittest", "mypy", "ruff", "tsc", "jest", "vitest", "gcc"})
_STARTS_ANOTHER = re.compile(
    r"py(?:thon|py)?[\d.]*|coverage|uvx?|pipx|pipenv|poetry|pdm|hatch|rye|pixi|conda|mamba|micromamba|tox|nox|pre-commit"
    r"|npx|npm|pnpm|yarn|bunx?|node|make|just|env|time|nice|nohup|timeout|stdbuf|xvfb-run|sudo|ccache"
)
"""Commands among whose words is one that they start."""
_TO_START = frozenset({"run", "exec", "x", "dlx", "tool"})
"""What some of them want before it."""
_RUNS_NOTHING = re.compile(r"--co(?:llect-only)?|--fixtures|--markers|--setup-plan|--listTests|--version|-V|--help|-h")
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
_STOPPED = re.compile(
    r"(?<!!)!{3,} (?:\S+ )?(?:stopping after \d+ failures|Interrupted: [^!\n]*|KeyboardInterrupt) !{3,}"
)
"""What pytest says of itself, also where its settings and not the command's words make it stop."""
_SELECTS_BY_WORDS = frozenset({"-k", "-m", "-t", "--testNamePattern"})


@frozen
class Command:
    """A command by its words and the directory where it ran."""

    argv: tuple[str, ...]
    cwd: str

    @property
    def tool(self) -> str | None:
        """The tool that it starts, also behind `python -m`, `npx`, `uv run` and their like."""
        at = self._tool_at()
        return None if at is None else _tool(self.argv[at])

    def _tool_at(self) -> int | None:
        """Where among the words. What starts it may have options before it, and those may have values."""
        before = ""
        for at, word in enumerate(self.argv):
            if _tool(word) in _KNOWN:
                return at
            option = word.startswith("-") or "=" in word or word[:1].isdigit() or word in _TO_START
            value = before.startswith("-") and before not in ("-m", "--")
            if not (_STARTS_ANOTHER.fullmatch(posixpath.basename(word)) or (at and (option or value))):
                return None
            before = word
        return None

    def may_have_stopped_early(self, exit: int | None, output: str) -> bool:
        """Whether a run that failed need not have come to all of its tests: it speaks for those that it names alone."""
        if _STOPPED.search(output) or (self.tool == "pytest" and exit in _PYTEST_INTERRUPTED):
            return True
        words = _STOPS_EARLY.get(self.tool or "")
        return words is not None and any(words.fullmatch(word.partition("=")[0]) for word in self._words_behind_tool())

    def covers(self, other: "Command", failure: Failure, tools: Set[str]) -> bool:
        """Whether this command, which found something with `tools`, has looked again at what `other` found.

        It has if it is the same command, or of the same tool, runs it and selects the failure.
        """
        if self == other:
            return True
        if any(map(_RUNS_NOTHING.fullmatch, self._words_behind_tool())) or self._words_behind_tool()[:1] == ("format",):
            return False
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
        return self.argv[(self._tool_at() or 0) + 1 :]

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


def _tool(word: str) -> str:
    name = posixpath.basename(word)
    return _TOOLS.get(name, name)
