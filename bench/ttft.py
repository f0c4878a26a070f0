"""Owns the measurement of first-token times: cold, with a warm prefix and after a guess, beside a llama-server.

Every time is what a client sees from sending a request to its first token. One request runs at a time, and the two
servers never compute at once. The repetitions are interleaved, so that a slow minute of the machine hits all rows.
"""

import argparse
import asyncio
import json
import os
import platform
import random
import statistics
import sys
import time
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

from attrs import frozen

from bench import plot
from bench.daemons import BIN, BUILD, Daemon, daemon, model_is_ready, private_runtime, progress, wait_until
from bench.peer import Peer, peer
from modeld.backends.llamacpp.quantiser import quantise
from modeld.models.packaged import packaged
from modeld.models.requantised import requantised
from modelwire import Client
from modelwire.messages import DecodeConfig, Done, Prompt, Text, Timings, Tokens, Usage

ROWS = (250, 1000, 2000, 4000)
COLD_REPS = 3
ANSWER = DecodeConfig(max_tokens=16, speculative_ngram=0)
TAIL = 50
FIRST_WORD = 7
Table = list[dict[str, float]]
Result = tuple[dict[str, object], Table]
CORPUS = Path("bench/demo/project")
ANSWERS_PER_PEER_PROMPT = 2


@frozen(kw_only=True)
class Row:
    """A length of prompt. The body ends where a tail of `TAIL` tokens begins; there are two tails."""

    tokens: int
    body: str
    tails: tuple[str, str]


@frozen(kw_only=True)
class Answered:
    """What a client saw of one request."""

    first_token_ms: float
    usage: Usage
    timings: Timings

    @property
    def step_ms(self) -> float:
        return self.timings.decode / max(1, self.usage.generated - 1)


class Measurement:
    """Asks modeld and the peer, and collects every figure by row and name."""

    def __init__(self, client: Client, other: Peer, seed: int) -> None:
        self._client = client
        self._peer = other
        self._random = random.Random(seed)
        self._begun = time.monotonic()
        self._samples: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    async def repeat(self, rows: list[Row], reps: int) -> None:
        for rep in range(reps):
            for row in rows:
                self._show(rep, reps, row)
                if rep < COLD_REPS:
                    await self._cold(row)
                    await asyncio.to_thread(self._ask_peer, row)
                await self._hit_and_warm(row)

    async def _cold(self, row: Row) -> None:
        answer = await self._ask("cold", self._prompt(row, 0))
        self._note(
            row,
            prompt_tokens=answer.usage.prompt,
            cold_ms=answer.first_token_ms,
            cold_reused=answer.usage.reused,
            tokenise_ms=answer.timings.tokenise,
        )
        await self._client.close_session("cold")

    async def _hit_and_warm(self, row: Row) -> None:
        """A guess, the same prompt asked, and then one that differs in its tail alone."""
        beginning = self._beginning(row)
        prompt, other_tail = (_text(beginning + tail) for tail in row.tails)
        await self._guess("guessed", prompt)
        answer = await self._ask("guessed", prompt)
        self._note(
            row,
            hit_ms=answer.first_token_ms,
            hit_forward_passes=answer.usage.forward_passes,
            hit_missing=answer.usage.prompt - answer.usage.reused,
            decode_step_ms=answer.step_ms,
        )
        answer = await self._ask("guessed", other_tail)
        self._note(row, prefix_warm_ms=answer.first_token_ms, prefix_warm_prefilled=answer.usage.prefilled)
        await self._client.close_session("guessed")

    def _ask_peer(self, row: Row) -> None:
        prompt = self._beginning(row) + row.tails[0]
        cold = self._peer.ask(prompt, ANSWER.max_tokens)
        self._note(row, peer_cold_ms=cold.first_token_ms, peer_prompt_tokens=cold.prompt)
        for _ in range(ANSWERS_PER_PEER_PROMPT):
            warm = self._peer.ask(prompt, ANSWER.max_tokens)
            self._note(row, peer_warm_ms=warm.first_token_ms, peer_warm_evaluated=warm.evaluated)

    async def _guess(self, session: str, prompt: Prompt) -> None:
        done = await self._client.turn(session=session, prefix=prompt, decode=ANSWER, speculative=True).done()
        if done.reason != "prefilled":
            raise RuntimeError(f"a guess that nothing disturbed ended with {done.reason}, not with prefilled")

    async def _ask(self, session: str, prompt: Prompt) -> Answered:
        sent = time.perf_counter()
        first = 0.0
        async for reply in self._client.turn(session=session, prefix=prompt, decode=ANSWER):
            if isinstance(reply, Tokens):
                first = first or (time.perf_counter() - sent) * 1000
            elif isinstance(reply, Done):
                return Answered(first_token_ms=first, usage=reply.usage, timings=reply.timings)
        raise RuntimeError("the stream ended without its last message")

    def _prompt(self, row: Row, tail: int) -> Prompt:
        return _text(self._beginning(row) + row.tails[tail])

    def _beginning(self, row: Row) -> str:
        """Different in its first tokens each time, so that nothing of it is resident."""
        word = "".join(self._random.choices("bcdfghjkmnpqrstvwxz", k=8))
        return f"{word}\n{row.body}"

    def _note(self, row: Row, **figures: float) -> None:
        for name, value in figures.items():
            self._samples[row.tokens][name].append(value)

    def _show(self, rep: int, reps: int, row: Row) -> None:
        elapsed = time.monotonic() - self._begun
        text = f"{elapsed:4.0f} s  repetition {rep + 1} of {reps}, about {row.tokens:,} prompt tokens"
        progress(text) if sys.stdout.isatty() else print(text, flush=True)

    def table(self) -> Table:
        """A row per length: the median of each figure."""
        return [
            {"row": tokens, **{name: round(statistics.median(values), 3) for name, values in figures.items()}}
            for tokens, figures in self._samples.items()
        ]

    def samples(self) -> dict[int, dict[str, list[float]]]:
        return {tokens: dict(figures) for tokens, figures in self._samples.items()}


