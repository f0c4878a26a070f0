"""Owns the question whether a path can be a model file at all. What is inside, the library that loads it says."""

import re
from pathlib import Path

from modeld.backends.base import LoadError

_MAGIC = b"GGUF"
_VERSIONS = range(2, 4)
_SPLIT = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")


def check(path: Path) -> None:
    """Raises `LoadError` with one line that says what is wrong with a model file and what to do."""
    try:
        if path.is_dir():
            raise LoadError(f"{path} is a directory; give the .gguf file in it")
        if not path.exists():
            raise LoadError(f"no such model file: {path}; check the path, or leave it out for the packaged model")
        if not path.is_file():
            raise LoadError(f"{path} is not a regular file; give a .gguf file")
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as fault:
        reason = fault.strerror or type(fault).__name__
        raise LoadError(f"cannot read {path}: {reason}; check the permissions of the file and its folders") from None
    if not head.startswith(_MAGIC):
        raise LoadError(f"{path} is not a GGUF file (it begins with {head[:4]!r}); give a model in GGUF format")
    version = int.from_bytes(head[4:8], "little")
    if version not in _VERSIONS:
        raise LoadError(f"{path} is GGUF version {version}, which cannot be read; convert it to version 3")


def check_all(path: Path) -> None:
    """The same for a model and all the files of its series."""
    if parts(path) == [path]:
        check(path)


def parts(path: Path) -> list[Path]:
    """The files of a model: one, or for `…-00001-of-00003.gguf` all of the series. Raises `LoadError` for a gap."""
    split = _SPLIT.search(path.name)
    if split is None:
        return [path]
    total = split.group(1)
    series = [
        path.with_name(_SPLIT.sub(f"-{number:05}-of-{total}.gguf", path.name)) for number in range(1, int(total) + 1)
    ]
    for part in series:
        check(part)
    return series
