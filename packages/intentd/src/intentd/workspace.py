"""Owns the workspace: where its root is, and which of its files may be read (I3). It reads ignore files, and what
git keeps of where they are.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from attrs import define, field, frozen
from platformdirs import user_config_path

from intentd.plan.privacy import OWN_IGNORE_FILE, IgnoreFile, PathRules, in_denied_folder
from intentd.sources import git

_MARKS = (".git", "pyproject.toml", "setup.cfg", "pytest.ini", "package.json")
_NOT_THEIRS = frozenset(
    {".venv", "venv", "node_modules", "site-packages", "__pycache__", ".tox", ".nox", ".mypy_cache"}
)
"""Directories of other people's code; nobody asks about that. So is one where an environment is."""
_ENVIRONMENT = ("pyvenv.cfg", "conda-meta")
OPT_OUT_FILE = ".noguessahead"
REFUSES_ALL = "*"
_SAYS_MORE = re.compile(r"(?i)excludesfile|ignorecase|\[\s*include")
MAX_IGNORE_BYTES = 64 * 1024
MAX_PATH_BYTES = 4096
MAX_ASKED = 3
"""So often git is asked at once for its settings: again where they come from files that were not known to be theirs."""

Signature = tuple[int, int, int, int] | None
"""Of a file as it is: equal as long as it was not written to. None where there is none."""


def root_of(cwd: str) -> str:
    """The nearest directory at or above `cwd` that looks like a project's root, else `cwd` itself."""
    return marked_root(cwd) or str(Path(cwd).resolve())


def standing(cwd: str) -> tuple[str, bool]:
    """The root of `cwd`, and whether that has opted out. For a worker thread."""
    root = root_of(cwd)
    return root, Workspace(Path(root)).opted_out()


def marked_root(cwd: str) -> str | None:
    """None where nothing at or above `cwd` looks like a project's root, as far as one may look."""
    here = Path(cwd).resolve()
    marked = (one for one in (here, *here.parents) if any(signature(str(one / mark)) for mark in _MARKS))
    return next(map(str, marked), None)


def signature(path: str) -> Signature:
    try:
        seen = Path(path).stat()
    except (OSError, ValueError):
        return None
    return seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino


def is_gone(path: str) -> bool:
    """Whether nothing is there. Of what cannot be reached, as on a drive that is disconnected, nobody knows."""
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


