"""I1: `run` changes no byte and no descriptor of what it wraps, and says what it could not write."""

import os
import select
import signal
import socket
import subprocess
import termios
import time
from pathlib import Path

import pytest

from tests.intentd.sources.wrapping import (
    LIMIT_S,
    PYTHON,
    SH,
    WRAPPER,
    Environment,
    Open,
    both_on_a_terminal,
    both_on_pipes,
    started,
)


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


def test_what_goes_to_another_terminal_goes_there(open_screen: Open) -> None:
    """I1"""
    script = "echo out; echo err >&2; tty; tty <&2; stty size <&2"
    seen = []
    for wrapped in (False, True):
        master, slave = os.openpty()
        other = os.ttyname(slave)
        screen = open_screen([SH, "-c", script], wrapped=wrapped, redirect={2: other})
        text, status = screen.end()
        assert text.startswith(b"out\r\n/dev/")
        assert text.endswith(f"\r\n{other}\r\n0 0\r\n".encode())
        there = b""
        while not there.endswith(b"\n"):
            there += os.read(master, 100)
        assert there == b"err\r\n"
        seen.append(status)
        os.close(master)
        os.close(slave)
    assert seen == [0, 0]


def test_the_terminals_own_name_is_no_other_terminal(open_screen: Open) -> None:
    """I1: what goes to /dev/tty stands in its place among the rest, and is seen."""
    without, wrapped = both_on_a_terminal(
        open_screen, [SH, "-c", "echo one; echo two >&2; echo three; echo four >&2"], redirect={2: "/dev/tty"}
    )
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


@pytest.mark.parametrize("device", [os.devnull, "/dev/full"])
@pytest.mark.parametrize(
    "script",
    [
        "stat -L -c %t,%T /dev/stdout >&2; echo lost",
        "{ dd bs=1 count=1 seek=3 if=/dev/zero 2>&1 >&3 | head -n 2 >&2; } 3>&1",
        "exec true",
    ],
)
def test_a_device_is_the_commands_own(environment: Environment, device: str, script: str) -> None:
    """I1: it sees which it is, and meets what is wrong with it."""
    seen = []
    for wrapper in ((), WRAPPER):
        with Path(device).open("wb") as place:
            ended = subprocess.run(
                [*wrapper, SH, "-c", script],
                env=environment,
                stdout=place,
                stderr=subprocess.PIPE,
                timeout=LIMIT_S,
                check=False,
            )
        seen.append((ended.returncode, ended.stderr))
    assert seen[1] == seen[0]


def test_datagrams_are_the_commands_own(environment: Environment) -> None:
    """I1: each write is one."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with here, there:
        here.settimeout(LIMIT_S)
        script = "import os; [os.write(1, b'%d' % n) for n in range(3)]"
        subprocess.run(
            [*WRAPPER, PYTHON, "-c", script], env=environment, stdout=there.fileno(), timeout=LIMIT_S, check=True
        )
        assert [here.recv(9) for _ in range(3)] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("redirect", ["< /dev/null > /dev/tty", "< /dev/tty > /dev/null"])
def test_a_terminal_that_is_open_one_way_serves_both(open_screen: Open, redirect: str) -> None:
    """I1: the command asks and reads on it."""
    ask = "echo who > /dev/tty; read x < /dev/tty; echo got $x > /dev/tty; exit 3"
    ends = []
    for wrapper in ("", " ".join(WRAPPER)):
        screen = open_screen([SH, "-c", f"{wrapper} {SH} -c '{ask}' {redirect} 2>/dev/null"], wrapped=False)
        screen.until(b"who\r\n")
        screen.type(b"me\r")
        output, status = screen.end()  # what is typed while the terminal changes hands may not be shown
        ends.append((output.replace(b"\r\nme\r\n", b"\r\n"), status))
    assert ends[1] == ends[0]


def test_another_reader_may_come_to_a_fifo(environment: Environment, tmp_path: Path) -> None:
    """I1: between the two nobody reads, and the command writes nothing."""
    fifo, gate = tmp_path / "fifo", tmp_path / "gate"
    os.mkfifo(fifo)
    os.mkfifo(gate)
    script = f"echo a; read line < {gate}; echo b; exit 3"
    with started([SH, "-c", f"exec {' '.join(WRAPPER)} {SH} -c '{script}' > {fifo}"], env=environment) as run:
        with fifo.open() as first:
            assert first.readline() == "a\n"
        opened = gate.open("w")  # the command is beyond its first line
        select.select([], [], [], 0.3)  # time for the wrapper to see it
        with fifo.open() as second, opened:
            opened.write("\n")
            opened.flush()
            assert second.read() == "b\n"
        assert run.wait(LIMIT_S) == 3


BESIDE = """
import os, subprocess, sys
gate, *words = sys.argv[1:]
command = subprocess.Popen(words)
open(gate).read()
os.write(1, b"one\\ntwo\\n")
command.wait()
"""


@pytest.mark.parametrize(
    "before", ["true", "printf 'bare\\nline\\n'", "stty -opost; printf 'bare\\n'; stty opost", "yes | head -n 100000"]
)
def test_what_others_print_beside_the_command_has_its_ends_of_line(
    open_screen: Open, tmp_path: Path, before: str
) -> None:
    """I1: a server in the background, the rest of a build. Also behind what is passed on as it is."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    outputs = []
    for wrapper in ((), WRAPPER):
        command = f"{before}; echo begun; read x; echo over"
        screen = open_screen([PYTHON, "-c", BESIDE, str(gate), *wrapper, SH, "-c", command], wrapped=False)
        screen.until(b"begun\r\n")
        deadline = time.monotonic() + LIMIT_S
        while not screen.settings()[1] & termios.OPOST:
            assert time.monotonic() < deadline, "it stayed as for what is passed on as it is"
        gate.write_bytes(b"")
        screen.until(b"two")
        screen.type(b"\r")
        outputs.append(screen.end())
    assert outputs[0][0].endswith(b"begun\r\none\r\ntwo\r\n\r\nover\r\n")
    assert outputs[1] == outputs[0]
