"""I1: keys, jobs, window sizes and what the terminal is set to are as without `run`."""

import os
import select
import signal
import termios
import time
from pathlib import Path

import pytest

from intentd.sources.descriptors import is_ready
from tests.intentd.sources.wrapping import (
    BASH,
    LIMIT_S,
    PYTHON,
    SH,
    WRAPPER,
    Environment,
    Open,
    both_on_a_terminal,
    started,
)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(("key", "number"), [(b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT)])
def test_a_key_that_signals_reaches_the_command_through_its_terminal(
    open_screen: Open, wrapped: bool, key: bytes, number: int
) -> None:
    """I1"""
    screen = open_screen([SH, "-c", "ulimit -c 0; echo ready; exec sleep 60"], wrapped=wrapped)
    screen.until(b"ready")
    screen.type(key)
    output, status = screen.end()
    assert os.WTERMSIG(status) == number
    assert output == b"ready\r\n^" + bytes([key[0] + 64])


@pytest.mark.parametrize("wrapper", ["", " ".join(WRAPPER)])
@pytest.mark.parametrize(("key", "number"), [(b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT)])
def test_a_key_that_signals_ends_the_script_around_the_command(
    open_screen: Open, wrapper: str, key: bytes, number: int
) -> None:
    """I1: a terminal signals everybody in its foreground."""
    script = f"ulimit -c 0; {wrapper} {SH} -c 'echo ready; exec sleep 60'; echo next"
    screen = open_screen([SH, "-c", script], wrapped=False)
    screen.until(b"ready")
    screen.type(key)
    output, status = screen.end()
    assert os.WTERMSIG(status) == number
    assert b"next" not in output


def test_a_quoted_key_signals_nobody(open_screen: Open) -> None:
    """I1: Ctrl-V takes the meaning of the key behind it."""
    script = f"trap 'echo trapped' INT; {' '.join(WRAPPER)} {SH} -c 'echo ready; read line; echo got it'; exit 3"
    screen = open_screen([SH, "-c", script], wrapped=False)
    screen.until(b"ready")
    screen.type(b"a\x16")
    screen.until(b"a^\b")
    screen.type(b"\x03\r")
    output, status = screen.end()
    assert b"got it" in output
    assert b"trapped" not in output
    assert os.waitstatus_to_exitcode(status) == 3


HANDLES = """
import os, signal
signal.signal(signal.SIGINT, lambda *_: os.write(1, b"handled\\n"))
os.write(1, b"ready\\n")
os.read(0, 9)
"""


@pytest.mark.skipif(BASH is None, reason="needs a shell that waits for its command before it ends")
@pytest.mark.parametrize("command", [f"{SH} -c 'echo ready; exec sleep 60'", f"{PYTHON} -c '{HANDLES}'"])
@pytest.mark.parametrize("script", ["trap 'echo trapped' INT; {}; echo next", "{}; echo next"])
def test_each_in_the_foreground_gets_ctrl_c_once_when_it_is_typed(open_screen: Open, command: str, script: str) -> None:
    """I1: also where the command handles it and goes on."""
    ends = []
    for wrapper in ("", " ".join(WRAPPER)):
        screen = open_screen([BASH, "-c", script.format(f"{wrapper} {command}")], wrapped=False)
        screen.until(b"ready\r\n")
        screen.type(b"\x03")
        if "handled" in command:
            screen.until(b"handled")
            screen.type(b"\r")
        ends.append(screen.end())
    assert ends[1] == ends[0]


def test_keys_and_their_echo_are_the_same(open_screen: Open) -> None:
    """I1"""
    outputs = []
    for wrapped in (False, True):
        screen = open_screen([SH, "-c", "echo ready; read line; echo got $line"], wrapped=wrapped)
        screen.until(b"ready")
        screen.type(b"helo\x7flo\r")
        outputs.append(screen.end())
    assert outputs[1] == outputs[0]


ASKS = r"""
import os, tty
tty.setraw(0)
os.write(1, b"\x1b[?1049h\x1b[6n")
place = b""
while not place.endswith(b"R"):
    place += os.read(0, 1)
os.write(1, b"at %r " % place)
os.write(1, b"keys %r\x1b[?1049l" % os.read(0, 16))
"""


def test_a_program_that_draws_and_asks_the_terminal_gets_its_answers(open_screen: Open) -> None:
    """I1: the alternate screen, a report that the terminal types, keys that are no signals while it is raw."""
    outputs = []
    for wrapped in (False, True):
        screen = open_screen([PYTHON, "-c", ASKS], wrapped=wrapped)
        screen.until(b"\x1b[6n")
        screen.type(b"\x1b[3;7R")
        screen.until(b"at ")
        screen.type(b"\x03\x1a\x1b[A")
        outputs.append(screen.end())
    assert b"at b'\\x1b[3;7R' keys b'\\x03\\x1a\\x1b[A'" in outputs[0][0]
    assert outputs[1] == outputs[0]


