"""I3 for files: what the rules refuse is not read, what is read is scrubbed, and neither costs anything twice."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from intentd import texts, workspace
from intentd.plan.privacy import REDACTED, Scrubbed
from intentd.sources import git as sources_git
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


@pytest.fixture
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's settings, of git too, are the test's."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=n", "-c", "user.email=e@test.test", "-c", "protocol.file.allow=always")
    return subprocess.run(["git", *who, *words], cwd=folder, check=False, capture_output=True, text=True).stdout


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for words in (("init", "-q"), ("commit", "-qm", "m", "--allow-empty")):
        git(folder, *words)
    return folder


@pytest.mark.usefixtures("_home")
@pytest.mark.parametrize("layout", ["worktree", "submodule"])
def test_ignored_files_are_not_read_where_git_is_a_file(tmp_path: Path, layout: str) -> None:
    """I3: in a linked worktree and in a submodule the rules are in the folder that it leads to."""
    one, other = repository(tmp_path / "one"), repository(tmp_path / "other")
    root = other / "here"
    git(one, "worktree", "add", str(root)) if layout == "worktree" else git(other, "submodule", "add", str(one), "here")
    exclude = one / ".git" if layout == "worktree" else other / ".git" / "modules" / "here"
    (exclude / "info" / "exclude").write_text("private.py\n")
    for name in ("private.py", "open.py"):
        (root / name).write_text(name)
    assert git(root, "check-ignore", "private.py", "open.py") == "private.py\n"
    for around in (root, other):  # also seen from the repository around it
        look = Texts().look(str(around))
        assert look.read(str(root / "private.py")) is None
        assert look.read(str(root / "open.py")) == "open.py"


@pytest.mark.usefixtures("_home")
@pytest.mark.parametrize("scope", ["--global", "--local"])
@pytest.mark.parametrize("value", ["{}/rules", "rules", "~/rules"])
def test_ignored_files_are_not_read_whichever_file_the_settings_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str, value: str
) -> None:
    """I3"""
    monkeypatch.setattr(texts, "SETTLED_NS", 0)
    root = repository(tmp_path / "work")
    for name in ("private.py", "open.py"):
        (root / name).write_text(name)
    (tmp_path / "rules" if value != "rules" else root / "rules").write_text("\N{BOM}private.py\n")
    look = Texts().look(str(root))
    assert look.read(str(root / "private.py")) == "private.py"
    assert holds(look.seen)
    git(root, "config", scope, "core.excludesFile", value.format(tmp_path))
    assert git(root, "check-ignore", "private.py", "open.py") == "private.py\n"
    assert not holds(look.seen)
    assert look.read(str(root / "private.py")) is None
    assert look.read(str(root / "open.py")) == "open.py"
    git(root, "config", scope, "core.excludesFile", "")
    assert look.read(str(root / "private.py")) == "private.py"


@pytest.mark.usefixtures("_home")
def test_of_two_rules_the_one_counts_that_counts_for_git(tmp_path: Path) -> None:
    """I3: those of the repository stand above those of the user."""
    root = repository(tmp_path / "work")
    git(root, "config", "core.excludesFile", str(tmp_path / "rules"))
    (tmp_path / "rules").write_text("!*.py\n")
    (root / ".git" / "info" / "exclude").write_text("a.py\nb.py\n")
    (root / ".gitignore").write_text("!b.py\nc.py\n")
    names = ("a.py", "b.py", "c.py")
    for name in names:
        (root / name).write_text(name)
    ignored = git(root, "check-ignore", *names).split()
    assert ignored == ["a.py", "c.py"]
    look = Texts().look(str(root))
    assert [name for name in names if look.read(str(root / name)) is None] == ignored


@pytest.mark.usefixtures("_home")
def test_where_git_does_not_say_the_usual_file_of_the_user_counts(
    tmp_path: Path, read: Callable[[str], str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """I3"""
    monkeypatch.setenv("PATH", "")
    (tmp_path / "config" / "git").mkdir(parents=True)
    (tmp_path / "config" / "git" / "ignore").write_text("private.py\n")
    for name in ("private.py", "open.py"):
        (tmp_path / name).write_text(name)
    assert read("private.py") is None
    assert read("open.py") == "open.py"


@pytest.mark.usefixtures("_home")
@pytest.mark.parametrize("setting", ["core.excludesFile", "include.path", "includeIf.gitdir:/srv/.path"])
def test_where_git_does_not_say_and_its_settings_may_name_an_ignore_file_nothing_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    """I3: until git answers."""
    root = repository(tmp_path / "work")
    git(root, "config", "--global", setting, str(tmp_path / "none"))
    for name in ("private.py", "open.py"):
        (root / name).write_text(name)
    with monkeypatch.context() as without_git:
        without_git.setenv("PATH", "")
        assert [Texts().look(str(root)).read(str(root / name)) for name in ("private.py", "open.py")] == [None, None]
    assert Texts().look(str(root)).read(str(root / "open.py")) == "open.py"


@pytest.mark.usefixtures("_home")
def test_a_look_that_git_did_not_answer_is_asked_for_once_and_does_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git was slow for a moment: what could not be read then is read the next time."""
    monkeypatch.setattr(texts, "SETTLED_NS", 0)
    root = repository(tmp_path / "work")
    (root / "open.py").write_text("x")
    git(root, "config", "--global", "core.excludesFile", str(tmp_path / "none"))
    asked, answer = list[str](), sources_git.settings

    def slow_at_first(top: str) -> sources_git.Settings:
        asked.append(top)
        if len(asked) == 1:
            raise sources_git.Unanswered
        return answer(top)

    monkeypatch.setattr(sources_git, "settings", slow_at_first)
    look = Texts().look(str(root))
    assert [look.read(str(root / "open.py")) for _ in range(2)] == [None, None]
    assert len(asked) == 1
    assert not holds(look.seen)
    again = Texts().look(str(root))
    assert again.read(str(root / "open.py")) == "x"
    assert holds(again.seen)


