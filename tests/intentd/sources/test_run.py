"""I1: `run` changes no byte, no exit status, no window size, no variable of what it wraps."""

import os
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

WRAPPER = (sys.executable, "-m", "intentd", "run", "--")
SH = "/bin/sh"
BASH = shutil.which("bash")
PYTHON = sys.executable
LIMIT_S = 60

Open = Callable[..., Any]
Environment = Mapping[str, str]


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


# --- bytes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script",
    [
        r"printf '\033[31mred\033[0m\n50%%\r100%%\n'; printf 'no end'",
        "stty size; stty -a | grep -v '^speed'",
        "test -t 0 && echo in; test -t 1 && echo out; test -t 2 && echo err >&2",
        "echo one; echo two >&2; echo three",
        "env | grep -v -e '^_=' -e '^SHLVL=' | sort; umask; pwd; ulimit -a",
        r"printf '\000\377\200binary\n'",
        "stty -onlcr; echo staircase; stty onlcr",
        "head -c 300000 /dev/zero | tr '\\0' x",
    ],
)
def test_a_terminal_shows_the_same_bytes(open_screen: Open, script: str) -> None:
    """I1"""
    without, wrapped = both_on_a_terminal(open_screen, [SH, "-c", script], size=(31, 97))
    assert wrapped == without


def test_the_interpreters_own_variable_does_not_reach_the_command(environment: dict[str, str]) -> None:
    """I1: Python in the C locale adds LC_CTYPE to its environment."""
    del environment["LANG"]
    without, wrapped = both_on_pipes(["/usr/bin/env"], environment)
    assert wrapped == without


@pytest.mark.parametrize(
    "redirect", [{0: os.devnull}, {1: "out"}, {2: "out"}, {1: "out", 2: "out"}, {0: os.devnull, 1: "out"}]
)
def test_each_descriptor_that_is_no_terminal_stays_none(
    open_screen: Open, tmp_path: Path, redirect: dict[int, str]
) -> None:
    """I1: `isatty` has the same answers, and each byte goes where it went."""
    probe = "import os; os.write(1, b'one %r\\n' % [os.isatty(fd) for fd in (0, 1, 2)]); os.write(2, b'two\\n')"
    seen = []
    for wrapped in (False, True):
        target = tmp_path / f"out-{wrapped}"
        places = {fd: str(target) if place == "out" else place for fd, place in redirect.items()}
        screen = open_screen([PYTHON, "-c", probe], wrapped=wrapped, redirect=places)
        seen.append((*screen.end(), target.read_bytes() if target.exists() else None))
    assert seen[1] == seen[0]


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_descriptor_stays_closed(open_screen: Open, closed: int) -> None:
    """I1"""
    probe = "for fd in 0 1 2; do if [ -e /proc/self/fd/$fd ]; then echo $fd; fi; done 2>/dev/null > /dev/tty"
    without, wrapped = both_on_a_terminal(open_screen, [SH, "-c", probe], redirect={closed: None})
    assert wrapped == without


def test_order_is_kept_where_both_outputs_are_one(environment: Environment) -> None:
    """I1"""
    script = "i=0; while [ $i -lt 300 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done"
    outputs = []
    for full in ([SH, "-c", script], [*WRAPPER, SH, "-c", script]):
        ended = subprocess.run(
            full, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S, check=True
        )
        outputs.append(ended.stdout)
    assert outputs[1] == outputs[0]


def test_input_that_is_no_terminal_reaches_the_command_untouched(environment: Environment) -> None:
    """I1"""
    without, wrapped = both_on_pipes(["/bin/cat"], environment, input=bytes(range(256)) * 1000)
    assert wrapped == without


