"""Owns the demonstration: a test fails, and its explanation is asked for without a guess and with one.

Everything is real and private to it: modeld and intentd on sockets of their own, a copy of the project, pytest. Each of
the two runs starts both daemons afresh, so that nothing of the prompt is resident before it.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from attrs import frozen

from bench.daemons import (
    BIN,
    BUILD,
    DaemonFailed,
    daemon,
    door_is_open,
    model_is_ready,
    private_runtime,
    progress,
    wait_until,
)
from intentd.messages import INTENTD, Ask, GetOffers, Offer
from modelwire import BlockingConnection, Connection, DaemonUnreachable, WireError
from modelwire.messages import Done, GetStatus, Outcome, Tokens

PROJECT = Path(__file__).parent / "project"
RESULT = BUILD / "demo.json"
TESTS_FAILED = 1
"""pytest's exit status."""
OFFER_S = 10.0
GUESS_S = 300.0

Door = BlockingConnection[Connection]


@frozen(kw_only=True)
class Explained:
    """What a client saw of one answer."""

    first_token_ms: float
    done: Done

    @property
    def step_ms(self) -> float:
        return self.done.timings.decode / max(1, self.done.usage.generated - 1)


def main() -> int:
    signal.signal(signal.SIGTERM, _terminate)
    try:
        return demonstrate()
    except (DaemonFailed, DaemonUnreachable, WireError) as fault:
        progress("")
        print(f"demo: {fault}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        progress("")
        print("demo: stopped", file=sys.stderr)
        return 130


def demonstrate() -> int:
    say("A small shop's library has a failing test. First as it is without guessing: run the tests, ask, wait.")
    with running(guess=False) as (door, project):
        cold = explain(door, project, show=lambda _: progress("answering …"))
        progress("")
    say(
        "Now with guessing, daemons started afresh. While you read the failure, its explanation is prepared: the text"
        " of the question is known as soon as the test has failed."
    )
    with running(guess=True) as (door, project):
        prepared_s = until_guessed(door, project)
        say(f"Prepared in {prepared_s:.1f} s. You ask:")
        hit = explain(door, project, show=lambda text: print(text, end="", flush=True))
    print("\n")
    say(
        "(The packaged model has 135 million parameters and answers poorly: it is here to show the wait, not the wit."
        " Point modeld at a better one with: modeld serve --model FILE.gguf)"
    )
    return report(cold, hit)


@contextmanager
def running(*, guess: bool) -> Iterator[tuple[Door, Path]]:
    """Both daemons with the model loaded, and a copy of the project whose tests have just failed."""
    logs = BUILD / "demo"
    with ExitStack() as stack:
        stack.enter_context(private_runtime())
        modeld = stack.enter_context(daemon("modeld", [str(BIN / "modeld"), "serve"], logs))
        wait_until(model_is_ready, modeld, "loading the model")
        os.environ["GUESSAHEAD_GUESS"] = "yes" if guess else "no"
        intentd = stack.enter_context(daemon("intentd", [str(BIN / "intentd"), "serve"], logs))
        wait_until(door_is_open, intentd, "starting intentd")
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="guessahead-demo-"))
        project = Path(
            shutil.copytree(PROJECT, Path(folder) / "stockroom", ignore=shutil.ignore_patterns("__pycache__"))
        )
        run_tests(project)
        door = stack.enter_context(_connect())
        wait_until(lambda: newest_offer(door, project) is not None, intentd, "waiting for intentd", OFFER_S)
        yield door, project


def run_tests(project: Path) -> None:
    print(f"$ intentd run -- pytest -q    (in a copy of {PROJECT.relative_to(Path.cwd())})", flush=True)
    environ = {**os.environ, "PATH": f"{BIN.absolute()}:{os.environ['PATH']}"}
    status = subprocess.run(["intentd", "run", "--", "pytest", "-q"], cwd=project, env=environ, timeout=120).returncode
    if status != TESTS_FAILED:
        raise DaemonFailed(f"pytest should have ended with status {TESTS_FAILED} for its failing test, not {status}")
    print()


