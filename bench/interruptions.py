"""Owns the guesses that are interrupted: which, when, by what, and what was seen of each. It starts no server."""

import asyncio
import math
import random
import statistics
import time
from collections.abc import Iterator, Sequence

from attrs import define, evolve, field, frozen

from bench.asking import Answered, answered
from bench.daemons import show
from bench.prompts import Corpus, text
from bench.results import Result, spread
from modelwire import Client
from modelwire.client import OperationStream
from modelwire.messages import DecodeConfig, Done, Progress, Reason

SHORT, SHORTEST, LONG = 64, 256, 4000
"""Tokens of an unrelated request, of the shortest guess, and from where on a guess is long."""
CERTAIN = 7000
"""Tokens from which on a few per cent more may be too many for the context."""
CHUNK = 512
CHUNK_EVERY = 40
"""Trials between two measurements of one undisturbed chunk."""
PATIENCE_S = 0.25
"""A long request that matches is cancelled so long after it began: what it reuses and when it began is known then."""
AFFORDABLE = 800
"""Tokens of a guess whose prompt may be prefilled to its end to compare the answer."""
FEW = DecodeConfig(max_tokens=4, speculative_ngram=0)
ANSWER = DecodeConfig(max_tokens=64, speculative_ngram=0)


@frozen(kw_only=True)
class Trial:
    """A guess of about `tokens`, met at `phase` (0 to 1 of its time) by its own prompt (`same`) or by another one.

    `answer`: the request's answer is long, and kept.
    """

    tokens: int
    phase: float
    same: bool
    answer: bool


