"""Owns asking git: which files differ from the last commit, and what stood in them there. It reads none of them itself.

Git is started so that it runs no hook, monitor or driver of the repository's, fetches nothing and writes nothing. (It
may run the filters of a file to compare it, as `git status` does.) For a worker thread: it can take a while.
"""

import os
import re
import subprocess
from functools import lru_cache

from intentd.plan.events import Changed

GIT_S = 2.0
"""So long git may take; there are no differences to show where it takes longer."""
MAX_BLOB_BYTES = 256 * 1024
MAX_CHANGED = 200
_PLAIN_FILE = re.compile(rb":100(?:644|755) 100(?:644|755) ([0-9a-f]{40,64}) [0-9a-f]+ M")
_OPTIONS = ("--no-optional-locks", "-c", "core.fsmonitor=false")
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


def changed(root: str) -> tuple[Changed, ...]:
    """The files at or below `root` that were changed since the last commit, by their paths; empty without git."""
    words = ("diff-index", "-z", "--raw", "--no-renames", "--ignore-submodules=all", "--diff-filter=M", "--relative")
    told = (_git(root, *words, "HEAD", "--") or b"").split(b"\0")
    pairs = zip(told[::2], told[1::2], strict=False)
    hits = ((_PLAIN_FILE.fullmatch(line), path) for line, path in pairs)
    found = [Changed(os.path.join(root, os.fsdecode(path)), hit[1].decode()) for hit, path in hits if hit]  # noqa: PTH118
    return tuple(sorted(found)[:MAX_CHANGED])


@lru_cache(maxsize=32)
def content(root: str, blob: str) -> bytes | None:
    """What a file held at the last commit; None for a large one, or where git does not say."""
    size = _git(root, "cat-file", "-s", blob)
    if size is None or not size.strip().isdigit() or int(size) > MAX_BLOB_BYTES:
        return None
    return _git(root, "cat-file", "blob", blob)


def _git(root: str, *words: str) -> bytes | None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
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
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return ended.stdout if ended.returncode == 0 else None
