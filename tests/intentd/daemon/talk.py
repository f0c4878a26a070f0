"""Owns what the tests of the daemon say to it, and what they see of it and of its scripted modeld."""

import subprocess
from pathlib import Path
from typing import Any

from intentd.messages import Ask, GetOffers, Offer, Offers
from modelwire.messages import ChatMessage, Done, Tokens, Turn

House = Any


def turns(house: House, *, speculative: bool) -> list[Turn]:
    return [turn for turn in house.modeld.received(Turn) if turn.speculative is speculative]


def prompt_of(turn: Turn) -> str:
    return "".join(part.content for part in (*turn.prefix, *turn.suffix) if isinstance(part, ChatMessage))


def asked_text(house: House) -> str:
    (question,) = turns(house, speculative=False)
    (message,) = question.suffix
    assert isinstance(message, ChatMessage)
    return message.content


def warm(status: Any) -> bool:
    return bool(status.offers) and status.offers[0].warm


async def ask(house: House, door: Any, **fields: Any) -> tuple[str, Done]:
    text, done = "", None
    async with door.start(Ask(cwd=str(house.workspace), **fields)) as replies:
        async for reply in replies:
            text += reply.text if isinstance(reply, Tokens) else ""
            done = reply
    assert isinstance(done, Done)
    return text, done


async def offers(house: House, door: Any) -> tuple[Offer, ...]:
    answer: Offers = await door.ask(GetOffers(cwd=str(house.workspace)))
    return answer.offers


def commit(workspace: Path) -> None:
    who = ("-c", "user.name=n", "-c", "user.email=e@test.test", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "-Af"), ("commit", "-qm", "m")):
        subprocess.run(["git", *who, *words], cwd=workspace, check=True, capture_output=True)
