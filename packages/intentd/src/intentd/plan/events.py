"""Owns what the plan may know of the world: events as frozen classes. Who saw them is the sources' business."""

from attrs import frozen


@frozen(order=True)
class Changed:
    """A file that differs from the last commit: its absolute path, and git's name for what it held there."""

    path: str
    blob: str


@frozen(kw_only=True)
class CommandEnded:
    """A command has ended in `cwd`, inside the workspace with the root `workspace` (absolute paths).

    `exit` is None where nobody knows, and 128 more than the signal that ended it. `output` is what was kept of what it
    printed, `changed` the workspace's files that differed from the last commit then; None where
    that is not known.
    """

    workspace: str
    cwd: str
    exit: int | None
    output: str
    argv: tuple[str, ...] = ()
    changed: tuple[Changed, ...] | None = None
