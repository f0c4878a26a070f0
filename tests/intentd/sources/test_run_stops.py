"""I1: a command that is stopped and continued, by whomever, goes on, hears what it would hear alone, and ends."""

import contextlib
import os
import signal
import subprocess
import termios
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.intentd.sources.wrapping import (
    BASH,
    LIMIT_S,
    PYTHON,
    SH,
    WRAPPER,
    Environment,
    Open,
    both_on_a_terminal,
    both_on_pipes,
)

FROM_ELSEWHERE = """
(while kill -0 $$; do grep -q 'State:.T' /proc/$$/status && kill -{} $$; sleep 0.01; done) >/dev/null 2>&1 &
for i in 1 2 3 4 5 6 7 8 9; do kill -STOP $$; echo went on; done
"""


@pytest.mark.parametrize("name", ["CONT", "KILL"])
def test_who_continues_or_ends_the_command_alone_is_heard(
    open_screen: Open, environment: Environment, name: str
) -> None:
    """I1: its wrapper has stopped too, and nobody continues that."""
    argv = [SH, "-c", FROM_ELSEWHERE.format(name)]
    without, wrapped = both_on_pipes(argv, environment)
    assert wrapped == without
    without, wrapped = both_on_a_terminal(open_screen, argv)
    assert wrapped == without


TIMES = 20
COUNTS = f"""
import os, signal
signal.signal(signal.SIGCONT, lambda *_: os.write(1, b"c"))
for _ in range({TIMES}):
    os.kill(os.getpid(), signal.SIGSTOP)
    os.read(0, 1)
"""


