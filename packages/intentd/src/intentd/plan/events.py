"""Owns what the plan may know of the world: events as frozen classes. Who saw them is the sources' business."""

from attrs import frozen


@frozen(kw_only=True)
class CommandEnded:
    """A wrapped command has ended in `cwd`, inside the workspace with the root `workspace` (absolute paths).

    `exit` is None where a signal ended it. `output` is the end of what it printed, as printed.
    """

    workspace: str
    cwd: str
    exit: int | None
    output: str
