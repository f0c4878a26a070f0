"""The systemd units: they can be read, and start what exists."""

import os
import shutil
import subprocess
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


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="this machine has no systemd")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    commands = tmp_path / ".local" / "bin"
    commands.mkdir(parents=True)
    for name in ("modeld", "intentd"):
        (commands / name).symlink_to("/bin/true")
    found = subprocess.run(
        ["systemd-analyze", "--user", "verify", *sorted(UNITS.glob("*.service"))],
        env={**os.environ, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (found.returncode, found.stdout + found.stderr) == (0, "")


@pytest.mark.parametrize("name", ["modeld", "intentd"])
def test_s13_an_engine_that_the_kernel_ends_for_want_of_memory_stops_no_daemon(name: str) -> None:
    """It is of the same control group, and by default systemd stops all of it."""
    assert "OOMPolicy=continue" in (UNITS / f"{name}.service").read_text("utf-8").splitlines()


@pytest.mark.parametrize("name", ["modeld", "intentd"])
def test_a_wrong_setting_is_not_tried_again_and_again(name: str) -> None:
    """Status 2 says that it would be wrong the next time too."""
    lines = (UNITS / f"{name}.service").read_text("utf-8").splitlines()
    assert {"Restart=on-failure", "RestartPreventExitStatus=2"} <= set(lines)