@pytest.mark.usefixtures("_home")
@pytest.mark.parametrize("place", ["", "sub"])
def test_an_exception_in_an_ignore_file_that_is_a_link_does_not_count_as_it_does_not_for_git(
    tmp_path: Path, place: str
) -> None:
    """I3: the user's own may be one."""
    root = repository(tmp_path / "work")
    (root / "sub").mkdir()
    for name in ("private.py", "open.py", "more.py"):
        (root / "sub" / name).write_text(name)
    (root / ".git" / "info" / "exclude").write_text("private.py\n")
    (root / "rules").write_text("!private.py\nmore.py\n")
    (root / place / ".gitignore").symlink_to(root / "rules")
    (tmp_path / ".gitignore").symlink_to("others")
    (tmp_path / "others").write_text("*.py\n!private.py\n!open.py\n!more.py\n")
    git(root, "config", "core.excludesFile", "~/.gitignore")
    assert git(root, "check-ignore", "sub/private.py", "sub/open.py") == "sub/private.py\n"
    look = Texts().look(str(root))
    shown = [look.read(str(root / "sub" / name)) for name in ("private.py", "open.py", "more.py")]
    assert shown == [None, "open.py", None]


@pytest.mark.usefixtures("_home")
def test_rules_match_without_case_where_git_has_it_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I3"""
    monkeypatch.setattr(texts, "SETTLED_NS", 0)
    root = repository(tmp_path / "work")
    (root / "private.py").write_text("x")
    (root / ".gitignore").write_text("PRIVATE.PY\n")
    look = Texts().look(str(root))
    assert look.read(str(root / "private.py")) == "x"
    git(root, "config", "core.ignoreCase", "true")
    assert git(root, "check-ignore", "private.py") == "private.py\n"
    assert not holds(look.seen)
    assert look.read(str(root / "private.py")) is None
    with monkeypatch.context() as without_git:  # which could say that
        without_git.setenv("PATH", "")
        (root / ".git" / "HEAD").touch()  # so it is asked anew
        assert Texts().look(str(root)).read(str(root / "private.py")) is None


def included(root: Path, rules: Path) -> None:
    (root.parent / "more").write_text(f"[core]\n\texcludesFile = {rules}\n")


def checked_out(root: Path, rules: Path) -> None:
    (root.parent / "there").write_text(f"[core]\n\texcludesFile = {rules}\n")
    git(root, "checkout", "-qb", "work")


def set_for_one_worktree(root: Path, rules: Path) -> None:
    git(root, "config", "--worktree", "core.excludesFile", str(rules))


@pytest.mark.usefixtures("_home")
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("change", [included, checked_out, set_for_one_worktree])
def test_a_setting_that_comes_later_counts_wherever_git_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path, Path], None], linked: bool
) -> None:
    """I3: files that are included, whether they were there or not, by a condition too, and a worktree's own."""
    monkeypatch.setattr(texts, "SETTLED_NS", 0)
    root = repository(tmp_path / "work")
    git(root, "config", "extensions.worktreeConfig", "true")
    git(root, "config", "include.path", str(tmp_path / "more"))
    git(root, "config", "--global", "includeIf.onbranch:work.path", "there")
    (tmp_path / "there").write_text("")
    (tmp_path / "rules").write_text("private.py\n")
    if linked:
        git(root, "worktree", "add", "-q", "--detach", str(tmp_path / "other"))
        root = tmp_path / "other"
    for name in ("private.py", "open.py"):
        (root / name).write_text(name)
    look = Texts().look(str(root))
    assert look.read(str(root / "private.py")) == "private.py"
    assert holds(look.seen)
    change(root, tmp_path / "rules")
    assert git(root, "check-ignore", "private.py", "open.py") == "private.py\n"
    assert not holds(look.seen)
    assert look.read(str(root / "private.py")) is None
    assert look.read(str(root / "open.py")) == "open.py"


