"""I1: a wrapped command ends as it would alone, and is told what it would be told."""

import contextlib
import fcntl
import os
import select
import shutil
import signal
import subprocess
from pathlib import Path
from typing import IO

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
    both_on_pipes,
    started,
)


@pytest.mark.parametrize("status", [0, 1, 2, 5, 77, 126, 127, 128, 130, 255])
def test_the_exit_status_is_the_commands(environment: Environment, status: int) -> None:
    """I1"""
    without, wrapped = both_on_pipes([SH, "-c", f"exit {status}"], environment)
    assert wrapped == without


def test_a_parent_that_ignores_its_childrens_ends_hides_no_exit_status(environment: Environment) -> None:
    """I1: the command ignores them then, too."""
    without, wrapped = both_on_pipes(
        [SH, "-c", "grep SigIgn /proc/$$/status; exit 3"],
        environment,
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    )
    assert wrapped == without
    assert wrapped[2] == 3


@pytest.mark.parametrize("name", ["INT", "TERM", "KILL", "HUP", "SEGV", "USR1", "PIPE", "ABRT"])
def test_death_by_a_signal_is_seen_as_that(environment: Environment, name: str) -> None:
    """I1"""
    without, wrapped = both_on_pipes([SH, "-c", f"ulimit -c 0; kill -{name} $$; sleep 9"], environment)
    assert wrapped == without
    assert wrapped[2] == -signal.Signals[f"SIG{name}"]


def test_modules_of_the_users_project_are_the_commands_and_not_ours(environment: Environment, tmp_path: Path) -> None:
    """I1: PYTHONPATH, in which a `resource.py` printed, and kept the wrapper from ending by the command's signal."""
    (tmp_path / "resource.py").write_text("print('resource of the project')")
    path = os.pathsep.join([str(tmp_path), *filter(None, [environment.get("PYTHONPATH")])])
    program = "import os, resource, signal; os.kill(os.getpid(), signal.SIGTERM)"
    without, wrapped = both_on_pipes([PYTHON, "-uc", program], {**environment, "PYTHONPATH": path})
    assert wrapped == without
    assert wrapped[0] == b"resource of the project\n"
    assert wrapped[2] == -signal.SIGTERM


@pytest.mark.parametrize(
    ("word", "status", "words"),
    [
        ("no-such-command", 127, b"intentd: no-such-command: command not found\n"),
        ("", 127, b"intentd: : command not found\n"),
        ("./no/such", 127, b"intentd: ./no/such: No such file or directory\n"),
        ("/etc/passwd/x", 126, b"intentd: /etc/passwd/x: Not a directory\n"),
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


def test_the_first_of_a_name_runs_also_without_an_interpreter_line(environment: Environment, tmp_path: Path) -> None:
    """I1: as execvp(3) and the shells look for it."""
    places = [tmp_path / "one", tmp_path / "other"]
    for place, line in zip(places, ("", "#!/bin/sh\n"), strict=True):
        place.mkdir()
        (place / "tool").write_text(f"{line}echo {place.name} $1\n")
        (place / "tool").chmod(0o700)
    path = ":".join((*map(str, places), environment["PATH"]))
    without, wrapped = both_on_pipes(["/usr/bin/env", "tool", "a b"], {**environment, "PATH": path})
    ended = subprocess.run(
        [*WRAPPER, "tool", "a b"], env={**environment, "PATH": path}, capture_output=True, timeout=LIMIT_S, check=False
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == without == wrapped
    assert ended.stdout == b"one a b\n"


@pytest.mark.parametrize("name", ["KILL", "TERM"])
def test_a_wrapper_that_no_signal_ends_says_by_its_status_which_ended_the_command(
    environment: Environment, name: str
) -> None:
    """I1: Linux drops what process 1 of a container sends itself; 128 + N is what shells and docker say."""
    program = "import os, sys; from intentd.cli import main; os.kill = print; main(['run', '--', *sys.argv[1:]])"
    words = [PYTHON, "-c", program, SH, "-c", f"kill -{name} $$; exit 3"]
    ended = subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, timeout=LIMIT_S, check=False)
    assert ended.returncode == 128 + signal.Signals[f"SIG{name}"]


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "USR1", "QUIT", "PROF", "IO", "XCPU", "RTMIN"])
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