def newest_offer(door: Door, project: Path) -> Offer | None:
    offers: tuple[Offer, ...] = door.ask(GetOffers(cwd=str(project))).offers
    return offers[0] if offers else None


def until_guessed(door: Door, project: Path) -> float:
    """Waits as a person does who reads; gives the seconds that the guess took. Raises `DaemonFailed` at the bound."""
    started = time.monotonic()
    while not ((offer := newest_offer(door, project)) and offer.warm):
        elapsed = time.monotonic() - started
        if elapsed > GUESS_S:
            status = door.ask(GetStatus())
            raise DaemonFailed(f"no guess was finished in {GUESS_S:.0f} s; intentd is {status.state}: {status.reason}")
        progress(f"you read; the explanation is being prepared … {elapsed:.0f} s")
        time.sleep(0.05)
    progress("")
    return time.monotonic() - started


def explain(door: Door, project: Path, show: Callable[[str], object]) -> Explained:
    """Asks and streams the answer; the time counts from sending the question to the first token."""
    sent = time.perf_counter()
    first = 0.0
    for reply in door.start(Ask(cwd=str(project))):
        if isinstance(reply, Tokens):
            first = first or (time.perf_counter() - sent) * 1000
            show(reply.text)
        elif isinstance(reply, Done):
            return Explained(first_token_ms=first, done=reply)
        else:
            progress(f"waiting for the first token … {time.perf_counter() - sent:.1f} s")
    raise DaemonFailed("intentd's answer ended without its last message")


def report(cold: Explained, hit: Explained) -> int:
    """Prints and writes the figures; the exit status says whether they are what was promised."""
    rows = (
        ("from asking to the first token", f"{cold.first_token_ms:,.0f} ms", f"{hit.first_token_ms:,.1f} ms"),
        ("prompt tokens", f"{cold.done.usage.prompt:,}", f"{hit.done.usage.prompt:,}"),
        ("of them resident before", f"{cold.done.usage.reused:,}", f"{hit.done.usage.reused:,}"),
        ("forward passes before the token", f"{cold.done.usage.forward_passes}", f"{hit.done.usage.forward_passes}"),
        ("a decode step, for comparison", f"{cold.step_ms:.1f} ms", f"{hit.step_ms:.1f} ms"),
    )
    print(f"{'':34}{'without a guess':>18}{'with a guess':>18}")
    for label, without, guessed in rows:
        print(f"{label:34}{without:>18}{guessed:>18}")
    RESULT.write_text(json.dumps(figures(cold, hit), indent=1) + "\n")
    print(f"\nwrote {RESULT}; the daemons' logs are in {BUILD / 'demo'}")
    if hit.done.usage.outcome != Outcome.HIT or cold.done.usage.reused:
        print(
            f"demo: this is not a fair hit: {hit.done.usage.outcome} with the guess, and without it"
            f" {cold.done.usage.reused} tokens were resident",
            file=sys.stderr,
        )
        return 1
    return 0


def figures(cold: Explained, hit: Explained) -> dict[str, float | str]:
    return {
        "prompt_tokens": hit.done.usage.prompt,
        "reused_tokens": hit.done.usage.reused,
        "cold_reused_tokens": cold.done.usage.reused,
        "cold_first_token_ms": round(cold.first_token_ms, 3),
        "hit_first_token_ms": round(hit.first_token_ms, 3),
        "decode_step_ms": round(hit.step_ms, 3),
        "hit_forward_passes": hit.done.usage.forward_passes,
        "outcome": str(hit.done.usage.outcome),
    }


def say(text: str) -> None:
    progress("")
    print(textwrap.fill(text, min(100, shutil.get_terminal_size().columns)) + "\n", flush=True)


def _connect() -> Door:
    return BlockingConnection(Connection(None, INTENTD, name="demo"))


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
