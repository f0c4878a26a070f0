"""Owns how a GGUF file or an OpenVINO folder becomes an `OpenVinoBackend`: device, profile, memory, the first steps.

Profile `exact`: everything in f32, nothing quantised while it runs, so that drafting, reuse and steps of any width give
the same results. Profile `fast`: the library's defaults.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import openvino as ov
import openvino_genai as genai
import psutil
from attrs import frozen

from modeld.backends.base import BackendError, Ids, LoadError, Scored, StopFlag, Vocabulary
from modeld.backends.gap import gap_tokens
from modeld.backends.openvino import model_folder
from modeld.backends.openvino.backend import OpenVinoBackend, Sizes
from modeld.backends.openvino.pipeline import BLOCK, Pipeline, complaint
from modeld.backends.openvino.silent_tokenizer import silent_tokenizer
from modeld.backends.openvino.vocabulary import OpenVinoVocabulary
from modeld.models import cache, openvino_folder
from modelwire.messages import DecodeConfig, ModelDescription

Profile = Literal["exact", "fast"]
_EXACT = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
_SLACK_SHARE = 4
"""One part in so many of the KV positions is room for what the library keeps though nobody needs it."""
_MEMORY_SHARE = 0.8
"""Of the memory that is available, what the KV cache may take, or the weights of a second pipeline."""


@frozen(kw_only=True)
class OpenVinoSettings:
    """Lengths in tokens. `lookup`: the library copies ahead from the prompt, in every request."""

    profile: Profile = "exact"
    device: str = "CPU"
    context: int = 8192
    extra_cells: int = 4096
    sequences: int = 8
    threads: int = 2
    chunk: int = 512
    lookup: bool = False


@frozen(kw_only=True)
class Source:
    """A model that can be loaded. `free` gives back what the vocabulary holds."""

    folder: Path
    fingerprint: str
    shape: model_folder.Shape
    description: ModelDescription
    vocabulary: Vocabulary
    free: Callable[[], None]


def load(path: Path, settings: OpenVinoSettings, stop: StopFlag) -> OpenVinoBackend:
    """Raises `LoadError`. The backend reads `stop` until it is closed."""
    openvino_folder.check(path)
    _check_device(settings)
    source = _from_folder(path) if path.is_dir() else _from_gguf(path)
    try:
        return _loaded(source, settings, stop)
    except BaseException:
        source.free()
        raise


def _loaded(source: Source, settings: OpenVinoSettings, stop: StopFlag) -> OpenVinoBackend:
    sizes = plan(source.shape, source.description.context_trained, settings)
    try:
        pipeline = open_pipeline(source.folder, source.fingerprint, settings, sizes.blocks)
    except RuntimeError as fault:
        raise LoadError(f"OpenVINO cannot load {source.folder}: {complaint(fault)}") from None
    backend = OpenVinoBackend(
        pipeline,
        description=source.description,
        vocabulary=source.vocabulary,
        sizes=sizes,
        device=settings.device,
        build=build(settings),
        stop=stop,
        reference=_reference_of(source, settings, stop),
        free=source.free,
    )
    _warm_up(source.folder, backend)
    return backend


def _reference_of(
    source: Source, settings: OpenVinoSettings, stop: StopFlag
) -> Callable[[Sequence[Ids], int, Callable[[], None]], Sequence[Scored] | None]:
    from modeld.backends.openvino import reference  # its process uses what is here

    def answers(tapes: Sequence[Ids], tokens: int, advanced: Callable[[], None]) -> Sequence[Scored] | None:
        needed, available = source.shape.size, psutil.virtual_memory().available
        if needed > _MEMORY_SHARE * available:
            raise BackendError(f"a second copy of the model needs {needed >> 20:,} MB, {available >> 20:,} MB are free")
        question = reference.Question(
            folder=str(source.folder),
            fingerprint=source.fingerprint,
            settings=settings,
            tapes=tuple(tuple(tape.tolist()) for tape in tapes),
            tokens=tokens,
        )
        return reference.ask(question, stop, advanced)

    return answers


def open_pipeline(
    folder: Path, fingerprint: str, settings: OpenVinoSettings, blocks: int, *, reuse: bool = True
) -> Pipeline:
    compiled = model_folder.compiled(fingerprint)
    with cache.locked(compiled.with_suffix(".lock")):  # what one process writes there, another would read half
        return Pipeline(
            folder,
            silent_tokenizer(),
            settings.device,
            blocks=blocks,
            batch=settings.chunk,
            lookup=settings.lookup,
            properties={**properties(settings), "CACHE_DIR": str(compiled)},
            reuse=reuse,
        )


def properties(settings: OpenVinoSettings) -> Mapping[str, Any]:
    return {"INFERENCE_NUM_THREADS": settings.threads, **(_EXACT if settings.profile == "exact" else {})}


def build(settings: OpenVinoSettings) -> str:
    """All that results may depend on beside the model, the profile and the threads."""
    core = ov.Core()
    what, can = (core.get_property(settings.device, key) for key in ("FULL_DEVICE_NAME", "OPTIMIZATION_CAPABILITIES"))
    return f"{genai.__version__} {settings.device} {what} {','.join(can)} lookup={settings.lookup}"


def _check_device(settings: OpenVinoSettings) -> None:
    """On a GPU, which AUTO may choose, blocks have another size than what is planned and kept here counts in."""
    if settings.device != "CPU":
        raise LoadError(
            f"--device {settings.device}: modeld has never been run on OpenVINO's GPU, whose KV cache is divided "
            "otherwise than it plans; choose --device CPU"
        )


# --- memory -----------------------------------------------------------------------------------------------


def plan(shape: model_folder.Shape, trained: int, settings: OpenVinoSettings) -> Sizes:
    """How many positions are kept. Raises `LoadError` where there is no memory for them."""
    context = min(settings.context, trained) if trained > 0 else settings.context
    cells = context + settings.extra_cells
    sizes = Sizes(
        context=context,
        cells=cells,
        sequences=settings.sequences,
        chunk=min(settings.chunk, context),
        slack=max(cells // _SLACK_SHARE, 2 * settings.chunk),
    )
    needed = sizes.blocks * BLOCK * shape.kv_values * (4 if settings.profile == "exact" else 2)
    available = psutil.virtual_memory().available
    if needed > _MEMORY_SHARE * available:
        raise LoadError(
            f"a KV cache of {sizes.blocks * BLOCK:,} tokens needs up to {needed >> 20:,} MB, {available >> 20:,} MB "
            "are available: lower --context or --extra-cells"
        )
    return sizes


def _warm_up(folder: Path, backend: OpenVinoBackend) -> None:
    """The first steps of each kind compile kernels, and reserve the KV cache: here, and not in a request."""
    length = min(backend.chunk, 2 * BLOCK + 5)
    tape = np.arange(length, dtype=np.int32) % backend.vocabulary.size
    try:
        backend.extend(0, tape, 0, 0)
        for step in backend.generate(0, tape, _FEW):
            del step
    except (BackendError, RuntimeError) as fault:
        backend.close()
        raise LoadError(f"{folder} fails its first steps: {fault}; choose another model or device") from None
    backend.drop(0)


_FEW = DecodeConfig(max_tokens=3)


# --- where models come from -------------------------------------------------------------------------------


def _from_gguf(path: Path) -> Source:
    """The vocabulary is read by llama.cpp, so that both backends have the same ids for the same file."""
    from modeld.backends.llamacpp.file_text import FileText

    digest = model_folder.digest(path)
    text = FileText(path, digest)
    try:
        if text.description.architecture not in openvino_folder.ARCHITECTURES:
            raise LoadError(
                f"{path} is a {text.description.architecture} model; of GGUF files OpenVINO reads "
                f"{', '.join(openvino_folder.ARCHITECTURES)}: export it with optimum-intel and give the folder, or use "
                "--backend llamacpp"
            )
        folder = model_folder.converted(path, digest)
        return Source(
            folder=folder,
            fingerprint=digest,
            shape=model_folder.shape(folder),
            description=text.description,
            vocabulary=text.vocabulary,
            free=text.close,
        )
    except LoadError:
        text.close()
        raise


def _from_folder(path: Path) -> Source:
    digest, shape = model_folder.digest(path), model_folder.shape(path)
    vocabulary = _vocabulary(path, shape.vocabulary)
    told = _config(path)
    name = path.resolve().name
    gap = gap_tokens(vocabulary.special, name)
    description = ModelDescription(
        name=name,
        architecture=str(told.get("model_type", "unknown")),
        quantisation=shape.weights,
        fingerprint=digest,
        parameters=shape.parameters,
        vocabulary=vocabulary.size,
        context_trained=int(told.get("max_position_embeddings", 0)),
        chat=vocabulary.chat_template is not None,
        fim=bool(gap),
        fim_tokens=gap,
    )
    return Source(
        folder=path, fingerprint=digest, shape=shape, description=description, vocabulary=vocabulary, free=_nothing
    )


def _vocabulary(path: Path, size: int) -> OpenVinoVocabulary:
    try:
        vocabulary = OpenVinoVocabulary(genai.Tokenizer(path), size)
        spelt = b"".join(map(vocabulary.piece, vocabulary.tokenise(_TEXT))).decode(errors="replace")
    except (BackendError, RuntimeError) as fault:
        raise LoadError(
            f"the tokenizer of {path} cannot be used: {complaint(fault)}; export it again with optimum-intel, or give "
            "the model's GGUF file"
        ) from None
    if spelt != _TEXT:
        raise LoadError(
            f"the tokenizer of {path} gives {_TEXT!r} back as {spelt!r}: its vocabulary is not of bytes, and OpenVINO "
            "GenAI does not say what the text of a single token is; give the model's GGUF file"
        )
    return vocabulary


_TEXT = "def f(x):\n    return 'naïve 你好'\n"
"""What a vocabulary of bytes gives back, and one of another kind does not: blanks, line ends, more than ASCII."""


def _config(path: Path) -> Mapping[str, Any]:
    """What an exporter wrote beside the model, if it did."""
    try:
        told = json.loads((path / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _nothing() -> None:
    """A tokenizer of the library goes with its last reference."""
