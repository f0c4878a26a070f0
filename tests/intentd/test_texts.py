"""I3 for files: what the rules refuse is not read, what is read is scrubbed, and neither costs anything twice."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from intentd import texts, workspace
from intentd.plan.privacy import REDACTED, Scrubbed
from intentd.texts import Texts, holds

TOKEN = "ghp_" + "a1B2c3" * 6


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], str | None]:
    (tmp_path / ".git").mkdir()
    return lambda name: Texts().look(str(tmp_path)).read(str(tmp_path / name))


@pytest.mark.parametrize("file", [".gitignore", ".guessaheadignore", "sub/.gitignore", ".git/info/exclude"])
def test_ignored_files_are_not_read(tmp_path: Path, read: Callable[[str], str | None], file: str) -> None:
    """I3"""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "private.py").write_text("x")
    (tmp_path / "sub" / "open.py").write_text("y")
    (tmp_path / file).parent.mkdir(exist_ok=True)
    assert read("sub/private.py") == "x"
    (tmp_path / file).write_text("private.py\n")
    assert read("sub/private.py") is None
    assert read("sub/open.py") == "y"


def test_the_rules_of_the_repository_hold_in_a_project_inside_it(tmp_path: Path) -> None:
    """I3"""
    project = tmp_path / "packages" / "one"
    project.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("/packages/one/generated.py\n")
    for name in ("generated.py", "own.py"):
        (project / name).write_text(name)
    look = Texts().look(str(project))
    assert look.read(str(project / "generated.py")) is None
    assert look.read(str(project / "own.py")) == "own.py"


def test_an_ignore_file_that_cannot_be_read_refuses_everything(
    tmp_path: Path, read: Callable[[str], str | None]
) -> None:
    """I3"""
    (tmp_path / "a.py").write_text("x")
    (tmp_path / ".gitignore").write_text("#" * (workspace.MAX_IGNORE_BYTES + 1))
    assert read("a.py") is None


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_an_ignore_file_that_is_none_refuses_everything_and_keeps_nobody_waiting(
    tmp_path: Path, read: Callable[[str], str | None], kind: str
) -> None:
    """I3"""
    (tmp_path / "a.py").write_text("x")
    rules = tmp_path / ".guessaheadignore"
    os.mkfifo(rules) if kind == "pipe" else rules.mkdir()
    assert read("a.py") is None


def test_other_peoples_code_is_not_read(tmp_path: Path, read: Callable[[str], str | None]) -> None:
    for name in ("node_modules/a/index.js", ".venv/lib/x.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("x")
        assert read(name) is None


def test_a_file_is_scrubbed_whole(tmp_path: Path, read: Callable[[str], str | None]) -> None:
    """I3"""
    (tmp_path / "a.py").write_text(f"first\ntoken = '{TOKEN}'\n\nlast\n")
    assert read("a.py") == f"first\ntoken = '{REDACTED}'\n\nlast\n"


def test_the_same_content_is_scrubbed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scrubbed = list[str]()

    def count(text: str) -> Scrubbed:
        scrubbed.append(text)
        return Scrubbed(text)

    monkeypatch.setattr(texts, "scrub", count)
    kept = Texts()
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1\n")
        assert kept.look(str(tmp_path)).read(str(tmp_path / name)) == "x = 1\n"
    assert len(scrubbed) == 1


def test_what_is_kept_is_bounded() -> None:
    kept = Texts(room=100)
    for number in range(50):
        kept.fit(f"{number:030}".encode())
    assert sum(map(len, kept._kept.values())) == kept._held <= 100


def test_a_look_holds_until_a_file_or_a_rule_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "SETTLED_NS", 0)
    file, rules = tmp_path / "a.py", tmp_path / ".gitignore"
    file.write_text("x")
    look = Texts().look(str(tmp_path))
    look.read(str(file))
    look.read(str(tmp_path / "missing.py"))
    assert holds(look.seen)
    rules.write_text("b.py")
    assert not holds(look.seen)
    rules.unlink()
    assert holds(look.seen)
    (tmp_path / "missing.py").write_text("y")
    assert not holds(look.seen)


def test_what_was_written_a_moment_ago_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second write within one tick of the file system's clock would not show."""
    monkeypatch.setattr(texts, "SETTLED_NS", 10**18)
    (tmp_path / "a.py").write_text("x")
    look = Texts().look(str(tmp_path))
    look.read(str(tmp_path / "a.py"))
    assert not holds(look.seen)


def test_what_is_written_while_it_is_read_was_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "SETTLED_NS", 0)
    path = tmp_path / "module.py"
    path.write_text("whole")
    look = Texts().look(str(tmp_path))
    look.note(str(path))
    path.write_text("half of it")
    assert look.read(str(path)) == "half of it"
    assert not look.is_settled(str(path))
