"""Owns how the decode bench asks modeld and the peers for the answers to one task: pairs with and without drafts.

Prompts are resident before, so only decoding is timed: from the first token to the end, as a client sees it. Every
answer of modeld is for a client of its own. A drafter knows what its client was answered before, and to draft the same
answer again from that would be easy.
"""

import asyncio
from collections.abc import Mapping

from attrs import define, evolve, field, frozen

from bench.asking import Answered, ask
from bench.corpus.tasks import Task
from bench.lookup import Generated, Lookup
from bench.peer import Peer
from modelwire import Client
from modelwire.messages import DecodeConfig, Prompt, Reason, Text

DETOUR = (Text(text="\n\nNothing of that matters here: "),)
READING = DecodeConfig(max_tokens=8, speculative_ngram=0)
"""What a new client asks first, behind the same prompt. In these steps its drafter reads the prompt."""
SAMPLED = DecodeConfig(temperature=0.7, top_k=40, top_p=0.95, min_p=0.02, repeat_penalty=1.05, seed=7)
TIMEOUT_S = 60.0
OFF = 0


@frozen
class Decoded:
    """An answer of modeld's. `ended`: by the model itself."""

    generated: Generated
    text: str
    drafted: int
    accepted: int
    ended: bool

    @classmethod
    def of(cls, answer: Answered) -> "Decoded":
        usage, seconds = answer.usage, (answer.seen_ms - answer.first_token_ms) / 1000
        ended = answer.done.reason is Reason.END
        return cls(Generated(answer.ids, seconds), answer.text, usage.drafted, usage.accepted, ended)

    @property
    def passes(self) -> int:
        """Passes of the model after the first token. The end token comes from one, and is not in the answer."""
        return self.steps - self.accepted

    @property
    def steps(self) -> int:
        """How many passes it takes without drafts."""
        return len(self.generated.ids) - 1 + self.ended


@frozen
class Pair:
    """The same answer without and with drafts."""

    off: Decoded
    on: Decoded

    @property
    def same(self) -> bool:
        return self.off.text == self.on.text and self.off.generated.ids == self.on.generated.ids

    @property
    def speedup(self) -> float:
        return self.on.generated.per_second / self.off.generated.per_second


@frozen
class Played:
    """All that was measured on one task. `baselines` are the peers' answers without drafts."""

    task: Task
    prompt: tuple[int, ...]
    greedy: tuple[Pair, ...]
    sampled: Pair
    peers: Mapping[str, tuple[Generated, ...]]
    baselines: Mapping[str, Generated]

    @property
    def answer(self) -> Decoded:
        return self.greedy[0].off

    @property
    def same(self) -> bool:
        return all(pair.same for pair in (*self.greedy, self.sampled))


Generator = Lookup | Peer


@define
class Players:
    """Those that answer. Peers are asked with token ids, so that all see the same prompt."""

    keeper: Client
    peers: Mapping[str, Generator]
    baselines: Mapping[str, Generator]
    tokens: int
    sampled_tokens: int
    reps: int
    _turn: int = field(default=0, init=False)

    async def play(self, task: Task) -> Played:
        prompt: Prompt = (Text(text=task.prompt, special=True),)
        ids = await self.keeper.tokenize(prompt)
        await self.keeper.ensure_prefix(session=task.name, prompt=prompt).done()
        greedy, theirs = list[Pair](), dict[str, list[Generated]]()
        for _ in range(self.reps):
            greedy.append(await self._pair(prompt, DecodeConfig(max_tokens=self.tokens)))
            for name, peer in self.peers.items():
                theirs.setdefault(name, []).append(await self._generate(peer, ids))
        sampled = await self._pair(prompt, evolve(SAMPLED, max_tokens=self.sampled_tokens))
        baselines = {name: await self._generate(peer, ids) for name, peer in self.baselines.items()}
        await self.keeper.close_session(task.name)
        peers = {name: tuple(found) for name, found in theirs.items()}
        return Played(task, tuple(ids), tuple(greedy), sampled, peers, baselines)

    async def _pair(self, prompt: Prompt, config: DecodeConfig) -> Pair:
        """Once the one and once the other is first."""
        self._turn += 1
        configs = [evolve(config, speculative_ngram=OFF), config]
        answers = [await self._answer(prompt, one) for one in (configs if self._turn % 2 else configs[::-1])]
        return Pair(*(answers if self._turn % 2 else answers[::-1]))

    @staticmethod
    async def _answer(prompt: Prompt, config: DecodeConfig) -> Decoded:
        async with Client(name="bench", timeout=TIMEOUT_S) as client:
            await client.turn(session="pair", prefix=prompt, suffix=DETOUR, decode=READING).done()
            answer = await ask(client, "pair", prompt, config)
            await client.close_session("pair")
        return Decoded.of(answer)

    async def _generate(self, peer: Generator, ids: tuple[int, ...]) -> Generated:
        return await asyncio.to_thread(peer.generate, list(ids), self.tokens)
