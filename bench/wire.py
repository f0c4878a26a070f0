"""Owns the measurement of what client, front and engine boundary add: modeld on the fake backend, which takes no time,
beside the same slot in this process.

The difference of the two is the boundary: an operation's way from the client's call to its end, and a streamed token's
share of a long answer. Both are medians; the repetitions are interleaved.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time

from bench.asking import ask
from bench.daemons import BIN, daemon, model_is_ready, private_runtime, progress, show, wait_until
from bench.options import logs_of, parser
from bench.prompts import text
from bench.results import Result, header, spread, write
from modeld.backends.fake import FakeBackend, FakeScript
from modeld.backends.flag import LocalFlag
from modeld.engine.messages import Ended, FromEngine, Generated, Run
from modeld.slot import Slot, SlotSettings
from modelwire import Client
from modelwire.messages import DecodeConfig

SCRIPT = FakeScript(context=4096, cells=8192)
TINY = DecodeConfig(max_tokens=1, speculative_ngram=0)
SESSION = "wire"


class InProcess:
    """The slot without a daemon around it."""

    def __init__(self) -> None:
        flag = LocalFlag()
        self._slot = Slot(FakeBackend(SCRIPT, flag), stop=flag, clock=time.monotonic, settings=SlotSettings())

    def operation_ms(self, prompt: str) -> float:
        began = time.perf_counter()
        self._run(prompt, TINY)
        return 1000 * (time.perf_counter() - began)

    def token_ms(self, prompt: str, tokens: int) -> float:
        first, last = self._run(prompt, DecodeConfig(max_tokens=tokens, speculative_ngram=0))
        return 1000 * (last - first) / (tokens - 1)

    def _run(self, prompt: str, decode: DecodeConfig) -> tuple[float, float]:
        """When the first token came, and the end."""
        times: list[float] = []

        def emit(message: FromEngine) -> None:
            if isinstance(message, Generated | Ended):
                times.append(time.perf_counter())

        self._slot.run(Run(client="bench", session=SESSION, guess=False, prompt=text(prompt), decode=decode), emit)
        return times[0], times[-1]


class ThroughDaemon:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def operation_ms(self, prompt: str) -> float:
        return (await ask(self._client, SESSION, text(prompt), TINY)).seen_ms

    async def token_ms(self, prompt: str, tokens: int) -> float:
        decode = DecodeConfig(max_tokens=tokens, speculative_ngram=0)
        answer = await ask(self._client, SESSION, text(prompt), decode)
        if len(answer.ids) != tokens:
            raise RuntimeError(f"{len(answer.ids)} tokens came, {tokens} were asked for")
        return (answer.seen_ms - answer.first_token_ms) / (tokens - 1)


async def measure(options: argparse.Namespace) -> Result:
    async with Client(name="bench", timeout=60) as client:
        origin = header("bench.wire", await client.describe(), "none: the fake backend")
        daemon, here = ThroughDaemon(client), InProcess()
        operations = await _operations(daemon, here, options.operations)
        tokens = await _tokens(daemon, here, options.streams, options.tokens)
    return {
        **origin,
        "operations": options.operations,
        "streams": {"count": options.streams, "tokens": options.tokens},
        "added_per_operation_ms": _difference(*operations),
        "added_per_token_ms": _difference(*tokens),
        "operation_ms": {"daemon": spread(operations[0]), "in_process": spread(operations[1])},
        "token_ms": {"daemon": spread(tokens[0]), "in_process": spread(tokens[1])},
    }


Pair = tuple[list[float], list[float]]


def _difference(daemon: list[float], here: list[float]) -> float:
    return round(statistics.median(daemon) - statistics.median(here), 4)


async def _operations(daemon: ThroughDaemon, here: InProcess, count: int) -> Pair:
    """The first tenth warms up and is not counted."""
    through, within = list[float](), list[float]()
    for number in range(count + count // 10):
        prompt = f"{number:05} an operation"
        through.append(await daemon.operation_ms(prompt))
        within.append(here.operation_ms(prompt))
    return through[-count:], within[-count:]


async def _tokens(daemon: ThroughDaemon, here: InProcess, streams: int, tokens: int) -> Pair:
    through, within = list[float](), list[float]()
    for number in range(streams):
        show(f"stream {number + 1} of {streams}")
        prompt = f"{number:05} a stream"
        through.append(await daemon.token_ms(prompt, tokens))
        within.append(here.token_ms(prompt, tokens))
    return through, within


def run(options: argparse.Namespace) -> Result:
    command = [str(BIN / "modeld"), "serve", "--backend", "fake", "--fake", SCRIPT.to_json()]
    with private_runtime(), daemon("modeld-fake", command, logs_of(options)) as server:
        wait_until(model_is_ready, server, "starting")
        return asyncio.run(measure(options))


def main() -> int:
    made = parser("bench.wire", __doc__, "--operations 200 --streams 5")
    made.add_argument("--operations", type=int, default=1000, help="operations of one token each")
    made.add_argument("--streams", type=int, default=15, help="long answers")
    made.add_argument("--tokens", type=int, default=1000, help="tokens of a long answer")
    options = made.parse_args()
    result = run(options)
    progress("")
    write(result, options.out)
    figures = {name: value for name, value in result.items() if name.endswith("_ms")}
    print(f"{json.dumps(figures, indent=1)}\nwrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
