"""Owns the other engine of the comparison: a llama-server in a process of its own, and the time to its first token.

Run as a program it serves on loopback, says where and how in one line of JSON, and ends when its standard input does.
"""

import argparse
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attrs import asdict, frozen

from bench.lookup import Generated

REQUEST_S = 300.0


@frozen(kw_only=True)
class PeerAnswer:
    """`evaluated` are the prompt tokens that went through the model, `prompt` all of them."""

    first_token_ms: float
    prompt: int
    evaluated: int


@frozen
class Peer:
    """A running llama-server. `build` names the instruction sets that its wheel was compiled for."""

    address: str
    build: str

    def ask(self, prompt: str, tokens: int) -> PeerAnswer:
        """Streams `tokens` tokens from the one slot that it has; the time counts from sending to the first of them."""
        connection = self._connected()
        sent = time.perf_counter()
        self._send(connection, prompt, tokens)
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise RuntimeError(f"the peer answered {response.status}: {response.read(500)!r}")
        first, last = 0.0, {}
        for line in response:
            if line.startswith(b"data: {"):
                first = first or (time.perf_counter() - sent) * 1000
                last = json.loads(line.removeprefix(b"data: "))
        connection.close()
        timings = last["timings"]
        return PeerAnswer(
            first_token_ms=first,
            prompt=timings["prompt_n"] + timings["cache_n"],
            evaluated=timings["prompt_n"],
        )

    def generate(self, prompt: list[int], tokens: int, penalty: float = 1.0) -> Generated:
        """Greedy, from token ids. The time counts from the first token to the end."""
        connection = self._connected()
        self._send(connection, prompt, tokens, penalty)
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise RuntimeError(f"the peer answered {response.status}: {response.read(500)!r}")
        ids, begun = list[int](), 0.0
        for line in response:
            if line.startswith(b"data: {"):
                begun = begun or time.perf_counter()
                ids += json.loads(line.removeprefix(b"data: "))["tokens"]
        seconds = time.perf_counter() - begun
        connection.close()
        return Generated(tuple(ids), seconds)

    def abandon(self, prompt: str, after_s: float) -> None:
        """Sends a request, and closes the connection some seconds later without waiting for an answer."""
        connection = self._connected()
        try:
            self._send(connection, prompt, 1)
            time.sleep(after_s)
        finally:
            connection.close()

    def _connected(self) -> http.client.HTTPConnection:
        where = urlsplit(self.address)
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=REQUEST_S)
        connection.connect()
        return connection

    @staticmethod
    def _send(
        connection: http.client.HTTPConnection, prompt: str | list[int], tokens: int, penalty: float = 1.0
    ) -> None:
        body = {
            **{"prompt": prompt, "n_predict": tokens, "temperature": 0, "repeat_penalty": penalty},
            **{"cache_prompt": True, "stream": True},
        }
        connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})


@frozen(kw_only=True)
class PeerSettings:
    """`batch`: tokens of one prefill batch, between which it sees that a client has left.

    `host_cache_mib`: memory to which it copies earlier prompts' state before a new one; 0: none, and no time for it.
    `drafts`: a kind of n-gram drafting in its own words, such as `ngram_simple`; with `match` tokens that have to agree
    and at most `drafted` tokens of a draft (0: its defaults).
    """

    threads: int = 2
    context: int = 8192
    batch: int = 2048
    host_cache_mib: int = 0
    drafts: str = "none"
    match: int = 0
    drafted: int = 0


@contextmanager
def peer(model: Path, settings: PeerSettings, log: Path) -> Iterator[Peer]:
    """Starts one and waits until it has loaded the model; it ends with the block."""
    options = ["--model", str(model.absolute()), "--settings", json.dumps(asdict(settings))]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.peer", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=out,
            start_new_session=True,
        )
    assert process.stdin
    assert process.stdout
    try:
        said = process.stdout.readline()
        if not said:
            raise RuntimeError(f"the peer did not start; see {log}")
        yield Peer(**json.loads(said))
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def serve(model: Path, wanted: PeerSettings) -> None:
    """Computes as modeld's `exact` profile does: the comparison is of what is done, not of how it is computed."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = str(model)
    settings.n_ctx = wanted.context
    settings.n_batch = wanted.batch
    settings.n_parallel = 1
    settings.n_gpu_layers = 0
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = wanted.threads
    settings.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    settings.fit_params = False
    settings.cache_ram_mib = wanted.host_cache_mib
    if wanted.drafts != "none":
        set_drafts(settings.speculative, wanted)
    server = xllamacpp.Server(settings)
    print(json.dumps({"address": server.listening_address, "build": xllamacpp.get_system_info().strip()}), flush=True)
    sys.stdin.read()
    del server


def set_drafts(speculative: Any, wanted: PeerSettings) -> None:
    import xllamacpp

    kind = getattr(xllamacpp.common_speculative_type, f"COMMON_SPECULATIVE_TYPE_{wanted.drafts.upper()}")
    speculative.types = [kind]
    sizes = getattr(speculative, wanted.drafts)
    if wanted.match and wanted.drafts == "ngram_mod":
        sizes.n_match, sizes.n_max, sizes.n_min = wanted.match, wanted.drafted, min(2, wanted.drafted)
    elif wanted.match:
        sizes.size_n, sizes.size_m = wanted.match, wanted.drafted


def main() -> int:
    parser = argparse.ArgumentParser(description="Serve a model with llama-server until standard input ends.")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--settings", default="{}", help="those that differ from the defaults, as JSON")
    options = parser.parse_args()
    serve(options.model, PeerSettings(**json.loads(options.settings)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