def _text(text: str) -> Prompt:
    return (Text(text=text),)


async def make_row(client: Client, corpus: str, tokens: int) -> Row:
    """Cuts source code so that body and tail come to about `tokens`."""
    while await _length(client, corpus) < tokens + 2 * TAIL:
        corpus += corpus
    body = await _cut(client, corpus, tokens - TAIL - FIRST_WORD)
    rest = corpus[len(body) :]
    first = await _cut(client, rest, TAIL)
    second = await _cut(client, "However, " + rest, TAIL)
    return Row(tokens=tokens, body=body, tails=(first, second))


async def _cut(client: Client, text: str, tokens: int) -> str:
    """The beginning of `text` that comes to `tokens` tokens, or one or two fewer."""
    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        if await _length(client, text[:middle]) <= tokens:
            low = middle
        else:
            high = middle
    return text[:low]


async def _length(client: Client, text: str) -> int:
    return len(await client.tokenize(_text(text)))


def source_code() -> str:
    return "\n".join(path.read_text() for path in sorted(CORPUS.rglob("*.py")))


def machine() -> dict[str, object]:
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), ""
    )
    return {"cpu": model or platform.processor(), "cores": os.cpu_count(), "system": platform.platform()}


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


async def measure(options: argparse.Namespace, model: Path, other: Peer, server: Daemon) -> Result:
    corpus = source_code()
    async with Client(name="bench", timeout=60) as client:
        description = await client.describe()
        measurement = Measurement(client, other, options.seed)
        rows = [await make_row(client, corpus, tokens) for tokens in options.rows]
        await measurement.repeat(rows, options.reps)
    server.check()
    table = measurement.table()
    packages = ("llama-cpp-python", "modeld", "xllamacpp")
    result = {
        "machine": machine(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        "model": {"file": model.name, "quantisation": description.model.quantisation},
        "profile": description.profile,
        "threads": options.threads,
        "context": options.context,
        "peer": {"kv": options.peer_kv, "flash_attention": True, "build": other.build},
        "command": " ".join(["python -m bench.ttft", *sys.argv[1:]]),
        "repetitions": {"cold": min(COLD_REPS, options.reps), "hit and warm": options.reps},
        "rows": table,
        "samples": measurement.samples(),
    }
    return result, table


def run(options: argparse.Namespace) -> Result:
    model = options.model or requantised(packaged(), quantise)
    logs = options.out.parent / "logs"
    settings = ["--threads", str(options.threads), "--context", str(options.context)]
    command = [str(BIN / "modeld"), "serve", "--model", str(model.absolute()), *settings]
    print(f"{model.name}, {options.threads} threads, context {options.context}, the peer's KV in {options.peer_kv}")
    with private_runtime(), daemon("modeld", command, logs) as server:
        wait_until(model_is_ready, server, "loading the model")
        with peer(
            model, threads=options.threads, context=options.context, kv=options.peer_kv, log=logs / "peer.log"
        ) as other:
            return asyncio.run(measure(options, model, other, server))


COLUMNS = {
    "prompt_tokens": "prompt tokens",
    "cold_ms": "cold",
    "prefix_warm_ms": f"last {TAIL} tokens new",
    "hit_ms": "after a guess",
    "decode_step_ms": "a decode step",
    "peer_cold_ms": "llama-server, cold",
    "peer_warm_ms": "llama-server, same prompt again",
}


def markdown(table: Table) -> str:
    """Times in ms, as the README shows them."""
    lines = [" | ".join(COLUMNS.values()), " | ".join("---:" for _ in COLUMNS)]
    lines += [" | ".join(f"{row[name]:,.{0 if row[name] >= 100 else 1}f}" for name in COLUMNS) for row in table]
    return "\n".join(f"| {line} |" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m bench.ttft --rows 250,1000 --reps 5 --out build/bench/ttft.json",
    )
    parser.add_argument("--rows", type=_lengths, default=ROWS, help="prompt lengths in tokens, with commas")
    parser.add_argument("--reps", type=int, default=5, help=f"of hits and warm ones; at most {COLD_REPS} cold ones")
    parser.add_argument("--out", type=Path, default=BUILD / "bench" / "ttft.json", help="the plot goes beside it")
    parser.add_argument("--model", type=Path, help="a GGUF file; without it the packaged model as Q4_0")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 2, help="of both servers")
    parser.add_argument("--context", type=int, default=8192, help="of both servers, in tokens")
    parser.add_argument("--peer-kv", choices=("bf16", "f16"), default="bf16", help="modeld's exact profile has bf16")
    parser.add_argument("--seed", type=int, default=1, help="of the words that make prompts differ")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    result, rows = run(options)
    progress("")
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    picture = plot.draw(result, options.out.with_suffix(".png"))
    print(f"First-token times in ms, medians:\n\n{markdown(rows)}\n\nwrote {options.out} and {picture}")
    return 0


def _lengths(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
