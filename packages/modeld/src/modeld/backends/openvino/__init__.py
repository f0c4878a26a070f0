"""The backend over OpenVINO GenAI's continuous batching. Importing it needs the extra `modeld[openvino]`."""

from modeld.backends.openvino.backend import OpenVinoBackend
from modeld.backends.openvino.loading import load

__all__ = ["OpenVinoBackend", "load"]
