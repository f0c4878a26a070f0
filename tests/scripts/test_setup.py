import subprocess
import sys
from pathlib import Path

import pytest

from scripts import setup
from scripts.setup import SetupError, Step

STEP = Step("part", "a part", lists=("part",))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one list, and an environment whose pip writes down what it is told."""
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements/part.txt").write_text("attrs==1\n")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/pip").touch()
    pip = tmp_path / "pip.py"
    pip.write_text("import sys\nopen('calls', 'a').write(sys.argv[1] + '\\n')\nprint('[3/7] compiling')\n")
    for name, value in {
        "ROOT": tmp_path,
        "HOME": tmp_path / ".venv",
        "LOGS": tmp_path / "build",
        "PIP": (sys.executable, str(pip)),
    }.items():
        monkeypatch.setattr(setup, name, value)
    return tmp_path


def calls(root: Path) -> list[str]:
    return (root / "calls").read_text().split()


def test_nothing_is_done_twice(root: Path) -> None:
    setup.set_up((STEP,))
    setup.set_up((STEP,))
    assert calls(root) == ["install", "check"]


def test_a_changed_list_is_installed_again(root: Path) -> None:
    setup.set_up((STEP,))
    (root / "requirements/part.txt").write_text("attrs==2\n")
    setup.set_up((STEP,))
    assert calls(root) == ["install", "check"] * 2


def test_a_failure_shows_the_end_of_the_log_and_what_to_do(root: Path) -> None:
    (root / "pip.py").write_text("print('no compiler')\nraise SystemExit(1)\n")
    with pytest.raises(SetupError, match=r"(?s)no compiler.*Check the network.*setup-part\.log"):
        setup.set_up((STEP,))
    assert not setup.is_done(STEP)


def test_a_list_that_is_not_complete_is_no_success(root: Path) -> None:
    (root / "pip.py").write_text("import sys\nif sys.argv[1] == 'check':\n    print('a needs b')\n    sys.exit(1)\n")
    with pytest.raises(SetupError, match="a needs b"):
        setup.set_up((STEP,))
    assert not setup.is_done(STEP)


def test_a_check_that_dies_is_no_success(root: Path) -> None:
    (root / "pip.py").write_text("import sys\nif sys.argv[1] == 'check':\n    sys.exit('no module named pip')\n")
    with pytest.raises(SetupError, match="no module named pip"):
        setup.set_up((STEP,))
    assert not setup.is_done(STEP)


@pytest.mark.usefixtures("root")
def test_the_position_is_the_compilers_last_count() -> None:
    setup.set_up((STEP,))
    assert setup.position(STEP) == "[3/7]"


def test_an_old_python_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "OLDEST", (99, 0))
    with pytest.raises(SetupError, match=r"Python 99\.0 or newer is needed.*PYTHON="):
        setup.check_python()


def test_a_clear_sentence_comes_from_the_command_itself() -> None:
    shown = subprocess.run([sys.executable, setup.__file__, "--help"], capture_output=True, text=True, timeout=30)
    assert shown.returncode == 0
    assert "example:" in shown.stdout
