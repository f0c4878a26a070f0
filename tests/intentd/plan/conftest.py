"""Owns the recordings' sample project as the plan sees it: files by their absolute paths."""

from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

import pytest

from intentd.plan.events import CommandEnded
from intentd.plan.templates import Template, parse
from intentd.plan.tools import Reader, catalogue
from intentd.plan.triggers import Failure, find_failures

READER = Reader(catalogue().tools)
RECORDED = Path(__file__).parent.parent / "recorded"
ROOT = "/project"


@pytest.fixture
def recorded() -> Callable[[str], CommandEnded]:
    """The end of a real run of pytest, by its recording's name."""

    def load(name: str) -> CommandEnded:
        output = (RECORDED / f"{name}.txt").read_bytes().decode()
        return CommandEnded(workspace=ROOT, cwd=ROOT, exit=0 if name == "passed" else 1, output=output)

    return load


@pytest.fixture
def failures(recorded: Callable[[str], CommandEnded]) -> Callable[[str], Sequence[Failure]]:
    def find(name: str) -> Sequence[Failure]:
        found = find_failures(recorded(name), READER)
        assert found is not None
        return found

    return find


@pytest.fixture
def project() -> dict[str, str]:
    """Absolute path → text of the sample project's files."""
    sample = RECORDED / "project"
    return {
        f"{ROOT}/{path.relative_to(sample).with_suffix('').as_posix()}": path.read_text()
        for path in sample.rglob("*.sample")
    }


@pytest.fixture
def template() -> Template:
    """The built-in one."""
    return parse("test_failed.toml", files("intentd").joinpath("templates", "test_failed.toml").read_text())
