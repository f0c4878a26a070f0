"""`intentd pipe`: every byte comes through, and it ends when its input or its reader does (I1)."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT_S = 60.0
PIPE = [sys.executable, "-m", "intentd", "pipe"]


@pytest.fixture
def environment(tmp_path: Path, runtime: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "GUESSAHEAD_RUNTIME_DIR": str(runtime), "XDG_CONFIG_HOME": str(tmp_path)}


@pytest.mark.parametrize("size", [0, 1, 5_000_000])
def test_every_byte_comes_through(environment: dict[str, str], size: int) -> None:
    """I1"""
    given = bytes(range(256)) * (size // 256) + b"\xff\r\0\x1b[31m"[: size % 256]
    passed = subprocess.run(PIPE, input=given, capture_output=True, env=environment, timeout=LIMIT_S, check=True)
    assert passed.stdout == given
    assert passed.stderr == b""


def test_it_ends_as_cat_does_when_nobody_reads_on(environment: dict[str, str]) -> None:
    """I1"""
    pipe = subprocess.Popen(PIPE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert pipe.stdin
    assert pipe.stdout
    pipe.stdin.write(b"first\n")
    pipe.stdin.flush()
    assert pipe.stdout.read(6) == b"first\n"
    pipe.stdout.close()
    pipe.stdin.write(b"second\n")
    pipe.stdin.close()
    assert pipe.wait(LIMIT_S) == -signal.SIGPIPE


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_lost_output_is_said_and_is_no_success(environment: dict[str, str]) -> None:
    """I1"""
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            PIPE, input=b"x", stdout=full, stderr=subprocess.PIPE, env=environment, timeout=LIMIT_S, check=False
        )
    assert (ended.returncode, ended.stderr) == (1, b"intentd: cannot write the output: No space left on device\n")


def test_input_that_cannot_be_read_is_said_as_that(environment: dict[str, str]) -> None:
    with Path("/dev/null").open("wb") as unreadable:
        ended = subprocess.run(
            PIPE, stdin=unreadable, capture_output=True, env=environment, timeout=LIMIT_S, check=False
        )
    assert (ended.returncode, ended.stderr) == (1, b"intentd: cannot read the input: Bad file descriptor\n")


def test_ctrl_c_is_the_commands(environment: dict[str, str]) -> None:
    """I1: what the command prints at its end still comes through."""
    pipe = subprocess.Popen(PIPE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert pipe.stdin
    assert pipe.stdout
    pipe.stdin.write(b"first\n")
    pipe.stdin.flush()
    assert pipe.stdout.read(6) == b"first\n"
    pipe.send_signal(signal.SIGINT)
    pipe.stdin.write(b"1 failed\n")
    pipe.stdin.close()
    assert pipe.stdout.read() == b"1 failed\n"
    assert pipe.wait(LIMIT_S) == 0
    pipe.stdout.close()
