"""The socket is found without the settings as it is with them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from intentd.config import ConfigError, load
from intentd.where import config_file, current_directory, find_socket
from modelwire.errors import EndpointError


@pytest.fixture(
    params=[None, 'socket = "/from-file.sock"\n', "guess = false\n"], ids=["no file", "names it", "names none"]
)
def settings(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    if request.param:
        config_file().parent.mkdir()
        config_file().write_text(request.param)


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("variable", [None, "", "/from-variable.sock", "ipc:///from/variable.sock"])
@pytest.mark.parametrize("flag", [None, "/from-flag.sock", "ipc:///from/flag.sock"])
def test_the_settings_and_the_short_way_agree(
    flag: str | None, variable: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GUESSAHEAD_INTENTD", raising=False)
    if variable is not None:
        monkeypatch.setenv("GUESSAHEAD_INTENTD", variable)
    assert find_socket(flag) == load({"socket": flag}).socket


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("name", ["rubbish", "./i.sock", "udp://a:1", "tcp://a"])
def test_what_is_no_endpoint_is_taken_for_none(name: str) -> None:
    with pytest.raises(EndpointError, match="is not an endpoint: write "):
        find_socket(name)
    for setting in ("socket", "modeld"):
        with pytest.raises(ConfigError, match=f"--{setting}: '{name}' is not an endpoint: write "):
            load({setting: name})


def test_without_a_settings_file_no_settings_are_loaded(tmp_path: Path) -> None:
    looks = "import sys, intentd.where as where; where.find_socket(None); print('attrs' in sys.modules)"
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "GUESSAHEAD_RUNTIME_DIR": str(tmp_path)}
    tmp_path.chmod(0o700)
    said = subprocess.run([sys.executable, "-c", looks], env=environment, capture_output=True, text=True, timeout=60)
    assert (said.stdout, said.stderr) == ("False\n", "")


def test_a_directory_whose_name_is_no_utf8_is_told_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So `run` and the questions name the same one."""
    (tmp_path / os.fsdecode(b"caf\xe9")).mkdir()
    monkeypatch.chdir(tmp_path / os.fsdecode(b"caf\xe9"))
    assert current_directory() == str(tmp_path / "caf\ufffd")
