"""Owns the texts of files that may stand in a prompt (I3): read within the rules, scrubbed whole, and remembered.

Scrubbing takes a while, so `Look.read` belongs into a worker thread; whether a look still holds is quickly told.
"""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import define, field

from intentd.plan.privacy import scrub, scrub_long
from intentd.workspace import Signature, Workspace, signature

MAX_FILE_BYTES = 1024 * 1024
MAX_KEPT_CHARACTERS = 8 * 1024 * 1024
SETTLED_NS = 50_000_000
"""A file written so shortly before it was read may be written again within the same tick of the file system's clock."""
UNSETTLED: Signature = (-1, -1, -1, -1)


class Texts:
    """Scrubbed texts by their content, the least recently used go first. Any thread may use it."""

    def __init__(self, room: int = MAX_KEPT_CHARACTERS) -> None:
        self._room = room
        self._kept: OrderedDict[bytes, str] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    def look(self, root: str) -> "Look":
        return Look(Workspace(Path(root)), self)

    def fit(self, data: bytes) -> str:
        return self._once(hashlib.sha256(data).digest(), lambda: scrub(data.decode(errors="replace")).text)

    def fit_long(self, text: str) -> str:
        key = hashlib.sha256(b"long " + text.encode(errors="surrogatepass")).digest()
        return self._once(key, lambda: scrub_long(text).text)

    def _once(self, key: bytes, work: Callable[[], str]) -> str:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        text = work()
        with self._lock:
            self._held += len(text) - len(self._kept.pop(key, ""))
            self._kept[key] = text
            while self._held > self._room:
                self._held -= len(self._kept.popitem(last=False)[1])
        return text


@define
class Look:
    """One look at a workspace: what is read in it, and how to tell later whether it would read the same."""

    workspace: Workspace
    texts: Texts
    seen: dict[str, Signature] = field(factory=dict)

    def read(self, path: str) -> str | None:
        """The text of a file; None for one outside of the root, a refused, missing, huge or binary one."""
        data = self._data(path)
        return None if data is None else self.texts.fit(data)

    def read_to_compare(self, path: str) -> str | None:
        """As `read`, at once since it is not scrubbed: nothing of it may be sent, shown or logged (I3)."""
        data = self._data(path)
        return None if data is None else data.decode(errors="replace")

    def _data(self, path: str) -> bytes | None:
        self.note(path)
        place = self.workspace.place(path)
        self._note_rules(path, place)
        data = _read(place) if place else None
        return None if data is None or b"\0" in data else data

    def shown(self, path: str, text: str) -> str | None:
        """A text that an editor shows of a file, which need not be there yet; None for a refused one."""
        place = self.workspace.place_of(path)
        self._note_rules(path, place)
        return None if place is None or "\0" in text else self.texts.fit_long(text)

    def hides(self, cwd: str, name: str) -> bool:
        """Whether what a program in `cwd` quotes of a file may not be shown."""
        path = str(Path(cwd, name))
        if self.workspace.is_not_theirs(path):
            return True
        self._note_rules(path, None)
        return self.workspace.hides(path)

    def is_settled(self, path: str) -> bool:
        """Whether a file was read whole: written neither just before, when half of it may be there, nor meanwhile."""
        seen = self.seen.get(path)
        if seen is None and _is_recent(signature(str(Path(path).parent))):  # it may have been taken away to be replaced
            seen = self.seen[path] = UNSETTLED
        return seen != UNSETTLED and signature(path) == seen

    def _note_rules(self, path: str, place: Path | None) -> None:
        for name in {Path(path), place or Path(path)}:
            for _, file, _ in self.workspace.ignore_files(name):
                self.note(str(file))
            for file in self.workspace.opt_outs(name):
                self.note(str(file))
        for setting, signed in self.workspace.settings().items():
            self._note(setting, signed)
        if self.workspace.undecided:
            self.unsettle()

    def unsettle(self) -> None:
        """Something was not answered, which is no finding: the next look may see more."""
        self.seen[str(self.workspace.root)] = UNSETTLED

    def note(self, path: str) -> None:
        """Before it is read: what is written meanwhile must show."""
        if path not in self.seen:
            self._note(path, signature(path))

    def _note(self, path: str, seen: Signature) -> None:
        self.seen.setdefault(path, UNSETTLED if _is_recent(seen) else seen)


def holds(seen: Mapping[str, Signature]) -> bool:
    """Whether everything that a look has seen is as it was."""
    return all(signature(path) == signed for path, signed in seen.items())


def _is_recent(seen: Signature) -> bool:
    """By either of its times; one that lies ahead is another clock's, and would be so for as long as it does."""
    now = time.time_ns()
    return seen is not None and any(abs(now - at) < SETTLED_NS for at in seen[:2])


def _read(place: Path) -> bytes | None:
    try:
        with place.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError:
        return None
    return None if len(data) > MAX_FILE_BYTES else data