def test_the_end_of_typed_input_is_the_commands(open_screen: Open) -> None:
    """I1: Ctrl-D."""
    outputs = []
    for wrapped in (False, True):
        screen = open_screen([SH, "-c", "echo ready; cat; echo over"], wrapped=wrapped)
        screen.until(b"ready")
        screen.type(b"word\r\x04")
        outputs.append(screen.end())
    assert outputs[1] == outputs[0]


def test_what_is_typed_before_the_command_begins_is_shown_once_and_reaches_it(
    open_screen: Open, tmp_path: Path
) -> None:
    """I1"""
    outputs: list[tuple[bytes, int]] = []
    for wrapper in ("", " ".join(WRAPPER)):
        gate = tmp_path / f"gate{len(outputs)}"
        os.mkfifo(gate)
        program = "echo begun; read one; read two; echo got $one $two; stty -a | grep -o -e '-*echo '"
        screen = open_screen([SH, "-c", f'echo ready; read x < {gate}; {wrapper} {SH} -c "$0"', program], wrapped=False)
        screen.until(b"ready")
        screen.type(b"helo\x7flo\rwo")
        screen.until(b"\r\nwo")
        gate.write_bytes(b"\n")
        screen.until(b"begun")
        screen.type(b"rd\r")
        outputs.append(screen.end())
        assert b"got hello word" in screen.seen
    assert outputs[1] == outputs[0]


def test_a_new_window_size_reaches_the_command(open_screen: Open) -> None:
    """I1"""
    screen = open_screen(
        [SH, "-c", "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done"], wrapped=True
    )
    screen.until(b"ready")
    screen.resize(40, 132)
    screen.until(b"40 132")
    assert screen.end()[1] == 0


def test_the_terminal_is_as_before_after_every_kind_of_end(open_screen: Open) -> None:
    """I1"""
    for script in ("true", "kill -9 $$", "exit 3", "stty raw -echo; stty sane"):
        screen = open_screen(
            [SH, "-c", f"stty -a; {' '.join(WRAPPER)} {SH} -c '{script}'; stty -a; echo over"], wrapped=False
        )
        screen.until(b"over")
        first, second = screen.seen.split(b"speed")[1:]
        assert first.strip().splitlines()[:4] == second.replace(b"Killed\r\n", b"").strip().splitlines()[:4]


def test_settings_that_the_command_leaves_changed_stay_changed(open_screen: Open) -> None:
    """I1: as after `stty -echo` without us."""
    for wrapped in (False, True):
        screen = open_screen(
            [SH, "-c", f"{' '.join(WRAPPER) if wrapped else ''} stty -echo; stty -a; echo over"], wrapped=False
        )
        screen.until(b"over")
        assert b" -echo " in screen.seen


@pytest.mark.skipif(BASH is None, reason="needs a shell with job control")
def test_ctrl_z_stops_the_job_and_fg_resumes_it(open_screen: Open) -> None:
    """I1"""
    screen = open_screen([BASH, "--norc", "--noprofile", "-i"], wrapped=False, env={"PS1": "ready> "})
    screen.until(b"ready> ")
    command = f"{' '.join(WRAPPER)} {SH} -c 'echo started; read line; echo got $line'\r"
    screen.type(command.encode())
    screen.until(b"started\r\n")
    screen.type(b"\x1a")
    screen.until(b"Stopped")
    screen.until(b"ready> ", screen.seen.index(b"Stopped"))
    mark = len(screen.seen)
    screen.type(b"fg\r")
    screen.until(b"got $line'\r\n", mark)
    screen.type(b"word\r")
    screen.until(b"got word\r\n", mark)
    screen.until(b"ready> ", screen.seen.index(b"got word"))
    screen.type(b"exit\r")
    assert screen.end()[1] == 0


@pytest.mark.skipif(BASH is None, reason="needs a shell with job control")
def test_a_background_job_that_reads_stops_until_it_is_brought_forward(open_screen: Open) -> None:
    """I1"""
    screen = open_screen([BASH, "--norc", "--noprofile", "-i"], wrapped=False, env={"PS1": "ready> "})
    screen.until(b"ready> ")
    screen.type(f"{' '.join(WRAPPER)} {SH} -c 'echo started; read line; echo got $line' &\r".encode())
    screen.until(b"started\r\n")
    mark = len(screen.seen)
    while b"Stopped" not in screen.seen[mark:]:  # the shell learns of it when it learns of it
        mark = len(screen.seen)
        screen.type(b"jobs\r")
        screen.until(b"echo got", mark)
        screen.until(b"ready> ", screen.seen.index(b"echo got", mark))
    mark = len(screen.seen)
    screen.type(b"fg\r")
    screen.until(b"got $line'\r\n", mark)
    screen.type(b"word\r")
    screen.until(b"got word\r\n", mark)


