"""What can be typed, and what is said of the rest."""

import io
import json
import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from modeld.cli import main
from modeld.config import options
from modeld.findings import Finding
from modeld.recording import write_segment
from modeld.schedule import Scheduler
from modeld.schedule.journal import Journal
from modeld.schedule.messages import EngineEnded, EngineReady, Kind, Op, OpKey, Submitted


def exit_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    output, errors = capsys.readouterr()
    return ended.value.code, output, errors


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["serve"],
        ["status"],
        ["top"],
        ["describe"],
        ["ask"],
        ["story"],
        ["load"],
        ["unload"],
        ["replay"],
        ["trace"],
        ["keys"],
        ["config"],
    ],
)
def test_every_command_has_help_with_an_example(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    status, output, _ = exit_of(capsys, *command, "--help")
    assert status == 0
    assert "Example: modeld" in output


def test_the_help_names_every_option_with_its_variable(capsys: pytest.CaptureFixture[str]) -> None:
    _, output, _ = exit_of(capsys, "serve", "--help")
    words = re.sub(r"\s+", " ", output)
    for option in options():
        assert f"--{option.name.replace('_', '-')} " in words
    assert "[MODELD_EXTRA_CELLS]" in words
    assert "[GUESSAHEAD_MODELD]" in words


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["sing"],
        ["serve", "--volume", "9"],
        ["ask"],
        ["serve", "--context", "small"],
        ["serve", "--queue"],
        ["story"],
        ["story", "1", "--last"],
        ["story", ""],
        ["replay"],
        ["trace"],
        ["top", "--interval", "0"],
        ["top", "--interval", "nan"],
        ["top", "--count", "0"],
    ],
)
def test_wrong_usage_is_said_in_one_line_with_status_2(capsys: pytest.CaptureFixture[str], wrong: list[str]) -> None:
    status, output, errors = exit_of(capsys, *wrong)
    assert (status, output) == (2, "")
    assert errors.startswith("modeld: ")
    assert errors.count("\n") == 1


