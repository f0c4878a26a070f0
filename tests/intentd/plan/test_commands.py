"""What a command's words say."""

import time

import pytest
from attrs import evolve

from intentd.plan.commands import Command
from intentd.plan.triggers import Failure

FAILURE = Failure(name="tests/a.py::Case::test[x]", path="/w/tests/a.py", message="m")


def command(words: str) -> Command:
    return Command(tuple(words.split()), "/w")


@pytest.mark.parametrize(
    ("words", "tool"),
    [
        ("pytest -q", "pytest"),
        ("python -m pytest", "pytest"),
        ("uv run pytest tests", "pytest"),
        ("/venv/bin/mypy .", "mypy"),
        ("npx jest", "jest"),
        ("g++ a.cpp", "gcc"),
        ("make test", None),
        ("python3.12 -X dev -m coverage run -m pytest tests", "pytest"),
        ("/venv/bin/python /venv/bin/pytest", "pytest"),
        ("CI=1 pytest", None),  # a shell takes that away
        ("env CI=1 timeout -k 5 60 uv run --with coverage -- pytest", "pytest"),
        ("poetry run mypy .", "mypy"),
        ("pnpm exec vitest", "vitest"),
        ("yarn jest", "jest"),
        ("conda run -n work pytest", "pytest"),
        ("make mypy", "mypy"),
        ("pip install pytest", None),
        ("python -m pip install pytest", None),
        ("uv run python -m pip install pytest", None),
        ("uv add ruff", None),
        ("uv pip install mypy", None),
        ("npm install jest", None),
        ("python setup.py pytest", None),
        ("grep -r pytest docs", None),
        ("git commit -m pytest", None),
        ("which mypy", None),
    ],
)
def test_the_tool_is_found_where_it_is_started(words: str, tool: str | None) -> None:
    assert command(words).tool == tool


@pytest.mark.parametrize(
    "words",
    [
        "pytest",
        "pytest -q",
        "python -m pytest tests/",
        "pytest tests/a.py",
        "pytest tests/a.py::Case",
        "pytest -c x.ini",
        "pytest tests",
        "pytest --cov pkg.sub --timeout 0.5 -n 4",
        "pytest -n auto -q",
        "pytest --lf --tb short",
        "pytest --asyncio-mode auto --capture no --show-capture no --html report.html",
        "pytest --pdbcls IPython.terminal.debugger:Pdb --ds settings.test",
    ],
)
def test_a_run_covers_what_it_selects(words: str) -> None:
    assert command(words).covers(command("other"), FAILURE, set())


@pytest.mark.parametrize(
    "words",
    [
        "mypy .",
        "pytest tests/b.py",
        "pytest tests/a.py::Other",
        "pytest -k test",
        "make test",
        "pytest -m slow",
        "pytest integration",
        "pytest -q integration",
        "pytest --ignore=tests",
        "pytest --ignore tests",
        "pytest --deselect=tests/a.py::Case",
        "pytest -qk other",
        "pytest -mslow",
    ],
)
def test_a_run_covers_nothing_else(words: str) -> None:
    assert not command(words).covers(command("other"), FAILURE, set())


def test_a_run_in_a_folder_covers_that_folder_alone() -> None:
    assert Command(("pytest",), "/w/tests").covers(command("other"), FAILURE, set())
    assert Command(("pytest", ".."), "/w/integration").covers(command("other"), FAILURE, set())
    assert not Command(("pytest",), "/w/integration").covers(command("other"), FAILURE, set())
    nowhere = evolve(FAILURE, path="")
    assert command("pytest").covers(command("other"), nowhere, set())
    assert not Command(("pytest",), "/w/tests").covers(command("other"), nowhere, set())