@define
class Workspace:
    """A workspace by its root.

    `undecided` from when git did not say which ignore file is the user's own, or whether rules match without case,
    where its settings may say so: then nothing may be read. It is not asked again here, so that one look sees one
    answer.
    """

    root: Path
    undecided: bool = field(default=False, init=False)
    _unsaid: "_Settled | None" = field(default=None, init=False)

    def opted_out(self) -> bool:
        return any(signature(str(file)) for file in self.opt_outs())

    def opt_outs(self, path: Path | None = None) -> Iterator[Path]:
        """The files that opt `path` out, or the workspace: in each of its folders up to the repository's."""
        top, below = _top(self.root), path or _real(self.root) / OPT_OUT_FILE
        return (folder / OPT_OUT_FILE for folder in below.parents if folder.is_relative_to(top))

    def place(self, path: str) -> Path | None:
        """The file that `path` leads to, where it may be read; else None.

        Links are followed first: what counts is where the file is, and that neither of its names is refused.
        """
        try:
            root, real = self.root.resolve(), Path(path).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            return None
        return real if real.is_file() and self._allows(root, path, real) else None

    def place_of(self, path: str) -> Path | None:
        """As `place`, also of a file that is not there yet."""
        try:
            root, real = self.root.resolve(), Path(path).resolve()
        except (OSError, ValueError, RuntimeError):
            return None
        return real if self._allows(root, path, real) else None

    def _allows(self, root: Path, path: str, real: Path) -> bool:
        if not real.is_relative_to(root):
            return False
        given = Path(os.path.normpath(path))
        if any(in_denied_folder(name.as_posix()) for name in (real, given)):
            return False
        names = {real} | ({given} if given.is_relative_to(root) else {root / given.name})
        return not any(self._refuses(root, name) for name in names)

    def hides(self, path: str) -> bool:
        """Whether a rule speaks against it, there or not. Outside the repository only folders of secrets count."""
        named = self._named(path)
        inside = [(base, one) for base, one in named if one.is_relative_to(base)]
        return any(in_denied_folder(one.as_posix()) for _, one in named) or any(self._refuses(*one) for one in inside)

    def is_not_theirs(self, path: str) -> bool:
        """Whether it is other people's code by its name alone: no ignore file has a say in that."""
        return any(one.is_relative_to(base) and _is_not_theirs(base, one) for base, one in self._named(path))

    def _named(self, path: str) -> list[tuple[Path, Path]]:
        """A file's names, with links followed and without, each behind the folder in which the rules look at it."""
        try:
            root, top, real = self.root.resolve(), _top(self.root), Path(path).resolve()
        except (OSError, ValueError, RuntimeError):
            return []
        named = {real, Path(os.path.normpath(path))}
        return [(root if one.is_relative_to(root) else top, one) for one in named]

    def ignore_files(self, path: Path) -> Iterator[tuple[bool, Path, str]]:
        """(whether our own, file, folder from the top) of every ignore file that can speak of `path`.

        Of two in one folder the later one counts, as git has it.
        """
        top = _top(self.root)
        if users := self._settled(top).users:
            yield False, users, ""
        for folder in reversed(path.parents):
            if folder.is_relative_to(top):
                inside = folder.relative_to(top).as_posix()
                inside = "" if inside == "." else inside
                yield False, _git_folder(folder) / "info" / "exclude", inside
                yield False, folder / ".gitignore", inside
                yield True, folder / OWN_IGNORE_FILE, inside

    def settings(self) -> Mapping[str, Signature]:
        """The files in which git may be told what it ignores, as they were before it was asked."""
        return self._settled(_top(self.root)).signed

    def _settled(self, top: Path) -> "_Settled":
        """What git's settings say.

        Where git does not answer, it is the usual if no settings can say anything else; else the user's ignore file is
        a folder, which no rules can be read from.
        """
        if self._unsaid:
            return self._unsaid
        usual = user_config_path("git", appauthor=False) / "ignore"
        files = tuple(map(str, _settings(top)))
        try:
            return _asked(top, usual, files)
        except git.Unanswered:
            signed = _signed(files)
            self.undecided = any(map(_may_say_more, files))
            self._unsaid = _Settled(top if self.undecided else usual, False, signed)
            return self._unsaid

    def _refuses(self, root: Path, name: Path) -> bool:
        if _is_not_theirs(root, name) or any(signature(str(file)) for file in self.opt_outs(name)):
            return True
        folders = [folder for folder in name.parents if folder.name == "env" and root in folder.parents]
        if any(signature(str(folder / mark)) for folder in folders for mark in _ENVIRONMENT):
            return True
        top = _top(self.root)
        files = tuple(
            (own, str(file), folder, file == top / folder / ".gitignore" and file.is_symlink(), signed)
            for own, file, folder in self.ignore_files(name)
            if (signed := signature(str(file)))
        )
        folds = self._settled(top).folds_case
        return _rules(files, folds).refusal(name.relative_to(top).as_posix()) is not None


def _is_not_theirs(root: Path, name: Path) -> bool:
    return not _NOT_THEIRS.isdisjoint(name.relative_to(root).parts)


def _top(root: Path) -> Path:
    """Where git's rules begin: the repository that the workspace is in, else the workspace."""
    real = _real(root)
    return next((folder for folder in (real, *real.parents) if signature(str(folder / ".git"))), real)


def _real(root: Path) -> Path:
    """With its links followed, as far as they lead anywhere."""
    try:
        return root.resolve()
    except (OSError, ValueError, RuntimeError):
        return Path(os.path.normpath(root))


