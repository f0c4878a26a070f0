"""Owns what a command's words say: which tool it starts, which tests it selects, which reports it writes."""

import posixpath
import re
from collections.abc import Iterator, Set

from attrs import frozen

from intentd.plan.tools import file_and_test
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
_RUNS_NOTHING = re.compile(
    r"\S+ (?:--version|-V|--help|-h)|tsc (?:-v|--all|--init|--showConfig|--listFilesOnly)|gcc (?:-E|-MM?)"
    r"|(?:jest|vitest) --(?:init|showConfig|listTests|clearCache)|ruff --show-(?:files|settings)"
    r"|pytest --(?:co(?:llect-only)?|fixtures(?:-per-test)?|markers|setup-(?:only|plan)|cache-show)"
)
"""A tool and an option."""
_NO_CHECK = re.compile(
    r"ruff (?:format|analyze|rule|linter|config|clean|version|server|help)|vitest (?:list|init|bench)"
)
"""A tool and a subcommand."""
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
_KILLED = 124
"""The exit status of `timeout`; above it are those of shells for what could not be started or died by a signal."""
_STOPPED = re.compile(
    r"(?<!!)!{3,} (?:\S+ )?(?:stopping after \d+ failures|Interrupted: [^!\n]*|KeyboardInterrupt) !{3,}"
)
"""What pytest says of itself, also where its settings and not the command's words make it stop."""
_SELECTS_UNSAID = re.compile(
    r"\S+ (?:-[kmt]|-C.+|--directory|--testNamePattern|--deselect|--(?:extend-)?(?:ignore|exclude|select)|--ignore-glob"
    r"|--only[A-Z]\w*|--changed\w*|--shard|--lastCommit|--findRelatedTests|--testPath\w+|--dir|--root(?:Dir)?)"
    r"|(?!tsc )\S+ --project|pytest -[a-z]*[km].*|pytest --(?:testmon|picked)|jest -o|unittest (?:-p|--pattern)"
)
"""A tool and an option: what it selects its words don't say, so an offer stays."""
_WITH_VALUE = re.compile(
    r"pytest (?:-[cnoprW]|--(?:asyncio-mode|basetemp|(?:show-)?capture|color|config-file|confcutdir|cov|cov-config"
    r"|cov-fail-under|cov-report|dist|ds|durations|html|import-mode|junit-?xml|log-[a-z-]+|maxfail|numprocesses"
    r"|override-ini|pdbcls|report-log|reruns|rootdir|tb|timeout))"
    r"|mypy --(?:cache-dir|config-file|follow-imports|platform|python-executable|python-version|[a-z]+-report)"
    r"|ruff (?:-o|--(?:cache-dir|config|line-length|output-file|output-format|target-version))"
    r"|(?:jest|vitest) (?:-[cw]|--(?:config|coverageDirectory|env|environment|maxWorkers|outputFile|reporters?))"
    r"|tsc --(?:jsx|lib|module(?:Resolution)?|outDir|pretty|target)"
    r"|gcc -(?:[ILDUolx]|isystem|iquote|include|M[FTQ])"
)
"""A tool and an option whose value, the next word, is no place. The value of any other one may be taken for a place."""
_NO_PLACE = re.compile(r"ruff check|mypy (?:run|check)|vitest (?:run|watch|dev)|unittest discover")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


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
        if (exit or 0) >= _KILLED or _STOPPED.search(output):
            return True
        if self.tool == "pytest" and exit in _PYTEST_INTERRUPTED:
            return True
        words = _STOPS_EARLY.get(self.tool or "")
        return words is not None and any(words.fullmatch(word.partition("=")[0]) for word in self._words_behind_tool())

    def covers(self, other: "Command", failure: Failure, tools: Set[str]) -> bool:
        """Whether this command, which found something with `tools`, has looked again at what `other` found.

        It has if it is the same command, or of the same tool, runs it and selects the failure.
        """
        if self == other and (self.argv or failure.tool in tools):  # of a pipe nobody knows what stands before it
            return True
        if self._runs_nothing():
            return False
        mine = tools | ({self.tool} if self.tool else set())
        same = failure.tool in mine or (failure.tool == "junit" and bool(mine & TEST_RUNNERS))
        return same and self._selects(failure, failure.path or other.cwd)

    def _runs_nothing(self) -> bool:
        words = self._words_behind_tool()
        if any(_RUNS_NOTHING.fullmatch(f"{self.tool} {word.partition('=')[0]}") for word in words):
            return True
        if self.tool == "gcc":
            return not any(self._places())
        return bool(words) and _NO_CHECK.fullmatch(f"{self.tool} {words[0]}") is not None

    def _selects(self, failure: Failure, path: str) -> bool:
        """Files and ids among the words narrow a run. One without any selects what is where it ran."""
        words = self._words_behind_tool()
        if any(_SELECTS_UNSAID.fullmatch(f"{self.tool} {word.partition('=')[0]}") for word in words):
            return False
        return any(self._is_in(failure, path, word) for word in tuple(self._places()) or (".",))

    def _words_behind_tool(self) -> tuple[str, ...]:
        return self.argv[(self._tool_at() or 0) + 1 :]

    def _places(self) -> Iterator[str]:
        """Of a command whose tool is not told, a bare word is a goal or a subcommand, but for `make -C folder`."""
        before = ""
        for word in self._words_behind_tool():
            option = word.startswith("-") or "=" in word.partition("[")[0] or _NUMBER.fullmatch(word)
            value = _WITH_VALUE.fullmatch(f"{self.tool} {before}") or _NO_PLACE.fullmatch(f"{self.tool} {word}")
            goal = self.tool is None and before != "-C" and not {"/", "."}.intersection(word)
            if not (option or value or goal or ("/" not in word and word.endswith(_SETTINGS))):
                yield word
            before = word

    def _is_in(self, failure: Failure, path: str, word: str) -> bool:
        file, _, test = word.partition("::")
        if _is_below(path, posixpath.normpath(posixpath.join(self.cwd, file))):
            name = file_and_test(failure.name)[1]
            return not test or name == test or name.startswith((f"{test}::", f"{test}["))
        dotted = f"{failure.name.partition(' ')[0]}.".startswith(f"{word}.")
        return failure.tool == "unittest" and dotted and _is_below(path, self.cwd)

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


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
