"""What git is asked: it tells changes, and runs nothing of the repository's own."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from intentd.plan.events import Changed
from intentd.sources import git


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    root = tmp_path / "work"
    (root / "shop").mkdir(parents=True)
    for name in ("shop/a.py", "shop/b.py", "c.py"):
        (root / name).write_text(f"{name}\n")
    run(root, "init", "-q")
    commit(root)
    return root


def run(root: Path, *words: str) -> str:
    who = ("-c", "user.name=n", "-c", "user.email=e@test.test", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True, text=True).stdout


def commit(root: Path) -> None:
    run(root, "add", "-A")
    run(root, "commit", "-qm", "m")


def names(root: Path, changes: tuple[Changed, ...]) -> list[str]:
    return [str(Path(one.path).relative_to(root)) for one in changes]


def test_changed_files_are_told_with_what_they_held(repository: Path) -> None:
    assert git.changed(str(repository)) == ()
    (repository / "shop" / "b.py").write_text("new\n")
    (repository / "c.py").write_text("new\n")
    run(repository, "add", "c.py")
    (repository / "untracked.py").write_text("x")
    (repository / "shop" / "a.py").unlink()
    found = git.changed(str(repository))
    assert names(repository, found) == ["c.py", "shop/b.py"]
    assert git.content(str(repository), found[1].blob) == b"shop/b.py\n"


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_files_that_only_have_other_dates_take_no_changes_place(
    repository: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    shutil.rmtree(repository / ".git")
    run(repository, "init", "-q", f"--object-format={form}")
    commit(repository)
    monkeypatch.setattr(git, "MAX_CHANGED", 1)
    for name in ("c.py", "shop/a.py"):
        os.utime(repository / name, (1, 1))
    (repository / "shop" / "b.py").write_text("new\n")
    assert names(repository, git.changed(str(repository))) == ["shop/b.py"]


def test_a_change_among_many_files_with_other_dates_is_found(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all are looked at: the newest are."""
    monkeypatch.setattr(git, "MAX_LOOKED", 2)
    for name in ("c.py", "shop/a.py"):
        os.utime(repository / name, (1, 1))
    (repository / "shop" / "b.py").write_text("new\n")
    assert names(repository, git.changed(str(repository))) == ["shop/b.py"]


def test_below_the_root_of_the_repository_only_what_is_there_is_told(repository: Path) -> None:
    for name in ("c.py", "shop/a.py"):
        (repository / name).write_text("new\n")
    assert names(repository, git.changed(str(repository / "shop"))) == ["shop/a.py"]


def test_names_that_a_prompt_can_say_are_told(repository: Path) -> None:
    odd = [repository / os.fsdecode(name) for name in (b"new\nline.py", b"caf\xc3\xa9.py", b"caf\xe9.py")]
    for text in ("old\n", "new\n"):
        for path in odd:
            path.write_text(text)
        if text == "old\n":
            commit(repository)
    assert names(repository, git.changed(str(repository))) == [
        "caf\N{LATIN SMALL LETTER E WITH ACUTE}.py",
        "new\nline.py",
    ]


def test_without_a_repository_a_commit_or_git_nobody_knows_what_was_changed(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    run(tmp_path / "empty", "init", "-q")
    for place in (str(tmp_path), str(tmp_path / "missing"), str(tmp_path / "empty"), "a\0b"):
        with pytest.raises(git.Unanswered):
            git.changed(place)
    (repository / "c.py").write_text("new\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(git.Unanswered):
        git.changed(str(repository))
    with pytest.raises(git.Unanswered):
        git.content(str(repository), "0" * 40)


def test_git_is_asked_again_for_what_it_did_not_say(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = run(repository, "rev-parse", "HEAD:c.py").strip()
    with monkeypatch.context() as without:
        without.setenv("PATH", "")
        with pytest.raises(git.Unanswered):
            git.content(str(repository), blob)
    assert git.content(str(repository), blob) == b"c.py\n"


def test_a_large_file_is_not_read(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = run(repository, "rev-parse", "HEAD:c.py").strip()
    monkeypatch.setattr(git, "MAX_BLOB_BYTES", 3)
    git.content.cache_clear()
    assert git.content(str(repository), blob) is None
    git.content.cache_clear()


def test_no_program_that_the_repository_names_is_run_and_nothing_is_written(repository: Path, tmp_path: Path) -> None:
    """A repository's settings can name programs: drivers, a monitor, hooks. None of them is for us to start."""
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o700)
    for setting in ("diff.x.command", "diff.x.textconv", "core.fsmonitor", "diff.external"):
        run(repository, "config", setting, str(trap))
    for hook in ("post-index-change", "pre-commit", "fsmonitor-watchman"):
        (repository / ".git" / "hooks" / hook).write_text(trap.read_text())
        (repository / ".git" / "hooks" / hook).chmod(0o700)
    (repository / ".gitattributes").write_text("*.py diff=x\n")
    (repository / "c.py").write_text("new\n")
    index = (repository / ".git" / "index").read_bytes()
    (found,) = git.changed(str(repository))
    assert git.content(str(repository), found.blob) == b"c.py\n"
    assert not (tmp_path / "sprung").exists()
    assert (repository / ".git" / "index").read_bytes() == index