def _git_folder(folder: Path) -> Path:
    """What all of a repository's worktrees share."""
    own = _own_git_folder(folder)
    return own / _line(own / "commondir")


def _own_git_folder(folder: Path) -> Path:
    """A linked worktree and a submodule have a file that leads there."""
    return folder / (_line(folder / ".git").removeprefix("gitdir:").strip() or ".git")


def _line(file: Path) -> str:
    """What a file of git's own says; nothing where it is none."""
    try:
        if not file.is_file():
            return ""
        with file.open("rb") as stream:
            return os.fsdecode(stream.read(MAX_PATH_BYTES)).strip()
    except (OSError, ValueError):
        return ""


def _may_say_more(settings: str) -> bool:
    """Whether git's settings here name an ignore file or fold case, or lead to others that could."""
    text = _text(settings) if signature(settings) else None
    return text is not None and (text == REFUSES_ALL or _SAYS_MORE.search(text) is not None)


@frozen
class _Settled:
    """What git's settings say: the user's ignore file, if any; while its files are as `signed`."""

    users: Path | None
    folds_case: bool
    signed: Mapping[str, Signature]


@define(eq=False)
class _Known:
    """What git said last of one repository."""

    last: _Settled | None = None


@lru_cache(maxsize=32)
def _known(top: Path, usual: Path, files: tuple[str, ...]) -> _Known:
    return _Known()


def _asked(top: Path, usual: Path, files: tuple[str, ...]) -> _Settled:
    """Asked anew when a file changes that the answer may come from. Raises `Unanswered`."""
    known = _known(top, usual, files)
    last = known.last
    if last and _signed(last.signed) == last.signed:
        return last
    signed = _signed(last.signed if last else files)
    for _ in range(MAX_ASKED):
        said = git.settings(str(top))
        if signed.keys() >= set(said.files):
            users = usual if said.ignore_file is None else top / said.ignore_file if said.ignore_file else None
            known.last = _Settled(users, said.folds_case, {file: signed[file] for file in (*files, *said.files)})
            return known.last
        signed = _signed((*files, *said.files))  # before they are read: what is written meanwhile must show
    raise git.Unanswered("git's settings are being written")


def _signed(files: Iterable[str]) -> dict[str, Signature]:
    return {file: signature(file) for file in files}


def _settings(top: Path) -> tuple[Path, ...]:
    """Where git's settings begin, and what the conditions in them can depend on."""
    named = filter(None, map(os.environ.get, ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")))
    home = os.path.expanduser("~")  # noqa: PTH111, which raises where nobody is at home
    users = (Path(home, ".gitconfig"), user_config_path("git", appauthor=False) / "config")
    own = _own_git_folder(top)
    its = (_git_folder(top) / "config", own / "config.worktree", own / "HEAD", own / "reftable" / "tables.list")
    return (*its, *users, Path("/etc/gitconfig"), *map(Path, named))


@lru_cache(maxsize=64)
def _rules(files: tuple[tuple[bool, str, str, bool, Signature], ...], folds: bool) -> PathRules:
    """Kept by the files' signatures, so a rule that changes makes new ones.

    A .gitignore that is a link is none to git: what it excepts does not count.
    """
    texts = [(own, folder, (_exclusions if linked else _text)(file)) for own, file, folder, linked, _ in files]
    ignored, theirs = ([IgnoreFile(*file) for own, *file in texts if own is ours] for ours in (False, True))
    return PathRules(ignored, theirs, folds=folds)


def _exclusions(file: str) -> str:
    return "\n".join(line for line in _text(file).splitlines() if not line.startswith("!"))


def _text(file: str) -> str:
    """An ignore file that cannot be read might have refused anything."""
    if not Path(file).is_file():
        return REFUSES_ALL
    try:
        with Path(file).open("rb") as stream:
            data = stream.read(MAX_IGNORE_BYTES + 1)
    except OSError:
        return REFUSES_ALL
    return REFUSES_ALL if len(data) > MAX_IGNORE_BYTES else data.decode("utf-8-sig", errors="replace")
