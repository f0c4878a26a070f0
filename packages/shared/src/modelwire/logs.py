"""Owns how a daemon's log looks: lines for people, or one JSON object a line for programs. It decides not what is said.

Nothing that is logged holds a prompt or an answer: lengths and hashes only. Of a fault that means its kind and place,
and its words only where they are ours: a library's may quote what it was given.
"""

import json
import logging
import sys
import threading
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Literal

from modelwire.errors import Plain

Form = Literal["text", "json"]
FORMS: tuple[Form, ...] = ("text", "json")


def told(fault: BaseException) -> str:
    """What the log may say of a fault, and of what led to it."""
    return "\n".join("".join([*traceback.format_tb(one.__traceback__), _name(one)]) for one in _chain(fault))


def _chain(fault: BaseException | None) -> Iterator[BaseException]:
    seen = set()
    while fault is not None and id(fault) not in seen:
        yield fault
        seen.add(id(fault))
        fault = fault.__cause__ or (None if fault.__suppress_context__ else fault.__context__)


def _name(fault: BaseException) -> str:
    return f"{type(fault).__name__}: {fault}" if isinstance(fault, Plain | OSError) else type(fault).__name__


class _Text(logging.Formatter):
    def formatException(self, ei: Any) -> str:
        return told(ei[1]) if ei[1] else ""


class _Json(_Text):
    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0]:
            line["fault"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up(service: str, *, level: str, form: Form = "text") -> None:
    """Sends this process's log to standard error. `service` names the process in every line."""
    handler = logging.StreamHandler(sys.stderr)
    text = _Text(f"{service} %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(_Json(service) if form == "json" else text)
    handler.addFilter(_without_words)
    logging.basicConfig(level=level.upper(), handlers=[handler])
    sys.excepthook = _uncaught
    sys.unraisablehook = lambda found: _uncaught(found.exc_type, found.exc_value, found.exc_traceback)
    threading.excepthook = lambda found: _uncaught(found.exc_type, found.exc_value, found.exc_traceback)


def _without_words(record: logging.LogRecord) -> bool:
    """asyncio shows the task or the callback that failed, with what it was given."""
    if record.name == "asyncio" and record.exc_info:
        record.msg, record.args = "a task or a callback failed, and nobody looked", ()
    return True


def _uncaught(kind: type[BaseException], fault: BaseException | None, trace: TracebackType | None) -> None:
    """What Python would print by itself, with all words."""
    if not issubclass(kind, KeyboardInterrupt | SystemExit):
        logging.getLogger("uncaught").critical("nobody caught this", exc_info=(kind, fault or kind(), trace))
