"""The backend over llama.cpp's C API."""

from modeld.backends.llamacpp.backend import LlamaBackend
from modeld.backends.llamacpp.loading import load

__all__ = ["LlamaBackend", "load"]
