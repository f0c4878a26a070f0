"""Owns what all results have in common: where they come from, how samples are summed up, how they are written."""

import json
import math
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from modelwire.messages import Description

Result = dict[str, object]


def header(module: str, description: Description, file: str, packages: Sequence[str] = ()) -> Result:
    """What a result begins with. `load_average` tells how crowded the machine was before the measurement."""
    library = ("openvino-genai",) if description.backend == "openvino" else ()
    names = ("modeld", "modelwire", *packages, *library)
    return {
        "machine": machine(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in names}},
        "model": {"file": file, "quantisation": description.model.quantisation},
        "backend": description.backend,
        "profile": description.profile,
        "command": " ".join([f"python -m {module}", *sys.argv[1:]]),
    }


def machine() -> Result:
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), ""
    )
    return {
        "cpu": model or platform.processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def spread(values: Sequence[float]) -> dict[str, float]:
    """Percentiles by nearest rank, so each is a value that occurred; nothing where there are no values."""
    ordered = sorted(values)
    if not ordered:
        return {}
    ranks = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[math.ceil(share * len(ordered)) - 1], 3) for name, share in ranks.items()}


def write(result: Mapping[str, object], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(result, indent=1) + "\n")
