"""I3 at the file system: nothing outside of the workspace, nothing refused, nothing through links."""

import os
from pathlib import Path

import pytest

from intentd.texts import MAX_FILE_BYTES, Texts
from intentd.workspace import OPT_OUT_FILE, Workspace, root_of


def read(root: Path, path: str) -> str | None:
    return Texts().look(str(root)).read(path)


@pytest.mark.parametrize("mark", [".git", "pyproject.toml", "setup.cfg", "pytest.ini"])
def test_the_root_is_the_nearest_directory_with_a_mark(tmp_path: Path, mark: str) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / mark).touch()
    assert root_of(str(below)) == str(tmp_path)
    (tmp_path / "a" / mark).touch()
    assert root_of(str(below)) == str(tmp_path / "a")


def test_a_folder_above_that_may_not_be_searched_has_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = tmp_path / "shut" / "below"
    below.mkdir(parents=True)
    stat = Path.stat

    def refused(path: Path, **options: bool) -> os.stat_result:
        if path.parent.name == "shut" and path.name != "below":
            raise PermissionError(13, "Permission denied")
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refused)
    (tmp_path / "setup.cfg").touch()
    assert root_of(str(below)) == str(tmp_path)


def test_files_inside_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"x = '\xff'\r\n")
    assert read(tmp_path, str(tmp_path / "a.py")) == "x = '\N{REPLACEMENT CHARACTER}'\n"


def test_nothing_else_is_read(tmp_path: Path) -> None:
    """I3"""
    root, outside = tmp_path / "root", tmp_path / "outside.py"
    (root / ".git").mkdir(parents=True)
    outside.write_text("secret")
    (root / ".env").write_text("secret")
    (root / ".git" / "config").write_text("secret")
    (root / "link.py").symlink_to(outside)
    (root / "env.py").symlink_to(root / ".env")
    (root / "loop.py").symlink_to(root / "loop.py")
    (root / "binary.py").write_bytes(b"\0")
    os.mkfifo(root / "pipe.py")
    with (root / "huge.py").open("wb") as huge:
        huge.truncate(MAX_FILE_BYTES + 1)
    names = [
        ".env",
        ".git/config",
        "link.py",
        "env.py",
        "loop.py",
        "binary.py",
        "pipe.py",
        "huge.py",
        "missing.py",
        ".",
    ]
    for path in [*(str(root / name) for name in names), str(outside), f"{root}/../outside.py", "/etc/passwd", "a\0b"]:
        assert read(root, path) is None, path


@pytest.mark.parametrize("folder", [".kube", ".ssh", ".docker", ".AWS", ".config/gh", ".config/gcloud/deep"])
def test_nothing_is_read_in_a_folder_of_secrets_that_is_the_workspace_itself(tmp_path: Path, folder: str) -> None:
    """I3: a file opened alone has no other root."""
    file = tmp_path / folder / "config"
    file.parent.mkdir(parents=True)
    file.write_text("secret")
    root = Path(root_of(str(file.parent)))
    assert root == file.parent
    assert read(root, str(file)) is None
    assert Texts().look(str(root)).shown(str(file), "secret") is None


def test_a_folder_of_secrets_that_is_a_link_is_one(tmp_path: Path) -> None:
    """I3"""
    (tmp_path / "dotfiles" / "ssh").mkdir(parents=True)
    (tmp_path / "dotfiles" / "ssh" / "config").write_text("secret")
    (tmp_path / ".ssh").symlink_to(tmp_path / "dotfiles" / "ssh")
    file = tmp_path / ".ssh" / "config"
    assert read(Path(root_of(str(file.parent))), str(file)) is None


def test_the_folder_above_a_workspace_may_have_any_other_name(tmp_path: Path) -> None:
    root = tmp_path / ".config" / "credentials" / "nvim"
    root.mkdir(parents=True)
    (root / "init.lua").write_text("x")
    assert read(root, str(root / "init.lua")) == "x"


def test_a_folder_called_env_is_other_peoples_where_an_environment_is_in_it(tmp_path: Path) -> None:
    place = tmp_path / "src" / "env" / "maze.py"
    place.parent.mkdir(parents=True)
    place.write_text("x")
    assert read(tmp_path, str(place)) == "x"
    (place.parent / "pyvenv.cfg").touch()
    assert read(tmp_path, str(place)) is None