@pytest.mark.parametrize(
    ("words", "path", "covered"),
    [
        ("mypy src", "/w/src/a.py", True),
        ("mypy pkg", "/w/src/a.py", False),
        ("mypy --python-version 3.11", "/w/src/a.py", True),
        ("ruff check", "/w/src/a.py", True),
        ("ruff check src", "/w/src/a.py", True),
        ("ruff check tests", "/w/src/a.py", False),
        ("ruff check --select E501", "/w/src/a.py", False),
        ("jest", "/w/src/a.test.js", True),
        ("jest -o", "/w/src/a.test.js", False),
        ("jest --onlyChanged", "/w/src/a.test.js", False),
        ("jest --shard=1/2", "/w/src/a.test.js", False),
        ("jest cart", "/w/src/a.test.js", False),
        ("vitest run", "/w/src/a.test.ts", True),
        ("vitest --changed", "/w/src/a.test.ts", False),
        ("vitest run --changed=HEAD~1", "/w/src/a.test.ts", False),
        ("gcc -c a.c -o a.o", "/w/a.c", True),
        ("gcc -I include a.c", "/w/include/x.h", False),
        ("make", "/w/sub1/a.c", True),
        ("make -C sub2", "/w/sub1/a.c", False),
        ("make -Csub2", "/w/sub1/a.c", False),
        ("make -C sub1", "/w/sub1/a.c", True),
        ("tsc -p packages/b/tsconfig.json", "/w/packages/a/x.ts", False),
        ("tsc -p tsconfig.json", "/w/packages/a/x.ts", True),
        ("tsc --project tsconfig.json", "/w/packages/a/x.ts", True),
        ("tsc --project packages/b", "/w/packages/a/x.ts", False),
        ("vitest --project web", "/w/src/a.test.ts", False),
        ("tsc --noEmit --pretty false --target ES2022", "/w/packages/a/x.ts", True),
    ],
)
def test_a_folder_of_a_bare_name_is_a_place(words: str, path: str, covered: bool) -> None:
    ran = command(words)
    tool = ran.tool or "gcc"
    failure = Failure(trigger="diagnostic", tool=tool, name="it", path=path, message="m")
    assert ran.covers(command("other"), failure, {tool}) is covered


@pytest.mark.parametrize(
    ("words", "covered"),
    [
        ("tests.test_a", True),
        ("tests.test_a.Case.test", True),
        ("tests", True),
        ("discover", True),
        ("discover -s tests", True),
        ("discover -s other", False),
        ("discover -p test_b*.py", False),
        ("tests.test_b", False),
        ("tests.test_a.Case.te", False),
    ],
)
def test_unittest_names_its_tests_with_dots(words: str, covered: bool) -> None:
    ran = command(f"python -m unittest {words}")
    failure = Failure(tool="unittest", name="tests.test_a.Case.test (i=1)", path="/w/tests/test_a.py", message="m")
    assert ran.covers(command("other"), failure, set()) is covered
    assert not evolve(ran, cwd="/elsewhere").covers(command("other"), failure, set())


@pytest.mark.parametrize(
    ("words", "covered"),
    [
        ("make test", True),
        ("npm run build", True),
        ("tox -e py312", True),
        ("just test", True),
        ("cmake --build build", True),
        ("sh -c pytest", True),
        ("watchexec pytest", True),
        ("make -C sub test", False),
        ("just test integration/", False),
        ("./check tests/b.py", False),
        ("./check tests/a.py", True),
    ],
)
def test_goals_and_subcommands_are_no_places(words: str, covered: bool) -> None:
    """A command that starts the tool unseen looks everywhere, unless a path or `-C` says where."""
    assert command(words).covers(command("pytest"), FAILURE, {"pytest"}) is covered


def test_the_same_command_covers_what_it_found() -> None:
    assert command("make test").covers(command("make test"), FAILURE, set())
    assert not Command(("make", "test"), "/elsewhere").covers(command("make test"), FAILURE, set())


@pytest.mark.parametrize(
    ("words", "reports"),
    [
        ("pytest --junitxml=out/r.xml", [("junit", "/w/out/r.xml")]),
        ("pytest --junit-xml r.xml --report-log=/tmp/l.jsonl", [("junit", "/w/r.xml"), ("reportlog", "/tmp/l.jsonl")]),
        ("jest --outputFile=r.json", []),
        ("pytest --junitxml", []),
        ("pytest", []),
    ],
)
def test_reports_are_those_that_the_words_name(words: str, reports: list[tuple[str, str]]) -> None:
    assert list(command(words).reports()) == reports


@pytest.mark.parametrize("line", ["!" * 40_000, "!!! Interrupted: " * 4_000])
def test_a_long_line_of_marks_is_looked_through_once(line: str) -> None:
    began = time.process_time()
    assert not command("make").may_have_stopped_early(1, line)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("colour", ["", "\x1b[31m"])
@pytest.mark.parametrize(
    "said", ["stopping after 1 failures", "Interrupted: 2 errors during collection", "KeyboardInterrupt"]
)
def test_what_pytest_says_of_itself_tells_that_it_stopped_early(said: str, colour: str) -> None:
    assert command("make").may_have_stopped_early(1, f"FAILED\n{colour}!!!!!! {said} !!!!!!\x1b[0m\n")