def wait_until_stopped(pid: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while psutil.Process(pid).status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < deadline, "it never stopped"


def test_a_command_hears_once_that_it_is_continued(environment: Environment) -> None:
    """I1: as a shell's `fg` and `bg` say it."""
    with subprocess.Popen(
        [*WRAPPER, PYTHON, "-c", COUNTS], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as command:
        assert command.stdin
        assert command.stdout
        try:
            heard = b""
            for _ in range(TIMES):
                wait_until_stopped(command.pid)
                command.send_signal(signal.SIGCONT)
                heard += os.read(command.stdout.fileno(), 9)
                command.stdin.write(b".")
                command.stdin.flush()
            assert heard + command.stdout.read() == b"c" * TIMES
        finally:
            command.kill()


EARLY = """
import os, signal, sys
from intentd.cli import main
from intentd.sources.pump import Pump

Pump.settle = lambda _: os.kill(os.getpid(), signal.SIGCONT)
main(["run", "--", *sys.argv[1:]])
"""


def test_a_wrapper_that_is_continued_before_it_has_stopped_goes_on(environment: Environment) -> None:
    """I1: it still shows what the command wrote."""
    words = [PYTHON, "-c", EARLY, SH, "-c", "kill -STOP $$; echo went on"]
    ended = subprocess.run(words, env=environment, stdout=subprocess.PIPE, timeout=LIMIT_S, check=True)
    assert ended.stdout == b"went on\n"


def is_in_front(pid: int) -> bool:
    """Of the terminal that it has."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[2] == fields[5]


def stopped_reader(open_screen: Open, tmp_path: Path) -> tuple[Any, int]:
    """A shell with job control in which Ctrl-Z was just typed to a wrapped command that reads, and that one's pid."""
    screen = open_screen([BASH, "--norc", "--noprofile", "-i"], wrapped=False, env={"PS1": "ready> "})
    screen.until(b"ready> ")
    file = tmp_path / "pid"
    screen.type(f"{' '.join(WRAPPER)} {SH} -c 'echo $$ >{file}; echo started; exec cat'\r".encode())
    screen.until(b"started\r\n")
    pid = int(file.read_text())
    screen.type(b"\x1a")
    return screen, pid


@pytest.mark.skipif(BASH is None, reason="needs a shell with job control")
def test_what_reads_and_is_continued_behind_its_shells_back_reads_on_after_fg(
    open_screen: Open, tmp_path: Path
) -> None:
    """I1: what it reads stops it, as without us; else it waited for keys that never come."""
    screen, pid = stopped_reader(open_screen, tmp_path)
    screen.until(b"Stopped")
    screen.until(b"ready> ", screen.seen.index(b"Stopped"))
    deadline = time.monotonic() + LIMIT_S
    while is_in_front(pid):
        assert time.monotonic() < deadline, "its terminal stayed its own"
    mark = len(screen.seen)
    os.kill(pid, signal.SIGCONT)
    while b"Stopped" not in screen.seen[mark:]:  # the shell learns of it when it learns of it
        at = len(screen.seen)
        screen.type(b"\r")
        screen.until(b"ready> ", at)
    mark = len(screen.seen)
    screen.type(b"fg\r")
    screen.until(b"exec cat'\r\n", mark)
    screen.type(b"word\r")
    screen.until(b"word\r\nword\r\n", mark)
    screen.type(b"\x03")
    screen.until(b"ready> ", mark)
    screen.type(b"exit\r")
    screen.end()


def test_a_key_that_signals_behind_fg_reaches_the_command(open_screen: Open, tmp_path: Path) -> None:
    """I1: also where the command's terminal is not given back to it yet."""
    screen, pid = stopped_reader(open_screen, tmp_path)
    screen.until(b"ready> ", screen.seen.index(b"started"))
    while is_in_front(pid):
        time.sleep(0.01)
    monitor = psutil.Process(pid).parent()
    assert monitor
    monitor.suspend()
    try:
        mark = len(screen.seen)
        screen.type(b"fg\r")
        screen.until(b"exec cat'\r\n", mark)
        while termios.tcgetattr(screen.master)[3] & termios.ISIG:  # until the wrapper has the keys
            time.sleep(0.01)
        screen.type(b"\x03")
        time.sleep(0.3)  # for a wrapper that does not wait for its monitor to let it go
    finally:
        monitor.resume()
    screen.until(b"ready> ", mark)
    screen.type(b"exit\r")
    screen.end()


def test_who_stops_the_command_alone_stops_no_script_around_it(open_screen: Open) -> None:
    """I1: SIGSTOP is no key's, and who sends SIGCONT then does not know of the script."""
    script = f"{' '.join(WRAPPER)} {SH} -c 'echo $$.; exec cat'; echo goes on"
    screen = open_screen([SH, "-c", script], wrapped=False)
    screen.until(b".\r\n")
    command = psutil.Process(int(screen.seen.partition(b".")[0]))
    wrapper = psutil.Process(screen.pid).children()[0]
    command.suspend()
    wait_until_stopped(wrapper.pid)
    command.resume()
    command.terminate()
    screen.until(b"goes on")


@pytest.mark.skipif(BASH is None, reason="needs a shell with job control")
def test_a_wrapper_that_was_stopped_alone_leaves_the_keys_to_the_shell_after_bg(open_screen: Open) -> None:
    """I1: a key for the shell is no reason to stop the job, nor is the terminal the job's to set."""
    screen = open_screen([BASH, "--norc", "--noprofile", "-i"], wrapped=False, env={"PS1": "ready> "})
    screen.until(b"ready> ")
    screen.type(f"{' '.join(WRAPPER)} {SH} -c 'echo started; while :; do sleep 0.1; done'\r".encode())
    screen.until(b"started\r\n")
    psutil.Process(screen.pid).children()[0].send_signal(signal.SIGSTOP)
    screen.until(b"Stopped")
    for words in (b"bg; echo 'in' background", b"echo 'first' keys", b"echo 'second' keys", b"jobs; echo 'all' jobs"):
        mark = len(screen.seen)
        screen.type(words + b"\r")
        screen.until(words.rpartition(b"echo ")[2].replace(b"'", b"") + b"\r\n", mark)
    assert b"Running" in screen.seen[mark:]
    assert screen.seen.count(b"Stopped") == 1
    screen.type(b"kill %1; exit\r")
    screen.end()


STOPS_AGAIN_FIRST = """
import sys, time
from intentd.cli import main
from intentd.sources.monitor import Monitor
from intentd.sources.run import Command

def resume_and_wait(self, *, foreground):
    resume(self, foreground=foreground)
    command = commands[0]._pid
    while not foreground and states(command)[0] not in "TZ":
        time.sleep(0.01)

def states(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(") ")[2]
    except OSError:
        return "Z"

commands, begin = [], Command.begin
Command.begin = lambda self: begin(commands.append(self) or self)
resume, Monitor.resume = Monitor.resume, resume_and_wait
main(["run", "--", *sys.argv[1:]])
"""


@pytest.mark.skipif(BASH is None, reason="needs a shell with job control")
def test_a_stopped_job_that_reads_ends_by_what_its_shell_sends_with_the_word_to_go_on(
    open_screen: Open, tmp_path: Path
) -> None:
    """I1: `kill %1`. It reads, is stopped anew, and a signal that came after that would wait for good."""
    (tmp_path / "wrapper.py").write_text(STOPS_AGAIN_FIRST)
    screen = open_screen([BASH, "--norc", "--noprofile", "-i"], wrapped=False, env={"PS1": "ready> "})
    screen.until(b"ready> ")
    screen.type(f"{PYTHON} {tmp_path}/wrapper.py {SH} -c 'echo started; exec cat'\r".encode())
    screen.until(b"started\r\n")
    screen.type(b"\x1a")
    screen.until(b"Stopped")
    screen.type(b"kill %1\r")
    deadline = time.monotonic() + LIMIT_S
    while b"Terminated" not in screen.seen:  # the shell learns of it when it learns of it
        assert time.monotonic() < deadline, "it is stopped for good"
        at = len(screen.seen)
        screen.type(b"\r")
        screen.until(b"ready> ", at)
    screen.type(b"exit\r")
    screen.end()


READS_LATER = """
import os, time
while not os.path.exists("go"):
    time.sleep(0.01)
try:
    print(os.read(os.open("/dev/tty", os.O_RDWR), 9))
except OSError as fault:
    print(fault)
open("over", "w").close()
"""


@pytest.mark.skipif(BASH is None, reason="needs a shell with job control")
def test_what_reads_in_a_job_that_no_shell_knows_gets_no_keys_and_goes_on(open_screen: Open, tmp_path: Path) -> None:
    """I1: alone it reads an error. Nobody would ever bring it forward."""
    (tmp_path / "program").write_text(READS_LATER)
    screen = open_screen([BASH, "--norc", "--noprofile", "-i"], wrapped=False, env={"PS1": "ready> "})
    screen.until(b"ready> ")
    screen.type(f"cd {tmp_path}; ({' '.join(WRAPPER)} {PYTHON} program > out 2>&1 &); echo 'beg'un\r".encode())
    screen.until(b"begun\r\n")
    screen.until(b"ready> ", screen.seen.index(b"begun\r\n"))
    (tmp_path / "go").touch()
    deadline = time.monotonic() + LIMIT_S
    while not (tmp_path / "over").exists():
        assert time.monotonic() < deadline, "it waits for keys"
        time.sleep(0.01)
    assert (tmp_path / "out").read_text() in ("b''\n", "[Errno 5] Input/output error\n")


OUTLIVES = """
import os, signal
for number in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
os.write(1, b"started %d.\\n" % os.getpid())
try:
    os.read(0, 1)
except OSError:
    pass
open("over", "w").close()
"""


@pytest.mark.skipif(BASH is None, reason="needs a shell with job control")
@pytest.mark.parametrize("ground", ["foreground", "background", "stopped"])
def test_a_terminal_that_closes_ends_what_reads_it_and_shows_nothing(
    open_screen: Open, tmp_path: Path, ground: str
) -> None:
    """I1: also where the job waits for that terminal, or was stopped by a key."""
    (tmp_path / "program").write_text(OUTLIVES)
    shell = open_screen([BASH, "--norc", "--noprofile", "-i"], wrapped=False, env={"PS1": "ready> "})
    shell.until(b"ready> ")
    sign = " &" if ground == "background" else ""
    shell.type(f"cd {tmp_path}; {' '.join(WRAPPER)} {PYTHON} program 2> errors{sign}\r".encode())
    shell.until(b".\r\n")
    command = psutil.Process(int(shell.seen.partition(b"started ")[2].partition(b".")[0]))
    monitor = command.parent()
    assert monitor
    wrapper = monitor.parent()
    assert wrapper
    if ground == "stopped":
        shell.type(b"\x1a")
    if ground != "foreground":
        wait_until_stopped(wrapper.pid)
    os.close(shell.master)
    shell.master = os.open(os.devnull, os.O_RDWR)
    try:
        wrapper.wait(LIMIT_S)
        assert (tmp_path / "over").exists()
        assert (tmp_path / "errors").read_text() == ""
    finally:
        for one in (wrapper, monitor, command):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