@frozen(kw_only=True)
class Plan:
    requests: int
    answers: int
    longest: int
    seed: int

    def trials(self) -> list[Trial]:
        """In random order; one in ten is long, all lengths are log-uniform."""
        chance = random.Random(self.seed)
        long = self.requests // 10 if self.longest > LONG else 0
        bounds = [(LONG, self.longest)] * long
        bounds += [(SHORTEST, min(LONG, self.longest))] * (self.requests - long)
        chance.shuffle(bounds)
        left = {True: self.answers // 2, False: self.answers - self.answers // 2}
        return [self._trial(chance, number % 2 == 0, low, high, left) for number, (low, high) in enumerate(bounds)]

    @staticmethod
    def _trial(chance: random.Random, same: bool, low: int, high: int, left: dict[bool, int]) -> Trial:
        tokens = round(math.exp(chance.uniform(math.log(low), math.log(high))))
        answer = left[same] > 0 and (not same or tokens <= AFFORDABLE)
        left[same] -= answer
        return Trial(tokens=tokens, phase=chance.random(), same=same, answer=answer)


@frozen(kw_only=True)
class Seen:
    """`delay_ms` from the request's arrival at the socket to the start of its own work on the model, if that began.

    `from_send_ms` is the same from the client's call, and with the way back of the answer. `finished` tokens of the
    guess were resident when it had yielded, and `kept` of them were reused by its prompt.
    """

    trial: Trial
    waited_s: float
    guess: Done
    delay_ms: float | None
    from_send_ms: float | None
    finished: int
    kept: int


@define
class Pace:
    """How long a guess takes, from an undisturbed one: a part that grows with its length, and one with its square."""

    linear: float = 0.0
    square: float = 0.0

    def seconds(self, tokens: int) -> float:
        return self.linear * tokens + self.square * tokens * tokens

    def learn(self, points: Sequence[tuple[int, float]]) -> None:
        """Least squares through the origin."""
        moments = [sum(n**power for n, _ in points) for power in (2, 3, 4)]
        first, second = (sum(n**power * t for n, t in points) for power in (1, 2))
        determinant = moments[0] * moments[2] - moments[1] ** 2
        if len(points) < 3 or not determinant:
            self.linear, self.square = points[-1][1] / points[-1][0], 0.0
            return
        self.linear = (first * moments[2] - second * moments[1]) / determinant
        self.square = (second * moments[0] - first * moments[1]) / determinant


@define
class Trials:
    """Interrupts guesses one after the other. A guess waits at most `cap_s` for its interruption.

    Where one was over before, it is tried once more with another of that length, sooner.
    """

    client: Client
    corpus: Corpus
    plan: Plan
    cap_s: float = field(kw_only=True)
    pace: Pace = field(factory=Pace, init=False)
    seen: list[Seen] = field(factory=list, init=False)
    over: int = field(default=0, init=False)
    chunks_ms: list[float] = field(factory=list, init=False)
    answers: list[tuple[str, DecodeConfig, tuple[int, ...]]] = field(factory=list, init=False)

    async def run(self, until: float) -> None:
        """Ends early at `until` (monotonic seconds)."""
        await self._measure_pace()
        trials, began = self.plan.trials(), time.monotonic()
        for number, trial in enumerate(trials):
            if time.monotonic() > until:
                return
            if number % CHUNK_EVERY == 0:
                self.chunks_ms.append(await self._chunk_ms())
            show(f"{time.monotonic() - began:4.0f} s  request {number + 1} of {len(trials)}, {trial.tokens:,} tokens")
            if not await self._interrupt(trial):
                await self._interrupt(evolve(trial, phase=trial.phase / 2, answer=False))

    async def _measure_pace(self) -> None:
        show("an undisturbed guess")
        prompt = text(await self.corpus.near(self.client, min(LONG // 2, self.plan.longest)))
        stream = self.client.turn(session="pace", prefix=prompt, speculative=True)
        sent, points = time.perf_counter(), list[tuple[int, float]]()
        async for reply in stream:
            if isinstance(reply, Progress) and reply.done > reply.reused:
                points.append((reply.done, time.perf_counter() - sent))
        self.pace.learn(points)
        await self.client.close_session("pace")

    async def _chunk_ms(self) -> float:
        """One chunk of a real operation that nothing disturbs."""
        prompt = text(await self.corpus.exactly(self.client, CHUNK))
        done = await self.client.ensure_prefix(session="chunk", prompt=prompt).done()
        if (done.usage.chunks_finished, done.usage.prefilled) != (1, CHUNK):
            raise RuntimeError(f"one chunk of {CHUNK} tokens was expected, not {done.usage}")
        await self.client.close_session("chunk")
        return done.timings.prefill

    async def _interrupt(self, trial: Trial) -> bool:
        """False where the guess was over before."""
        cut = self.corpus.near if trial.tokens < CERTAIN else self.corpus.exactly
        prompt = await cut(self.client, trial.tokens)
        guess = self.client.turn(session="guess", prefix=text(prompt), speculative=True)
        began = time.perf_counter()
        await asyncio.sleep(trial.phase * min(self.cap_s, self.pace.seconds(trial.tokens)))
        waited, in_time = time.perf_counter() - began, not guess.over
        request = await self._request(trial, prompt)
        ended = await guess.done()
        kept = request.usage.reused if trial.same else await self._reused(prompt)
        if in_time:
            self.seen.append(_seen(trial, waited, ended, request, kept))
        self.over += not in_time
        for session in ("guess", "other"):
            await self.client.close_session(session)
        return in_time

    async def _request(self, trial: Trial, guessed: str) -> Answered:
        """The real request. One that matches and would go on for long is cancelled when what it shows was seen."""
        prompt = guessed if trial.same else self.corpus.prompt(SHORT)
        config = ANSWER if trial.answer else FEW
        sent = time.perf_counter()
        stream = self.client.turn(session="guess" if trial.same else "other", prefix=text(prompt), decode=config)
        begun = asyncio.Event()
        watch = asyncio.create_task(_cancel_later(stream, begun)) if trial.same and not trial.answer else None
        answer = await answered(stream, sent, begun)
        if watch:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        if trial.answer:
            self.answers.append((prompt, config, answer.ids))
        return answer

    async def _reused(self, prompt: str) -> int:
        """What the guess's own prompt finds resident after something else came between."""
        stream = self.client.turn(session="guess", prefix=text(prompt), decode=FEW)
        async for reply in stream:
            if isinstance(reply, Progress):
                await stream.cancel()
                await stream.done()
                return reply.reused
        raise RuntimeError("a request ended without progress")

    # --- what came out ------------------------------------------------------------------------------------

    def result(self) -> Result:
        kept = list(self._kept())
        finished = sum(finished for finished, _ in kept)
        delays = [seen.delay_ms for seen in self.seen if seen.delay_ms is not None]
        return {
            "n": len(self.seen),
            "n_long": sum(seen.trial.tokens > LONG for seen in self.seen),
            "guesses_over_before": self.over,
            "delay_ms": spread(delays),
            "delay_from_send_ms": spread([seen.from_send_ms for seen in self.seen if seen.from_send_ms is not None]),
            "never_begun": len(self.seen) - len(delays),
            "guess_chunk_ms": spread([s.guess.timings.chunk for s in self.seen if s.guess.timings.chunk]),
            "chunk_ms": round(statistics.median(self.chunks_ms), 2) if self.chunks_ms else 0.0,
            "kept_ratio": round(sum(min(pair) for pair in kept) / finished, 4) if finished else 0.0,
            "kept_samples": len(kept),
            "wait_cap_s": self.cap_s,
        }

    def _kept(self) -> Iterator[tuple[int, int]]:
        return ((s.finished, s.kept) for s in self.seen if s.finished and s.guess.reason is Reason.PREEMPTED)

    def samples(self) -> Result:
        columns = ("tokens", "waited_s", "same", "delay_ms", "from_send_ms", "finished", "kept", "reason")
        rows = [
            (
                seen.trial.tokens,
                round(seen.waited_s, 4),
                seen.trial.same,
                seen.delay_ms,
                seen.from_send_ms,
                seen.finished,
                seen.kept,
                seen.guess.reason.value,
            )
            for seen in self.seen
        ]
        return {"chunk_ms": self.chunks_ms, "columns": columns, "requests": rows}


async def _cancel_later(stream: OperationStream, begun: asyncio.Event) -> None:
    await begun.wait()
    await asyncio.sleep(PATIENCE_S)
    await stream.cancel()


def _seen(trial: Trial, waited: float, guess: Done, request: Answered, kept: int) -> Seen:
    timings = request.timings
    # A request that was guessed to its end needs no pass: its first token is the start of its own work.
    start = timings.first_pass or timings.first_token or None
    return Seen(
        trial=trial,
        waited_s=waited,
        guess=guess,
        delay_ms=start,
        from_send_ms=None if start is None else request.seen_ms - timings.total + start,
        finished=guess.usage.prefilled,
        kept=kept - guess.usage.reused,
    )
