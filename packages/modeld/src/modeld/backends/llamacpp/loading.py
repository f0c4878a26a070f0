"""Owns how a model file becomes a `LlamaBackend`: profiles, the abort callback, and the reasons to refuse a model.

Profile `exact`: rows are bit-identical whatever the width of a batch. On a CPU that takes flash attention with K and V
of which not both are in f16 (then a single row and a wide batch take other paths through the kernel), and no repacking
of weights unless they are Q4_0. K in q8_0 and V in f16 cost least of those. Both are in bf16 where the width of a head
is not whole blocks of q8_0, or there is one head of keys alone: the library rotates what it quantises, and a single row
of one head takes another kernel there. The cells of a sequence must lie in order, too (`arena`). Profile `fast`: the
library's defaults with K and V in f16.
"""

import contextlib
import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from attrs import evolve, frozen
from llama_cpp import llama_cpp as llama

from modeld.backends.base import BackendError, Capabilities, LoadError, StopFlag
from modeld.backends.gap import gap_tokens
from modeld.backends.llamacpp import vendor_log
from modeld.backends.llamacpp.backend import OWN_SEQUENCES, LlamaBackend
from modeld.backends.llamacpp.vocabulary import LlamaVocabulary
from modeld.models import facts, gguf
from modeld.models.fingerprint import fingerprint
from modelwire.messages import ModelDescription

_UBATCH = 512
_F16, _Q8_0, _BF16 = 1, 8, 30  # ggml's numbers of the types
_Q4_0 = str(llama.LLAMA_FTYPE_MOSTLY_Q4_0)


@frozen(kw_only=True)
class LlamaSettings:
    """Lengths in tokens. `context` is the longest tape; `extra_cells` are KV positions beyond it, for other tapes."""

    profile: Literal["exact", "fast"] = "exact"
    context: int = 8192
    extra_cells: int = 4096
    sequences: int = 8
    threads: int = 2
    chunk: int = 512


def load(path: Path, settings: LlamaSettings, stop: StopFlag) -> LlamaBackend:
    """Raises `LoadError`. The backend reads `stop` until it is closed."""
    gguf.check_all(path)
    vendor_log.listen()
    llama.llama_backend_init()
    digest = fingerprint(path)
    model = _load_model(path, settings)
    try:
        _refuse_unfit(path, model)
        trained = llama.llama_model_n_ctx_train(model)
        context = min(settings.context, trained) if trained > 0 else settings.context
        ctx, types = _make_context(path, model, context, settings, stop)
    except LoadError:
        llama.llama_model_free(model)
        raise
    vocabulary = LlamaVocabulary(model)
    backend = LlamaBackend(
        model,
        ctx,
        description=_describe(path, model, vocabulary, digest),
        vocabulary=vocabulary,
        types=types,
        context=context,
        chunk=min(settings.chunk, context),
        in_order=settings.profile == "exact",
        stop=stop,
    )
    key = (digest, settings.profile, backend.build)
    known = facts.recall(Capabilities, key)
    if known is None:
        _probe(path, backend, ctx, stop)
        with contextlib.suppress(LoadError, OSError):  # then the next start probes again
            facts.remember(backend.capabilities, key)
    else:
        backend.capabilities = known
    return backend


def _load_model(path: Path, settings: LlamaSettings) -> llama.llama_model_p:
    return open_file(path, extra_buffers=settings.profile == "fast" or _file_type(path) == _Q4_0, vocabulary_only=False)


def _file_type(path: Path) -> str:
    """The quantisation, known before the weights are loaded."""
    model = open_file(path, extra_buffers=False, vocabulary_only=True)
    try:
        return metadata(model, "general.file_type")
    finally:
        llama.llama_model_free(model)


def open_file(path: Path, *, extra_buffers: bool, vocabulary_only: bool) -> llama.llama_model_p:
    """Raises `LoadError`. To be freed."""
    parameters = llama.llama_model_default_params()
    parameters.n_gpu_layers = 0
    parameters.use_extra_bufts = extra_buffers
    parameters.vocab_only = vocabulary_only
    vendor_log.forget()
    model: llama.llama_model_p | None = llama.llama_model_load_from_file(os.fsencode(path), parameters)
    if model is None:
        raise LoadError(f"cannot load {path}: {vendor_log.complaint()}; get the file again or choose another model")
    return model


def _refuse_unfit(path: Path, model: llama.llama_model_p) -> None:
    """Kinds of model whose state cannot be cut back to a shorter one, or that do not continue a text."""
    unfit: dict[str, Callable[[Any], bool]] = {
        "a recurrent": llama.llama_model_is_recurrent,
        "a hybrid": llama.llama_model_is_hybrid,
        "a diffusion": llama.llama_model_is_diffusion,
        "an encoder": llama.llama_model_has_encoder,
    }
    for kind, applies in unfit.items():
        if applies(model):
            raise LoadError(f"{path} is {kind} model, which cannot be served; choose a decoder-only transformer")


