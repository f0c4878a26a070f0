"""Owns the measurement of decoding where the library drafts by itself: OpenVINO, loaded without and with copying ahead.

Copying ahead is a property of what is loaded, so each task is answered by two daemons, one after the other. The second
one answers it twice: as it does by itself, and for a request that wants no drafts, which gets as few as it can.
"""

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median

from attrs import evolve, frozen

from bench.asking import ask
from bench.corpus.tasks import Task
from bench.daemons import private_runtime, show
from bench.decode_pairs import SAMPLED, Decoded, Pair
from bench.decode_rows import Row, differing, rate, text_measures_of, tokens_per_pass
from bench.options import model_of, modeld
from bench.results import Result, header
from modelwire import Client
from modelwire.messages import DecodeConfig, Prompt, Text

UNPENALISED = evolve(SAMPLED, repeat_penalty=1.0)
"""The library has no penalty on the last tokens alone."""


@frozen
class Answers:
    """Of one daemon to one task, each as often as it was asked. `least`: with drafts forbidden."""

    prompt: tuple[int, ...]
    greedy: tuple[Decoded, ...]
    least: tuple[Decoded, ...]
    sampled: Decoded


async def _answers(client: Client, task: Task, options: argparse.Namespace) -> Answers:
    prompt: Prompt = (Text(text=task.prompt, special=True),)
    ids = await client.tokenize(prompt)
    await client.ensure_prefix(session=task.name, prompt=prompt).done()

    async def answer(config: DecodeConfig) -> Decoded:
        return Decoded.of(await ask(client, task.name, prompt, config))

    usual = DecodeConfig(max_tokens=options.tokens)
    await answer(evolve(usual, max_tokens=4))  # the first of a kind compiles
    greedy = [await answer(usual) for _ in range(options.reps)]
    least = [await answer(evolve(usual, speculative_ngram=0)) for _ in range(options.reps)]
    sampled = await answer(evolve(UNPENALISED, max_tokens=options.tokens // 2))
    await client.close_session(task.name)
    return Answers(tuple(ids), tuple(greedy), tuple(least), sampled)


async def _all_answers(
    options: argparse.Namespace, tasks: Sequence[Task], file: str, says: str
) -> tuple[Result, list[Answers]]:
    answers = list[Answers]()
    async with Client(name="bench", timeout=120) as client:
        origin = header("bench.decode", await client.describe(), file)
        for number, task in enumerate(tasks):
            show(f"{says}: {number + 1} of {len(tasks)}: {task.group} {task.name}")
            answers.append(await _answers(client, task, options))
    return origin, answers


def _of_daemon(
    options: argparse.Namespace, tasks: Sequence[Task], profile: str, lookup: str
) -> tuple[Result, list[Answers]]:
    model: Path = model_of(options)
    chosen = argparse.Namespace(**{**vars(options), "lookup": lookup})
    says = f"{profile}, copying ahead {lookup}"
    with private_runtime(), modeld(chosen, model, f"modeld-{profile}-{lookup}", profile=profile):
        return asyncio.run(_all_answers(options, tasks, model.name, says))


def run(options: argparse.Namespace, tasks: Sequence[Task]) -> Result:
    origin, parts = Result(), dict[str, object]()
    for profile in options.profiles:
        origin, plain = _of_daemon(options, tasks, profile, "off")
        _, copying = _of_daemon(options, tasks, profile, "on")
        parts[profile] = _rows(tasks, plain, copying)
    return {
        **{name: value for name, value in origin.items() if name != "profile"},
        "threads": options.threads,
        "context": options.context,
        "quick": options.quick,
        "repetitions": options.reps,
        "tokens": options.tokens,
        **parts,
    }


def _rows(tasks: Sequence[Task], plain: Sequence[Answers], copying: Sequence[Answers]) -> Mapping[str, Row]:
    groups = dict.fromkeys(task.group for task in tasks)
    both = list(zip(tasks, plain, copying, strict=True))
    return {group: _row([(one, other) for task, one, other in both if task.group == group]) for group in groups}


def _row(answered: Sequence[tuple[Answers, Answers]]) -> Row:
    """Medians of a group; speedups are against the daemon that does not copy ahead."""
    drafted = [
        Pair(off, on) for plain, copying in answered for off, on in zip(plain.greedy, copying.greedy, strict=True)
    ]
    least = [Pair(off, on) for plain, copying in answered for off, on in zip(plain.greedy, copying.least, strict=True)]
    sampled = [Pair(plain.sampled, copying.sampled) for plain, copying in answered]
    return {
        "prompts": len(answered),
        "tokens": sum(len(plain.greedy[0].generated.ids) for plain, _ in answered),
        "speedup": round(median(pair.speedup for pair in drafted), 3),
        "identical": round(fmean(pair.same for pair in (*drafted, *least)), 3),
        "tokens_per_pass": round(tokens_per_pass([pair.on for pair in drafted]), 3),
        "least_speedup": round(median(pair.speedup for pair in least), 3),
        "sampled_identical": round(fmean(pair.same for pair in sampled), 3),
        "sampled_speedup": round(median(pair.speedup for pair in sampled), 3),
        "differing_tokens": round(differing([*drafted, *least]), 5),
        "tokens_per_s": {
            "off": rate([pair.off.generated for pair in drafted]),
            "on": rate([pair.on.generated for pair in drafted]),
            "least": rate([pair.on.generated for pair in least]),
        },
        **text_measures_of([(plain.prompt, plain.greedy[0]) for plain, _ in answered]),
    }
