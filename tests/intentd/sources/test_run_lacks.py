"""I1: where a process, a thread, a descriptor or a terminal cannot be had, the command runs as without us, once."""

import resource
import signal
import subprocess
from pathlib import Path

import pytest

from tests.intentd.sources.wrapping import LIMIT_S, PYTHON, SH, WRAPPER, Environment, Open

LACKING = """
import errno, importlib, os, sys, termios
from intentd.cli import main

name, at, calls = sys.argv[1], int(sys.argv[2]), 0
module, *classes, attribute = name.split(".")
owner = importlib.import_module(module)
for one in classes:
    owner = getattr(owner, one)
real, fault = getattr(owner, attribute), {"termios": termios.error, "threading": RuntimeError}.get(module, OSError)
if name == "mmap.mmap" and at == 2:
    fault = MemoryError

def lacks(*args, **options):
    global calls
    calls += 1
    if calls == at:
        open(os.environ.get("MET", os.devnull), "w").close()
        os.kill(os.getpid(), int(os.environ.get("COMES", "0")))
        raise fault(errno.EMFILE, os.strerror(errno.EMFILE))
    return real(*args, **options)

setattr(owner, attribute, lacks)
sys.exit(main(["run", "--", *sys.argv[3:]]))
"""
SCRIPT = "stty -a; tty >/dev/null && echo on a terminal; echo err >&2; grep SigBlk /proc/self/status; exit 7"


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("mmap.mmap", 1),
        ("mmap.mmap", 2),
        ("os.openpty", 1),
        ("os.ttyname", 1),
        *(("termios.tcgetattr", at) for at in (1, 2, 3, 4)),
        *(("os.pipe", at) for at in (1, 2, 3, 4)),
        ("socket.socketpair", 1),
        *(("os.fork", at) for at in (1, 2)),
        ("threading.Thread.start", 1),
        ("threading.Thread.start", 2),
    ],
)
def test_what_cannot_be_had_keeps_no_command_from_running(
    open_screen: Open, environment: Environment, tmp_path: Path, name: str, at: int
) -> None:
    """I1: on a terminal, and with its standard error on a pipe; it is met on one of them at least."""
    lacking = [PYTHON, "-c", LACKING, name, str(at)]
    command = [SH, "-c", SCRIPT]
    without = open_screen(command, wrapped=False)
    met = {"MET": str(tmp_path / "met")}
    screen = open_screen([*lacking, *command], wrapped=False, env=met)
    before = screen.settings()
    assert screen.end() == without.end()
    assert screen.settings() == before
    seen = [
        subprocess.run(
            full,
            env={**environment, **met},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
        for full in (command, [*lacking, *command])
    ]
    assert [(one.stdout, one.stderr, one.returncode) for one in seen[1:]] == [
        (seen[0].stdout, seen[0].stderr, seen[0].returncode)
    ]
    assert (tmp_path / "met").exists()


@pytest.mark.parametrize("name", ["mmap.mmap", "threading.Thread.start"])
def test_a_signal_that_comes_meanwhile_is_the_commands(environment: Environment, name: str) -> None:
    """I1"""
    for number in (signal.SIGTERM, signal.SIGINT):
        ended = subprocess.run(
            [PYTHON, "-c", LACKING, name, "1", SH, "-c", "echo ran on"],
            env={**environment, "COMES": str(int(number))},
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert (ended.returncode, ended.stdout) == (-number, b"")


def test_a_command_that_runs_alone_has_no_child_that_it_did_not_start(environment: Environment) -> None:
    """I1: when the lack shows, there is a process for the report already."""
    script = "import os\ntry: os.wait()\nexcept ChildProcessError: print('none')"
    ended = subprocess.run(
        [PYTHON, "-c", LACKING, "threading.Thread.start", "1", PYTHON, "-c", script],
        env=environment,
        capture_output=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert ended.stdout == b"none\n"


def test_high_numbers_of_descriptors_stand_in_no_ones_way(open_screen: Open) -> None:
    """I1: `select` knows them up to 1023."""
    many = (
        "import os, resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (1200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
        "null = os.open('/dev/null', 0)\nos.set_inheritable(null, True)\n"
        "for fd in range(3, 1050): os.dup2(null, fd)\n"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    ask = "echo who >/dev/tty; read x </dev/tty; echo got $x >/dev/tty; exit 3"
    command = f"{' '.join(WRAPPER)} {SH} -c '{ask}' </dev/null >/dev/null 2>&1"
    screen = open_screen([PYTHON, "-c", many, SH, "-c", command], wrapped=False)
    screen.until(b"who\r\n")
    screen.type(b"me\r")
    assert screen.end() == (b"who\r\nme\r\ngot me\r\n", 3 << 8)


@pytest.mark.parametrize("limit", range(7, 20))
def test_a_low_limit_of_open_files_keeps_no_command_from_running(environment: Environment, limit: int) -> None:
    """I1"""
    ended = subprocess.run(
        [*WRAPPER, "/bin/ls", "-d", "/", "/no/such"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
        start_new_session=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (ended.stdout, ended.returncode) == (b"/\n", 2)
    assert ended.stderr.startswith(b"/bin/ls: ")


def test_the_lack_of_a_process_for_what_is_left_behind_does_not_change_the_end(open_screen: Open) -> None:
    """I1: the third fork of the wrapper is the one that would copy on."""
    command = [SH, "-c", "sleep 60 & echo $!; exit 7"]
    screen = open_screen([PYTHON, "-c", LACKING, "os.fork", "3", *command], wrapped=False)
    seen, status = screen.end()
    subprocess.run(["/bin/kill", "-9", seen.decode().strip()], check=False)
    assert status == 7 << 8
