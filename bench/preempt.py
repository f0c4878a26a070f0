"""Owns the measurement of preemption: real requests that arrive at random moments of guesses.

How long each waits until its own work on the model begins, how much of the stopped guess the next request with its
prompt reuses, and whether answers are those of a server that never guessed. Beside it a llama-server, whose client gave
up a long prompt just before. The servers run one after the other.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from pathlib import Path

from bench import plot
from bench.asking import ask
from bench.daemons import private_runtime, progress, show
from bench.interruptions import CHUNK, SHORT, Plan, Trials
from bench.options import add_model, logs_of, model_of, modeld, parser, require
from bench.peer import Peer, PeerSettings, peer
from bench.prompts import Corpus, text
from bench.results import Result, header, spread, write
from modelwire import Client

PEER_PROMPT = 4000
PEER_WAIT_S = (0.3, 3.0)
"""How long the peer works on the long prompt before its client leaves."""
CALM_S = 240.0
"""Kept free for what comes after the trials."""
Calm = tuple[int, int]


async def measure(options: argparse.Namespace, file: str) -> tuple[Result, Trials]:
    async with Client(name="bench", timeout=120) as client:
        origin = header("bench.preempt", await client.describe(), file, ("llama-cpp-python", "xllamacpp"))
        corpus = await Corpus.measured(client, options.seed)
        plan = Plan(requests=options.requests, answers=options.answers, longest=options.longest, seed=options.seed)
        trials = Trials(client, corpus, plan, cap_s=options.cap)
        await trials.run(until=time.monotonic() + 60 * options.minutes - CALM_S)
        return origin, trials


async def compare(trials: Trials) -> Calm:
    """Asks a server that never guessed the same; how many answers there are, and how many of them are equal."""
    equal = 0
    async with Client(name="calm", timeout=120) as client:
        for number, (prompt, config, ids) in enumerate(trials.answers):
            show(f"answer {number + 1} of {len(trials.answers)} without guesses")
            answer = await ask(client, "calm", text(prompt), config)
            equal += answer.ids == ids
            await client.close_session("calm")
    return len(trials.answers), equal


def abandoned(other: Peer, corpus: Corpus, count: int) -> list[float]:
    """What a short request takes longer than alone when a client has just left a long one."""
    alone = statistics.median(other.ask(corpus.prompt(SHORT), 1).first_token_ms for _ in range(max(3, count // 3)))
    delays = list[float]()
    for number in range(count):
        show(f"peer, {number + 1} of {count}")
        least, most = PEER_WAIT_S
        other.abandon(corpus.prompt(PEER_PROMPT), least + (most - least) * number / max(1, count - 1))
        delays.append(other.ask(corpus.prompt(SHORT), 1).first_token_ms - alone)
    return delays


def run(options: argparse.Namespace) -> Result:
    model: Path = model_of(options)
    settings = PeerSettings(threads=options.threads, context=options.context, batch=CHUNK)
    with private_runtime():
        with modeld(options, model):
            origin, trials = asyncio.run(measure(options, model.name))
        with modeld(options, model, "modeld-calm"):
            answers, equal = asyncio.run(compare(trials))
    with peer(model, settings, logs_of(options) / "peer-preempt.log") as other:
        theirs = abandoned(other, trials.corpus, options.peer_requests)
    return {
        **origin,
        "threads": options.threads,
        "context": options.context,
        **trials.result(),
        "answers": answers,
        "answers_equal": bool(answers) and equal == answers,
        "answers_that_differ": answers - equal,
        "peer_delay_ms": spread(theirs),
        "peer": {
            "requests": len(theirs),
            "abandoned_prompt_tokens": PEER_PROMPT,
            "batch": settings.batch,
            "host_cache_mib": settings.host_cache_mib,
            "build": other.build,
        },
        "samples": {**trials.samples(), "peer_delay_ms": theirs},
    }


def main() -> int:
    made = parser("bench.preempt", __doc__, "--requests 10 --answers 4 --longest 600 --peer-requests 2")
    made.add_argument("--requests", type=int, default=320, help="one in ten meets a guess of more than 4,000 tokens")
    made.add_argument("--answers", type=int, default=60, help="to compare, of 64 tokens each")
    made.add_argument("--longest", type=int, default=8000, help="tokens of the longest guess")
    made.add_argument("--cap", type=float, default=6.0, help="seconds that a guess may run before it is interrupted")
    made.add_argument("--minutes", type=float, default=20.0, help="of the whole run; fewer requests if it is too slow")
    made.add_argument("--peer-requests", type=int, default=12)
    add_model(made)
    options = made.parse_args()
    require("xllamacpp", "matplotlib")
    result = run(options)
    progress("")
    write(result, options.out)
    picture = plot.draw_delays(result, options.out.with_suffix(".png"))
    figures = {name: value for name, value in result.items() if name not in ("machine", "versions", "samples")}
    print(f"{json.dumps(figures, indent=1)}\nwrote {options.out} and {picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
