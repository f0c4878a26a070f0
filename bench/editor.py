"""Owns the measurement of sessions in an editor: what is prepared, what is asked, and what that costs others.

Scripted sessions run through the real language server, the daemons and the model: diagnostics that edits move,
selections, typing with pauses, questions that come before their guess is done, two documents. Meanwhile another client
sends short requests at random moments. Every completion that is shown is made again without speculation and compared.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from bench.asking import ask as ask_model
from bench.daemons import BIN, DaemonFailed, daemon, door_is_open, private_runtime, progress, show, wait_until
from bench.options import add_model, logs_of, model_of, modeld, parser
from bench.results import Result, header, spread, write
from bench.terminal import SHORT, p50_p95
from bench.typist import Typist, typist
from intentd.messages import INTENTD, Complete, DaemonStatus, Pause
from intentd.plan.ahead import Ahead, Spot
from intentd.plan.windows import view_of
from modelwire import Client, Connection
from modelwire.messages import GetStatus, Text, Tokens

GUESS_S = 120.0
AFTER_MOTION_S = 0.2
"""So long after the last keystroke an editor asks for a completion."""
READY = frozenset({"ready", "moved", "two documents"})
"""The situations in which what the prompt shows has not changed since, and the guess had its time."""

CODE = '''"""Orders of day {day}."""

from stockroom.money import Money


def open_orders(orders, customer):
    """Those of one customer, the oldest first."""
    own = [order for order in orders if order.customer == customer]
    return sorted(own, key=lambda order: order.placed + {day})


def total(orders):
    """What they cost together."""
    amount = Money({day})
    for order in orders:
        amount = amount + ordre.amount
    return amount


def receipt(orders):
    """One line for each order, and the sum."""
    lines = [f"{{order.number:>8}} {{order.amount}}" for order in orders]
    lines.append(f"{{total(orders)}}")
    return lines
'''
WRONG = 16
"""The line of CODE with the undefined name."""
TYPED = ("def largest_{day}(orders):\n", "    return max(")


@frozen(kw_only=True)
class Asked:
    """A question: its trigger, the situation in which it came, and how it ended."""

    trigger: str
    situation: str
    outcome: str
    first_token_ms: float


@define
class Session:
    """One person with an editor."""

    editor: Typist
    door: Connection
    client: Client
    chance: random.Random
    asked: list[Asked] = field(factory=list)
    cold_ms: dict[str, list[float]] = field(factory=dict)
    waits_ms: list[float] = field(factory=list)
    sent: int = 0
    stale: int = 0
    differing: int = 0
    compared: int = 0

    async def live(self, day: int) -> None:
        steps = (self._ready, self._moved, self._changed, self._early, self._two, self._selection, self._typing)
        for step in (*steps, self._without):
            show(f"session {day}: {step.__name__.strip('_')}")
            await step(day)
            day += 100  # other numbers, so that nothing of an earlier step is asked again

    # --- diagnostics and selections ---------------------------------------------------------------------------

    async def _ready(self, day: int) -> None:
        await self._wrong("orders.py", day)
        await self._prepared()
        await self._explain("ready", "orders.py", WRONG)

    async def _moved(self, day: int) -> None:
        await self._wrong("orders.py", day)
        await self._prepared()
        self.editor.put("orders.py", 6, 0, "    # of all that are open\n")
        await self._explain("moved", "orders.py", WRONG + 1)

    async def _changed(self, day: int) -> None:
        await self._wrong("orders.py", day)
        await self._prepared()
        self.editor.put("orders.py", 14, 4, "# begin with nothing\n    ")
        await self._explain("changed", "orders.py", WRONG + 1)

    async def _early(self, day: int) -> None:
        await self._wrong("orders.py", day)
        await self._guessing()
        await asyncio.sleep(self.chance.uniform(0.05, 0.5))
        await self._explain("early", "orders.py", WRONG)

    async def _two(self, day: int) -> None:
        await self._wrong("orders.py", day)
        await self._wrong("others.py", day + 50)
        await self._prepared(2)
        for name in ("orders.py", "others.py"):
            await self._explain("two documents", name, WRONG)
        self.editor.close("others.py")

    async def _selection(self, day: int) -> None:
        self.editor.open("orders.py", CODE.format(day=day))
        await self._note_sent()
        self.editor.select("orders.py", 12, 18)
        await self._prepared()
        told, first = await self.editor.act("orders.py", "explain", 12, 18)
        self._note("selection", "ready", told["outcome"], first)

    async def _note_sent(self) -> None:
        status: DaemonStatus = await self.door.ask(GetStatus())
        self.sent = status.figures.get("guesses_sent", 0)

    async def _wrong(self, name: str, day: int) -> None:
        if name == "orders.py":
            await self._note_sent()
        self.editor.open(name, CODE.format(day=day))
        self.editor.diagnose(name, WRONG, "undefined name 'ordre'")
        self.editor.cursor(name, WRONG, 8)

    async def _explain(self, situation: str, name: str, line: int) -> None:
        told, first = await self.editor.explain(name, line)
        self._note("diagnostic", situation, told["outcome"], first)

    def _note(self, trigger: str, situation: str, outcome: str, first: float) -> None:
        self.asked.append(Asked(trigger=trigger, situation=situation, outcome=outcome, first_token_ms=first))

    # --- typing -----------------------------------------------------------------------------------------------

    async def _typing(self, day: int) -> None:
        """Types two lines with pauses; takes a word of what is shown, types a letter through it, takes the rest."""
        name = "typed.py"
        text = CODE.format(day=day) + "\n\n"
        self.editor.open(name, text)
        line, character = text.count("\n"), 0
        for piece in TYPED:
            for letter in piece.format(day=day):
                line, character = self.editor.put(name, line, character, letter)
                await asyncio.sleep(self.chance.uniform(0.04, 0.09))
            line, character = await self._pause(name, line, character)
        self.editor.close(name)

    async def _pause(self, name: str, line: int, character: int) -> tuple[int, int]:
        shown = await self._look(name, line, character, "rested")
        if not shown:
            return line, character
        word = len(shown) - len(shown.lstrip()) + len((shown.split(maxsplit=1) or [""])[0])
        for piece in (shown[:word], shown[word : word + 1]):
            line, character = self.editor.put(name, line, character, piece) if piece else (line, character)
            shown = shown[len(piece) :]
            if shown.strip():
                again = await self.editor.complete(name, line, character)
                self._note("inline", "typed through", "hit" if again.text == shown else "miss", again.ms)
                self.stale += again.text not in (None, shown)
        if shown:
            line, character = self.editor.put(name, line, character, shown)
        return line, character

    async def _look(self, name: str, line: int, character: int, situation: str) -> str | None:
        """Reads as long as a person does, then the editor asks; once in a while it asks and types on."""
        await asyncio.sleep(AFTER_MOTION_S + self.chance.uniform(0.3, 1.5))
        before = await self._inline()
        found = await self.editor.complete(name, line, character)
        after = await self._inline()
        outcome = next((one for one in ("hits", "partials", "misses") if after[one] > before[one]), "misses")
        self._note("inline", situation, {"hits": "hit", "partials": "partial"}.get(outcome, "miss"), found.ms)
        right = await self._made_now(name, line, character)
        self.compared += found.text is not None
        self.differing += found.text is not None and found.text != right
        self.stale += found.late and found.text is not None
        return found.text

    async def _inline(self) -> dict[str, float]:
        status: DaemonStatus = await self.door.ask(GetStatus())
        return {"hits": 0, "partials": 0, "misses": 0, **status.triggers.get("inline", {})}

    async def _made_now(self, name: str, line: int, character: int) -> str:
        """The completion as a real operation makes it."""
        document = self.editor.documents[name]
        view = view_of(document, workspace=str(self.editor.folder), path=str(self.editor.folder / name), cursor=line)
        ahead = Ahead(Spot.of(document, line, character))
        async with self.door.start(Complete(view=view, line=line, character=character)) as stream:
            async for reply in stream:
                if isinstance(reply, Tokens):
                    ahead.add(reply.text)
        ahead.finish()
        return ahead.text

    # --- without ----------------------------------------------------------------------------------------------

    async def _without(self, day: int) -> None:
        """The same questions while nothing is guessed."""
        await self.door.ask(Pause(paused=True))
        await self._wrong("orders.py", day)
        _, first = await self.editor.explain("orders.py", WRONG)
        self.cold_ms.setdefault("diagnostic", []).append(first)
        self.editor.open("orders.py", CODE.format(day=day + 1))
        _, first = await self.editor.act("orders.py", "explain", 12, 18)
        self.cold_ms.setdefault("selection", []).append(first)
        text = CODE.format(day=day + 2) + "\n\n" + "".join(TYPED).format(day=day + 2)
        self.editor.open("typed.py", text)
        found = await self.editor.complete("typed.py", text.count("\n"), len(text.rpartition("\n")[2]))
        self.cold_ms.setdefault("inline", []).append(found.ms)
        self.editor.close("typed.py")
        await self.door.ask(Pause(paused=False))

    # --- waiting ----------------------------------------------------------------------------------------------

    async def _prepared(self, guesses: int = 1) -> None:
        """Reads until everything is prepared; another client's request falls into it."""
        await self._guessing(guesses)
        await asyncio.sleep(self.chance.uniform(0.0, 1.0))
        other = await ask_model(self.client, "other", (Text(text=f"A short request, {self.chance.random()}."),), SHORT)
        self.waits_ms.append(other.timings.queue)
        # A fix that is never asked for is not guessed for ever.
        await self._until(lambda status: status.reason == "every offer is warm" or "switched off" in status.reason)

    async def _guessing(self, guesses: int = 1) -> None:
        """Until so many guesses were sent for what was shown last."""
        await self._until(lambda status: status.figures.get("guesses_sent", 0) >= self.sent + guesses)

    async def _until(self, met: Callable[[DaemonStatus], bool]) -> None:
        deadline = time.monotonic() + GUESS_S
        while not met(status := await self.door.ask(GetStatus())):
            if time.monotonic() > deadline:
                raise DaemonFailed(f"intentd did not get there; it is {status.state}: {status.reason}")
            await asyncio.sleep(0.01)


