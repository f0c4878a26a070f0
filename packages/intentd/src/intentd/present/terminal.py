"""Owns showing answers and status in the terminal. It asks the daemon and knows nothing of models or plans."""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import attrs

from intentd.config import Config
from intentd.messages import INTENTD, Ask, DaemonStatus
from modelwire.client import Connection
from modelwire.messages import Done, GetStatus, Reason, Tokens

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What a model says must not move the cursor or set a title."""
_NAMES = {cls: name for name, cls in INTENTD.kinds.items()}


def explain(config: Config, *, offer: str | None, as_json: bool, stats: bool) -> int:
    return asyncio.run(_explain(config, Ask(cwd=str(Path.cwd()), offer=offer), as_json, stats))


async def _explain(config: Config, ask: Ask, as_json: bool, stats: bool) -> int:
    show = _show_json if as_json else _Text()
    async with Connection(config.socket, INTENTD, name="explain") as door, door.start(ask) as replies:
        async for reply in replies:
            show(reply)
    if stats and isinstance(reply, Done):
        print(_stats(reply), file=sys.stderr)
    return 0 if isinstance(reply, Done) and reply.reason not in (Reason.CANCELLED, Reason.SUPERSEDED) else 1


def _show_json(reply: Any) -> None:
    print(json.dumps({"kind": _NAMES[type(reply)], **attrs.asdict(reply)}), flush=True)


class _Text:
    """Shows text as it comes, and ends its last line."""

    def __init__(self) -> None:
        self._last = "\n"

    def __call__(self, reply: Any) -> None:
        if isinstance(reply, Tokens) and (text := _UNSAFE.sub("", reply.text)):
            print(text, end="", flush=True)
            self._last = text[-1]
        elif isinstance(reply, Done) and self._last != "\n":
            print(flush=True)


def _stats(done: Done) -> str:
    usage = done.usage
    return (
        f"intentd: {usage.outcome}: first token after {done.timings.first_token:.0f} ms, "
        f"{usage.reused} of {usage.prompt} prompt tokens reused, {usage.guessed} of them guessed; "
        f"{usage.generated} generated"
    )


def show_status(config: Config, *, as_json: bool) -> int:
    status: DaemonStatus = asyncio.run(_ask_status(config))
    print(json.dumps(attrs.asdict(status)) if as_json else "\n".join(_status_lines(status)))
    return 0


async def _ask_status(config: Config) -> DaemonStatus:
    async with Connection(config.socket, INTENTD, name="status") as door:
        answer: DaemonStatus = await door.ask(GetStatus())
        return answer


def _status_lines(status: DaemonStatus) -> list[str]:
    lines = [
        f"state    {status.state}" + (f" ({status.reason})" if status.reason else ""),
        f"modeld   {status.modeld} {'answers' if status.modeld_reachable else 'does not answer'}",
    ]
    for offer in status.offers:
        lines.append(f"offer    {offer.id} {offer.title} in {offer.workspace}{' (warm)' if offer.warm else ''}")
    lines += [f"{name.replace('_', ' ')}: {value}" for name, value in sorted(status.figures.items())]
    return lines
