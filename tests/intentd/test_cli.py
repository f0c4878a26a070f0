"""The command line: help, exit statuses, one line for an error."""

import io
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from attrs import fields

from intentd.arguments import parse
from intentd.cli import main
from intentd.config import Config
from intentd.messages import Offers
from intentd.present import terminal
from intentd.where import config_file


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUESSAHEAD_RUNTIME_DIR", str(runtime))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("GUESSAHEAD_INTENTD", raising=False)


COMMANDS = ("serve", "run", "pipe", "explain", "fix", "offers", "show", "pause", "resume", "status")


@pytest.mark.parametrize("words", [["--help"], *([command, "--help"] for command in COMMANDS)])
def test_every_command_explains_itself_with_an_example(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 0
    assert re.search("example: .*intentd [a-z]", capsys.readouterr().out)


def test_the_help_of_serve_names_the_file_and_every_variable(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    said = capsys.readouterr().out
    assert str(config_file()) in said
    for setting in fields(Config):
        assert re.search(rf"^  {setting.name} +(GUESSAHEAD|INTENTD)_", said, re.MULTILINE), setting.name


@pytest.mark.parametrize("words", [[], ["fly"], ["status", "--fast"], ["serve", "--log-level", "loud"]])
def test_a_wrong_command_line_gives_one_line_and_status_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("intentd: ")
    assert error.count("\n") == 1


def test_a_wrapped_command_waits_for_nothing_that_the_daemon_alone_uses() -> None:
    """I1"""
    modules = "intentd.cli, intentd.sources.run, intentd.sources.pipe, intentd.sources.report, intentd.messages"
    heavy = ("re2", "pathspec", "detect_secrets", "psutil", "watchfiles", "defusedxml", "intentd.plan")
    program = f"import sys, {modules}; print([name for name in {heavy} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "[]\n"


def test_a_wrapped_command_starts_without_waiting_for_large_modules() -> None:
    """I1"""
    modules = "intentd.cli, intentd.sources.run, intentd.sources.pipe, intentd.sources.report"
    heavy = ("attr", "asyncio", "shutil", "argparse", "pathlib")
    program = f"import sys, {modules}; print([name for name in {heavy} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "[]\n"


def test_a_wrong_setting_gives_one_line_and_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INTENTD_QUESTIONS", "many")
    assert main(["serve"]) == 2
    assert capsys.readouterr().err == "intentd: INTENTD_QUESTIONS: 'questions' is a whole number above 0, not 'many'\n"


def test_a_variable_that_names_no_setting_is_warned_of_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("INTENTD_PORT", "tcp://10.0.0.1:80")
    main(["serve", "--socket", "ipc:///nowhere/i.sock"])
    assert caplog.text.count("INTENTD_PORT") == 1
    assert "/nowhere" in capsys.readouterr().err, "it went on to its socket"


@pytest.mark.parametrize("before", [["--"], [], ["--socket", "ipc:///nowhere/i.sock", "--"]])
def test_run_leaves_the_commands_own_options_alone(before: list[str]) -> None:
    """I1"""
    words = ["echo", "--", "--socket", "x", "--help"]
    wrapper = [sys.executable, "-m", "intentd", "run", *before]
    ran = subprocess.run([*wrapper, *words], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "-- --socket x --help\n"


@pytest.mark.parametrize("words", [["status", "--fast"], ["run", "-x", "ls"], ["explain", "1", "2"]])
def test_who_says_too_much_is_led_to_the_help_of_their_command(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    error = capsys.readouterr().err
    assert error.endswith(f"see 'intentd {words[0]} --help'\n")
    assert ("put -- before the command" in error) == (words[0] == "run")


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert (left.value.code, capsys.readouterr().out) == (0, f"intentd {version('intentd')}\n")


def test_an_editor_may_say_how_it_talks_to_every_server() -> None:
    assert parse(["lsp", "--stdio"]).command == "lsp"


@pytest.mark.parametrize("words", [["run"], ["pipe"], ["status"], ["serve"], ["lsp"]])
def test_a_socket_that_cannot_be_one_is_a_wrong_command_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main([*words, "--socket", "rubbish", *(["--", "true"] if words == ["run"] else [])])
    assert left.value.code == 2
    assert "'rubbish' is not an endpoint: write ipc:// and an absolute path" in capsys.readouterr().err


def test_run_without_a_command_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run"]) == 2
    assert main(["run", "--"]) == 2
    assert "intentd run -- pytest -q" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["status"], ["explain"], ["fix", "2"], ["offers"], ["show", "1"], ["pause"]])
def test_without_a_daemon_it_says_how_to_start_one(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o700)
    assert main(words) == 1
    error = capsys.readouterr().err
    assert error.startswith("intentd: no intentd answers at ipc://")
    assert error.endswith("start it with 'intentd serve'\n")
    main([*words, "--socket", other := str(tmp_path / "other")])
    assert capsys.readouterr().err.endswith(f"start it with 'intentd serve --socket ipc://{other}'\n")


@pytest.mark.parametrize("words", [["explain"], ["fix", "2"], ["offers"], ["show", "1"]])
def test_in_a_directory_that_is_gone_it_says_so(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main(words) == 1
    assert capsys.readouterr().err == "intentd: the current directory is gone; change to one that is there\n"


def test_a_terminal_that_is_not_utf8_shows_what_it_can(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    latin = io.TextIOWrapper(io.FileIO(1, "wb", closefd=False), encoding="latin-1", write_through=True)
    monkeypatch.setattr(sys, "stdout", latin)
    monkeypatch.setattr(terminal, "show_status", lambda *_, **__: print("caf\xe9 \u2192 tea"))
    main(["status"])
    assert capfdbinary.readouterr().out == b"caf\xe9 ? tea\n"


@pytest.mark.parametrize("words", [["--version"], ["serve", "--help"], ["nvim-plugin-path"], ["offers", "--json"]])
def test_an_output_that_cannot_be_written_is_said_in_one_line(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "_question", lambda *_: Offers(offers=()))
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(words) == 1
    says = "intentd: the output cannot be written: No space left on device; write it to another place\n"
    assert capsys.readouterr().err == says


def test_whoever_stops_reading_is_told_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(["nvim-plugin-path"]) == 1
    assert capfd.readouterr().err == ""


def test_the_neovim_plugin_is_small_and_where_the_command_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nvim-plugin-path"]) == 0
    plugin = Path(capsys.readouterr().out.rstrip("\n"))
    assert (plugin / "plugin/intentd.lua").is_file()
    assert sum(len(file.read_text().splitlines()) for file in plugin.rglob("*.lua")) < 260
