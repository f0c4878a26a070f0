"""Owns the requantising of a model file by llama.cpp. Where the result is kept is not its business."""

import ctypes
import os
from pathlib import Path

from llama_cpp import llama_cpp as llama

from modeld.backends.base import LoadError
from modeld.backends.llamacpp import vendor_log


def quantise(source: Path, target: Path, file_type: int = llama.LLAMA_FTYPE_MOSTLY_Q4_0) -> None:
    """Write the Q4_0 version of `source` to `target`, or another; seconds for a small model. Raises `LoadError`."""
    vendor_log.listen()
    vendor_log.forget()
    parameters = llama.llama_model_quantize_default_params()
    parameters.ftype = file_type
    parameters.allow_requantize = True
    if llama.llama_model_quantize(os.fsencode(source), os.fsencode(target), ctypes.byref(parameters)) != 0:
        raise LoadError(f"cannot requantise {source}: {vendor_log.complaint()}; is the disk full, or the file damaged?")