def summed(session: Session, trigger: str, account: Any) -> Result:
    asked = [one for one in session.asked if one.trigger == trigger]
    ready = [one for one in asked if trigger != "diagnostic" or one.situation in READY]
    hits = [one for one in asked if one.outcome == "hit"]
    figures = account if isinstance(account, dict) else {}
    return {
        "asks": len(asked),
        "hit_rate": round(sum(one.outcome == "hit" for one in ready) / len(ready), 3) if ready else None,
        "hit_rate_all": round(len(hits) / len(asked), 3) if asked else None,
        "first_token_ms": p50_p95([one.first_token_ms for one in asked]),
        "first_token_ms_hit": p50_p95([one.first_token_ms for one in hits]) if hits else None,
        "first_token_ms_without": p50_p95(session.cold_ms[trigger]),
        "prefilled": figures.get("prefilled", 0),
        "wasted": figures.get("wasted", 0),
    }


async def measure(options: argparse.Namespace, file: str, folder: Path) -> Result:
    (folder / "pyproject.toml").touch()
    async with (
        Client(name="bench", timeout=120) as client,
        Connection(None, INTENTD, name="bench") as door,
        typist(folder) as editor,
    ):
        origin = header("bench.editor", await client.describe(), file, ("intentd",))
        session = Session(editor, door, client, random.Random(options.seed))
        await session._until(lambda status: status.figures.get("editors") == 1 and status.modeld_reachable)
        for number in range(options.sessions):
            await session.live(11 + number)
        status: DaemonStatus = await door.ask(GetStatus())
    return {
        **origin,
        "sessions": options.sessions,
        "triggers": {
            name: summed(session, name, status.triggers.get(name)) for name in ("diagnostic", "selection", "inline")
        },
        "situations": {
            name: {
                "asks": sum(one.situation == name for one in session.asked),
                "hits": sum(one.situation == name and one.outcome == "hit" for one in session.asked),
            }
            for name in sorted({one.situation for one in session.asked})
        },
        "stale_shown": session.stale,
        "completions": {
            "compared": session.compared,
            "differing": session.differing,
            "accepted": status.figures.get("completions_accepted", 0),
            "rejected": status.figures.get("completions_rejected", 0),
        },
        "real_wait_ms": spread(session.waits_ms),
        "accounts": status.triggers,
    }


def run(options: argparse.Namespace) -> Result:
    model: Path = model_of(options)
    os.environ["GUESSAHEAD_MAX_LOAD"] = "1000"  # the measurement is the load
    with ExitStack() as stack:
        stack.enter_context(private_runtime())
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="guessahead-editor-"))
        stack.enter_context(modeld(options, model))
        intentd = stack.enter_context(daemon("intentd", [str(BIN / "intentd"), "serve"], logs_of(options)))
        wait_until(door_is_open, intentd, "starting intentd")
        return asyncio.run(measure(options, model.name, Path(folder)))


def main() -> int:
    made = parser("bench.editor", __doc__, "--sessions 1")
    made.add_argument("--sessions", type=int, default=6, help="how often the script is lived through")
    add_model(made)
    options = made.parse_args()
    result = run(options)
    progress("")
    write(result, options.out)
    print(f"{json.dumps(result, indent=1)}\nwrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