def test_in_a_pipeline_the_keys_are_the_commands_only_when_it_reads(open_screen: Open) -> None:
    """I1: what reads the pipe may use the terminal, as a pager does."""
    script = f"{' '.join(WRAPPER)} {SH} -c 'echo asking; read line; echo got $line' | /bin/cat; echo over"
    screen = open_screen([SH, "-c", script], wrapped=False)
    screen.until(b"asking\r\n")
    screen.type(b"word\r")
    screen.until(b"got word\r\n")
    screen.until(b"over")


def test_ctrl_c_in_a_pipeline_reaches_the_command_too(open_screen: Open) -> None:
    """I1"""
    command = r'trap "kill \$!; echo interrupted >/dev/tty; exit" INT; echo asking; sleep 60 & wait'
    script = f"{' '.join(WRAPPER)} {SH} -c '{command}' | /bin/cat"
    screen = open_screen([SH, "-c", script], wrapped=False)
    screen.until(b"asking\r\n")
    screen.type(b"\x03")
    screen.until(b"interrupted")


REFUSES = """
import os, signal, sys
from intentd.cli import main
from intentd.sources import run, signals

def refuse(group, number):
    if number == signal.SIGINT:
        raise PermissionError
    plain(group, number)

strangers, run.has_strangers = signals.has_strangers, lambda group, user: strangers(group, 1)
plain, os.killpg = os.killpg, refuse
"""
SEEN = "run.has_strangers = lambda group, user: True"
HIDDEN = "os.listdir = lambda path: [str(os.getpid())]"
NOBODY_SAYS = "os.listdir = lambda path: os.stat('/nowhere')"


@pytest.mark.parametrize("stranger", [SEEN, HIDDEN, NOBODY_SAYS])
def test_ctrl_c_in_a_pipeline_reaches_what_runs_as_another_user(
    open_screen: Open, tmp_path: Path, stranger: str
) -> None:
    """I1: `sudo`. We may not signal that, and its terminal may. /proc may hide it, or not be there."""
    (tmp_path / "wrapper.py").write_text(f"{REFUSES}{stranger}\nmain(['run', '--', *sys.argv[1:]])\n")
    command = r'trap "kill \$!; echo interrupted >/dev/tty; exit" INT; echo asking; sleep 60 & wait'
    script = f"{PYTHON} {tmp_path}/wrapper.py {SH} -c '{command}' | /bin/cat"
    screen = open_screen([SH, "-c", script], wrapped=False)
    screen.until(b"asking\r\n")
    screen.type(b"\x03")
    screen.until(b"interrupted")


RAW = """
import os, termios, tty
terminal = os.open("/dev/tty", os.O_RDWR)
before = termios.tcgetattr(terminal)
tty.setraw(terminal)
os.write(1, b"A\\nB\\nC")
termios.tcsetattr(terminal, termios.TCSADRAIN, before)
os.write(1, b"D\\nE")
"""
OPOST_ON = """
import os, termios
settings = termios.tcgetattr(1)
settings[1] |= termios.OPOST | termios.ONLCR
termios.tcsetattr(1, termios.TCSADRAIN, settings)
os.write(1, b"x\\ny\\n")
"""


@pytest.mark.parametrize("program", [RAW, OPOST_ON])
@pytest.mark.parametrize("redirect", [{0: os.devnull}, {2: os.devnull}, {0: os.devnull, 2: os.devnull}])
def test_what_a_program_sets_for_its_output_holds_where_not_all_is_a_terminal(
    open_screen: Open, program: str, redirect: dict[int, str]
) -> None:
    """I1"""
    without, wrapped = both_on_a_terminal(open_screen, [PYTHON, "-c", program], redirect=redirect)
    assert wrapped == without


def test_the_terminal_of_a_pipeline_is_as_before_and_works_for_the_others(open_screen: Open) -> None:
    """I1"""
    wrapped = f"{' '.join(WRAPPER)} {SH} -c 'echo err >&2; cat; exit 3'"
    for line in (f"echo x | {wrapped}", f"{wrapped} < /dev/null | cat"):
        screen = open_screen([SH, "-c", f"stty -a; {line}; stty -a; printf 'one\\ntwo\\nover'"], wrapped=False)
        screen.until(b"one\r\ntwo\r\nover")
        first, second = screen.seen.split(b"speed")[1:]
        assert b"err\r\n" in first
        assert first.splitlines()[:4] == second.splitlines()[:4]


