"""Templates of the user's: used where they are good, reported where they are not."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from intentd.plan.templates import TemplateError
from intentd.shelf import TemplateShelf

GOOD = 'title = "t"\nsystem = "mine"\nuser = "$source"\n[budget]\ncharacters = 1000\n'


def test_a_template_of_the_users_replaces_the_built_in_one_as_soon_as_it_is_there(tmp_path: Path) -> None:
    shelf = TemplateShelf(tmp_path)
    built_in = shelf.get("test_failed")
    assert shelf.get("test_failed") is built_in
    (tmp_path / "test_failed.toml").write_text(GOOD)
    assert shelf.get("test_failed").system.template == "mine" != built_in.system.template
    assert shelf.get("fix").system.template != "mine"
    (tmp_path / "test_failed.toml").unlink()
    assert shelf.get("test_failed").user.template == built_in.user.template


def test_a_bad_template_is_reported_with_its_line_and_the_built_in_one_is_used(tmp_path: Path) -> None:
    shelf = TemplateShelf(tmp_path)
    built_in = shelf.get("fix")
    file = tmp_path / "fix.toml"
    file.write_text(GOOD.replace("$source", "$sauce"))
    assert shelf.get("fix").user.template == built_in.user.template
    (problem,) = shelf.problems
    assert problem.startswith(f"{file}:3: 'user' has no $sauce; it has ")
    assert problem.endswith("; the built-in template is used")
    file.write_bytes(b"\xff" * 10)
    shelf.get("fix")
    assert "cannot be read" in shelf.problems[0]
    file.write_text(GOOD + "#")
    assert shelf.get("fix").system.template == "mine"
    assert not shelf.problems


def test_where_the_directory_cannot_be_looked_at_the_built_in_templates_are_used(tmp_path: Path) -> None:
    shelf = TemplateShelf(tmp_path / ("x" * 300))
    assert shelf.get("fix").user.template == TemplateShelf(tmp_path).get("fix").user.template
    assert shelf.names("") == TemplateShelf(tmp_path).names("")
    assert not shelf.problems


def test_a_template_that_cannot_be_looked_at_any_more_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_file = Path.is_file

    def refuse(path: Path) -> bool:
        if path.is_relative_to(tmp_path):
            raise OSError(107, "Transport endpoint is not connected")
        return is_file(path)

    (tmp_path / "fix.toml").write_text(GOOD)
    shelf = TemplateShelf(tmp_path)
    monkeypatch.setattr(Path, "is_file", refuse)
    assert shelf.get("fix").system.template != "mine"
    (problem,) = shelf.problems
    assert "cannot be read: Transport endpoint is not connected; the built-in template is used" in problem


def test_a_template_that_nothing_asks_for_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shelf = TemplateShelf(tmp_path)
    for name in (*shelf.names(""), "selection_mine"):
        (tmp_path / f"{name}.toml").write_text(GOOD)
    assert not shelf.problems
    (file := tmp_path / "test_fialed.toml").write_text(GOOD)
    for _ in range(2):
        (problem,) = shelf.problems
        assert problem.startswith(f"{file}: no template is called so; there are crash, diagnostic, fix, ")
    assert len(caplog.records) == 1
    file.rename(tmp_path / "test_failed.toml")
    assert not shelf.problems


def test_a_bad_template_of_the_users_own_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shelf = TemplateShelf(tmp_path)
    file = tmp_path / "selection_mine.toml"
    file.write_text("title =")
    for _ in range(2):
        with pytest.raises(TemplateError, match="not TOML"):
            shelf.get("selection_mine")
    assert len(caplog.records) == len(shelf.problems) == 1
    assert "built-in" not in shelf.problems[0]
    file.write_text(GOOD)
    assert shelf.get("selection_mine").system.template == "mine"
    file.unlink()
    with pytest.raises(TemplateError, match="there is no such template"):
        shelf.get("selection_mine")
    assert not shelf.problems


@pytest.mark.parametrize("name", ["crash", "selection_mine"])
@pytest.mark.parametrize("mend", [lambda file: file.write_text(GOOD), Path.unlink])
def test_faults_are_told_while_they_are_there_without_anybody_asking_for_the_template(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, mend: Callable[[Path], None]
) -> None:
    shelf = TemplateShelf(tmp_path)
    assert not shelf.problems
    file = tmp_path / f"{name}.toml"
    file.write_text(GOOD.replace("$source", "$sauce"))
    for _ in range(2):
        (problem,) = shelf.problems
        assert problem.startswith(f"{file}:3: 'user' has no $sauce")
    assert len(caplog.records) == 1
    mend(file)
    assert not shelf.problems


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_reported_and_not_waited_for(tmp_path: Path, make: Callable[[Path], None]) -> None:
    shelf = TemplateShelf(tmp_path)
    make(tmp_path / "fix.toml")
    assert shelf.get("fix").user.template
    assert "fix.toml:1: it is no file; the built-in template is used" in shelf.problems[0]
