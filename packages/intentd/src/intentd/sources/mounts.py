"""Owns which drive a path is on, as far as the kernel tells without asking the drive. It looks at no files."""

import re
from pathlib import Path

_TABLE = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")
_ON_A_DEVICE = re.compile(r"[1-9]\d*:\d+")


def drive(path: str) -> str:
    """Where the network drive (or another one that has no device) is mounted on which `path` is; else `path` itself.

    One that has a device may hold links to any other drive: then the path says nothing of what hangs.
    """
    try:
        mounts = [line.split(" ", 5)[2:5] for line in _TABLE.read_text(errors="surrogateescape").splitlines()]
    except OSError:
        return path
    devices = {_ESCAPED.sub(lambda one: chr(int(one[1], 8)), mount): device for device, _, mount in mounts}
    mount = next((str(one) for one in (Path(path), *Path(path).parents) if str(one) in devices), "/")
    return path if mount == "/" or _ON_A_DEVICE.fullmatch(devices[mount]) else mount