def test_a_signal_while_the_output_is_stuck_leaves_the_terminal_as_before(open_screen: Open) -> None:
    """I1: nobody reads the screen, and the wrapper is told to end: once for its command, once for itself."""
    screen = open_screen([SH, "-c", "stty -onlcr </dev/tty; exec yes"], wrapped=True, redirect={0: os.devnull})
    deadline = time.monotonic() + LIMIT_S
    while screen.settings()[1] & termios.OPOST:
        assert time.monotonic() < deadline, "no output ever passed"
    while not os.waitid(os.P_PID, screen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        assert time.monotonic() < deadline, "it never ended"
        os.kill(screen.pid, signal.SIGTERM)
        os.sched_yield()
    assert screen.settings()[1] & termios.OPOST


@pytest.mark.skipif(BASH is None, reason="needs a shell that edits its line")
def test_a_command_in_a_session_of_its_own_leaves_the_keys_to_the_shell(open_screen: Open, tmp_path: Path) -> None:
    """I1: as a server that is started with `setsid`."""
    screen = open_screen([BASH, "--norc", "--noprofile", "-i"], wrapped=False, env={"PS1": "ready> "})
    screen.until(b"ready> ")
    file = tmp_path / "pid"
    screen.type(f"setsid {' '.join(WRAPPER)} {SH} -c 'echo $$ >{file}; echo be''gun; exec sleep 60'\r".encode())
    screen.until(b"begun\r\n")
    try:
        assert screen.settings()[3] & termios.ISIG
        for number in range(9):
            screen.type(b"echo o''ne%d\r" % number)
            screen.until(b"one%d\r\n" % number)
    finally:
        os.kill(int(file.read_text()), signal.SIGTERM)


def test_a_terminal_that_controls_nobody_gives_its_keys_to_what_reads(environment: Environment) -> None:
    """I1: in a session that was given a terminal and has not taken it."""
    master, slave = os.openpty()
    ask = [*WRAPPER, SH, "-c", "read x; echo got $x; read x; echo got $x"]
    with started(ask, env=environment, stdin=slave, stdout=slave, stderr=slave, start_new_session=True) as command:
        seen = b""
        for word in (b"one", b"two"):
            os.write(master, word + b"\r")
            while b"got " + word not in seen:
                assert is_ready(master, select.POLLIN, LIMIT_S * 1000), f"seen {seen!r}"
                seen += os.read(master, 100)
        assert command.wait(LIMIT_S) == 0
    os.close(master)
    os.close(slave)


SIDE_BY_SIDE = """
import subprocess, sys
ready, gate, order, *run = sys.argv[1:]
first = subprocess.Popen([*run, "sh", "-c", f"echo >{ready}; read x <{gate}"])
open(ready).read()
asks = "stty -a | grep -v -e speed -e ixon; stty -echo; echo asked; read x; echo got $x; stty echo"
second = subprocess.Popen([*run, "sh", "-c", asks])
if order == "first":
    first.wait()
    print("one has ended")
second.wait()
print("the other has ended")
if order != "first":
    open(gate, "w").close()
    first.wait()
"""


@pytest.mark.parametrize("order", ["first", "second"])
def test_several_side_by_side_leave_the_terminal_as_it_was_and_get_what_they_ask_for(
    open_screen: Open, tmp_path: Path, order: str
) -> None:
    """I1: under a task runner. Whichever ends first."""
    ready, gate = tmp_path / "ready", tmp_path / "gate"
    os.mkfifo(ready)
    os.mkfifo(gate)
    ends = []
    for wrapper in ((), WRAPPER):
        words = [PYTHON, "-c", SIDE_BY_SIDE, str(ready), str(gate), order, *wrapper]
        screen = open_screen([SH, "-c", 'stty -ixon; stty -a; "$@"; stty -a', SH, *words], wrapped=False)
        screen.until(b"asked\r\n")
        if order == "first":
            gate.write_bytes(b"\n")
            screen.until(b"one has ended\r\n")
        deadline = time.monotonic() + LIMIT_S
        while b"got" not in screen.seen:  # one beside it may take them
            assert time.monotonic() < deadline, f"it got none; seen {screen.seen!r}"
            screen.type(b"word\r")
            screen.read(0.1)
        assert screen.end()[1] == 0
        _, before, after = screen.seen.split(b"speed ")
        assert after == b"\r\n".join(before.split(b"\r\n")[: after.count(b"\n")]) + b"\r\n"
        ends.append(screen.seen.partition(b"asked")[0])
    assert ends[1] == ends[0]