@pytest.mark.usefixtures("_home")
def test_settings_that_change_while_git_reads_them_are_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I3: what is kept of an answer is how its files were before it."""
    monkeypatch.setattr(texts, "SETTLED_NS", 0)
    root = repository(tmp_path / "work")
    (root / "private.py").write_text("x")
    (tmp_path / "rules").write_text("private.py\n")
    answer = sources_git.settings

    def changed_meanwhile(top: str) -> sources_git.Settings:
        said = answer(top)
        git(root, "config", "core.excludesFile", str(tmp_path / "rules"))
        return said

    look = Texts().look(str(root))
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(sources_git, "settings", changed_meanwhile)
        look.workspace.settings()
        look.read(str(root / "open.py"))
    assert look.read(str(root / "private.py")) is None


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


@pytest.mark.parametrize(("ahead", "holding"), [(0, False), (2, True)])
def test_a_date_that_lies_ahead_is_another_clocks_and_no_moment_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int, *, holding: bool
) -> None:
    """As of a server, of the machine around a virtual one, or out of an archive."""
    second = 10**9
    file = tmp_path / "a.py"
    file.write_text("x")
    clock = SimpleNamespace(time_ns=lambda: file.stat().st_ctime_ns + second)
    monkeypatch.setattr(texts, "time", clock)
    monkeypatch.setattr(texts, "SETTLED_NS", second)
    at = clock.time_ns() + ahead * second
    os.utime(file, ns=(at, at))
    look = Texts().look(str(tmp_path))
    look.read(str(file))
    assert look.is_settled(str(file)) == holds(look.seen) == holding


def test_what_is_written_while_it_is_read_was_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "SETTLED_NS", 0)
    path = tmp_path / "module.py"
    path.write_text("whole")
    look = Texts().look(str(tmp_path))
    look.note(str(path))
    path.write_text("half of it")
    assert look.read(str(path)) == "half of it"
    assert not look.is_settled(str(path))
