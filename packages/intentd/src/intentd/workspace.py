"""Owns the workspace: where its root is, and reading its files within the rules (I3). It plans nothing."""

from pathlib import Path

from attrs import frozen

from intentd.plan.secrets import is_refused

_MARKS = (".git", "pyproject.toml", "setup.cfg", "pytest.ini")
MAX_FILE_BYTES = 1024 * 1024


def root_of(cwd: str) -> str:
    """The nearest directory at or above `cwd` that looks like a project's root, else `cwd` itself."""
    here = Path(cwd).resolve()
    for directory in (here, *here.parents):
        if any((directory / mark).exists() for mark in _MARKS):
            return str(directory)
    return str(here)


@frozen
class Workspace:
    """A workspace by its root."""

    root: Path

    def read(self, path: str) -> str | None:
        """The text of a file; None for one outside of the root, a refused, missing, huge or binary one."""
        try:
            real = Path(path).resolve(strict=True)
            if not self._may_read(Path(path), real) or not real.is_file():
                return None
            if real.stat().st_size > MAX_FILE_BYTES:
                return None
            data = real.read_bytes()
        except (OSError, ValueError, RuntimeError):
            return None
        return None if b"\0" in data else data.decode(errors="replace")

    def _may_read(self, given: Path, real: Path) -> bool:
        """Links are followed first: what counts is where the file is, and that neither of its names is refused."""
        root = self.root.resolve()
        if not real.is_relative_to(root) or is_refused(given.name):
            return False
        return not is_refused(real.relative_to(root).as_posix())