@pytest.mark.parametrize("words", [["serve", "--port", "3"], ["ask", "x", "--max-tokens", "0"], ["keys", "list", "x"]])
def test_who_says_it_wrong_is_led_to_the_help_of_their_command(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    status, _, errors = exit_of(capsys, *words)
    assert (status, errors.endswith(f"(see modeld {words[0]} --help)\n")) == (2, True)


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_of(capsys, "--version") == (0, f"modeld {version('modeld')}\n", "")


@pytest.mark.parametrize("endpoint", ["udp://127.0.0.1:5555", "modeld.sock", "tcp://nowhere"])
def test_what_is_no_endpoint_is_said_in_one_line_with_status_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    """A service that is started again and again would help nobody."""
    for command in ("status", "serve"):
        status, _, errors = exit_of(capsys, command, "--socket", endpoint)
        assert status == 2
        assert errors.startswith(f"modeld: socket in --socket: '{endpoint}' is not an endpoint: write ")
        assert errors.count("\n") == 1
    monkeypatch.setenv("GUESSAHEAD_MODELD", endpoint)
    status, _, errors = exit_of(capsys, "serve")
    assert (status, errors.startswith("modeld: socket in GUESSAHEAD_MODELD: ")) == (2, True)


def test_a_socket_where_others_can_enter_is_a_wrong_setting(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    status, _, errors = exit_of(capsys, "serve", "--backend", "fake", "--socket", f"ipc://{tmp_path}/m.sock")
    assert (status, "is open to others" in errors) == (2, True)


def test_a_replay_says_whether_the_commands_are_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    journal = Journal(Scheduler())
    journal.handle(EngineReady(), 0.0)
    key = OpKey("ann", "1")
    journal.handle(Submitted(Op(key=key, kind=Kind.REAL)), 1.0)
    journal.handle(EngineEnded(key, False), 2.0)
    path = tmp_path / "events"
    write_segment(path, journal.last())
    assert exit_of(capsys, "replay", str(path)) == (
        0,
        "3 events gave the same commands as when they were recorded\n",
        "",
    )
    path.write_text(path.read_text().replace('"is":"start"', '"is":"stop"', 1).replace(',"queued_at":1.0', ""))
    path.write_text(path.read_text().replace(',"preempted":null,"again":false', ""))
    status, output, _ = exit_of(capsys, "replay", str(path))
    assert status == 1
    assert output.startswith("event 2 of segment 1 gave other commands: Submitted(")
    assert "recorded  Stop(" in output
    assert "replayed  Start(" in output


def test_what_cannot_be_replayed_or_loaded_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, _, errors = exit_of(capsys, "replay", str(tmp_path / "none"))
    assert (status, errors.count("\n")) == (1, 1)
    assert errors == f"modeld: {tmp_path}/none cannot be read: No such file or directory\n"
    assert exit_of(capsys, "trace", str(tmp_path / "none")) == (1, "", errors)


def test_a_daemon_elsewhere_is_refused_until_its_key_is_known(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUESSAHEAD_KEYS", str(tmp_path / "keys"))
    status, _, errors = exit_of(capsys, "status", "--socket", "tcp://127.0.0.1:5555")
    assert (status, errors.count("\n")) == (1, 1)
    assert "modeld keys trust tcp://127.0.0.1:5555 KEY" in errors


def test_keys_are_shown_let_in_and_struck_off(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUESSAHEAD_KEYS", str(tmp_path / "keys"))
    _, own, _ = exit_of(capsys, "keys")
    assert len(own.strip()) == 64
    other = "ab" * 32
    assert exit_of(capsys, "keys", "allow", "laptop", other) == (0, "laptop is let in\n", "")
    assert exit_of(capsys, "keys", "trust", "tcp://a.example:7411", other)[0] == 0
    _, known, _ = exit_of(capsys, "keys", "--json", "list")
    assert json.loads(known) == {
        "own": own.strip(),
        "allowed": {"laptop": other},
        "daemons": {"tcp://a.example:7411": other},
    }
    assert [exit_of(capsys, "keys", "refuse", "laptop")[0] for _ in range(2)] == [0, 1]


def test_config_shows_every_setting_and_where_it_comes_from(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("MODELD_QUEUE", "7")
    monkeypatch.setenv("GUESSAHEAD_MODELD", f"ipc://{tmp_path}/m.sock")
    (tmp_path / "guessahead").mkdir()
    file = tmp_path / "guessahead" / "modeld.toml"
    file.write_text("chunk = 64")
    found = json.loads(exit_of(capsys, "config", "--json", "--profile", "fast")[1])
    assert found["profile"] == {"value": "fast", "origin": "--profile"}
    assert found["queue"] == {"value": 7, "origin": "MODELD_QUEUE"}
    assert found["chunk"] == {"value": 64, "origin": str(file)}
    assert found["context"] == {"value": 8192, "origin": "default"}
    _, text, _ = exit_of(capsys, "config", "--profile", "fast")
    assert tomllib.loads(text)["queue"] == 7, "the text is a file that would set the same"


@pytest.mark.parametrize("command", ["serve", "config", "doctor"])
def test_a_variable_that_names_no_setting_is_warned_of_once(
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    monkeypatch.setenv("MODELD_PORT", "tcp://10.0.0.1:80")
    _, output, errors = exit_of(capsys, command, "--socket", "ipc:///nowhere/m.sock")
    says = {"serve": caplog.text, "config": errors, "doctor": output}
    assert says[command].count("MODELD_PORT") == 1
    assert "/nowhere" in output + errors, "it went on to its socket"


@pytest.mark.parametrize("command", [["serve", "--model"], ["serve", "--record"], ["config", "--model"], ["load"]])
@pytest.mark.parametrize("where", ["no home", "gone"])
def test_a_path_that_leads_nowhere_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], where: str
) -> None:
    (tmp_path / "gone").mkdir()
    if where == "gone":
        monkeypatch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
    name = "~nobody-of-this-name/x.gguf" if where == "no home" else "x.gguf"
    status, output, errors = exit_of(capsys, *command, name, "--socket", f"ipc://{tmp_path}/m.sock")
    assert (status, output) == (2, "")
    assert errors.startswith(f"modeld: '{name}' leads nowhere")
    assert errors.count("\n") == 1
    if where == "gone":
        monkeypatch.chdir(tmp_path)


def test_a_terminal_that_cannot_show_a_character_gets_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    async def examine(_: dict[str, Any]) -> list[Finding]:
        return [Finding(about="cache", state="warning", says="full", advice="make room")]

    monkeypatch.setattr("modeld.doctor.examine", examine)
    shown = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(shown, encoding="iso-8859-1", write_through=True))
    with pytest.raises(SystemExit):
        main(["doctor"])
    assert b"? make room" in shown.getvalue()


@pytest.mark.parametrize(
    "words", [["--version"], ["serve", "--help"], ["config"], ["keys"], ["replay", "RECORD"], ["trace", "RECORD"]]
)
def test_an_output_that_cannot_be_written_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    record = next((Path(__file__).parent / "recorded").glob("*.jsonl"))
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stdout", full)
        ended = exit_of(capsys, *(str(record) if word == "RECORD" else word for word in words))
    says = "modeld: the output cannot be written: No space left on device; write it to another place\n"
    assert ended == (1, "", says)


def test_a_failure_whose_words_cannot_be_written_says_that(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = next((Path(__file__).parent / "recorded").glob("*.jsonl"))
    monkeypatch.setattr("modeld.schedule.journal.replay", lambda segment: [segment])
    monkeypatch.setattr("modeld.cli.difference_lines", lambda *_: "differs")
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stdout", full)
        status, _, errors = exit_of(capsys, "replay", str(record))
    assert (status, errors.count("\n")) == (1, 1)
    assert "cannot be written" in errors
