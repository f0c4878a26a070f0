"""Owns the measurement of switching: two clients that ask in turns, each about a long context of its own.

Twice: each client asks the same again, and each goes on with a question more. The same is asked of a llama-server with
one slot, once with and once without memory for earlier prompts; the better of the two is the peer's figure. The servers
never compute at once.
"""

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Awaitable, Callable, Sequence

from attrs import asdict, define, field, frozen

from bench.asking import ask
from bench.daemons import private_runtime, progress, show
from bench.options import add_model, logs_of, model_of, modeld, parser, require
from bench.peer import Peer, PeerSettings, peer
from bench.prompts import Corpus, length, text
from bench.results import Result, header, spread, write
from modelwire import Client
from modelwire.messages import DecodeConfig

ANSWER = DecodeConfig(max_tokens=16, speculative_ngram=0)
CLIENTS = ("ann", "ben")
QUESTION = 20
PEER_ROUNDS = {0: 1, 8192: 10}
"""By the host cache that the peer is given, in MiB; without one it prefills both contexts again and again."""


@frozen(kw_only=True)
class Conversation:
    """A long context and the questions that follow it, one more with each switch."""

    context: str
    questions: tuple[str, ...]
    question_tokens: tuple[int, ...]

    def parts(self, asked: int) -> tuple[str, ...]:
        return (self.context, *self.questions[:asked])


@define
class Figures:
    """Of each switch: the tokens that were prefilled beyond new ones, and the time to the first token."""

    prefilled: list[int] = field(factory=list)
    ms: list[float] = field(factory=list)


Asked = dict[str, Figures]
"""`same`: the whole prompt had been asked before. `longer`: a question was new."""
Ask = Callable[[int, tuple[str, ...]], Awaitable[tuple[int, float]]]
"""Asks as the client of this number; gives the tokens prefilled and the milliseconds to the first token."""


async def alternate(who: str, conversations: Sequence[Conversation], ask_one: Ask, rounds: int) -> Asked:
    """Whoever asks, the other asked last."""
    figures: Asked = {"same": Figures(), "longer": Figures()}
    for number, conversation in enumerate(conversations):
        await ask_one(number, conversation.parts(0))
    for at in range(rounds):
        show(f"{who}: round {at + 1} of {rounds}")
        for kind, questions, new in (("same", at, False), ("longer", at + 1, True)):
            for number, conversation in enumerate(conversations):
                prefilled, ms = await ask_one(number, conversation.parts(questions))
                figures[kind].prefilled.append(prefilled - new * conversation.question_tokens[at])
                figures[kind].ms.append(ms)
    return figures


async def of_modeld(conversations: Sequence[Conversation], clients: Sequence[Client]) -> Asked:
    async def ask_one(number: int, parts: tuple[str, ...]) -> tuple[int, float]:
        answer = await ask(clients[number], "long", text(*parts), ANSWER)
        return answer.usage.prefilled, answer.first_token_ms

    return await alternate("modeld", conversations, ask_one, len(conversations[0].questions))


async def of_peer(conversations: Sequence[Conversation], other: Peer, name: str, rounds: int) -> Asked:
    async def ask_one(number: int, parts: tuple[str, ...]) -> tuple[int, float]:
        answer = await asyncio.to_thread(other.ask, "".join(parts), ANSWER.max_tokens)
        return answer.evaluated, answer.first_token_ms

    return await alternate(name, conversations, ask_one, min(rounds, len(conversations[0].questions)))


async def make(client: Client, options: argparse.Namespace) -> list[Conversation]:
    corpus = await Corpus.measured(client, options.seed)
    return [await _conversation(client, corpus, options) for _ in CLIENTS]


async def _conversation(client: Client, corpus: Corpus, options: argparse.Namespace) -> Conversation:
    questions = [await corpus.exactly(client, QUESTION) for _ in range(options.rounds)]
    context = await corpus.exactly(client, options.tokens)
    return Conversation(
        context=context,
        questions=tuple(questions),
        question_tokens=tuple([await length(client, question) for question in questions]),
    )


async def measure_modeld(options: argparse.Namespace, file: str) -> tuple[Result, list[Conversation], Asked]:
    async with Client(name="ann", timeout=60) as ann, Client(name="ben", timeout=60) as ben:
        origin = header("bench.switch", await ann.describe(), file, ("llama-cpp-python", "xllamacpp"))
        conversations = await make(ann, options)
        return origin, conversations, await of_modeld(conversations, (ann, ben))


def run(options: argparse.Namespace) -> Result:
    model = model_of(options)
    with private_runtime(), modeld(options, model):
        origin, conversations, ours = asyncio.run(measure_modeld(options, model.name))
    peers: list[tuple[PeerSettings, Asked]] = []
    for host_cache_mib, rounds in PEER_ROUNDS.items():
        settings = PeerSettings(threads=options.threads, context=options.context, host_cache_mib=host_cache_mib)
        with peer(model, settings, logs_of(options) / f"peer-switch-{host_cache_mib}.log") as other:
            peers.append((settings, asyncio.run(of_peer(conversations, other, f"peer, {host_cache_mib} MiB", rounds))))
    best, theirs = min(peers, key=lambda pair: statistics.median(pair[1]["same"].ms))
    return {
        **origin,
        "threads": options.threads,
        "context": options.context,
        "tokens": options.tokens,
        "switches": len(ours["same"].ms),
        **_told("", ours["same"]),
        **_told("peer_", theirs["same"]),
        "longer": {"new_tokens": QUESTION, **_told("", ours["longer"]), **_told("peer_", theirs["longer"])},
        "peer": {"slots": 1, "cache_prompt": True, **asdict(best)},
        "peers": [
            {"host_cache_mib": settings.host_cache_mib, **{kind: _told("peer_", asked[kind]) for kind in asked}}
            for settings, asked in peers
        ],
    }


def _told(prefix: str, figures: Figures) -> Result:
    """Prefilled tokens as a mean, so that one bad switch shows; times as a median."""
    return {
        f"{prefix}prefilled_per_switch": round(statistics.mean(figures.prefilled), 2),
        f"{prefix}switch_ms": round(statistics.median(figures.ms), 2),
        f"{prefix}switch_spread_ms": spread(figures.ms),
    }


def main() -> int:
    made = parser("bench.switch", __doc__, "--rounds 3 --tokens 500")
    made.add_argument("--rounds", type=int, default=10, help="each client asks twice in a round")
    made.add_argument("--tokens", type=int, default=2000, help="of each client's context")
    add_model(made)
    options = made.parse_args()
    require("xllamacpp")
    result = run(options)
    progress("")
    write(result, options.out)
    figures = {name: result[name] for name in result if "switch" in name or name in ("longer", "peer")}
    print(f"{json.dumps(figures, indent=1)}\nwrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
