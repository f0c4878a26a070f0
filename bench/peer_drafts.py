"""Owns the search for how each peer drafts best here: its kinds and sizes on some tasks of the decode bench.

`bench.decode` runs the best. Every kind of llama-server's n-gram drafts that the installed `xllamacpp` has is tried.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from attrs import evolve, frozen
from llama_cpp import Llama

from bench.corpus.tasks import Task, tasks
from bench.daemons import progress
from bench.decode_pairs import Generator
from bench.lookup import LookupSettings, lookup
from bench.options import add_model, logs_of, model_of, parser, require
from bench.peer import PeerSettings, peer
from bench.results import Result, machine, write

GROUPS = ("copy-rename", "json")
TOKENS = 100
LOOKUPS = (0, 2, 5, 10)
SERVERS = (
    PeerSettings(),
    PeerSettings(drafts="ngram_simple", match=3, drafted=8),
    PeerSettings(drafts="ngram_simple", match=6, drafted=16),
    PeerSettings(drafts="ngram_map_k", match=3, drafted=8),
    PeerSettings(drafts="ngram_mod", match=6, drafted=16),
    *(PeerSettings(drafts=f"ngram_{kind}") for kind in ("simple", "map_k", "map_k4v", "mod", "cache")),
)


@frozen
class Candidate:
    """A peer with one way to draft."""

    name: str
    settings: LookupSettings | PeerSettings


def candidates(options: argparse.Namespace) -> list[Candidate]:
    shared = {"threads": options.threads, "context": 4096}
    lookups = [LookupSettings(drafted=drafted) for drafted in LOOKUPS]
    found = [Candidate(f"llama-cpp-python drafted={one.drafted}", evolve(one, **shared)) for one in lookups]
    return found + [
        Candidate(f"llama-server {one.drafts} match={one.match} drafted={one.drafted}", evolve(one, **shared))
        for one in SERVERS
    ]


@contextmanager
def running(settings: LookupSettings | PeerSettings, model: Path, log: Path) -> Iterator[Generator]:
    with lookup(model, settings, log) if isinstance(settings, LookupSettings) else peer(model, settings, log) as one:
        yield one


def rates(options: argparse.Namespace, model: Path, candidate: Candidate, chosen: Sequence[Task]) -> list[float]:
    """Every prompt is new to it: some kinds remember the answers that they gave."""
    log = logs_of(options) / "peer-drafts.log"
    with running(candidate.settings, model, log) as generator:
        return [generator.generate(tokens_of(model, task), TOKENS).per_second for task in chosen]


def tokens_of(model: Path, task: Task) -> list[int]:
    return vocabulary(model).tokenize(task.prompt.encode(), add_bos=False, special=True)


@cache
def vocabulary(model: Path) -> Llama:
    return Llama(str(model), vocab_only=True, verbose=False)


def main() -> int:
    made = parser("bench.peer_drafts", __doc__, "--threads 2")
    add_model(made)
    options = made.parse_args()
    require("xllamacpp")
    model = model_of(options)
    chosen = [next(task for task in tasks() if task.group == group) for group in GROUPS]
    found: dict[str, list[float]] = {}
    for candidate in candidates(options):
        progress(candidate.name)
        rate = found[candidate.name] = rates(options, model, candidate, chosen)
        progress("")
        print(f"{candidate.name:50} {'  '.join(f'{one:6.1f}' for one in rate)} tokens/s", flush=True)
    write(Result(machine=machine(), groups=GROUPS, tokens_per_s=found), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
