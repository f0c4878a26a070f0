"""Owns which drive a path is on, as far as the kernel tells without asking the drive. It looks at no files."""

import re
from pathlib import Path

_TABLE = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")
_OWN = frozenset({"bcachefs", "btrfs", "overlay", "ramfs", "tmpfs", "zfs"})
"""Kinds without a device of their own that are on this machine all the same."""


def drive(path: str) -> str:
    """Where the network drive is mounted on which `path` is (or another one that some process serves); else `path`.

    One of this machine may hold links to any other drive: there the path says nothing of what hangs.
    """
    try:
        lines = _TABLE.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return path
    far = dict(map(_mount, lines))
    mount = next((str(one) for one in (Path(path), *Path(path).parents) if str(one) in far), "/")
    return mount if mount != "/" and far[mount] else path


def _mount(line: str) -> tuple[str, bool]:
    """Where it is, and whether it may go away."""
    _, _, device, _, mount, *_ = line.split(" ")
    kind = line.partition(" - ")[2].partition(" ")[0]
    return _ESCAPED.sub(lambda one: chr(int(one[1], 8)), mount), device.startswith("0:") and kind not in _OWN
