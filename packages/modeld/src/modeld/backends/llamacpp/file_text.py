"""Owns what a GGUF file tells without its weights: its vocabulary and description, for other libraries that run it."""

from pathlib import Path

from llama_cpp import llama_cpp as llama

from modeld.backends.gap import gap_tokens
from modeld.backends.llamacpp import vendor_log
from modeld.backends.llamacpp.loading import metadata, open_file
from modeld.backends.llamacpp.vocabulary import LlamaVocabulary
from modelwire.messages import ModelDescription


class FileText:
    """The vocabulary is valid until `close`. Raises `LoadError`."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        vendor_log.listen()
        model = open_file(path, extra_buffers=False, vocabulary_only=True)
        self._model: llama.llama_model_p | None = model
        self.vocabulary = LlamaVocabulary(model)
        self.description = self._describe(path, model, fingerprint)

    def close(self) -> None:
        if self._model is not None:
            llama.llama_model_free(self._model)
            self._model = None

    def _describe(self, path: Path, model: llama.llama_model_p, fingerprint: str) -> ModelDescription:
        architecture = metadata(model, "general.architecture")
        kind = int(metadata(model, "general.file_type") or 0)
        name = metadata(model, "general.name") or path.stem
        gap = gap_tokens(self.vocabulary.special, name)
        return ModelDescription(
            name=name,
            architecture=architecture,
            quantisation=(llama.llama_ftype_name(kind) or b"unknown").decode(),
            fingerprint=fingerprint,
            parameters=llama.llama_model_n_params(model),
            vocabulary=self.vocabulary.size,
            context_trained=int(metadata(model, f"{architecture}.context_length") or 0),
            chat=self.vocabulary.chat_template is not None,
            fim=bool(gap),
            fim_tokens=gap,
        )
