"""Owns how the cost of a batch is measured: milliseconds by rows, behind a tape as deep as those of the decode bench.

Run as a program it says them in one line of JSON; the memory of the model goes with the process.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from bench.prompts import source_code
from modeld.backends.base import LogitsBackend
from modeld.backends.flag import LocalFlag
from modeld.backends.llamacpp.loading import LlamaSettings, load
from modeld.slot.draft.lengths import TILE

ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, TILE - 1, TILE)
DEPTH = 900
LIMIT_S = 300.0


def measured(model: Path, profile: str, threads: int, reps: int) -> dict[int, float]:
    """Medians, measured in a process of its own."""
    settings = ["--profile", profile, "--threads", str(threads), "--reps", str(reps)]
    command = [sys.executable, "-m", "bench.batch_costs", "--model", str(model), *settings]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT_S).stdout
    return {int(rows): ms for rows, ms in json.loads(said).items()}


def time_rows(backend: LogitsBackend, reps: int) -> dict[int, float]:
    """The widths take turns, so that a slow moment of the machine hits all of them."""
    tape = np.array(backend.vocabulary.tokenise(source_code())[: DEPTH + max(ROWS)], np.int32)
    for start in range(0, DEPTH, backend.chunk):
        backend.extend(0, tape[: min(start + backend.chunk, DEPTH)], start, 1)
    samples: dict[int, list[float]] = {rows: [] for rows in ROWS}
    for _ in range(reps):
        for rows in ROWS:
            begun = time.perf_counter()
            backend.extend(0, tape[: DEPTH + rows], DEPTH, rows)
            samples[rows].append(1000 * (time.perf_counter() - begun))
            backend.trim(0, DEPTH)
    return {rows: round(statistics.median(times), 3) for rows, times in samples.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description="Time batches of 1 to 64 rows.")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--profile", choices=("exact", "fast"), default="exact")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--reps", type=int, default=9)
    options = parser.parse_args()
    settings = LlamaSettings(profile=options.profile, context=2048, extra_cells=0, threads=options.threads)
    backend = load(options.model, settings, LocalFlag())
    print(json.dumps(time_rows(backend, options.reps)))
    backend.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