def _make_context(
    path: Path, model: llama.llama_model_p, context: int, settings: LlamaSettings, stop: StopFlag
) -> tuple[llama.llama_context_p, tuple[int, int]]:
    """With the types of K and V that it has."""
    parameters = llama.llama_context_default_params()
    parameters.n_ctx = context + settings.extra_cells
    parameters.n_batch = min(settings.chunk, context)
    parameters.n_ubatch = min(_UBATCH, parameters.n_batch)
    parameters.n_seq_max = settings.sequences + OWN_SEQUENCES
    parameters.n_threads = parameters.n_threads_batch = settings.threads
    parameters.kv_unified = True  # without it a fork of part of a sequence ends the process
    parameters.swa_full = True
    parameters.no_perf = True
    parameters.offload_kqv = parameters.op_offload = False  # only work on the CPU can be aborted
    if settings.profile == "exact":
        parameters.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_ENABLED
    ctx: llama.llama_context_p | None = None
    for parameters.type_k, parameters.type_v in _types(settings.profile, model):
        vendor_log.forget()
        if (ctx := llama.llama_init_from_model(model, parameters)) is not None:
            break
    if ctx is None:
        raise LoadError(
            f"cannot make a context of {context} tokens for {path}: {vendor_log.complaint()}; "
            "lower --context, or try --profile fast"
        )
    llama.llama_set_abort_callback(ctx, _strlen(), ctypes.c_void_p(stop.address))
    return ctx, (parameters.type_k, parameters.type_v)


def _types(profile: str, model: llama.llama_model_p) -> list[tuple[int, int]]:
    """Of K and V, the best first."""
    if profile == "fast":
        return [(_F16, _F16)]
    several = llama.llama_model_n_head_kv(model) > 1
    return [(_Q8_0, _F16), (_BF16, _BF16)] if several else [(_BF16, _BF16)]


def _strlen() -> Any:
    """The C function as abort callback: called with the flag's address it says "stop" when the byte is not zero.

    It is polled a thousand times a batch; a callback in Python would wait for the interpreter lock each time.
    """
    return ctypes.cast(ctypes.CDLL(None).strlen, llama.ggml_abort_callback)


def _describe(path: Path, model: llama.llama_model_p, vocabulary: LlamaVocabulary, digest: str) -> ModelDescription:
    name = metadata(model, "general.name") or path.stem
    gap = gap_tokens(vocabulary.special, name)
    return ModelDescription(
        name=name,
        architecture=metadata(model, "general.architecture"),
        quantisation=(llama.llama_ftype_name(llama.llama_model_ftype(model)) or b"unknown").decode(),
        fingerprint=digest,
        parameters=llama.llama_model_n_params(model),
        vocabulary=vocabulary.size,
        context_trained=llama.llama_model_n_ctx_train(model),
        chat=vocabulary.chat_template is not None,
        fim=bool(gap),
        fim_tokens=gap,
    )


def metadata(model: llama.llama_model_p, key: str) -> str:
    buffer = ctypes.create_string_buffer(256)
    length = llama.llama_model_meta_val_str(model, key.encode(), buffer, len(buffer))
    return buffer.value.decode(errors="replace") if length > 0 else ""


def _probe(path: Path, backend: LlamaBackend, ctx: llama.llama_context_p, stop: StopFlag) -> None:
    """Take some first steps, so that what a model cannot do is known, or refused, here and not met in a request.

    What is found out is remembered; only a model that has passed is not tried again.
    """
    tape = np.zeros(3, np.int32)
    try:
        backend.extend(0, tape, 0, 1)
        backend.fork(0, 1, 2)
        fit = backend.trim(0, 1)
        backend.extend(1, tape, 2, 1)
        backend.drop(0)
        backend.capabilities = evolve(
            backend.capabilities,
            stop="node" if _stops_inside(backend, ctx, stop) else "step",
            export_state=_exports(backend),
        )
        backend.drop(1)
    except (BackendError, RuntimeError) as fault:
        backend.close()
        raise LoadError(f"{path} fails its first steps: {fault}; choose another model") from None
    if not fit:
        backend.close()
        raise LoadError(f"{path} cannot take back tokens, so nothing of it can be reused; choose another model")


def _stops_inside(backend: LlamaBackend, ctx: llama.llama_context_p, stop: StopFlag) -> bool:
    """Whether a callback that always says "stop" is heard: the library polls it only where all work is on the CPU."""
    always = ctypes.create_string_buffer(b"\x01")
    llama.llama_set_abort_callback(ctx, _strlen(), ctypes.c_void_p(ctypes.addressof(always)))
    try:
        return backend.extend(0, np.zeros(3, np.int32), 0, 0).stopped
    finally:
        llama.llama_set_abort_callback(ctx, _strlen(), ctypes.c_void_p(stop.address))
        backend.drop(0)


def _exports(backend: LlamaBackend) -> bool:
    """Whether the state of sequence 1, of three tokens, can go out and come in again."""
    try:
        backend.load(0, backend.save(1, 3), 3)
    except (BackendError, RuntimeError):
        return False
    finally:
        backend.drop(0)
    return True
