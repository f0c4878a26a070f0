"""What can be typed, and what is said of the rest."""

import re

import pytest

from modeld.cli import main
from modeld.config import options


def exit_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    output, errors = capsys.readouterr()
    return ended.value.code, output, errors


@pytest.mark.parametrize("command", [[], ["serve"], ["status"], ["describe"], ["ask"]])
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
    "wrong", [[], ["sing"], ["serve", "--volume", "9"], ["ask"], ["serve", "--context", "small"], ["serve", "--queue"]]
)
def test_wrong_usage_is_said_in_one_line_with_status_2(capsys: pytest.CaptureFixture[str], wrong: list[str]) -> None:
    status, output, errors = exit_of(capsys, *wrong)
    assert (status, output) == (2, "")
    assert errors.startswith("modeld: ")
    assert errors.count("\n") == 1


def test_a_refused_endpoint_is_said_in_one_line_with_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("status", "serve"):
        status, _, errors = exit_of(capsys, command, "--socket", "tcp://127.0.0.1:5555")
        assert status == 1
        assert errors.startswith("modeld: tcp://127.0.0.1:5555 is refused")
        assert errors.count("\n") == 1