def test_a_rule_hides_a_file_that_is_not_there_and_no_ignore_file_outside_of_the_repository_does(
    tmp_path: Path,
) -> None:
    """I3: for what a program prints of files, by whatever name."""
    top, root = tmp_path / "top", tmp_path / "top" / "root"
    root.mkdir(parents=True)
    (top / ".git").mkdir()
    (top / ".gitignore").write_text("drafts/\n")
    (tmp_path / ".gitignore").write_text("*\n")
    look = Texts().look(str(root))
    hidden = [
        "drafts/a.py",
        "../drafts/a.py",
        str(top / "drafts" / "a.py"),
        ".env",
        ".venv/lib/x.py",
        "/a/.ssh/b.py",
    ]
    assert [name for name in hidden if not look.hides(str(root), name)] == []
    assert not [
        name
        for name in ("a.py", "../b/a.py", "../../a.py", "/a\0b", "<string>", "a\ud800.py")
        if look.hides(str(root), name)
    ]
    assert str(top / ".gitignore") in look.seen


def test_a_librarys_file_is_hidden_by_its_name_alone(tmp_path: Path) -> None:
    """I3: no ignore file can show it, so none of those above it is watched."""
    top, root = tmp_path / "top", tmp_path / "top" / "root"
    root.mkdir(parents=True)
    (top / ".git").mkdir()
    (tmp_path / "link").symlink_to(root)
    look = Texts().look(str(root))
    names = [".venv/lib/a.py", str(top / "node_modules" / "b.js"), str(tmp_path / "link" / ".venv" / "c.py")]
    assert all(look.hides(str(root), name) for name in names)
    assert look.seen == {}


def test_a_name_that_is_no_utf_8_may_be_asked_for(tmp_path: Path) -> None:
    """I3: the rules say of it what they say of any other, as a line of an ignore file in the same encoding does."""
    names = [os.fsdecode(name) for name in (b"open\xe9.py", b"caf\xe9.py")]
    (tmp_path / ".gitignore").write_bytes(b"caf\xe9.py\n")
    for name in names:
        (tmp_path / name).write_text("x")
    (tmp_path / "link.py").symlink_to(tmp_path / names[0])
    assert [read(tmp_path, str(tmp_path / name)) for name in (*names, "link.py")] == ["x", None, "x"]
    assert [Texts().look(str(tmp_path)).hides(str(tmp_path), name) for name in names] == [False, True]


def test_a_root_that_is_reached_through_a_link_is_read(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.py").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert read(tmp_path / "real", str(tmp_path / "link" / "a.py")) == "x"
    assert read(tmp_path / "link", str(tmp_path / "link" / "a.py")) == "x"


def test_a_part_that_opts_out_is_not_read_and_one_in_a_repository_that_opts_out_has_opted_out(tmp_path: Path) -> None:
    """I3"""
    part, other = tmp_path / "packages" / "part", tmp_path / "packages" / "other"
    for folder in (tmp_path / ".git", part / "src", other):
        folder.mkdir(parents=True)
    (part / "src" / "a.py").write_text("x")
    (other / "b.py").write_text("y")
    (tmp_path / "link.py").symlink_to(part / "src" / "a.py")
    (part / OPT_OUT_FILE).touch()
    assert Workspace(part).opted_out()
    assert not Workspace(other).opted_out()
    assert not Workspace(tmp_path).opted_out()
    assert read(tmp_path, str(part / "src" / "a.py")) is None
    assert read(tmp_path, str(tmp_path / "link.py")) is None
    assert Workspace(tmp_path).hides(str(part / "src" / "a.py"))
    assert Workspace(other).hides(str(part / "src" / "a.py"))
    assert read(tmp_path, str(other / "b.py")) == "y"
    (tmp_path / OPT_OUT_FILE).touch()
    assert Workspace(other).opted_out()
    assert read(tmp_path, str(other / "b.py")) is None


def test_a_part_that_opts_out_later_is_noticed(tmp_path: Path) -> None:
    """I3"""
    part = tmp_path / "part"
    for folder in (tmp_path / ".git", part):
        folder.mkdir()
    (part / "a.py").write_text("x")
    look = Texts().look(str(tmp_path))
    look.read(str(part / "a.py"))
    assert look.seen[str(part / OPT_OUT_FILE)] is None