def test_an_ignored_signal_reaches_a_command_that_handles_it(environment: Environment) -> None:
    """I1: and one that does not goes on ignoring it, as what a script starts with `&`."""
    script = "import signal, sys, time\n" + (
        "signal.signal(signal.SIGINT, lambda *_: sys.exit(9))\n"
        "assert signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN\n"
        "print('ready', flush=True)\nwhile True:\n    time.sleep(0.01)"  # a pause misses what came before
    )
    command = subprocess.Popen(
        [*WRAPPER, PYTHON, "-c", script],
        env=environment,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: [signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)],
    )
    assert command.stdout
    assert command.stdout.readline() == b"ready\n"
    command.send_signal(signal.SIGQUIT)
    command.send_signal(signal.SIGINT)
    assert command.wait(LIMIT_S) == 9
    command.stdout.close()


@pytest.mark.skipif(BASH is None, reason="needs a shell with job control")
def test_a_job_that_is_stopped_for_its_terminal_ends_with_its_wrapper(open_screen: Open) -> None:
    """I1: somebody kills that."""
    assert BASH
    command = f"{' '.join(WRAPPER)} {SH} -c 'echo $$; read x < /dev/tty' < /dev/null"
    line = f"set -m; {command} & until jobs | grep Stopped; do sleep 0.01; done; kill -9 %1"
    for _ in range(5):
        screen = open_screen([BASH, "-c", line], wrapped=False)
        screen.until(b"Stopped")
        pid = int(screen.seen.split()[0])
        screen.end()
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).wait(LIMIT_S)


@pytest.mark.parametrize("group", [False, True])
def test_a_wrapper_that_is_killed_takes_its_command_along(environment: Environment, group: bool) -> None:
    """I1: without a terminal, whether it was killed alone or with its whole group."""
    script = "sleep 60 & echo $! $$; wait"
    command = subprocess.Popen(
        [*WRAPPER, SH, "-c", script], env=environment, stdout=subprocess.PIPE, start_new_session=True
    )
    assert command.stdout
    pids = [int(pid) for pid in command.stdout.readline().split()]
    (os.killpg if group else os.kill)(command.pid, signal.SIGKILL)
    assert command.wait(LIMIT_S) == -signal.SIGKILL
    command.stdout.close()
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).wait(LIMIT_S)


@pytest.mark.parametrize(("before", "handler"), [("", "trap : HUP;"), ("trap '' HUP;", "")])
def test_what_outlives_its_terminal_ends_with_a_wrapper_that_is_killed(
    open_screen: Open, before: str, handler: str
) -> None:
    """I1: `timeout -s KILL` of a server that reads its settings anew, or of a job behind `nohup`."""
    script = f"{handler} echo $$.; while :; do sleep 0.1; done"
    screen = open_screen([SH, "-c", f"{before} exec {' '.join(WRAPPER)} {SH} -c '{script}'"], wrapped=False)
    screen.until(b".\r\n")
    command = psutil.Process(int(screen.seen.partition(b".")[0]))
    try:
        os.kill(screen.pid, signal.SIGKILL)
        command.wait(LIMIT_S)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            command.kill()


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


def is_let_go_of(end: IO[bytes]) -> bool:
    """Whether soon nobody holds the other side any more."""
    watch = select.poll()
    watch.register(end, 0)
    return bool(watch.poll(LIMIT_S * 1000))


