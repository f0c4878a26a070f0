"""Owns the measurement of first-token times: cold, with a warm prefix and after a guess, beside a llama-server.

Every time is what a client sees from sending a request to its first token. One request runs at a time, and the two
servers never compute at once. The repetitions are interleaved, so that a slow minute of the machine hits all rows.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

from attrs import frozen

from bench import plot
from bench.asking import ask
from bench.daemons import private_runtime, progress, show
from bench.options import add_model, logs_of, model_of, modeld, parser, require
from bench.peer import Peer, PeerSettings, peer
from bench.prompts import Words, cut, length, source_code, text
from bench.results import Result, header, write
from modelwire import Client
from modelwire.messages import DecodeConfig, Prompt

ROWS = (250, 1000, 2000, 4000)
COLD_REPS = 3
ANSWER = DecodeConfig(max_tokens=16, speculative_ngram=0)
TAIL = 50
FIRST_WORD = 7
Table = list[dict[str, float]]
ANSWERS_PER_PEER_PROMPT = 2


@frozen(kw_only=True)
class Row:
    """A length of prompt. The body ends where a tail of `TAIL` tokens begins; there are two tails."""

    tokens: int
    body: str
    tails: tuple[str, str]


class Measurement:
    """Asks modeld and the peer, and collects every figure by row and name."""

    def __init__(self, client: Client, other: Peer, seed: int) -> None:
        self._client = client
        self._peer = other
        self._words = Words(seed)
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
        answer = await ask(self._client, "cold", self._prompt(row, 0), ANSWER)
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
        prompt, other_tail = (text(beginning + tail) for tail in row.tails)
        await self._guess("guessed", prompt)
        answer = await ask(self._client, "guessed", prompt, ANSWER)
        self._note(
            row,
            hit_ms=answer.first_token_ms,
            hit_forward_passes=answer.usage.forward_passes,
            hit_missing=answer.usage.prompt - answer.usage.reused,
            decode_step_ms=answer.step_ms,
        )
        answer = await ask(self._client, "guessed", other_tail, ANSWER)
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

    def _prompt(self, row: Row, tail: int) -> Prompt:
        return text(self._beginning(row) + row.tails[tail])

    def _beginning(self, row: Row) -> str:
        return self._words.beginning(row.body)

    def _note(self, row: Row, **figures: float) -> None:
        for name, value in figures.items():
            self._samples[row.tokens][name].append(value)

    def _show(self, rep: int, reps: int, row: Row) -> None:
        elapsed = time.monotonic() - self._begun
        show(f"{elapsed:4.0f} s  repetition {rep + 1} of {reps}, about {row.tokens:,} prompt tokens")

    def table(self) -> Table:
        """A row per length: the median of each figure."""
        return [
            {"row": tokens, **{name: round(statistics.median(values), 3) for name, values in figures.items()}}
            for tokens, figures in self._samples.items()
        ]

    def samples(self) -> dict[int, dict[str, list[float]]]:
        return {tokens: dict(figures) for tokens, figures in self._samples.items()}


async def make_row(client: Client, corpus: str, tokens: int) -> Row:
    """Cuts source code so that body and tail come to about `tokens`."""
    while await length(client, corpus) < tokens + 2 * TAIL:
        corpus += corpus
    body = await cut(client, corpus, tokens - TAIL - FIRST_WORD)
    rest = corpus[len(body) :]
    first = await cut(client, rest, TAIL)
    second = await cut(client, "However, " + rest, TAIL)
    return Row(tokens=tokens, body=body, tails=(first, second))


async def measure(options: argparse.Namespace, model: Path, other: Peer) -> tuple[Result, Table]:
    corpus = source_code()
    async with Client(name="bench", timeout=60) as client:
        origin = header("bench.ttft", await client.describe(), model.name, ("llama-cpp-python", "xllamacpp"))
        measurement = Measurement(client, other, options.seed)
        rows = [await make_row(client, corpus, tokens) for tokens in options.rows]
        await measurement.repeat(rows, options.reps)
    table = measurement.table()
    result = {
        **origin,
        "threads": options.threads,
        "context": options.context,
        "peer": {"flash_attention": True, "build": other.build},
        "repetitions": {"cold": min(COLD_REPS, options.reps), "hit and warm": options.reps},
        "rows": table,
        "samples": measurement.samples(),
    }
    return result, table


def run(options: argparse.Namespace) -> tuple[Result, Table]:
    model = model_of(options)
    print(f"{model.name}, {options.threads} threads, context {options.context}")
    settings = PeerSettings(threads=options.threads, context=options.context)
    with private_runtime(), modeld(options, model), peer(model, settings, logs_of(options) / "peer.log") as other:
        return asyncio.run(measure(options, model, other))


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
    made = parser("bench.ttft", __doc__, "--rows 250,1000 --reps 5 --out build/bench/ttft.json")
    made.add_argument("--rows", type=_lengths, default=ROWS, help="prompt lengths in tokens, with commas")
    made.add_argument("--reps", type=int, default=5, help=f"of hits and warm ones; at most {COLD_REPS} cold ones")
    add_model(made)
    options = made.parse_args()
    require("xllamacpp", "matplotlib")
    result, rows = run(options)
    progress("")
    write(result, options.out)
    picture = plot.draw(result, options.out.with_suffix(".png"))
    print(f"First-token times in ms, medians:\n\n{markdown(rows)}\n\nwrote {options.out} and {picture}")
    return 0


def _lengths(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
