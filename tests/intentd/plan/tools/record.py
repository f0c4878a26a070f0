"""Owns making the recorded outputs again: runs the real tools on the samples and writes `recorded/*.txt`.

    python record.py --python PYTHON --node DIRECTORY [NAME ...]

PYTHON has pytest, pytest-xdist, pytest-reportlog, mypy and ruff; DIRECTORY has a `node_modules` with typescript, jest
and vitest; gcc, g++, clang and clang++ are found on the path (`zig cc` and `zig c++`, of the package ziglang, are
such). Machine paths become `/project`, `/python` and `/node`; times and addresses become constants. Tests read the
recordings and never run this.
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

HERE = Path(__file__).resolve().parent / "recorded"
LIMIT_S = 120

PYTEST = "{python} -m pytest -p no:cacheprovider"
RUNS: dict[str, tuple[str, str]] = {
    # name: (sample, command); `pty:` before the command gives it a terminal, so it colours and draws.
    "pytest-long": ("pytest", f"{PYTEST} --tb=long"),
    "pytest-auto-colour": ("pytest", f"pty:{PYTEST}"),
    "pytest-short": ("pytest", f"{PYTEST} --tb=short"),
    "pytest-line": ("pytest", f"{PYTEST} --tb=line"),
    "pytest-native": ("pytest", f"{PYTEST} --tb=native"),
    "pytest-no": ("pytest", f"{PYTEST} --tb=no"),
    "pytest-quiet": ("pytest", f"{PYTEST} -q"),
    "pytest-first": ("pytest", f"{PYTEST} -x"),
    "pytest-verbose-colour": ("pytest", f"pty:{PYTEST} -v --tb=short"),
    "pytest-xdist": ("pytest", f"{PYTEST} -n 2"),
    "pytest-xdist-verbose-colour": ("pytest", f"pty:{PYTEST} -n 2 -v"),
    "pytest-xdist-crash": ("pytest_crash", f"{PYTEST} -n 2"),
    "pytest-no-summary": ("pytest", f"{PYTEST} -r N"),
    "pytest-live-log": ("pytest", f"{PYTEST} -rA --tb=short --log-cli-level=INFO"),
    "pytest-collection": ("pytest_broken", PYTEST),
    "pytest-fine": ("pytest_fine", PYTEST),
    "pytest-interrupted": ("pytest_interrupted", PYTEST),
    "pytest-internal": ("pytest_internal", PYTEST),
    "pytest-usage": ("pytest_fine", f"{PYTEST} --no-such-option"),
    "pytest-none": ("pytest_fine", f"{PYTEST} -k nothing_of_that_name"),
    "pytest-junit": ("pytest", f"{PYTEST} -q --junitxml=report.xml >out; cat report.xml"),
    "pytest-junit-collection": ("pytest_broken", f"{PYTEST} -q --junitxml=report.xml >out; cat report.xml"),
    "pytest-reportlog": ("pytest", f"{PYTEST} -q --report-log=report.jsonl >out; cat report.jsonl"),
    "pytest-reportlog-collection": ("pytest_broken", f"{PYTEST} -q --report-log=report.jsonl >out; cat report.jsonl"),
    "pytest-subtests": ("pytest_subtests", PYTEST),
    "pytest-subtests-no": ("pytest_subtests", f"{PYTEST} --tb=no"),
    "pytest-subtests-no-summary": ("pytest_subtests", f"{PYTEST} -r N"),
    "pytest-subtests-xdist-verbose-colour": ("pytest_subtests", f"pty:{PYTEST} -n 2 -v"),
    "pytest-subtests-verbose-colour": ("pytest_subtests", f"pty:{PYTEST} -v --tb=short"),
    "pytest-subtests-junit": ("pytest_subtests", f"{PYTEST} -q --junitxml=report.xml >out; cat report.xml"),
    "pytest-subtests-reportlog": ("pytest_subtests", f"{PYTEST} -q --report-log=report.jsonl >out; cat report.jsonl"),
    "pytest-subtests-fine": ("pytest_subtests_fine", f"{PYTEST} -v"),
    "unittest": ("unittest", "{python} -m unittest"),
    "unittest-verbose": ("unittest", "{python} -m unittest -v test_clock"),
    "unittest-logged": ("unittest_logged", "{python} -m unittest"),
    **{
        f"traceback-{name}": ("traceback", f"{{python}} {name}.py")
        for name in ("plain", "chained", "thread", "syntax", "imports_syntax", "group", "deep", "library", "local")
    },
    "mypy": ("mypy", "{python} -m mypy --no-incremental billing.py"),
    "mypy-columns": ("mypy", "{python} -m mypy --no-incremental --show-column-numbers --show-error-end billing.py"),
    "mypy-pretty-colour": ("mypy", "pty:{python} -m mypy --no-incremental --pretty billing.py"),
    "mypy-syntax": ("mypy", "{python} -m mypy --no-incremental broken.py"),
    "ruff-full": ("ruff", "{python} -m ruff check --no-cache --isolated"),
    "ruff-full-colour": ("ruff", "pty:{python} -m ruff check --no-cache --isolated"),
    "ruff-concise": ("ruff", "{python} -m ruff check --no-cache --isolated --output-format=concise"),
    "gcc": ("gcc", "gcc -Wall -c main.c"),
    "gcc-colour": ("gcc", "pty:gcc -Wall -c main.c"),
    "gcc-fatal": ("gcc", "gcc -c fatal.c"),
    "gcc-link": ("gcc", "gcc link.c"),
    "gcc-template": ("gcc", "g++ -c template.cpp"),
    "gcc-parentheses": ("gcc", "gcc -c 'my (old) dir/main.c'"),
    "clang": ("gcc", "clang -Wall -c main.c"),
    "clang-colour": ("gcc", "pty:clang -Wall -c main.c"),
    "clang-fatal": ("gcc", "clang -c fatal.c"),
    "clang-template": ("gcc", "clang++ -c template.cpp"),
    "tsc": ("tsc", "node {node}/node_modules/typescript/bin/tsc --noEmit --pretty false cart.ts"),
    "tsc-pretty-colour": ("tsc", "pty:node {node}/node_modules/typescript/bin/tsc --noEmit cart.ts"),
    "tsc-syntax": ("tsc", "node {node}/node_modules/typescript/bin/tsc --noEmit --pretty false broken.ts"),
    "tsc-parentheses": (
        "tsc",
        "node {node}/node_modules/typescript/bin/tsc --noEmit --pretty false 'app/(my group)/page.ts'",
    ),
    "tsc-parentheses-pretty-colour": (
        "tsc",
        "pty:node {node}/node_modules/typescript/bin/tsc --noEmit 'app/(my group)/page.ts'",
    ),
    "jest": ("jest", "node {node}/node_modules/jest/bin/jest.js --rootDir ."),
    "jest-colour": ("jest", "pty:node {node}/node_modules/jest/bin/jest.js --rootDir ."),
    "jest-parentheses": ("jest_group", "node {node}/node_modules/jest/bin/jest.js --rootDir ."),
    "vitest": ("vitest", "node {node}/node_modules/vitest/vitest.mjs run --cache=false"),
    "vitest-colour": ("vitest", "pty:node {node}/node_modules/vitest/vitest.mjs run"),
    "vitest-parentheses": ("vitest_group", "node {node}/node_modules/vitest/vitest.mjs run --cache=false"),
}


def main() -> None:
    """Make the named recordings, or all."""
    parser = argparse.ArgumentParser(description="Run the real tools and record what they print.")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--node", type=Path, required=True)
    parser.add_argument("names", nargs="*", help="recordings to make; all without any")
    options = parser.parse_args()
    for name in options.names or RUNS:
        text = record(name, Path(options.python).absolute(), options.node.resolve())
        (HERE / f"{name}.txt").write_bytes(text)
        print(f"{name}: {len(text)} bytes")


def record(name: str, python: Path, node: Path) -> bytes:
    """One tool's output on one sample, without a trace of this machine."""
    sample, command = RUNS[name]
    with tempfile.TemporaryDirectory(prefix="project-") as folder:
        project = Path(folder).resolve() / "project"
        project.mkdir()
        lay_out(HERE / "samples" / sample, project)
        if (node / "node_modules").is_dir() and sample.startswith(("jest", "vitest")):
            (project / "node_modules").symlink_to(node / "node_modules")
        command = command.format(python=python, node=node)
        run = on_terminal if command.startswith("pty:") else on_pipe
        raw = run(command.removeprefix("pty:"), project)
        return neutral(raw, project, python, node)


