"""Settings: which one wins, and what is said of a wrong one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from intentd.config import ConfigError, load, unknown_variables
from intentd.limits import Limits
from intentd.shelf import TemplateShelf


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "intentd.toml"
    path.write_text('socket = "ipc:///file.sock"\nmodeld = "ipc:///modeld.sock"\nguess = false\n')
    return path


def test_a_flag_wins_over_the_environment_and_that_over_the_file(file: Path) -> None:
    assert load({}, environ={}, file=file).socket == "ipc:///file.sock"
    environ = {"GUESSAHEAD_INTENTD": "ipc:///environment.sock", "GUESSAHEAD_GUESS": "yes"}
    assert load({"socket": None}, environ=environ, file=file).socket == "ipc:///environment.sock"
    config = load({"socket": "/flag.sock"}, environ=environ, file=file)
    assert (config.socket, config.modeld, config.guess) == ("ipc:///flag.sock", "ipc:///modeld.sock", True)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("sockets = 'a'", "there is no setting 'sockets'"),
        ("guess = 'maybe'", "'guess' is true or false"),
        ("log_level = 'loud'", "'log_level' is one of debug"),
        ("socket = 5", "'socket' is a string"),
        ("= 5", "cannot be read"),
        (f"socket = {'[' * 5000}", "cannot be read: its lists are nested too deeply"),
        ("questions = 0", "'questions' is a whole number above 0"),
        ("clients = true", "'clients' is a whole number above 0"),
    ],
)
def test_a_wrong_setting_is_said_with_its_place(tmp_path: Path, text: str, word: str) -> None:
    file = tmp_path / "intentd.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=word) as caught:
        load({}, environ={}, file=file)
    assert str(file) in str(caught.value)


def test_a_variable_that_names_no_setting_keeps_nothing_from_starting_and_is_named(file: Path) -> None:
    """Containers set `INTENTD_PORT` for a service of that name."""
    environ = {"INTENTD_QESTIONS": "2", "INTENTD_PORT": "tcp://10.0.0.1:80", "INTENTD_COMMANDS": "3"}
    assert load({}, environ=environ, file=file).commands == 3
    says = unknown_variables(environ)
    assert says.startswith("no setting is named INTENTD_PORT, INTENTD_QESTIONS; the variables are GUESSAHEAD_INTENTD, ")
    assert unknown_variables({"INTENTD_COMMANDS": "3", "PATH": "/bin"}) == ""


def test_a_directory_that_was_named_and_is_not_there_is_said_once(file: Path, tmp_path: Path) -> None:
    assert load({}, environ={}, file=file).problems() == ()
    config = load({"templates": tmp_path, "tools": tmp_path / "toools"}, environ={}, file=file)
    assert config.problems() == (f"{tmp_path}/toools: there is no such directory of tools; the built-in ones are used",)


def test_a_directory_that_cannot_be_looked_at_is_said_and_raises_nothing(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for name in ("x" * 300, "\0", "loop"):
        (problem,) = load({"templates": tmp_path, "tools": tmp_path / name}, environ={}, file=file).problems()
        assert problem.startswith(f"{tmp_path}/{name}: this directory of tools cannot be looked at (")
        assert problem.endswith("); the built-in ones are used")

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    usual = load({}, environ={}, file=file)
    usual.tools.parent.mkdir()
    usual.tools.symlink_to(usual.tools)
    (problem,) = usual.problems()
    assert problem.startswith(f"{usual.tools}: this directory of tools cannot be looked at (")


@pytest.fixture
def theirs(runtime: Path) -> Path:
    """Others reach it."""
    runtime.chmod(0o711)
    directory = runtime / "theirs"
    directory.mkdir()
    (directory / "fix.toml").write_text('title = "t"\nsystem = "mine"\nuser = "$source"\n')
    return directory


@contextmanager
def with_mode(mode: int, directory: Path) -> Iterator[None]:
    """Meanwhile we are not root, whom no mode keeps out."""
    user = os.geteuid()
    directory.chmod(mode)
    try:
        os.seteuid(user or 65534)
        yield
    finally:
        os.seteuid(user)
        directory.chmod(0o700)


def test_of_a_directory_that_may_be_entered_and_not_listed_nobody_says_that_it_is_not_used(
    file: Path, theirs: Path
) -> None:
    config = load({"templates": theirs, "tools": "/"}, environ={}, file=file)
    with with_mode(0o111, theirs):
        (problem,) = config.problems()
        assert TemplateShelf(theirs).get("fix").system.template == "mine"
    says = "this directory of templates cannot be listed (Permission denied); what is in it may go unnoticed"
    assert problem == f"{theirs}: {says}"


def test_of_a_directory_that_may_be_listed_and_not_entered_it_is_said(file: Path, theirs: Path) -> None:
    config = load({"templates": theirs, "tools": "/"}, environ={}, file=file)
    with with_mode(0o444, theirs):
        (problem,) = config.problems()
    assert problem.endswith(" cannot be looked at (Permission denied); the built-in ones are used")


def test_limits_have_defaults_and_can_be_set(file: Path) -> None:
    assert load({}, environ={}, file=file).limits() == Limits()
    limits = load({}, environ={"INTENTD_QUESTIONS": "2", "INTENTD_COMMANDS": "3"}, file=file).limits()
    assert (limits.questions, limits.commands) == (2, 3)
