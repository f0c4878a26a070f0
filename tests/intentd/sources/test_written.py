"""What a command writes to a regular file: the file is as without `run` (I1), and what came into it is read back."""

import os
import subprocess
from pathlib import Path

import pytest

from intentd.sources.written import Written
from tests.intentd.sources.wrapping import LIMIT_S, PYTHON, SH, WRAPPER, Environment

REPORTED = """
import os, sys, time
from intentd.sources.run import run

class Reporter:
    def started(self, argv, tail):
        self.tail, wrapper = tail, os.getpid()
        if argv[0].endswith("ptw") and os.fork() == 0:
            late = time.monotonic() + 50
            while tail.total < 8:
                os.sched_yield()
                if time.monotonic() > late:
                    os.kill(wrapper, 9)
                    os._exit(1)
            open("gate", "w").close()
            os._exit(0)
    def finished(self, status, total):
        with open("report", "wb") as file:
            file.write(b"%d:" % total + self.tail.read(total))

run(sys.argv[1:], Reporter())
"""


def sh(line: str, environment: Environment, folder: Path) -> tuple[bytes, int]:
    """Its standard error and return code."""
    ended = subprocess.run(
        [SH, "-c", line], env=environment, cwd=folder, stderr=subprocess.PIPE, timeout=LIMIT_S, check=False
    )
    return ended.stderr, ended.returncode


@pytest.mark.parametrize(
    "line",
    [
        "RUN cat * > all",
        "RUN cat a >> a",
        "RUN grep -r b . > all",
        "ulimit -f 1; RUN head -c 2000 a > all",
        "RUN sh -c 'printf 12345678; dd bs=1 seek=2 count=1 conv=notrunc if=a 2>&-; echo x >&2' > all 2>&1",
    ],
)
def test_a_file_is_as_without(environment: Environment, tmp_path: Path, line: str) -> None:
    """I1: the command knows its output by itself, writes where it likes, and meets the file's own limits."""
    seen = []
    for wrapper in ("", " ".join(WRAPPER)):
        folder = tmp_path / f"wrapped-{bool(wrapper)}"
        folder.mkdir()
        (folder / "a").write_bytes(b"abcdefg\n" * 25_000)
        faults, status = sh(f"ulimit -c 0; ulimit -f 40000; {line.replace('RUN', wrapper)}", environment, folder)
        seen.append((faults, status, {file.name: file.read_bytes() for file in folder.iterdir()}))
    assert seen[1] == seen[0]


@pytest.mark.parametrize(
    ("redirect", "report"),
    [
        ("> out", b"8:err\nout\n"),
        (">> out", b"8:err\nout\n"),
        ("> out 2>&1", b"8:out\nerr\n"),
        ("> out 2> err", b"8:out\nerr\n"),
        ("1<> out", b"8:err\nout\n"),
    ],
)
def test_what_came_into_a_file_is_told(environment: Environment, tmp_path: Path, redirect: str, report: bytes) -> None:
    (tmp_path / "out").write_bytes(b"was there\n")
    (tmp_path / "run.py").write_text(REPORTED)
    sh(f"{PYTHON} run.py {SH} -c 'echo out; echo err >&2' {redirect}", environment, tmp_path)
    assert (tmp_path / "report").read_bytes() == report


def test_the_cycles_of_a_command_that_goes_on_are_read_from_its_file(environment: Environment, tmp_path: Path) -> None:
    """It ends when somebody has seen what it wrote."""
    (tmp_path / "run.py").write_text(REPORTED)
    (tmp_path / "ptw").write_text("echo 1 failed; read line < gate; exit 3\n")
    (tmp_path / "ptw").chmod(0o700)
    os.mkfifo(tmp_path / "gate")
    assert sh(f"{PYTHON} run.py ./ptw > out", environment, tmp_path) == (b"", 3)


def test_the_last_bytes_of_much_are_read_and_the_others_counted(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb", buffering=0) as file:
        file.write(b"was there")
        written = Written(file.fileno())
        assert written.read(4) == (b"", 0)
        file.write(b"abcdef")
        assert written.read(4) == (b"cdef", 2)
        file.write(b"gh")
        assert written.read(4) == (b"gh", 0)
        file.truncate(3)
        assert written.read(4) == (b"", 0)
        os.pwrite(file.fileno(), b"new", 3)
        assert written.read(4) == (b"new", 0)


@pytest.mark.parametrize("name", ["echo", "ptw"])
def test_a_file_that_cannot_be_read_any_more_changes_no_end(
    environment: Environment, tmp_path: Path, name: str
) -> None:
    """I1: also while a command that goes on is read."""
    program = """
import os, sys
from intentd.cli import main

def fails(*_):
    raise OSError(5, "Input/output error")

os.pread = fails
main(["run", "--", *sys.argv[1:]])
"""
    (tmp_path / "run.py").write_text(program)
    (tmp_path / name).write_text("echo out; sleep 1; echo end; exit 7\n")
    (tmp_path / name).chmod(0o700)
    assert sh(f"{PYTHON} run.py ./{name} > out", environment, tmp_path) == (b"", 7)
    assert (tmp_path / "out").read_bytes() == b"out\nend\n"


def test_a_file_that_may_not_be_read_is_the_commands_all_the_same(environment: Environment, tmp_path: Path) -> None:
    """I1"""
    program = """
import os, sys
from intentd.cli import main
real = os.open

def refuses(path, *options):
    if str(path).startswith("/proc/"):
        raise PermissionError(path)
    return real(path, *options)

os.open = refuses
main(["run", "--", "/bin/echo", "out"])
"""
    (tmp_path / "run.py").write_text(program)
    assert sh(f"{PYTHON} run.py > out", environment, tmp_path) == (b"", 0)
    assert (tmp_path / "out").read_bytes() == b"out\n"
