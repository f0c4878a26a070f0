"""Owns the measurement of a day in the terminal: what is prepared, what is asked, and what that costs others.

Both daemons run with the real model. Commands fail and pass, files change between a failure and the question, some
questions come before their guess is done. Meanwhile another client sends short requests at random moments of guesses.
`hit_rate` is the share of questions whose whole prompt was resident when they came (outcome `hit`), over all questions
of a trigger; `hit_rate_unchanged` over those of which no file had changed since they were prepared.
"""

import argparse
import asyncio
import json
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from attrs import define, field, frozen

from bench.asking import ask as ask_model
from bench.daemons import BIN, DaemonFailed, daemon, door_is_open, private_runtime, progress, show, wait_until
from bench.options import add_model, logs_of, model_of, modeld, parser
from bench.passing import passing
from bench.results import Result, header, spread, write
from bench.workshop import Workshop
from intentd.messages import INTENTD, Ask, DaemonStatus, GetOffers, Offers, Pause
from modelwire import Client, Connection
from modelwire.messages import DecodeConfig, Done, GetStatus, Outcome, Started, Text, Tokens

GUESS_S = 120.0
SHORT = DecodeConfig(max_tokens=1, speculative_ngram=0)
OTHERS = 8
"""Short requests of another client while something is prepared."""
READY = frozenset({"ready", "three at once", "fix"})
"""The situations in which no file has changed since the question was prepared, and the guesses had their time."""


@frozen(kw_only=True)
class Asked:
    """A question: its trigger, the situation in which it came, and how it ended."""

    trigger: str
    situation: str
    first_token_ms: float
    done: Done

    @property
    def hit(self) -> bool:
        return self.done.usage.outcome is Outcome.HIT


@define
class Day:
    """One person with a terminal, a day after the other."""

    door: Connection
    client: Client
    workshop: Workshop
    chance: random.Random
    asked: list[Asked] = field(factory=list)
    waits_ms: list[float] = field(factory=list)
    stopping_ms: list[float] = field(factory=list)
    rates: list[float] = field(factory=list)

    async def live(self, day: int) -> None:
        for step in (self._ready, self._three, self._elsewhere, self._changed, self._early, self._crash, self._paused):
            show(f"day {day}: {step.__name__.strip('_')}")
            await step(day)
            day += 100  # other numbers, so that nothing of an earlier step is asked again
        self.workshop.mend(day)
        await self._command(self.workshop.test)

    async def _ready(self, day: int) -> None:
        await self._fail(day, "-k", "total")
        await self._prepared()
        await self._ask("ready")
        await self._ask("fix", intent="fix")

    async def _three(self, day: int) -> None:
        await self._fail(day)
        await self._prepared()
        for offer in await self._offers():
            await self._ask("three at once", offer=offer)

    async def _elsewhere(self, day: int) -> None:
        await self._fail(day, "-k", "share")
        await self._prepared()
        self.workshop.edit_elsewhere()
        await self._ask("edited elsewhere")

    async def _changed(self, day: int) -> None:
        await self._fail(day, "-k", "total")
        await self._prepared()
        self.workshop.edit_the_failing_code()
        await self._ask("changed")

    async def _early(self, day: int) -> None:
        await self._fail(day, "-k", "label")
        await self._until(lambda status: status.state == "guessing")
        await asyncio.sleep(self.chance.uniform(0.1, 1.0))
        await self._ask("early")

    async def _crash(self, day: int) -> None:
        self.workshop.break_it(day)
        await self._command(self.workshop.crash)
        await self._prepared()
        await self._ask("ready")

    async def _paused(self, day: int) -> None:
        await self.door.ask(Pause(paused=True))
        await self._fail(day, "-k", "share")
        await self._ask("paused")
        await self.door.ask(Pause(paused=False))

    # --- its pieces -------------------------------------------------------------------------------------------

    async def _fail(self, day: int, *words: str) -> None:
        self.workshop.break_it(day)
        await self._command(self.workshop.test, *words)

    async def _command(self, command: Callable[..., None], *words: str) -> None:
        await asyncio.to_thread(command, *words)

    async def _offers(self) -> list[str]:
        """Those that are kept warm."""
        answer: Offers = await self.door.ask(GetOffers(cwd=str(self.workshop.folder)))
        return [offer.id for offer in answer.offers if offer.warm]

    async def _prepared(self) -> None:
        """Reads until everything is prepared; requests of another client fall into it."""
        for _ in range(OTHERS):
            await self._until(lambda status: status.state == "guessing" or status.reason == "every offer is warm")
            await asyncio.sleep(self.chance.uniform(0.0, 1.0))
            short = (Text(text=f"A short request, {self.chance.random()}."),)
            other = await ask_model(self.client, "other", short, SHORT)
            self._waited(other.timings.queue, other.preempted)
        await self._until(lambda status: status.reason == "every offer is warm")

    def _waited(self, queue_ms: float, stopped_a_guess: bool) -> None:
        self.waits_ms.append(queue_ms)
        if stopped_a_guess:
            self.stopping_ms.append(queue_ms)

    async def _until(self, met: Callable[[DaemonStatus], bool]) -> None:
        deadline = time.monotonic() + GUESS_S
        while not met(status := await self.door.ask(GetStatus())):
            if time.monotonic() > deadline:
                raise DaemonFailed(f"intentd did not get there; it is {status.state}: {status.reason}")
            await asyncio.sleep(0.02)

    async def _ask(self, situation: str, *, intent: str = "explain", offer: str | None = None) -> None:
        offers: Offers = await self.door.ask(GetOffers(cwd=str(self.workshop.folder)))
        found = next(one.trigger for one in offers.offers if offer in (None, one.id))
        trigger = "fix" if intent == "fix" else found
        sent, first, stopped = time.perf_counter(), 0.0, False
        question = Ask(cwd=str(self.workshop.folder), intent=intent, offer=offer)
        async for reply in self.door.start(question):
            if isinstance(reply, Started):
                stopped = reply.preempted is not None
            elif isinstance(reply, Tokens):
                first = first or (time.perf_counter() - sent) * 1000
            elif isinstance(reply, Done):
                self._waited(reply.timings.queue, stopped)
                self._note(Asked(trigger=trigger, situation=situation, first_token_ms=first, done=reply))

    def _note(self, asked: Asked) -> None:
        self.asked.append(asked)
        usage = asked.done.usage
        if usage.prefilled > 200 and asked.done.timings.prefill:
            self.rates.append(usage.prefilled / asked.done.timings.prefill)


