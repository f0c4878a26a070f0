"""Owns the OpenVINO form of a model: a folder that somebody made, or one that is made of a GGUF file, once, and kept.

Beside the kept model lie the library's compiled versions of it. What another version of the library left goes.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino_genai as genai
from attrs import frozen

from modeld.backends.base import LoadError
from modeld.backends.openvino.pipeline import complaint
from modeld.models import cache
from modeld.models.fingerprint import fingerprint
from modeld.models.openvino_folder import MODEL


@frozen(kw_only=True)
class Shape:
    """What a model's graph tells of it. `kv_values` are the numbers that one position of KV has, `size` is in bytes."""

    size: int
    kv_values: int
    parameters: int
    weights: str
    vocabulary: int


def digest(path: Path) -> str:
    """The fingerprint of a file, or of the model files in a folder. Raises `LoadError`."""
    return fingerprint((path / MODEL).with_suffix(".bin") if path.is_dir() else path)


def compiled(model: str) -> Path:
    """Where the library keeps compiled versions of the model with this fingerprint."""
    return _version_folder(model, "compiled")


def converted(path: Path, model: str) -> Path:
    """The folder of a GGUF file, made where it is not there yet. Two processes at once are safe. Raises `LoadError`."""
    target = _version_folder(model, "model")
    if (target / MODEL).is_file():
        return target
    with cache.locked(target.with_suffix(".lock")):
        if not (target / MODEL).is_file():
            try:
                _convert(path, target)
            except OSError as fault:
                raise cache.unwritable(target, fault) from None
    return target


def _version_folder(model: str, name: str) -> Path:
    root = cache.folder("openvino")
    mine = root / f"{model[:16]}-{genai.__version__}"
    for other in root.glob(f"{model[:16]}-*"):
        if other != mine:
            shutil.rmtree(other, ignore_errors=True)
    try:
        (mine / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        mine.chmod(0o700)
    except OSError as fault:
        raise cache.unwritable(mine, fault) from None
    return mine / name


def _convert(path: Path, target: Path) -> None:
    """The library writes what it converted beside the file that it is given: here, a link in a folder of ours."""
    with tempfile.TemporaryDirectory(prefix="new-", dir=target.parent) as name:
        aside = Path(name)
        (aside / "model.gguf").symlink_to(path.resolve())
        config = genai.SchedulerConfig()
        config.num_kv_blocks, config.cache_size = 1, 0
        try:
            genai.ContinuousBatchingPipeline(
                str(aside / "model.gguf"), config, "CPU", {"enable_save_ov_model": True}, {}
            )
        except RuntimeError as fault:
            raise LoadError(f"OpenVINO cannot read {path}: {complaint(fault)}; see docs/backends.md") from None
        if not (aside / MODEL).is_file():
            raise LoadError(f"OpenVINO kept nothing of {path}: is the disk full? Free some space and try again")
        for file in (Path(MODEL).with_suffix(".bin").name, MODEL):  # the one that is looked for comes last
            (aside / file).replace(target / file)


def shape(folder: Path) -> Shape:
    """Raises `LoadError` for a graph that keeps no KV of the usual kind."""
    try:
        model = ov.Core().read_model(folder / MODEL)
    except RuntimeError as fault:
        raise LoadError(f"{folder / MODEL} cannot be read: {complaint(fault)}; export the model again") from None
    heads = list(_kv_values(model))
    if not heads or 0 in heads:
        raise LoadError(f"{folder} keeps no keys and values; give a decoder-only transformer, exported with a state")
    constants = [(str(op.get_element_type()), int(np.prod(op.shape))) for op in _constants(model)]
    return Shape(
        size=sum(op.get_byte_size() for op in _constants(model)),
        kv_values=sum(heads),
        parameters=sum(count for _, count in constants),
        weights=max(constants, key=lambda one: one[1], default=("unknown", 0))[0].split("'")[1],
        vocabulary=int(model.output(0).get_partial_shape()[2].get_length()),
    )


def _kv_values(model: Any) -> Iterator[int]:
    for op in model.get_ops():
        if op.get_type_name() == "ReadValue":
            dimensions = list(op.output(0).get_partial_shape())
            if len(dimensions) == 4:
                yield int(np.prod([size.get_length() if size.is_static else 1 for size in dimensions[1:]]))


def _constants(model: Any) -> Iterator[Any]:
    for op in model.get_ops():
        if op.get_type_name() == "Constant" and len(op.shape) > 1:
            yield op