def lay_out(sample: Path, project: Path) -> None:
    """Copy a sample; its files carry `.sample` so that no tool of this repository takes them for code."""
    for source in sample.rglob("*.sample"):
        target = project / source.relative_to(sample).with_suffix("")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    (project / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    (project / "package.json").write_text('{"name": "project", "private": true}\n')


def environment(project: Path) -> dict[str, str]:
    """A small environment: what this machine's user has set changes no recording."""
    kept = {name: os.environ[name] for name in ("PATH",)}
    return kept | {"HOME": str(project), "LANG": "C.UTF-8", "TERM": "xterm-256color", "COLUMNS": "80", "NO_UPDATE": "1"}


def on_pipe(command: str, project: Path) -> bytes:
    """Run it as in a pipeline: no terminal, both streams together."""
    return subprocess.run(
        ["bash", "-c", command],
        cwd=project,
        env=environment(project),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LIMIT_S,
        check=False,
    ).stdout


def on_terminal(command: str, project: Path) -> bytes:
    """Run it on a pseudo-terminal of 80 columns."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        ["bash", "-c", f"stty cols 80 rows 24; {command}"],
        cwd=project,
        env=environment(project),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        seen = b""
        try:
            while chunk := os.read(ours, 65536):
                seen += chunk
        except OSError:  # Linux says EIO when the last writer is gone.
            pass
        finally:
            os.close(ours)
        process.wait(LIMIT_S)
    return seen


def neutral(raw: bytes, project: Path, python: Path, node: Path) -> bytes:
    """Without this machine's paths, times and addresses."""
    prefix = subprocess.run(
        [python, "-c", "import sys; print(sys.prefix); print(sys.base_prefix)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    text = raw.decode("utf-8", "surrogateescape")
    for path, neutral_path in ((str(project), "/project"), (str(node), "/node"), *((p, "/python") for p in prefix)):
        text = text.replace(path, neutral_path)
    text = re.sub(r"(?<![\w.])/tmp/cc\w+\.o", "/tmp/object.o", text)
    text = re.sub(r"0x[0-9a-f]{6,}", "0x7f0000000000", text)
    text = re.sub(r"(?<![\d.:])\d+(\.\d+)?(?= ?m?s\b)", "1", text)
    text = re.sub(r"(?<![\d:])\d\d:\d\d:\d\d(?![\d:])", "12:00:00", text)
    text = re.sub(r'"(start|stop|duration)": [\d.e-]+', r'"\1": 1', text)
    text = re.sub(r'(time|timestamp|hostname)="[^"]*"', r'\1="1"', text)
    return text.encode("utf-8", "surrogateescape")


if __name__ == "__main__":
    main()
