"""Texts that have more tokens than a prompt's characters let expect: they are shortened until they fit."""

from typing import Any

from intentd.messages import Complete
from intentd.shown import View
from modelwire.errors import ErrorCode
from modelwire.messages import Accepted, ChatMessage, Done, Error, Reason, Text, Tokens, Turn, Usage
from tests.intentd.daemon.talk import House, ask, turns, warm

CONTEXT = 4096
LINE = "    # 检查函数是否为所有用户返回正确的值，否则抛出异常"


def tokens_of(turn: Turn) -> int:
    parts = (*turn.prefix, *turn.suffix)
    text = "".join(part.content if isinstance(part, ChatMessage) else part.text for part in parts)
    return len(text) + sum(not sign.isascii() for sign in text)


def dense(turn: Turn) -> list[Any]:
    """As modeld answers where each character is a token, or two."""
    tokens = tokens_of(turn)
    if tokens > CONTEXT:
        numbers = {"prompt": tokens, "context": CONTEXT, "excess": tokens - CONTEXT}
        return [Accepted(), Error(code=ErrorCode.CONTEXT_OVERFLOW, message="shorten it", numbers=numbers)]
    usage = Usage(prompt=tokens)
    if turn.speculative:
        return [Accepted(), Done(reason=Reason.PREFILLED, usage=usage)]
    return [Accepted(), Tokens(text="so"), Done(reason=Reason.END, usage=usage)]


def fill(house: House) -> None:
    """Every file of the project has 10,000 characters that stand where they are shown."""
    for path in house.workspace.rglob("*.py"):
        lines = path.read_text().replace("\n", f"\n{LINE}\n", 200).split("\n")
        path.write_text("\n".join(lines))


async def test_a_guess_that_is_too_long_is_made_again_and_asked_with_the_same_bytes(house: House) -> None:
    """S10"""
    fill(house)
    house.modeld.script.answers[Turn] = dense
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        assert (await ask(house, door))[0] == "so"
    first = turns(house, speculative=True)[0]
    (asked,) = turns(house, speculative=False)
    assert tokens_of(first) > CONTEXT
    assert CONTEXT - asked.decode.max_tokens >= tokens_of(asked) > CONTEXT // 4
    assert asked.suffix in [turn.suffix for turn in turns(house, speculative=True)]


async def test_a_question_that_is_too_long_is_asked_again_at_once(house: House) -> None:
    fill(house)
    house.modeld.script.answers[Turn] = dense
    house.app.speculator.paused = True
    async with house.connect() as door:
        await house.command(door, "plain")
        assert (await ask(house, door, intent="fix"))[0] == "so"
        assert (await ask(house, door))[0] == "so"
    _, fix, explanation = turns(house, speculative=False)  # both are about one offer
    assert tokens_of(fix) <= CONTEXT
    assert tokens_of(explanation) <= CONTEXT


async def test_what_an_editor_shows_is_shortened_too_and_stays_so_while_it_is_edited(house: House) -> None:
    house.modeld.script.answers[Turn] = dense
    house.app.speculator.paused = True
    text = "\n".join(["def f():", *[LINE] * 400, "    return 1"])
    view = View(workspace=str(house.workspace), path=str(house.workspace / "a.py"), version=1, text=text)
    edited = View(workspace=view.workspace, path=view.path, version=2, text=f"\n{text}\n", selection=(1, 402))
    async with house.connect() as door:
        await ask(house, door, view=View(**{**_fields(view), "selection": (0, 401)}))
        await ask(house, door, view=edited)
    long, *others = turns(house, speculative=False)
    assert tokens_of(long) > CONTEXT
    assert len(others) == 2
    assert all(tokens_of(turn) <= CONTEXT for turn in others)


async def test_what_is_shortened_for_one_place_of_a_document_is_not_for_another(house: House) -> None:
    house.modeld.script.answers[Turn] = dense
    house.app.speculator.paused = True
    code = [f"    x{number} = {number}" for number in range(60)]
    text = "\n".join(["def table():", *[LINE] * 400, "def code():", *code])
    view = View(workspace=str(house.workspace), path=str(house.workspace / "a.py"), version=1, text=text)
    async with house.connect() as door:
        for selection in ((401, 462), (0, 401), (401, 462)):
            await ask(house, door, view=View(**{**_fields(view), "selection": selection}))
    before, long, short, after = turns(house, speculative=False)
    assert tokens_of(long) > CONTEXT >= tokens_of(short)
    assert before == after


async def test_a_completion_that_is_too_long_is_made_again(house: House) -> None:
    limit = 1500

    def dense(turn: Turn) -> list[Any]:
        (part,) = turn.prefix
        assert isinstance(part, Text)
        if len(part.text) > limit:
            numbers = {"prompt": CONTEXT * len(part.text) // limit, "context": CONTEXT}
            return [Accepted(), Error(code=ErrorCode.CONTEXT_OVERFLOW, message="shorten it", numbers=numbers)]
        return [Accepted(), Tokens(text="1"), Done(reason=Reason.END, usage=Usage(prompt=9))]

    house.modeld.script.answers[Turn] = dense
    text = "\n".join(["def f():", *[LINE] * 400, "    return "])
    view = View(workspace=str(house.workspace), path=str(house.workspace / "a.py"), version=1, text=text)
    async with house.connect() as door:
        assert await door.start(Complete(view=view, line=401, character=11)).text() == "1"
        assert await door.start(Complete(view=view, line=401, character=11)).text() == "1"
    assert len(house.modeld.received(Turn)) == 3


def _fields(view: View) -> dict[str, Any]:
    return {"workspace": view.workspace, "path": view.path, "version": view.version, "text": view.text}