def p50_p95(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {name: round(ordered[math.ceil(at * len(ordered)) - 1], 2) for name, at in (("p50", 0.5), ("p95", 0.95))}


def hit_rate_unchanged(asked: Sequence[Asked]) -> float | None:
    ready = [one for one in asked if one.situation in READY]
    return round(sum(one.hit for one in ready) / len(ready), 3) if ready else None


def summed(asked: Sequence[Asked], rate: float, account: object) -> Result:
    """`first_token_ms_without` is computed: the prompt's tokens at the rate of the prompts that were not guessed."""
    figures = account if isinstance(account, dict) else {}
    return {
        "asks": len(asked),
        "hit_rate": round(sum(one.hit for one in asked) / len(asked), 3),
        "hit_rate_unchanged": hit_rate_unchanged(asked),
        "first_token_ms": p50_p95([one.first_token_ms for one in asked]),
        "first_token_ms_without": p50_p95([one.done.usage.prompt / rate for one in asked]),
        "prefilled": figures.get("prefilled", 0),
        "wasted": figures.get("wasted", 0),
    }


async def measure(options: argparse.Namespace, file: str, folder: Path) -> Result:
    async with Client(name="bench", timeout=120) as client, Connection(None, INTENTD, name="bench") as door:
        origin = header("bench.terminal", await client.describe(), file, ("intentd",))
        day = Day(door, client, Workshop.make(folder), random.Random(options.seed))
        for number in range(options.days):
            await day.live(11 + number)
        status: DaemonStatus = await door.ask(GetStatus())
    rate = sorted(day.rates)[len(day.rates) // 2]
    triggers = {one.trigger for one in day.asked}
    situations = {one.situation for one in day.asked}
    return {
        **origin,
        "days": options.days,
        "prefill_tokens_per_s": round(rate * 1000, 1),
        "triggers": {
            name: summed([one for one in day.asked if one.trigger == name], rate, status.triggers.get(name))
            for name in sorted(triggers)
        },
        "situations": {
            name: {
                "asks": sum(one.situation == name for one in day.asked),
                "hits": sum(one.hit for one in day.asked if one.situation == name),
            }
            for name in sorted(situations)
        },
        "hit_rate_unchanged": hit_rate_unchanged(day.asked),
        "real_wait_ms": {"requests": len(day.waits_ms), **spread(day.waits_ms)},
        "real_wait_ms_stopping_a_guess": {"requests": len(day.stopping_ms), **spread(day.stopping_ms)},
        "accounts": status.triggers,
    }


def run(options: argparse.Namespace) -> Result:
    model: Path = model_of(options)
    os.environ["GUESSAHEAD_MAX_LOAD"] = "1000"  # the measurement is the load
    with ExitStack() as stack:
        stack.enter_context(private_runtime())
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="guessahead-day-"))
        stack.enter_context(modeld(options, model))
        intentd = stack.enter_context(daemon("intentd", [str(BIN / "intentd"), "serve"], logs_of(options)))
        wait_until(door_is_open, intentd, "starting intentd")
        result = asyncio.run(measure(options, model.name, Path(folder) / "project"))
    show("100 MB of output")
    return {**result, "output": passing(rounds=5)}


def main() -> int:
    made = parser("bench.terminal", __doc__, "--days 1")
    made.add_argument("--days", type=int, default=4, help="how often the script is lived through")
    add_model(made)
    options = made.parse_args()
    result = run(options)
    progress("")
    write(result, options.out)
    print(f"{json.dumps(result, indent=1)}\nwrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
