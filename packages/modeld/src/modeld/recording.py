"""Owns the file of the scheduler's events: one JSON line for each, written in a thread of its own. It replays nothing.

A line with `limits` begins a segment, with the scheduler's board as it was. A file that has grown to its limit becomes
`FILE.1` in place of an older one; each of the two can be replayed by itself.
"""

import json
import logging
import os
import queue
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import field, frozen
from cattrs.cols import namedtuple_dict_structure_factory
from cattrs.preconf.json import JsonConverter, make_converter
from cattrs.strategies import configure_tagged_union

from modeld.schedule.board import Board
from modeld.schedule.journal import Entry, Segment
from modeld.schedule.limits import ScheduleLimits
from modeld.schedule.messages import Command, End, Event, Fail, OpKey
from modelwire.errors import why

log = logging.getLogger(__name__)

MAX_BYTES = 16 * 1024 * 1024
_WAITING = 10_000
_CLOSE_S = 5.0


class RecordFault(Exception):
    """A record cannot be written or read. The message is one line that says what to do."""


class _Half(RecordFault):
    """A line that is not whole."""


@frozen
class _Start:
    limits: ScheduleLimits
    board: Board = field(factory=Board)


def _converter() -> JsonConverter:
    converter = make_converter(forbid_extra_keys=True)
    as_map = namedtuple_dict_structure_factory(OpKey, converter, "from_converter", True)
    converter.register_structure_hook(OpKey, as_map)
    converter.register_unstructure_hook(OpKey, OpKey._asdict)
    converter.register_structure_hook(float, lambda value, _: _seconds(value))
    for union in (Event, Command, End | Fail):
        configure_tagged_union(union, converter, tag_name="is", tag_generator=lambda cls: str(cls.__name__).lower())
    optional = End | Fail | None
    some: Any = End | Fail
    converter.register_structure_hook(optional, lambda last, _: last and converter.structure(last, some))
    converter.register_unstructure_hook(optional, lambda last: last and converter.unstructure(last, some))
    return converter


_JSON = _converter()


def _seconds(value: Any) -> float:
    """Python's reader of JSON takes numbers that JSON does not have; and no clock or deadline (2**63 ms) is further."""
    if type(value) not in (int, float) or not abs(value) < 2**54:
        raise ValueError("no time")
    return float(value)


def line_of(item: "Entry | _Start") -> str:
    return json.dumps(_JSON.unstructure(item), separators=(",", ":")) + "\n"


# --- writing --------------------------------------------------------------------------------------------


class Recorder:
    """Appends to `path`. `add` never blocks: where the disk is too slow a gap is left before a new segment."""

    def __init__(self, path: Path, limits: ScheduleLimits, *, max_bytes: int = MAX_BYTES) -> None:
        """Raises `RecordFault`."""
        self._path = path
        self._limits = limits
        self._max_bytes = max_bytes
        self._items: queue.Queue[Entry | _Start | None] = queue.Queue(_WAITING)
        self._file = _open(path)
        self._full = threading.Event()
        self._gap = False
        self._broken = False
        self._items.put(_Start(limits))
        self._thread = threading.Thread(target=self._write_all, name="recorder", daemon=True)
        self._thread.start()

    def add(self, entry: Entry, board: Callable[[], Board]) -> None:
        """`board` gives the scheduler's board after it."""
        if self._broken:
            return
        try:
            if not self._gap:
                self._items.put_nowait(entry)
            if self._gap or self._full.is_set():
                self._items.put_nowait(_Start(self._limits, board()))
                self._full.clear()
                self._gap = False
        except queue.Full:
            self._gap = True

    def close(self) -> None:
        """Waits a bounded time until everything is written."""
        if not self._broken:
            with suppress(queue.Full):
                self._items.put(None, timeout=_CLOSE_S)
        self._thread.join(_CLOSE_S)

    def _write_all(self) -> None:
        try:
            _end_line(self._file)
            while (item := self._items.get()) is not None:
                self._write(item)
        except (OSError, RecordFault) as fault:
            log.error("the record %s ends here: %s", self._path, getattr(fault, "strerror", fault))
        finally:
            self._broken = True
            os.close(self._file)

    def _write(self, item: Entry | _Start) -> None:
        if isinstance(item, _Start) and os.fstat(self._file).st_size >= self._max_bytes:
            self._path.replace(f"{self._path}.1")
            fresh = _open(self._path)
            os.close(self._file)
            self._file = fresh
        _append(self._file, item)
        if os.fstat(self._file).st_size >= self._max_bytes:
            self._full.set()


def write_segment(path: Path, segment: Segment) -> None:
    """A record of one segment, in place of what was at `path`. Raises `RecordFault`."""
    path.unlink(missing_ok=True)
    file = _open(path)
    try:
        _append(file, _Start(segment.limits, segment.board))
        for entry in segment.entries:
            _append(file, entry)
    except OSError as fault:
        raise RecordFault(f"{path} cannot be written: {fault.strerror}") from None
    finally:
        os.close(file)


def _open(path: Path) -> int:
    """Owner-only, and never through a link that somebody else has laid."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open(path, flags, 0o600)
    except OSError as fault:
        raise RecordFault(f"{path} cannot be written: {fault.strerror}; choose another file") from None
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        os.close(file)
        raise RecordFault(f"{path} is not a file of yours: choose another one")
    os.fchmod(file, 0o600)
    return file


def _end_line(file: int) -> None:
    """Where the disk was full, the last line may be half a one: the next is not written behind it."""
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        os.write(file, b"\n")


def _append(file: int, item: Entry | _Start) -> None:
    line = line_of(item).encode()
    while line:
        line = line[os.write(file, line) :]


# --- reading --------------------------------------------------------------------------------------------


def read(path: Path) -> Iterator[Segment]:
    """The segments of a record. Raises `RecordFault`."""
    segment: Segment | None = None
    try:
        for item in _items(path):
            if isinstance(item, _Start):
                if segment:
                    yield segment
                segment = Segment(item.limits, item.board)
            elif segment:
                segment.entries.append(item)
            else:
                raise RecordFault(f"{path} does not begin with a line that has limits: it is no whole record")
    except (OSError, UnicodeDecodeError) as fault:
        raise RecordFault(f"{path} cannot be read: {why(fault)}") from None
    if segment is None:
        raise RecordFault(f"{path} holds no record: make one with 'modeld serve --record FILE'")
    yield segment


def _items(path: Path) -> Iterator[Entry | _Start]:
    """The last line that a daemon wrote does not count where it is not whole, also where another daemon went on."""
    number, broken = 0, None
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith("\n"):
                break
            try:
                item = _parse(line, f"line {number} of {path}")
            except _Half as fault:
                broken = broken or fault
                continue
            if broken and not isinstance(item, _Start):
                raise broken
            broken = None
            yield item
    if broken and number == 1:
        raise broken


def _parse(line: str, where: str) -> Entry | _Start:
    try:
        fields: Any = json.loads(line)
    except (ValueError, RecursionError) as fault:
        raise _Half(f"{where} is no event of a record ({type(fault).__name__})") from None
    try:
        return _JSON.structure(fields, _Start) if "limits" in fields else _JSON.structure(fields, Entry)
    except Exception as fault:  # ValueError, KeyError, cattrs' groups: all mean the same
        raise RecordFault(f"{where} is no event of a record ({type(fault).__name__})") from None
