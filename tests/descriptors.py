"""Owns the look at this process's open descriptors, for tests of what is left open."""

from contextlib import suppress
from pathlib import Path


def descriptors() -> set[tuple[str, str]]:
    """Each with its target: one that another test left may be closed at any moment."""
    found = set[tuple[str, str]]()
    for one in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add((one.name, str(one.readlink())))
    return found
