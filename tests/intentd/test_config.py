"""Settings: which one wins, and what is said of a wrong one."""

from pathlib import Path

import pytest

from intentd.config import ConfigError, load, unknown_variables
from intentd.limits import Limits


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
    for name in ("x" * 300, "\0"):
        (problem,) = load({"templates": tmp_path, "tools": tmp_path / name}, environ={}, file=file).problems()
        assert problem.startswith(f"{tmp_path}/{name}: this directory of tools cannot be looked at (")
        assert problem.endswith("); the built-in ones are used")

    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    usual = load({}, environ={}, file=file)
    monkeypatch.setattr("os.scandir", refuse)
    assert [problem.split(": ")[1] for problem in usual.problems()] == [
        f"this directory of {kind} cannot be looked at (Permission denied); the built-in ones are used"
        for kind in ("templates", "tools")
    ]


def test_limits_have_defaults_and_can_be_set(file: Path) -> None:
    assert load({}, environ={}, file=file).limits() == Limits()
    limits = load({}, environ={"INTENTD_QUESTIONS": "2", "INTENTD_COMMANDS": "3"}, file=file).limits()
    assert (limits.questions, limits.commands) == (2, 3)
