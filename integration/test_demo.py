"""The demonstration as a person runs it: real daemons, the packaged model, pytest on a project that fails."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
COMMAND = [sys.executable, "-m", "bench.demo.run"]
START_S = 60.0
DEMO_S = 700
"""Most of it is a prompt of 2,200 tokens, twice through a model on busy cores."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """For temporary files, so that a test sees what is left of them. A socket's path must be short."""
    with tempfile.TemporaryDirectory(prefix="demo-") as name:
        yield Path(name)


@pytest.fixture
def environ(folder: Path) -> dict[str, str]:
    busy = {"GUESSAHEAD_MAX_LOAD": "1000"}  # a crowded machine is a machine to test on
    return {**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1", **busy}


@pytest.mark.timeout(2 * DEMO_S)
def test_the_guess_is_hit_and_nothing_was_resident_without_it(environ: dict[str, str]) -> None:
    """S6, S10"""
    shown = subprocess.run(COMMAND, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=DEMO_S)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    figures = json.loads((ROOT / "build/demo.json").read_text())
    assert figures["outcome"] == "hit"
    assert figures["hit_forward_passes"] == 0
    assert figures["cold_reused_tokens"] == 0
    assert 1500 <= figures["reused_tokens"] == figures["prompt_tokens"] < 8192
    assert "without a guess" in shown.stdout


def _end(demo: subprocess.Popen[bytes]) -> None:
    """Where a test failed: in good order if it can, so that its daemons end with it."""
    demo.terminate()
    with suppress(subprocess.TimeoutExpired):
        demo.wait(START_S)
    demo.kill()


def test_when_it_is_interrupted_it_leaves_nothing_behind(environ: dict[str, str], folder: Path) -> None:
    with subprocess.Popen(COMMAND, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as demo:
        assert demo.stdout
        try:
            for line in demo.stdout:
                if b"intentd run" in line:  # both daemons are up
                    break
            demo.send_signal(signal.SIGINT)
            rest, _ = demo.communicate(timeout=START_S)
        finally:
            _end(demo)
    assert demo.returncode == 130, rest
    assert list(folder.glob("guessahead-*")) == []
