"""Owns showing answers and status in the terminal. It asks the daemon and knows nothing of models or plans."""

import asyncio
import json
import math
import re
import sys
from typing import Any

import attrs

from intentd.config import Config
from intentd.messages import INTENTD, Ask, DaemonStatus, GetOffers, GetPrompt, Offer, Offers, Pause, ShownPrompt
from intentd.where import current_directory
from modelwire import output
from modelwire.client import Connection
from modelwire.messages import Acknowledged, Done, GetStatus, Reason, Tokens

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What a model says must not move the cursor or set a title."""
PROMPT_S = 30.0
"""So long a prompt may take to be made that is shown: files may be slow, and hostile."""
_CUT = {
    Reason.LENGTH: "it has as many tokens as its template allows (max_tokens)",
    Reason.CONTEXT: "the model's context is full",
}
_NAMES = {cls: name for name, cls in INTENTD.kinds.items()}


def ask(config: Config, intent: str, *, offer: str | None, as_json: bool, stats: bool) -> int:
    return asyncio.run(_ask(config, Ask(cwd=current_directory(), intent=intent, offer=offer), as_json, stats))


async def _ask(config: Config, question: Ask, as_json: bool, stats: bool) -> int:
    show = _show_json if as_json else _Text()
    async with Connection(config.socket, INTENTD, name="ask") as door, door.start(question) as replies:
        try:
            async for reply in replies:
                show(reply)
        finally:
            if isinstance(show, _Text):
                show.end()
    if stats and isinstance(reply, Done):
        print(_stats(reply), file=sys.stderr)
    if isinstance(reply, Done) and reply.reason in _CUT and not as_json:
        print(f"intentd: the answer was cut: {_CUT[reply.reason]}", file=sys.stderr)
    return 0 if isinstance(reply, Done) and reply.reason not in (Reason.CANCELLED, Reason.SUPERSEDED) else 1


def _show_json(reply: Any) -> None:
    output.say(json.dumps({"kind": _NAMES[type(reply)], **attrs.asdict(reply)}), flush=True)


class _Text:
    """Shows text as it comes, and ends its last line."""

    def __init__(self) -> None:
        self._last = "\n"

    def __call__(self, reply: Any) -> None:
        if isinstance(reply, Tokens) and (text := _UNSAFE.sub("", reply.text)):
            output.say(text, end="", flush=True)
            self._last = text[-1]

    def end(self) -> None:
        """Whatever comes next, a fault too, begins a line."""
        if self._last != "\n":
            output.say(flush=True)


def _stats(done: Done) -> str:
    usage = done.usage
    return (
        f"intentd: {usage.outcome}: first token after {done.timings.first_token:.0f} ms, "
        f"{usage.reused} of {usage.prompt} prompt tokens reused, {usage.guessed} of them guessed; "
        f"{usage.generated} generated"
    )


def show_offers(config: Config, *, as_json: bool) -> int:
    answer: Offers = _question(config, GetOffers(cwd=current_directory()))
    if as_json:
        output.say(json.dumps(attrs.asdict(answer)))
    for offer in () if as_json else answer.offers:
        output.say(_UNSAFE.sub("", f"{offer.number:>3} {'warm' if offer.warm else '    '} {_told(offer)}"))
    if not answer.offers and not as_json:
        print(f"intentd: {answer.problem}" if answer.problem else "nothing has failed here", file=sys.stderr)
    return 0


def _told(offer: Offer) -> str:
    """Its title, and what tells it from another of the same."""
    said = "" if offer.message in offer.title else offer.message
    return ": ".join(filter(None, (offer.title, f"line {offer.line}" if offer.line else "", said)))


def show_prompt(config: Config, offer: str | None, *, fix: bool, as_json: bool) -> int:
    """The prompt as it is: in JSON byte for byte, as text without what would move the cursor."""
    question = GetPrompt(cwd=current_directory(), intent="fix" if fix else "explain", offer=offer)
    answer: ShownPrompt = _question(config, question, within=PROMPT_S)
    if answer.doubt:
        print(f"intentd: {answer.doubt}", file=sys.stderr)
    if as_json:
        output.say(json.dumps(attrs.asdict(answer)))
        return 0
    output.say("\n\n".join(_UNSAFE.sub("", f"--- {role}\n{content}") for role, content in answer.messages))
    return 0


def pause(config: Config, *, paused: bool) -> int:
    answer: Acknowledged = _question(config, Pause(paused=paused))
    words = "paused" if paused else "guessing"
    output.say(f"intentd is {words}" if answer.found else f"intentd was {words} already")
    return 0


def show_status(config: Config, *, as_json: bool) -> int:
    status: DaemonStatus = _question(config, GetStatus())
    output.say(json.dumps(attrs.asdict(status)) if as_json else "\n".join(_status_lines(status)))
    return 0


def _question(config: Config, question: object, *, within: float | None = None) -> Any:
    async def answer() -> Any:
        async with Connection(config.socket, INTENTD, name="intentd") as door:
            return await door.ask(question, within=within)

    return asyncio.run(answer())


def _status_lines(status: DaemonStatus) -> list[str]:
    why = f" ({status.reason})" if status.reason not in ("", status.state) else ""
    lines = [
        f"state    {status.state}{why}",
        f"modeld   {status.modeld} {'answers' if status.modeld_reachable else 'does not answer'}",
    ]
    for offer in status.offers:
        lines.append(f"offer    {offer.number} {_told(offer)} in {offer.workspace}{' (warm)' if offer.warm else ''}")
    lines += [f"problem  {problem}" for problem in status.problems]
    for trigger, account in sorted(status.triggers.items()):
        said = ", ".join(f"{name} {value:g}" for name, value in account.items() if name not in ("off", "retry_s"))
        off = f" (switched off, tried again in {math.ceil(account['retry_s'] / 60)} min)" if account["off"] else ""
        lines.append(f"trigger  {trigger}{off}: {said}")
    lines += [f"{name.replace('_', ' ')}: {value}" for name, value in sorted(status.figures.items())]
    return [_UNSAFE.sub("", line) for line in lines]
