"""Owns the measurement of what front and engine boundary add: modeld on the fake backend, which waits for nothing,
beside the same slot in this process.

The difference of the two is what they add: to an operation from its request at the socket to its last reply, and to a
streamed token as its share of a long answer. The same through the client library tells what that adds on top. All
are medians; the repetitions are interleaved. Where others want to run too (`load_before`), every wait for a processor
is counted.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time

import msgpack
import zmq
from attrs import frozen

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
from modelwire.messages import DecodeConfig, Hello, Turn
from modelwire.protocol import MODELD

SCRIPT = FakeScript(context=4096, cells=8192)
TINY = DecodeConfig(max_tokens=1, speculative_ngram=0)
SESSION = "wire"
BOUNDS = {"added_per_operation_ms": 1.0, "added_per_token_ms": 0.2}
"""What front and engine boundary may add."""


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


class AtSocket:
    """Speaks the protocol itself: requests are encoded before the time counts, of a reply only the kind is read."""

    def __init__(self, endpoint: str) -> None:
        self._codec = MODELD.codec()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.set(zmq.RCVTIMEO, 60_000)
        self._socket.connect(endpoint)
        self._operations = 0
        self._run(Hello(client="bench"))

    def close(self) -> None:
        self._context.destroy(linger=0)

    def operation_ms(self, prompt: str) -> float:
        began, _, end = self._run(Turn(session=SESSION, prefix=text(prompt), decode=TINY))
        return 1000 * (end - began)

    def token_ms(self, prompt: str, tokens: int) -> float:
        decode = DecodeConfig(max_tokens=tokens, speculative_ngram=0)
        _, first, end = self._run(Turn(session=SESSION, prefix=text(prompt), decode=decode))
        return 1000 * (end - first) / (tokens - 1)

    def _run(self, message: Turn | Hello) -> tuple[float, float, float]:
        """When it was sent, when the first token came, and the end."""
        self._operations += 1
        data, first = self._codec.encode(str(self._operations), message), 0.0
        began = time.perf_counter()
        self._socket.send(data)
        while (kind := msgpack.unpackb(self._socket.recv())["kind"]) not in ("done", "error", "welcome"):
            first = first or (time.perf_counter() if kind == "tokens" else 0.0)
        end = time.perf_counter()
        if kind == "error":
            raise RuntimeError("modeld answered with an error; see its log")
        return began, first, end


class ThroughClient:
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


Times = dict[str, list[float]]


@frozen
class Places:
    """The three places from which the same is asked, but for a digit that lets nobody reuse another's tape."""

    socket: AtSocket
    client: ThroughClient
    here: InProcess

    async def operations(self, count: int) -> Times:
        """The first tenth warms up and is not counted."""
        times: Times = {"socket": [], "client": [], "in_process": []}
        for number in range(count + count // 10):
            prompt = f"operation {number:05}"
            times["socket"].append(self.socket.operation_ms(f"1 {prompt}"))
            times["client"].append(await self.client.operation_ms(f"2 {prompt}"))
            times["in_process"].append(self.here.operation_ms(f"3 {prompt}"))
        return {place: samples[-count:] for place, samples in times.items()}

    async def tokens(self, streams: int, tokens: int) -> Times:
        times: Times = {"socket": [], "client": [], "in_process": []}
        for number in range(streams):
            show(f"stream {number + 1} of {streams}")
            prompt = f"stream {number:05}"
            times["socket"].append(self.socket.token_ms(f"1 {prompt}", tokens))
            times["client"].append(await self.client.token_ms(f"2 {prompt}", tokens))
            times["in_process"].append(self.here.token_ms(f"3 {prompt}", tokens))
        return times


async def measure(options: argparse.Namespace) -> Result:
    load = os.getloadavg()[0]
    async with Client(name="bench", timeout=60) as client:
        origin = header("bench.wire", await client.describe(), "none: the fake backend")
        places = Places(AtSocket(client.endpoint), ThroughClient(client), InProcess())
        try:
            operations = await places.operations(options.operations)
            tokens = await places.tokens(options.streams, options.tokens)
        finally:
            places.socket.close()
    added = {
        "added_per_operation_ms": _added(operations, "socket"),
        "added_per_token_ms": _added(tokens, "socket"),
    }
    return {
        **origin,
        "operations": options.operations,
        "streams": {"count": options.streams, "tokens": options.tokens},
        **added,
        "bounds": BOUNDS,
        "holds": all(added[name] < bound for name, bound in BOUNDS.items()),
        "load_before": load,
        "added_with_client_per_operation_ms": _added(operations, "client"),
        "added_with_client_per_token_ms": _added(tokens, "client"),
        "operation_ms": {place: spread(times) for place, times in operations.items()},
        "token_ms": {place: spread(times) for place, times in tokens.items()},
    }


def _added(times: Times, place: str) -> float:
    return round(statistics.median(times[place]) - statistics.median(times["in_process"]), 4)


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
    figures = {name: value for name, value in result.items() if name.endswith(("_ms", "bounds", "holds", "before"))}
    print(f"{json.dumps(figures, indent=1)}\nwrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
