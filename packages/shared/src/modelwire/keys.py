"""Owns the keys of a TCP endpoint: this user's own pair, the clients that are let in, the daemons that are known.

Keys are CURVE keys, written as 64 hexadecimal digits. Every user of every machine has one pair, for daemons and clients
alike. Who is let in is read at each new connection, so no daemon has to be restarted.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import zmq
from attrs import frozen
from platformdirs import user_config_path
from zmq.utils import z85

from modelwire.endpoint import check_directory, tcp_peer
from modelwire.errors import EndpointError

_HEX = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@frozen
class Pair:
    """Both halves as ZeroMQ takes them (Z85). The secret half is not part of the representation."""

    public: bytes
    secret: bytes

    def __repr__(self) -> str:
        return f"<Pair {to_hex(self.public)}>"


class Keys:
    """The keys in an owner-only directory: GUESSAHEAD_KEYS, else `keys` in the user's configuration directory.

    The directory is made when the first key is. Raises `EndpointError` where others could read it, and for what the
    disk refuses.
    """

    def __init__(self, directory: Path | None = None) -> None:
        configured = os.environ.get("GUESSAHEAD_KEYS")
        default = Path(configured) if configured else user_config_path("guessahead", appauthor=False) / "keys"
        self.directory = (directory or default).absolute()

    def __repr__(self) -> str:
        return f"<Keys {self.directory}>"

    def own(self) -> Pair:
        """This user's pair, made at the first call."""
        path = self._private(self.directory) / "own.secret"
        try:
            secret = _read(path)
        except FileNotFoundError:
            secret = _write_new(path, to_hex(zmq.curve_keypair()[1]))
        return Pair(zmq.curve_public(_from_hex(secret)), _from_hex(secret))

    # --- clients that a daemon of this user lets in -----------------------------------------------------------

    def allow(self, name: str, key: str) -> None:
        """Lets the owner of `key` in under `name`, in place of whom that name meant before."""
        _write(self._private(self.directory / "allowed") / _checked_name(name), check(key))

    def refuse(self, name: str) -> bool:
        """Takes `name` off the list; False where it was not on it. Connections that are open stay open."""
        path = self._private(self.directory / "allowed") / _checked_name(name)
        try:
            with _using(path):
                path.unlink()
        except FileNotFoundError:
            return False
        return True

    def allowed(self) -> Mapping[str, str]:
        """Name → key of everybody who is let in."""
        directory = self._private(self.directory / "allowed")
        return {path.name: _read(path) for path in _listed(directory) if _NAME.fullmatch(path.name)}

    def callback(self, domain: str, key: bytes) -> bool:
        """Whether libzmq's authenticator shall let `key` in. A list that cannot be read lets nobody in."""
        try:
            return to_hex(key) in self.allowed().values()
        except (OSError, EndpointError):
            return False

    # --- daemons that this user knows ---------------------------------------------------------------------------

    def trust(self, endpoint: str, key: str) -> None:
        """From now on the daemon at `endpoint` must prove that it owns `key`."""
        _write(self._private(self.directory / "daemons") / _daemon(endpoint), check(key))

    def daemon(self, endpoint: str) -> bytes:
        """The key (Z85) of the daemon at `endpoint`. Raises `EndpointError` where none is known."""
        try:
            return _from_hex(_read(self._private(self.directory / "daemons") / _daemon(endpoint)))
        except FileNotFoundError:
            raise EndpointError(
                f"no key is known for {endpoint}: run 'modeld keys' there, and here 'modeld keys trust {endpoint} KEY'"
            ) from None

    def daemons(self) -> Mapping[str, str]:
        """Endpoint → key of the daemons that are known."""
        directory = self._private(self.directory / "daemons")
        found = [path for path in _listed(directory) if not path.name.startswith(".")]
        return {f"tcp://{path.name.replace('_', ':')}": _read(path) for path in found}

    def _private(self, directory: Path) -> Path:
        for level in dict.fromkeys((self.directory, directory)):
            try:
                level.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as fault:
                raise EndpointError(f"cannot make {level} ({fault.strerror}): set GUESSAHEAD_KEYS to another") from None
            check_directory(level)
        return directory


def check(key: str) -> str:
    """Gives a public key as it is stored. Raises `EndpointError` for what is none."""
    if not _HEX.fullmatch(found := key.strip().lower()):
        raise EndpointError("a key is 64 hexadecimal digits, as 'modeld keys' prints them on its owner's machine")
    return found


def to_hex(key: bytes) -> str:
    return z85.decode(key).hex()


def _from_hex(key: str) -> bytes:
    return z85.encode(bytes.fromhex(key))


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise EndpointError(f"{name!r:.80} is no name for a key: use up to 64 letters, digits and _ . -")
    return name


def _daemon(endpoint: str) -> str:
    host, port = tcp_peer(endpoint)
    return f"{host}_{port}"


@contextmanager
def _using(path: Path) -> Iterator[None]:
    """That a file is missing means something to whoever wants it; what else the disk says is for people."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as fault:
        raise EndpointError(
            f"cannot use {path} ({fault.strerror}): look after it, or set GUESSAHEAD_KEYS to another directory"
        ) from None


def _listed(directory: Path) -> list[Path]:
    with _using(directory):
        return sorted(directory.iterdir())


def _read(path: Path) -> str:
    with _using(path):
        text = path.read_text("utf-8", errors="replace").strip()
    if not _HEX.fullmatch(text):
        raise EndpointError(f"{path} holds no key: remove it, then make or allow the key again")
    return text


def _write(path: Path, text: str) -> None:
    """All or nothing: a reader sees the old key or the new one."""
    with _using(path), _aside(path, text) as aside:
        aside.replace(path)


def _write_new(path: Path, text: str) -> str:
    """Gives what the file then holds: another process may have been faster."""
    with _using(path), _aside(path, text) as aside:
        try:
            path.hardlink_to(aside)
        except FileExistsError:
            return _read(path)
    return text


@contextmanager
def _aside(path: Path, text: str) -> Iterator[Path]:
    """A file beside `path` that is gone afterwards."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.unlink(missing_ok=True)
    try:
        file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, f"{text}\n".encode())
        finally:
            os.close(file)
        yield aside
    finally:
        aside.unlink(missing_ok=True)
