"""Commands that go on for ever are told by their words, and their cycles by silence."""

import pytest

from intentd.sources.watching import Cycles, goes_on


@pytest.mark.parametrize(
    "line",
    [
        "ptw",
        "python -m pytest-watcher .",
        "npx jest --watch",
        "npx vitest",
        "npx vitest watch",
        "npx tsc -w",
        "watchexec -e py pytest",
        "tsc --noEmit --watch",
    ],
)
def test_a_command_that_watches_goes_on(line: str) -> None:
    assert goes_on(line.split())


@pytest.mark.parametrize("line", ["pytest -q", "npx vitest run", "npx jest", "tsc --noEmit", "mypy .", "make watch"])
def test_other_commands_end(line: str) -> None:
    assert not goes_on(line.split())


def test_a_cycle_is_over_when_nothing_more_comes_and_the_next_begins_with_output() -> None:
    cycles = Cycles()
    looks = [cycles.look(total) for total in (0, 10, 30, 30, 30, 30, 40, 50, 50, 50)]
    assert looks == [None, None, None, True, None, None, False, None, True, None]
    assert cycles.told == 50