@pytest.mark.parametrize(("closed", "held"), [(1, 2), (2, 1)])
def test_a_child_that_is_left_behind_holds_only_the_ends_that_it_has(
    environment: Environment, tmp_path: Path, closed: int, held: int
) -> None:
    """I1: a pipeline goes on when the command has ended, though a daemon that it started still has the other output."""
    fifo = tmp_path / "gate"
    os.mkfifo(fifo)
    script = f"(read line < {fifo}; echo late >&{held}) {closed}>/dev/null & exit 3"
    with started(
        [*WRAPPER, SH, "-c", script],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as command:
        outputs = {1: command.stdout, 2: command.stderr}
        ends = [command.stdin, outputs[closed]]
        assert command.wait(LIMIT_S) == 3
        assert [end and is_let_go_of(end) for end in ends] == [True, True]
        fifo.write_bytes(b"\n")
        kept = outputs[held]
        assert kept
        assert kept.read() == b"late\n"


def test_what_goes_on_in_the_background_outlives_ctrl_c(environment: Environment, tmp_path: Path) -> None:
    """I1: what a script starts with `&` ignores it, and still has its output."""
    fifo = tmp_path / "gate"
    os.mkfifo(fifo)
    script = f"{' '.join(WRAPPER)} {SH} -c '(read line < {fifo}; echo late) & exit 0'; echo ended; exec sleep 60"
    with started([SH, "-c", script], env=environment, stdout=subprocess.PIPE, start_new_session=True) as command:
        assert command.stdout
        assert command.stdout.readline() == b"ended\n"
        os.killpg(command.pid, signal.SIGINT)
        assert command.wait(LIMIT_S) == -signal.SIGINT
        fifo.write_bytes(b"\n")
        assert command.stdout.read() == b"late\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_a_job_ends_the_wait_for_what_it_left_behind(
    environment: Environment, tmp_path: Path, number: signal.Signals
) -> None:
    """I1: who reads its output has the end of that."""
    fifo = tmp_path / "gate"
    os.mkfifo(fifo)
    script = f"{' '.join(WRAPPER)} {SH} -c '(read line < {fifo}) & exit 0'; echo ended; exec sleep 60"
    with started([SH, "-c", script], env=environment, stdout=subprocess.PIPE, start_new_session=True) as command:
        assert command.stdout
        assert command.stdout.readline() == b"ended\n"
        os.killpg(command.pid, number)
        assert command.wait(LIMIT_S) == -number
        ended = select.select([command.stdout], [], [], LIMIT_S)[0]
        fifo.write_bytes(b"\n")
        assert ended
        assert command.stdout.read() == b""


