"""Owns asking git: which files differ from the last commit, what stood in them there, and which of its settings say
what it ignores. It looks into a file only for whether git knows it so.

Git is started so that it runs no hook, monitor or driver of the repository's, fetches nothing and writes nothing. (It
may run the filters of a file to compare it, as `git status` does.) For a worker thread: it can take a while.
"""

import hashlib
import os
import re
import subprocess
from functools import lru_cache
from itertools import islice
from pathlib import Path

from attrs import frozen

from intentd.plan.events import Changed

GIT_S = 2.0
"""So long git may take; there are no differences to show where it takes longer."""
MAX_BLOB_BYTES = 256 * 1024
MAX_CHANGED = 200
MAX_LOOKED = 2000
_PLAIN_FILE = re.compile(rb":100(?:644|755) 100(?:644|755) ([0-9a-f]{40,64}) [0-9a-f]+ M")
_OPTIONS = ("--no-optional-locks", "-c", "core.fsmonitor=false")
_INCLUDES = re.compile(r"include(?:if\..*)?\.path", re.DOTALL)
_FALSE = frozenset({"", "0", "false", "no", "off"})
_SETTINGS = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"})
"""Of git's variables only those count that say where the user's settings are."""
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


class Unanswered(Exception):
    """Git is not there, failed, or took too long. It may answer the next time, so nothing is made of it."""


def changed(root: str) -> tuple[Changed, ...]:
    """The files at or below `root` that were changed since the last commit, by their paths. Raises `Unanswered`.

    Those with a name that is no UTF-8 are left out: no prompt could say it.
    """
    words = ("diff-index", "-z", "--raw", "--no-renames", "--ignore-submodules=all", "--diff-filter=M", "--relative")
    told = _git(root, *words, "HEAD", "--").split(b"\0")
    pairs = zip(told[::2], told[1::2], strict=False)
    hits = (
        (_PLAIN_FILE.fullmatch(line), path) for line, path in pairs if path == path.decode(errors="ignore").encode()
    )
    found = [Changed(os.path.join(root, path.decode()), hit[1].decode()) for hit, path in hits if hit]  # noqa: PTH118
    newest = sorted(found, key=_date, reverse=True)[:MAX_LOOKED]
    return tuple(islice(filter(_differs, sorted(newest)), MAX_CHANGED))


def _date(told: Changed) -> int:
    try:
        return Path(told.path).stat().st_mtime_ns
    except OSError:
        return 0


def _differs(told: Changed) -> bool:
    """So little git runs that it tells files by their dates: copied or touched ones, too, that hold what they held."""
    try:
        with Path(told.path).open("rb") as stream:
            data = stream.read(MAX_BLOB_BYTES + 1)
    except OSError:
        return True
    known = hashlib.new("sha1" if len(told.blob) == 40 else "sha256", b"blob %d\0" % len(data), usedforsecurity=False)
    known.update(data)
    return known.hexdigest() != told.blob


@lru_cache(maxsize=32)
def content(root: str, blob: str) -> bytes | None:
    """What a file held at the last commit; None for a large one. Raises `Unanswered`."""
    size = _git(root, "cat-file", "-s", blob)
    return _git(root, "cat-file", "blob", blob) if int(size) <= MAX_BLOB_BYTES else None


@frozen
class Settings:
    """Those of git's that say what it ignores.

    `ignore_file` is the user's own, by its path, which may be relative to the root; empty for none, and None where
    nothing names one. `folds_case`: rules match without case. `files`: the settings come from these, or may as soon as
    one is written or a condition comes true.
    """

    ignore_file: str | None
    folds_case: bool
    files: tuple[str, ...]


def settings(root: str) -> Settings:
    """Raises `Unanswered`."""
    told = _git(root, "config", "--list", "--show-origin", "-z").split(b"\0")
    files, last = dict[str, None](), dict[str, str]()
    for origin, entry in zip(map(os.fsdecode, told[::2]), map(os.fsdecode, told[1::2]), strict=False):
        key, equals, value = entry.partition("\n")
        last[key] = value if equals else "true"
        if origin.startswith("file:"):
            file = Path(root, origin.removeprefix("file:"))
            files[str(file)] = None
            if _INCLUDES.fullmatch(key):
                included = os.path.expanduser(value)  # noqa: PTH111, which raises where nobody is at home
                files[str(file.parent / included)] = None
    named = "core.excludesfile" in last
    path = _git(root, "config", "--type=path", "--get", "core.excludesFile") if named else None
    return Settings(
        ignore_file=None if path is None else os.fsdecode(path).removesuffix("\n"),
        folds_case=last.get("core.ignorecase", "").lower() not in _FALSE,
        files=tuple(files),
    )


def _git(root: str, *words: str) -> bytes:
    """What git prints. Raises `Unanswered`."""
    kept = {name: value for name, value in os.environ.items() if name in _SETTINGS or not name.startswith("GIT_")}
    try:
        ended = subprocess.run(
            ["git", *_OPTIONS, "-C", root, *words],
            env={**kept, **_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=GIT_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as fault:
        raise Unanswered(str(fault)) from None
    if ended.returncode != 0:
        raise Unanswered(f"git {words[0]} ended with status {ended.returncode}")
    return ended.stdout
