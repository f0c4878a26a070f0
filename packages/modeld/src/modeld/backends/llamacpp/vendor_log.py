"""Owns what llama.cpp has to say: its lines go to our log at debug level, and the last errors are kept to explain."""

import ctypes
import logging
from collections import deque

from llama_cpp import llama_cpp as llama

_log = logging.getLogger(__name__)
_ERROR = 4
_KEPT = 8

_errors: deque[str] = deque(maxlen=_KEPT)


def _heard(level: int, text: bytes, _: object) -> None:
    line = text.decode(errors="replace").strip()
    if level == _ERROR and line:
        _errors.append(line)
    if line.strip("."):
        _log.debug("%s", line)


_callback = llama.llama_log_callback(_heard)  # referenced for as long as the library may call it


def listen() -> None:
    """Take over the library's log; by itself it prints to the standard error stream. The library has one for all."""
    llama.llama_log_set(_callback, ctypes.c_void_p())


def forget() -> None:
    _errors.clear()


def complaint() -> str:
    """The first error line since `forget`, without the C function's name before it; the later ones only echo it."""
    told = [line.split("error loading model: ", 1)[-1] for line in _errors if "error loading model: " in line]
    first = told or [line.split(": ", 1)[-1] for line in _errors]
    return first[0] if first else "it gave no reason"
