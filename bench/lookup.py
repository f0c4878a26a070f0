"""Owns llama-cpp-python's own prompt lookup as a peer: a process that generates from token ids, and what that took.

Run as a program it answers every line of JSON with one, and ends when its standard input does.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from attrs import asdict, frozen


@frozen(kw_only=True)
class LookupSettings:
    """`drafted`: the tokens of every draft; 0 does not draft. The class's default is 10, its advice for CPUs 2."""

    threads: int = 2
    context: int = 4096
    drafted: int = 0


@frozen
class Generated:
    """Token ids, and the seconds from the first of them to the end."""

    ids: tuple[int, ...]
    seconds: float

    @property
    def per_second(self) -> float:
        return (len(self.ids) - 1) / self.seconds if self.seconds else 0.0


@frozen
class Lookup:
    """A running process of this module. `drafting` is off for its answers without drafts."""

    _requests: IO[str]
    _answers: IO[str]
    drafting: bool = True

    def generate(self, prompt: list[int], tokens: int, penalty: float = 1.0) -> Generated:
        """Greedy. A prompt that it has just seen is not computed again."""
        wanted = {"prompt": prompt, "tokens": tokens, "drafting": self.drafting, "penalty": penalty}
        print(json.dumps(wanted), file=self._requests, flush=True)
        said = json.loads(self._answers.readline())
        return Generated(tuple(said["ids"]), said["seconds"])


@contextmanager
def lookup(model: Path, settings: LookupSettings, log: Path) -> Iterator[Lookup]:
    """Starts one; it ends with the block."""
    options = ["--model", str(model.absolute()), "--settings", json.dumps(asdict(settings))]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.lookup", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=out,
            text=True,
            start_new_session=True,
        )
    assert process.stdin
    assert process.stdout
    try:
        yield Lookup(process.stdin, process.stdout)
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def serve(model: Path, settings: LookupSettings) -> None:
    from llama_cpp import Llama
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    drafts = LlamaPromptLookupDecoding(num_pred_tokens=settings.drafted) if settings.drafted else None
    llama = Llama(
        str(model),
        n_ctx=settings.context,
        n_threads=settings.threads,
        n_threads_batch=settings.threads,
        flash_attn=True,
        logits_all=settings.drafted > 0,  # without, its prompt lookup fails on prompts longer than a batch
        verbose=False,
    )
    for line in sys.stdin:
        wanted = json.loads(line)
        llama.draft_model = drafts if wanted["drafting"] else None
        ids, begun = list[int](), 0.0
        for token in llama.generate(wanted["prompt"], top_k=1, temp=0.0, repeat_penalty=wanted["penalty"]):
            begun = begun or time.perf_counter()
            if token == llama.token_eos():
                break
            ids.append(token)
            if len(ids) == wanted["tokens"]:
                break
        print(json.dumps({"ids": ids, "seconds": time.perf_counter() - begun}), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Generate with llama-cpp-python until standard input ends.")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--settings", default="{}", help="those that differ from the defaults, as JSON")
    options = parser.parse_args()
    serve(options.model, LookupSettings(**json.loads(options.settings)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
