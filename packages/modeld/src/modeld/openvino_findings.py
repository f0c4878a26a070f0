"""Owns what the doctor finds of OpenVINO: whether it is there, what it sees, whether it can run the chosen model."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from attrs import evolve

from modeld.backends.base import LoadError
from modeld.config import Settings
from modeld.findings import OPENVINO, Finding, backends
from modeld.models import openvino_folder
from modeld.models.packaged import packaged


def openvino_findings(settings: Settings) -> Iterator[Finding]:
    needed = settings.backend == "openvino"
    _, there = backends()
    yield evolve(there, state=_state(needed)) if there.advice else there
    if there.advice:
        return
    try:
        seen = _devices()
    except (ImportError, OSError, RuntimeError) as fault:
        yield Finding(about="OpenVINO", state=_state(needed), says=f"it cannot be loaded: {fault}", advice=OPENVINO)
        return
    yield _device(seen, settings, needed)
    if settings.backend != "fake" and (finding := _model(settings, needed)):
        yield finding


def _devices() -> Mapping[str, str]:
    """The devices that it sees here, and their names."""
    from openvino import Core  # it loads the native library

    core = Core()
    return {device: str(core.get_property(device, "FULL_DEVICE_NAME")) for device in core.available_devices}


def _device(seen: Mapping[str, str], settings: Settings, needed: bool) -> Finding:
    says = "it sees " + ", ".join(f"{device} ({name})" for device, name in seen.items())
    if settings.device == "CPU":
        return Finding(about="OpenVINO", says=says)
    says = f"{says}; modeld runs on its CPU alone, not on {settings.device}"
    return Finding(about="OpenVINO", state=_state(needed), says=says, advice="choose --device CPU")


def _model(settings: Settings, needed: bool) -> Finding | None:
    """None where there is no model, which others say, and OpenVINO is not to run it."""
    try:
        path = Path(settings.model_path() or packaged())
        openvino_folder.check(path)
        kind = "llama" if path.is_dir() else _architecture(path)
    except LoadError as fault:
        return Finding(about="OpenVINO", state="failure", says=str(fault)) if needed else None
    if kind not in openvino_folder.ARCHITECTURES:
        says = f"it reads no GGUF file of a {kind} model, only of {', '.join(openvino_folder.ARCHITECTURES)}"
        advice = "export the model with optimum-intel and give the folder, or choose --backend llamacpp"
        return Finding(about="OpenVINO", state=_state(needed), says=says, advice=advice)
    says = f"it can run {path.name}, profile exact or fast; stops after a step, no logits"
    return Finding(about="OpenVINO", says=says)


def _architecture(path: Path) -> str:
    from modeld.backends.llamacpp.file_text import FileText

    text = FileText(path, "")
    try:
        return text.description.architecture
    finally:
        text.close()


def _state(needed: bool) -> Literal["failure", "ok"]:
    return "failure" if needed else "ok"
