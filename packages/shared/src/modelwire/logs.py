"""Owns how a daemon's log looks: lines for people, or one JSON object a line for programs. It decides not what is said.

Nothing that is logged holds a prompt or an answer: lengths and hashes only.
"""

import json
import logging
import sys
from typing import Literal

Form = Literal["text", "json"]
FORMS: tuple[Form, ...] = ("text", "json")


class _Json(logging.Formatter):
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
    text = logging.Formatter(f"{service} %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(_Json(service) if form == "json" else text)
    logging.basicConfig(level=level.upper(), handlers=[handler])
