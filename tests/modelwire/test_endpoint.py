"""Where daemons are found, and that nobody else can be there."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from modelwire.endpoint import (
    MAX_SOCKET_PATH,
    Claim,
    check_endpoint,
    default_endpoint,
    runtime_dir,
    socket_path,
    tcp_address,
)
from modelwire.errors import EndpointError


def test_the_runtime_directory_comes_from_the_environment_and_is_made_owner_only(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUESSAHEAD_RUNTIME_DIR", str(directory / "run"))
    assert runtime_dir() == directory / "run"
    assert (directory / "run").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("relative", ["run", "./run", "~/run"])
def test_a_runtime_directory_that_depends_on_where_one_stands_is_refused(
    relative: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory)
    monkeypatch.setenv("GUESSAHEAD_RUNTIME_DIR", relative)
    with pytest.raises(EndpointError, match=f"is '{relative}': give it an absolute path"):
        runtime_dir()
    assert not list(directory.iterdir())


def test_without_settings_it_is_the_users_runtime_directory(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GUESSAHEAD_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(directory))
    assert runtime_dir() == directory / "guessahead"


def test_without_any_runtime_directory_a_private_one_is_found(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GUESSAHEAD_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(directory / "missing" / "x" / ".."))
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    assert runtime_dir().stat().st_mode & 0o077 == 0


def test_the_endpoint_of_each_service_can_be_set(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUESSAHEAD_RUNTIME_DIR", str(directory))
    monkeypatch.delenv("GUESSAHEAD_MODELD", raising=False)
    monkeypatch.setenv("GUESSAHEAD_INTENTD", "ipc:///elsewhere/i.sock")
    assert default_endpoint("modeld") == f"ipc://{directory}/modeld.sock"
    assert default_endpoint("intentd") == "ipc:///elsewhere/i.sock"


def test_a_directory_open_to_others_is_refused_with_the_command_that_helps(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.chmod(0o750)
    monkeypatch.setenv("GUESSAHEAD_RUNTIME_DIR", str(directory))
    with pytest.raises(EndpointError, match=f"chmod 700 {directory}"):
        runtime_dir()
    with pytest.raises(EndpointError, match="chmod 700"):
        check_endpoint(f"ipc://{directory}/a.sock")


def test_nobody_is_told_to_close_a_directory_that_is_not_for_our_files_alone(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a socket is said to be in /tmp, or in a project."""
    monkeypatch.setenv("GUESSAHEAD_RUNTIME_DIR", str(directory / "run"))
    directory.chmod(0o755)
    with pytest.raises(EndpointError, match=r"mode bits 055\): choose one of your own, made with mkdir -m 700$"):
        check_endpoint(f"ipc://{directory}/a.sock")
    directory.chmod(0o1777)
    monkeypatch.setenv("GUESSAHEAD_RUNTIME_DIR", str(directory))
    for check in (runtime_dir, lambda: check_endpoint(f"ipc://{directory}/a.sock")):
        with pytest.raises(EndpointError, match="choose one of your own"):
            check()


def test_a_link_or_a_file_in_place_of_the_directory_is_refused(directory: Path) -> None:
    (directory / "real").mkdir(mode=0o700)
    (directory / "link").symlink_to(directory / "real")
    (directory / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(EndpointError, match="not a directory"):
            check_endpoint(f"ipc://{directory}/{name}/a.sock")


def test_anothers_directory_is_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.raises(EndpointError, match="belongs to user"):
        check_endpoint(f"ipc://{directory}/a.sock")


def test_a_missing_directory_is_named_with_the_command_that_makes_it(directory: Path) -> None:
    with pytest.raises(EndpointError, match="mkdir -m 700"):
        check_endpoint(f"ipc://{directory}/no/a.sock")


def test_a_file_where_the_runtime_directory_should_be_is_said(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory / "file").touch()
    monkeypatch.setenv("GUESSAHEAD_RUNTIME_DIR", str(directory / "file" / "below"))
    with pytest.raises(EndpointError, match="set GUESSAHEAD_RUNTIME_DIR"):
        runtime_dir()


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("tcp://127.0.0.1:5555", ("127.0.0.1", 5555)),
        ("tcp://*:1", ("*", 1)),
        ("tcp://a-host.example:65535", ("a-host.example", 65535)),
        ("tcp://[::1]:80", ("[::1]", 80)),
    ],
)
def test_a_tcp_endpoint_has_a_host_and_a_port(endpoint: str, address: tuple[str, int]) -> None:
    assert tcp_address(endpoint) == address