def test_a_slow_reader_of_what_is_left_behind_stops_no_other_output(environment: Environment, tmp_path: Path) -> None:
    """I1"""
    fifo = tmp_path / "gate"
    os.mkfifo(fifo)
    script = f"(read line < {fifo}; yes & sleep 1; echo late >&2; kill $!) & exit 0"
    with started(
        [*WRAPPER, SH, "-c", script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as command:
        assert command.stderr
        assert command.stdout
        assert command.wait(LIMIT_S) == 0
        fifo.write_bytes(b"\n")
        assert select.select([command.stderr], [], [], LIMIT_S)[0]
        assert command.stderr.readline() == b"late\n"
        command.stdout.close()


def test_a_file_is_let_go_of_when_the_wrapper_ends(environment: Environment, tmp_path: Path) -> None:
    """I1: the report may be slow; a program that was written can be started at once."""
    program = """
import sys, time
from intentd.cli import main
from intentd.sources import report
real = report.keep_only

def slow(fds):
    time.sleep(0.5)
    return real(fds)

report.keep_only = slow
main(["run", "--", *sys.argv[1:]])
"""
    (tmp_path / "run.py").write_text(program)
    line = f"{PYTHON} run.py cat /bin/true > x && ./x"
    (tmp_path / "x").touch(0o700)
    ended = subprocess.run([SH, "-c", line], env=environment, cwd=tmp_path, timeout=LIMIT_S, check=False)
    assert ended.returncode == 0


def test_a_shell_has_a_commands_words_while_its_daemon_lives(open_screen: Open, tmp_path: Path) -> None:
    """I1: also where the daemon still has the terminal."""
    fifo = tmp_path / "gate"
    os.mkfifo(fifo)
    command = f"echo v; (read line < {fifo}) > /dev/null &"
    line = f"x=$({' '.join(WRAPPER)} {SH} -c '{command}'); echo got $x; echo > {fifo}"
    assert open_screen([SH, "-c", line], wrapped=False).end() == (b"got v\r\n", 0)


def test_what_the_command_lets_go_of_is_let_go_of(environment: Environment, tmp_path: Path) -> None:
    """I1: others in a pipeline see it while the command goes on."""
    fifo = tmp_path / "gate"
    os.mkfifo(fifo)
    with started(
        [*WRAPPER, SH, "-c", f"exec < /dev/null > /dev/null; read line < {fifo}; echo end >&2"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as command:
        assert command.stdin
        assert command.stdout
        assert command.stderr
        assert is_let_go_of(command.stdin)
        assert is_let_go_of(command.stdout)
        fifo.write_bytes(b"\n")
        assert command.stderr.read() == b"end\n"


def test_what_else_the_command_lets_go_of_is_let_go_of(environment: Environment, tmp_path: Path) -> None:
    """I1: a descriptor that it was given beside the standard ones."""
    fifo = tmp_path / "gate"
    os.mkfifo(fifo)
    read, write = os.pipe()
    script = f"import os; os.write({write}, b'ready'); os.close({write}); open({str(fifo)!r}).read()"
    with started([*WRAPPER, PYTHON, "-c", script], env=environment, pass_fds=[write]) as command:
        os.close(write)
        with os.fdopen(read, "rb") as end:
            assert end.read(5) == b"ready"
            assert is_let_go_of(end)
        fifo.write_bytes(b"\n")
        assert command.wait(LIMIT_S) == 0


@pytest.mark.skipif(shutil.which("flock") is None, reason="needs flock")
@pytest.mark.parametrize("fd", [0, 9])
def test_a_lock_that_the_command_lets_go_of_is_free(environment: Environment, tmp_path: Path, fd: int) -> None:
    """I1: flock(2)'s goes with the last descriptor of what was opened."""
    command = f"exec {fd}>&-; flock -w {LIMIT_S} lock echo got"
    line = f"exec {fd}<>lock; flock {fd}; exec {' '.join(WRAPPER)} {SH} -c '{command}'"
    ended = subprocess.run(
        [SH, "-c", line], env=environment, cwd=tmp_path, stdout=subprocess.PIPE, timeout=2 * LIMIT_S, check=True
    )
    assert ended.stdout == b"got\n"


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("os.dup2(file, 0)", id="through-it"),
        pytest.param('os.close(0); os.set_inheritable(os.open("lock", os.O_RDONLY), True)', id="standard"),
        pytest.param('os.set_inheritable(os.open("lock", os.O_RDONLY), True)', id="other"),
    ],
)
def test_a_lock_that_was_taken_for_the_command_holds(environment: Environment, tmp_path: Path, given: str) -> None:
    """I1: it is the process's that became the wrapper, and goes with the first descriptor of the file that this
    closes, also where it was not taken through that one.
    """
    fifo, file = tmp_path / "gate", tmp_path / "lock"
    os.mkfifo(fifo)
    program = f"""
import fcntl, os, sys
file = os.open("lock", os.O_RDWR | os.O_CREAT)
os.set_inheritable(file, True)
{given}
fcntl.lockf(file, fcntl.LOCK_EX)
os.execv(sys.argv[1], sys.argv[1:])
"""
    words = [PYTHON, "-c", program, *WRAPPER, SH, "-c", f"echo ready; read line < {fifo}"]
    with started(words, env=environment, cwd=tmp_path, stdout=subprocess.PIPE) as command:
        assert command.stdout
        assert command.stdout.readline() == b"ready\n"
        with file.open("r+") as other, pytest.raises(BlockingIOError):
            fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fifo.write_bytes(b"\n")
        assert command.wait(LIMIT_S) == 0


def test_a_command_sees_that_its_reader_has_left_before_it_prints(environment: Environment) -> None:
    """I1: as `tail -f` looks for it."""
    probe = f"import select, sys; p = select.poll(); p.register(1, 0); sys.exit(7 if p.poll({LIMIT_S} * 1000) else 8)"
    command = subprocess.Popen([*WRAPPER, PYTHON, "-c", probe], env=environment, stdout=subprocess.PIPE)
    assert command.stdout
    command.stdout.close()
    assert command.wait(2 * LIMIT_S) == 7


@pytest.mark.parametrize("line", ["{}; {}", "{} < /dev/null; {}", "({}; {}) | cat"])
def test_a_child_that_goes_on_printing_does_not_hold_the_end_up(open_screen: Open, line: str) -> None:
    """I1: and the end does not cut the command's own output, however much of it comes last."""
    command = "(while echo x; do sleep 0.02; done) & yes oooooooooo | head -n 50000; echo last; exit 3"
    wrapped = f"{' '.join(WRAPPER)} {SH} -c '{command}'"
    screen = open_screen([SH, "-c", line.format(wrapped, "echo ended $?; sleep 30")], wrapped=False)
    screen.until(b"ended 3\r\n")
    own, _, _ = screen.seen.partition(b"ended 3")
    assert own.count(b"o") == 500_000
    assert b"last\r\n" in own
