"""Owns where our processes find their modules: the user's folders (`PYTHONPATH`, the current one) come last.

A project may have a `select.py` of its own. This module imports nothing that the interpreter has not loaded by itself.
"""

import os
import sys

_OURS = ("modelwire", "modeld", "intentd")


def settle() -> None:
    """Before any other import. What stands before the standard library is the user's, or holds a package of ours."""
    library = os.path.dirname(os.__file__)  # noqa: PTH120 - pathlib is slow to import
    if library in sys.path:
        last = [folder for folder in sys.path[: sys.path.index(library)] if not _is_ours(folder)]
        sys.path[:] = [folder for folder in sys.path if folder not in last] + last


def inherited() -> dict[str, str]:
    """For the environment of a process of ours (with `-P`): it finds what this one finds."""
    return {"PYTHONPATH": os.pathsep.join(sys.path)}


def _is_ours(folder: str) -> bool:
    return any(os.path.isdir(os.path.join(folder, name)) for name in _OURS)  # noqa: PTH112, PTH118 - as above
