"""Owns `modeld doctor`: what it looks at, and what it advises for each finding. It serves nothing."""

import os
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from modeld import config
from modeld.backends.base import LoadError
from modeld.config import ConfigError, Settings, unknown_variables
from modeld.findings import Finding, installed
from modeld.models import cache, gguf, openvino_folder, requantised
from modeld.models.openvino_folder import MODEL
from modeld.models.packaged import packaged
from modeld.openvino_findings import openvino_findings
from modelwire.client import Client
from modelwire.endpoint import check_endpoint, is_tcp, runtime_dir
from modelwire.errors import DaemonUnreachable, EndpointError, WireError
from modelwire.keys import Keys

GIB = 2**30
_CHECKS = {"llamacpp": gguf.check_all, "openvino": openvino_folder.check}
ROOM = 0.9
"""Of the free memory a model and its KV may take so much before a warning."""


async def examine(flags: dict[str, Any]) -> list[Finding]:
    """Everything that was found, in the order in which it is worth reading."""
    try:
        settings = config.load(flags)
        settings.model_path()
    except ConfigError as fault:
        return [Finding(about="settings", state="failure", says=str(fault))]
    file = config.config_file()
    found = [Finding(about="settings", says=f"read from {file}" if file.exists() else f"defaults (there is no {file})")]
    if unknown := unknown_variables():
        found.append(Finding(about="settings", state="warning", says=unknown))
    found += _backends(settings)
    found += _model(settings)
    found += _places()
    found += await _daemon(settings)
    return found


# --- backends and the model -------------------------------------------------------------------------------


def _backends(settings: Settings) -> Iterator[Finding]:
    yield installed("llama.cpp", "llama_cpp", "llama-cpp-python", needed=settings.backend == "llamacpp")
    yield from openvino_findings(settings)
    threads = settings.engine().threads
    yield Finding(
        about="devices", says=f"the processor, with {threads} thread{'s' if threads > 1 else ''} for the model"
    )


def _model(settings: Settings) -> Iterator[Finding]:
    if settings.backend == "fake":
        yield Finding(about="model", says="none: the fake backend needs no file")
        return
    try:
        path, name = _served(settings)
        cell = _cell_bytes(path)
        weights = (path / MODEL).with_suffix(".bin") if path.is_dir() else path
        size = weights.stat().st_size
    except LoadError as fault:
        yield Finding(about="model", state="failure", says=str(fault))
        return
    except OSError as fault:
        says, advice = f"cannot read {fault.filename}: {fault.strerror}", "check the file, or export the model again"
        yield Finding(about="model", state="failure", says=says, advice=advice)
        return
    yield Finding(about="model", says=f"{name}, {size / GIB:.2f} GiB")
    yield _memory(size, cell * (2 if _in_32_bits(settings) else 1), settings, _free_memory())


def _served(settings: Settings) -> tuple[Path, str]:
    """The file that `serve` would load and its name; where the first start will make it, what it is made of."""
    if given := settings.model_path():
        _CHECKS[settings.backend](Path(given))
        return Path(given), Path(given).name
    source = packaged()
    made = requantised.place(source)
    return (made, made.name) if made.exists() else (source, f"{made.name}, made at the first start of {source.name}")


def _in_32_bits(settings: Settings) -> bool:
    """Whether K and V are kept so, and not in 16 bits."""
    return settings.backend == "openvino" and settings.profile == "exact"


def _cell_bytes(path: Path) -> int:
    if path.is_dir() or not find_spec("llama_cpp"):
        return 0
    from modeld.backends.llamacpp.shape import cell_bytes  # it loads the native library

    return cell_bytes(path)


def _memory(weights: int, cell: int, settings: Settings, free: int | None) -> Finding:
    """The plan at the largest context: weights, KV for it and for the tapes of others, parked tapes."""
    engine = settings.engine()
    kv = cell * (engine.context + engine.extra_cells)
    needed = weights + kv + engine.parking_mb * 2**20
    says = (
        f"{needed / GIB:.2f} GiB at most: weights {weights / GIB:.2f}, KV {kv / GIB:.2f} "
        f"({engine.context:,} + {engine.extra_cells:,} positions of {cell / 1024:,.1f} KiB), "
        f"parked {engine.parking_mb} MiB"
    )
    if free is None:
        return Finding(about="memory", says=says)
    says += f"; {free / GIB:.2f} GiB are free"
    if needed <= ROOM * free:
        return Finding(about="memory", says=says)
    advice = "end other programs, lower --context or --extra-cells, or choose a smaller model"
    return Finding(about="memory", state="failure" if weights > free else "warning", says=says, advice=advice)


def _free_memory() -> int | None:
    """Bytes that could be had without swapping; None where the system does not say so in Linux's way."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


# --- places and the daemon --------------------------------------------------------------------------------


def _places() -> Iterator[Finding]:
    yield _tried("sockets", runtime_dir)
    yield _tried("cache", lambda: cache.folder("models"), room=True)
    keys = Keys()
    if keys.directory.exists():
        yield _tried("keys", lambda: (keys.allowed(), keys.directory)[1])


def _tried(about: str, place: Callable[[], Path], *, room: bool = False) -> Finding:
    try:
        path = place()
        if not os.access(path, os.W_OK):
            return Finding(about=about, state="failure", says=f"{path} cannot be written", advice=f"chmod u+w {path}")
        says = str(path)
        if room:
            says += f", {shutil.disk_usage(path).free / GIB:,.1f} GiB free"
        return Finding(about=about, says=says)
    except (EndpointError, LoadError) as fault:
        return Finding(about=about, state="failure", says=str(fault))
    except OSError as fault:
        return Finding(about=about, state="failure", says=str(fault), advice="check the folder, its owner and its disk")


async def _daemon(settings: Settings) -> list[Finding]:
    """A daemon that does not run is no fault: it is what one asks the doctor about."""
    try:
        endpoint = settings.endpoint()
        if not is_tcp(endpoint):
            check_endpoint(endpoint)
        async with Client(endpoint, name="modeld doctor", timeout=5) as client:
            status = await client.status()
    except DaemonUnreachable as fault:
        return [Finding(about="daemon", state="warning", says=str(fault))]
    except (ConfigError, EndpointError, WireError) as fault:
        return [Finding(about="daemon", state="failure", says=str(fault))]
    says = f"modeld {client.welcome.version} at {endpoint} is {status.state}, model {status.model or 'not loaded'}"
    if status.problem:
        advice = "read its log; where memory is short lower --context, where a model is broken choose another"
        return [Finding(about="daemon", state="warning", says=f"{says}: {status.problem}", advice=advice)]
    return [Finding(about="daemon", says=says)]
