"""Owns making the recordings again: runs the real pytest on the sample project and keeps what it prints.

    python record.py [--python PYTHON]

PYTHON has pytest and pytest-xdist. Machine paths become `/project` and `/python`. Tests read the recordings only.
"""

import argparse
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIMIT_S = 120
ONE = "tests/test_prices.py"
RUNS = {
    "plain": [ONE],
    "quiet": ["-q", ONE],
    "colour": ["--color=yes", ONE],
    "terminal": [ONE],
    "short": ["--tb=short", ONE],
    "line": ["--tb=line", ONE],
    "native": ["--tb=native", ONE],
    "none": ["--tb=no", ONE],
    "no-summary": ["-rN", ONE],
    "verbose-xdist": ["-v", "-n2", "--color=yes", ONE],
    "collection": ["-q"],
    "passed": ["-q", f"{ONE}::TestBasket::test_empty"],
}
"""Name → arguments of pytest. `terminal` runs on one."""


def main() -> None:
    """Makes all recordings."""
    parser = argparse.ArgumentParser(description="Run pytest on the sample project and record what it prints.")
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    python = parser.parse_args().python.absolute()
    for name, arguments in RUNS.items():
        with tempfile.TemporaryDirectory() as directory:
            project = Path(directory).resolve() / "project"
            lay_out(project)
            argv = [str(python), "-m", "pytest", "-p", "no:cacheprovider", *arguments]
            printed = on_terminal(argv, project) if name == "terminal" else on_pipe(argv, project)
            (HERE / f"{name}.txt").write_bytes(neutral(printed, project, python))


def lay_out(project: Path) -> None:
    """The sample's files carry `.sample` so that nothing takes them for code of this repository."""
    for source in (HERE / "project").rglob("*.sample"):
        target = project / source.relative_to(HERE / "project").with_suffix("")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def on_pipe(argv: list[str], project: Path) -> bytes:
    """Both outputs as one, as in `2>&1`."""
    return subprocess.run(
        argv, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False
    ).stdout


def on_terminal(argv: list[str], project: Path) -> bytes:
    """What a terminal of 80 columns is sent."""
    printed = []

    def read(master: int) -> bytes:
        data = os.read(master, 65536)
        printed.append(data)
        return data

    before = Path.cwd()
    os.chdir(project)
    try:
        pty.spawn(argv, read)
    finally:
        os.chdir(before)
    return b"".join(printed)


def neutral(printed: bytes, project: Path, python: Path) -> bytes:
    """Without a trace of this machine or this moment."""
    for path, name in ((project, b"/project"), (Path(sys.base_prefix), b"/python"), (python.parent.parent, b"/python")):
        printed = printed.replace(bytes(path), name)
    printed = re.sub(rb"0x[0-9a-f]{8,}", b"0x7f0000000000", printed)
    return re.sub(rb"in [0-9.]+s", b"in 1.00s", printed)


if __name__ == "__main__":
    main()