def test_much_output_passes_whole_and_in_little_memory(environment: Environment) -> None:
    """I1: 100 MB, while the wrapper's peak stays far below that."""
    script = (
        "import resource, subprocess, sys\n"
        "command = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)\n"
        "total = 0\n"
        "while data := command.stdout.read(1 << 20): total += len(data)\n"
        "command.wait()\n"
        "print(total, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    )
    argv = [PYTHON, "-c", script, *WRAPPER, "/usr/bin/head", "-c", "100000000", "/dev/zero"]
    ended = subprocess.run(argv, env=environment, capture_output=True, timeout=LIMIT_S, check=True)
    total, peak_kib = map(int, ended.stdout.split())
    assert total == 100_000_000
    assert peak_kib < 64 * 1024


def test_much_output_passes_a_terminal_whole_and_in_little_memory(open_screen: Open) -> None:
    """I1: 100 MB of lines, while neither the wrapper nor what it started ever held much."""
    line = "x" * 79
    screen = open_screen([SH, "-c", f"yes {line} | head -n 1250000; read line"], wrapped=True)
    screen.skip(1_250_000 * (len(line) + 2))
    assert max(screen.peaks_kib()) < 64 * 1024
    screen.type(b"\r")
    assert screen.end() == (b"\r\n", 0)


def test_a_reader_that_leaves_stops_the_command_as_without(environment: Environment) -> None:
    """I1: the command meets SIGPIPE."""
    command = subprocess.Popen([*WRAPPER, "/usr/bin/yes"], env=environment, stdout=subprocess.PIPE)
    assert command.stdout
    assert command.stdout.read(2) == b"y\n"
    command.stdout.close()
    assert command.wait(LIMIT_S) == -signal.SIGPIPE


# --- how it ends ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1, 2, 5, 77, 126, 127, 128, 130, 255])
def test_the_exit_status_is_the_commands(environment: Environment, status: int) -> None:
    """I1"""
    without, wrapped = both_on_pipes([SH, "-c", f"exit {status}"], environment)
    assert wrapped == without


@pytest.mark.parametrize("name", ["INT", "TERM", "KILL", "HUP", "SEGV", "USR1", "PIPE", "ABRT"])
def test_death_by_a_signal_is_seen_as_that(environment: Environment, name: str) -> None:
    """I1"""
    without, wrapped = both_on_pipes([SH, "-c", f"ulimit -c 0; kill -{name} $$; sleep 9"], environment)
    assert wrapped == without
    assert wrapped[2] == -signal.Signals[f"SIG{name}"]


@pytest.mark.parametrize(
    ("word", "status", "words"),
    [
        ("no-such-command", 127, b"intentd: no-such-command: command not found\n"),
        ("./no/such", 127, b"intentd: ./no/such: No such file or directory\n"),
        ("/etc/passwd", 126, b"intentd: /etc/passwd: Permission denied\n"),
        ("/etc", 126, b"intentd: /etc: Is a directory\n"),
    ],
)
def test_what_cannot_be_run_is_said_as_a_shell_says_it(
    environment: Environment, word: str, status: int, words: bytes
) -> None:
    ended = subprocess.run([*WRAPPER, word], env=environment, capture_output=True, timeout=LIMIT_S, check=False)
    assert (ended.returncode, ended.stderr) == (status, words)


def test_a_script_without_an_interpreter_line_runs(environment: Environment, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo $1\n")
    script.chmod(0o700)
    ended = subprocess.run(
        [*WRAPPER, str(script), "a b"], env=environment, capture_output=True, timeout=LIMIT_S, check=True
    )
    assert ended.stdout == b"a b\n"


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "USR1", "QUIT"])
def test_a_signal_to_the_wrapper_reaches_the_command_once(environment: Environment, name: str) -> None:
    """I1"""
    script = (
        f"n=0; trap 'n=$((n+1)); echo got {name}' {name}; echo ready; while [ $n = 0 ]; do sleep 0.01; done; exit 7"
    )
    command = subprocess.Popen(
        [*WRAPPER, SH, "-c", script], env=environment, stdout=subprocess.PIPE, start_new_session=True
    )
    assert command.stdout
    assert command.stdout.readline() == b"ready\n"
    command.send_signal(signal.Signals[f"SIG{name}"])
    assert command.stdout.read() == f"got {name}\n".encode()
    assert command.wait(LIMIT_S) == 7
    command.stdout.close()


@pytest.mark.parametrize(("on_terminal", "source"), [(False, ""), (True, ""), (True, "< /dev/null")])
def test_a_child_that_the_command_leaves_behind_holds_nothing_up_and_loses_nothing(
    open_screen: Open, environment: Environment, tmp_path: Path, on_terminal: bool, source: str
) -> None:
    """I1: the wrapper ends with the command; what its background child prints later still arrives."""
    fifo = tmp_path / "gate"
    os.mkfifo(fifo)
    argv = [SH, "-c", f"(read line < {fifo}; echo late) & echo early; exit 3"]
    if on_terminal:
        shell = open_screen(
            [SH, "-c", f"{' '.join(WRAPPER)} {SH} -c '{argv[2]}' {source}; echo ended $?; echo > {fifo}; sleep 30"],
            wrapped=False,
        )
        shell.until(b"early\r\nended 3\r\n")
        shell.until(b"late\r\n")
    else:
        command = subprocess.Popen([*WRAPPER, *argv], env=environment, stdout=subprocess.PIPE)
        assert command.stdout
        assert command.wait(LIMIT_S) == 3
        fifo.write_bytes(b"\n")
        assert command.stdout.read() == b"early\nlate\n"
        command.stdout.close()


# --- keys and jobs ----------------------------------------------------------------------------------------


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


# --- output that cannot be written ------------------------------------------------------------------------

FULL = Path("/dev/full")
NO_SPACE = b"intentd: cannot write the output: No space left on device\n"


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize(("script", "status"), [("echo lost", 1), ("echo lost; exit 7", 7), ("exec yes", -13)])
def test_lost_output_is_said_and_is_no_success(environment: Environment, script: str, status: int) -> None:
    """I1: a command that goes on writing notices at its next write."""
    with FULL.open("wb") as full:
        ended = subprocess.run(
            [*WRAPPER, SH, "-c", script],
            env=environment,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=LIMIT_S,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (status, NO_SPACE)


def test_a_file_at_its_size_limit_is_said_too(environment: Environment, tmp_path: Path) -> None:
    """I1: without us SIGXFSZ kills the command; the wrapper lives on to say it."""
    line = f"ulimit -f 1; {' '.join(WRAPPER)} /usr/bin/head -c 2000 /dev/zero > {tmp_path / 'out'}"
    ended = subprocess.run([SH, "-c", line], env=environment, stderr=subprocess.PIPE, timeout=LIMIT_S, check=False)
    assert (ended.returncode, ended.stderr) == (1, b"intentd: cannot write the output: File too large\n")


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_command_that_prints_nothing_succeeds_on_a_full_disk(environment: Environment) -> None:
    """I1"""
    with FULL.open("wb") as full:
        ended = subprocess.run([*WRAPPER, "/bin/true"], env=environment, stdout=full, timeout=LIMIT_S, check=False)
    assert ended.returncode == 0


# --- output that is processed once ------------------------------------------------------------------------

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
