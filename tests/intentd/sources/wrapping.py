"""Owns running a command without and with `intentd run` around it, for tests that compare the two (I1)."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

WRAPPER = (sys.executable, "-m", "intentd", "run", "--")
SH = "/bin/sh"
BASH = shutil.which("bash")
PYTHON = sys.executable
LIMIT_S = 60

Open = Callable[..., Any]
Environment = Mapping[str, str]


@contextmanager
def started(argv: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is killed where the test has not seen its end: a test that fails waits for none."""
    with subprocess.Popen(argv, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def both_on_a_terminal(open_screen: Open, argv: list[str], **options: Any) -> tuple[Any, Any]:
    """(output, wait status) without and with the wrapper."""
    return tuple(open_screen(argv, wrapped=wrapped, **options).end() for wrapped in (False, True))


def both_on_pipes(argv: list[str], environment: Environment, **options: Any) -> tuple[Any, Any]:
    """(stdout, stderr, return code) without and with the wrapper, in a session without a terminal."""
    results = []
    for full in (argv, [*WRAPPER, *argv]):
        ended = subprocess.run(
            full, env=environment, capture_output=True, start_new_session=True, timeout=LIMIT_S, check=False, **options
        )
        results.append((ended.stdout, ended.stderr, ended.returncode))
    return results[0], results[1]
