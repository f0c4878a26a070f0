"""Owns where intentd's settings, its socket and its user are found, for those who need nothing else of the settings."""

import os
from pathlib import Path

from platformdirs import user_config_path

from modelwire.endpoint import default_endpoint, written

SOCKET_VARIABLE = "GUESSAHEAD_INTENTD"


class LostDirectory(Exception):
    """The current directory is gone. The message says what to do."""


def current_directory() -> str:
    """As everybody tells it to the daemon, who must not take one for two where its name is no UTF-8."""
    try:
        return bytes(Path.cwd()).decode(errors="replace")
    except FileNotFoundError:
        raise LostDirectory("the current directory is gone; change to one that is there") from None


def config_dir() -> Path:
    return user_config_path("guessahead", appauthor=False)


def config_file() -> Path:
    return config_dir() / "intentd.toml"


def as_endpoint(name: str) -> str:
    """An absolute path without a scheme is a socket's. Raises `EndpointError` for what is no endpoint."""
    return written(f"ipc://{name}" if name.startswith("/") else name)


def find_socket(flag: str | None) -> str:
    """As the settings say it. They are read only where that needs their file: to load all that costs 60 ms."""
    if given := flag or os.environ.get(SOCKET_VARIABLE):
        return as_endpoint(given)
    if not config_file().exists():
        return default_endpoint("intentd")
    from intentd.config import load

    return load({}).socket
