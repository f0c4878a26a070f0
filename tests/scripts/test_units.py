"""The systemd units: they can be read, and start what exists."""

from configparser import ConfigParser
from pathlib import Path

import pytest

from intentd.cli import main as intentd
from modeld.cli import main as modeld

UNITS = Path(__file__).parents[2] / "docs" / "systemd"


@pytest.mark.parametrize(("name", "main"), [("modeld", modeld), ("intentd", intentd)])
def test_a_unit_starts_a_command_that_exists(name: str, main: object, capsys: pytest.CaptureFixture[str]) -> None:
    unit = ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNITS / f"{name}.service", "utf-8")
    command, *arguments = unit["Service"]["ExecStart"].split()
    assert command == f"%h/.local/bin/{name}"
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--help"])  # type: ignore[operator]
    assert ended.value.code == 0
    assert all(argument in capsys.readouterr().out for argument in arguments if argument.startswith("--"))
