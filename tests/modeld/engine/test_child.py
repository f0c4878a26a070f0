"""An engine's process as the system sees it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from modeld.engine import child
from modeld.engine.config import EngineConfig
from modeld.engine.stop_flag import SharedStopFlag

WITH_A_PROJECT = """
import os, sys
from modelwire import own_path
own_path.settle()
from modeld.engine.child import _spawn
from modeld.engine.config import EngineConfig
null, (life, _) = os.open(os.devnull, os.O_RDWR), os.pipe()
os.waitpid(_spawn(EngineConfig(backend="fake"), 1, null, null, life).pid, 0)
"""


def test_modules_of_the_project_that_the_daemon_was_started_for_are_none_of_an_engines(tmp_path: Path) -> None:
    """PYTHONPATH, as an editor may have it."""
    (tmp_path / "argparse.py").write_text("raise SystemExit('argparse of the project')")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    front = subprocess.run(
        [sys.executable, "-c", WITH_A_PROJECT],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "of the project" not in front.stderr
    assert "non-socket" in front.stderr  # that is what it got


ON_A_TERMINAL = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(1, termios.TIOCSCTTY, 0)
ways = termios.tcgetattr(1)
ways[3] |= termios.TOSTOP
termios.tcsetattr(1, termios.TCSANOW, ways)
from modeld.engine.child import _spawn
from modeld.engine.config import EngineConfig
null = os.open(os.devnull, os.O_RDWR)
process = _spawn(EngineConfig(backend="fake"), 1, null, null, null)
_, status = os.waitpid(process.pid, os.WUNTRACED)
process.kill()
assert signal.SIGTTOU not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
sys.exit(3 if os.WIFSTOPPED(status) else 4)
"""
"""The engine gets no socket: it prints a traceback, and ends."""


def test_s13_an_engine_that_prints_is_not_stopped_by_a_terminal_with_tostop() -> None:
    """Else a crash is a hang, and a load that warns never ends."""
    ours, theirs = os.openpty()
    front = subprocess.Popen(
        [sys.executable, "-c", ON_A_TERMINAL],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        assert front.wait(60) == 4
    finally:
        front.kill()
        front.wait()
        os.close(ours)


async def test_s13_an_engine_of_another_edition_ends_before_it_reads_what_it_was_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Options and messages of a daemon that was upgraded while it ran may mean something else, or nothing."""
    flag = SharedStopFlag.create()
    monkeypatch.setattr(child, "EDITION", "0.0.1 0123")
    try:
        started = await child.Child.start(EngineConfig(backend="fake"), 1, flag.descriptor)
        assert await started.bury(60) == child.UPGRADED
    finally:
        flag.close()