@pytest.mark.parametrize("port", ["", ":", ":0", ":65536", ":80/x", ":http", "/../x:80", ":80\n", "_b:80"])
def test_what_is_no_tcp_endpoint_is_refused(port: str) -> None:
    with pytest.raises(EndpointError, match="tcp://HOST:PORT"):
        tcp_address(f"tcp://host{port}")


@pytest.mark.parametrize("endpoint", ["", "ipc://", "ipc://relative.sock", "ipc://@abstract", "ipc://*", "inproc://a"])
def test_what_is_no_absolute_path_is_refused(endpoint: str) -> None:
    with pytest.raises(EndpointError, match="absolute path"):
        socket_path(endpoint)


def test_a_path_may_be_as_long_as_a_socket_address_and_no_longer() -> None:
    longest = "/" + "x" * (MAX_SOCKET_PATH - 1)
    assert socket_path(f"ipc://{longest}") == Path(longest)
    with pytest.raises(EndpointError, match="shorter directory"):
        socket_path(f"ipc://{longest}x")


def test_an_endpoint_is_claimed_once_and_the_refusal_names_the_holder(endpoint: str) -> None:
    with Claim(endpoint), pytest.raises(EndpointError, match=f"already served by pid {os.getpid()}; stop it"):
        Claim(endpoint)
    with Claim(endpoint) as again:
        assert "held" in repr(again)
    again.release()


def test_a_claim_ends_with_its_process_even_when_that_is_killed(endpoint: str) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, socket, modelwire.endpoint as e\n"
            "claim = e.Claim(sys.argv[1])\n"
            "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1][6:])\n"
            "print('held', flush=True); sys.stdin.read()",
            endpoint,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(EndpointError, match=f"pid {holder.pid}"):
            Claim(endpoint)
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
    assert check_endpoint(endpoint).exists(), "the socket is left over"
    with Claim(endpoint):
        assert not check_endpoint(endpoint).exists()


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, lambda path: path.symlink_to("elsewhere")])
def test_what_is_no_socket_is_never_removed(directory: Path, make: Callable[[Path], None]) -> None:
    path = directory / "notes.txt"
    make(path)
    with pytest.raises(EndpointError, match="is there and no socket: move it away"):
        Claim(f"ipc://{path}")
    assert path.lstat()
    assert list(directory.iterdir()) == [path]


@pytest.mark.parametrize("call", ["os.open", "fcntl.flock", "os.truncate", "os.pwrite", "pathlib.Path.unlink"])
def test_a_claim_that_the_disk_refuses_is_said_in_one_line_and_holds_nothing(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(call, refuse)
        with pytest.raises(EndpointError, match=r"\.lock \(No space left on device\): .* choose another with --socket"):
            Claim(endpoint)
    with Claim(endpoint):
        pass


def test_what_is_no_file_in_place_of_the_lock_is_said(endpoint: str) -> None:
    lock = check_endpoint(endpoint).with_name("modeld.sock.lock")
    lock.mkdir()
    with pytest.raises(EndpointError, match=r"modeld\.sock\.lock \(Is a directory\)"):
        Claim(endpoint)


def test_a_socket_that_cannot_be_removed_does_not_keep_the_claim(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    claim = Claim(endpoint)
    with monkeypatch.context() as readonly:
        readonly.setattr(Path, "unlink", refuse)
        claim.release()
    with Claim(endpoint):
        pass


def test_a_file_that_came_in_place_of_the_socket_outlives_the_claim(endpoint: str) -> None:
    with Claim(endpoint):
        check_endpoint(endpoint).write_text("precious")
    assert check_endpoint(endpoint).read_text() == "precious"
