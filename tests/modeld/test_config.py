"""Where settings come from, and what is said of wrong ones."""

from pathlib import Path
from typing import Any

import pytest

from modeld.config import ConfigError, Settings, load, unknown_variables


def settings(tmp_path: Path, toml: str = "", **flags: Any) -> Settings:
    file = tmp_path / "modeld.toml"
    file.write_text(toml)
    environment = {name: flags.pop(name) for name in list(flags) if name.isupper()}
    return load(flags, environment=environment, file=file)


def test_a_flag_wins_over_a_variable_over_the_file_over_the_default(tmp_path: Path) -> None:
    toml = "queue = 3\nsessions = 3\nprofile = 'fast'"
    found = settings(tmp_path, toml, queue="1", MODELD_QUEUE="2", MODELD_SESSIONS="2")
    assert (found.queue, found.sessions, found.profile, found.backend) == (1, 2, "fast", "llamacpp")


def test_a_missing_file_is_no_fault(tmp_path: Path) -> None:
    assert load({}, environment={}, file=tmp_path / "missing.toml") == Settings()


@pytest.mark.parametrize(
    ("toml", "given", "says"),
    [
        ("", {"context": "12"}, "context is '12' in --context; it must be a whole number from 256 up"),
        ("", {"MODELD_CONTEXT": "much"}, "context is 'much' in MODELD_CONTEXT; it must be a whole number"),
        ("", {"sequences": "252"}, "sequences is '252' in --sequences; it must be a whole number from 2 to 251"),
        ("", {"extra_cells": "-1"}, "extra_cells is '-1' in --extra-cells"),
        ("profile = 'best'", {}, "modeld.toml; it must be one of exact, fast"),
        ("threads = true", {}, "threads is True in "),
        ("queue = 1.5", {}, "queue is 1.5 in "),
        ("model = 3", {}, "it must be the path of a GGUF file"),
        ("contxt = 4096", {}, "contxt in {file} is no option; the options are socket, model, backend"),
        ("contxt", {}, "{file} cannot be read"),
    ],
)
def test_a_wrong_option_is_said_in_one_line_with_its_place_and_what_it_may_be(
    tmp_path: Path, toml: str, given: dict[str, str], says: str
) -> None:
    with pytest.raises(ConfigError) as fault:
        settings(tmp_path, toml, **given)
    assert says.format(file=tmp_path / "modeld.toml") in str(fault.value)
    assert "\n" not in str(fault.value)


def test_a_variable_that_names_no_setting_keeps_nothing_from_starting_and_is_named(tmp_path: Path) -> None:
    """Containers set `MODELD_PORT` for a service of that name."""
    environment = {"MODELD_PORT": "tcp://10.0.0.1:80", "MODELD_CONTXT": "4096", "MODELD_QUEUE": "2"}
    assert settings(tmp_path, **environment).queue == 2
    says = unknown_variables(environment)
    assert says.startswith("no setting is named MODELD_CONTXT, MODELD_PORT; the variables are GUESSAHEAD_MODELD, ")
    assert unknown_variables({"MODELD_QUEUE": "2", "PATH": "/bin"}) == ""


def test_the_engine_gets_what_was_said_and_its_own_defaults_for_the_rest(tmp_path: Path) -> None:
    engine = settings(tmp_path, context="1024", model="a.gguf").engine()
    assert (engine.context, engine.model, engine.chunk) == (1024, str(Path("a.gguf").absolute()), 512)


def test_the_socket_is_where_it_was_said_or_in_the_runtime_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("GUESSAHEAD_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("GUESSAHEAD_MODELD", raising=False)
    assert settings(tmp_path).endpoint() == f"ipc://{tmp_path}/modeld.sock"
    assert settings(tmp_path, GUESSAHEAD_MODELD="ipc:///x/y").endpoint() == "ipc:///x/y"
    tmp_path.chmod(0o755)
    with pytest.raises(ConfigError, match="chmod 700"):
        settings(tmp_path).endpoint()


def test_paths_do_not_depend_on_who_works_where_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere/folder").mkdir(parents=True)
    (tmp_path / "x").symlink_to("elsewhere/folder")
    flags = {"record": "events", "model": "x/../m.gguf", "unload_after": "60"}
    settings = load(flags, environment={}, file=tmp_path / "none")
    assert settings.record_path() == tmp_path / "events"
    assert settings.model_path() == settings.engine().model
    assert settings.model_path() == str(tmp_path.resolve() / "elsewhere/m.gguf"), "as the kernel has it"
    assert settings.unload_after == 60
    assert (Settings().record_path(), Settings().model_path()) == (None, None)
