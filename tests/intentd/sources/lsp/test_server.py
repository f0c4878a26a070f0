"""The language server as editors see it: a real process, over a daemon with a scripted modeld behind it."""

from typing import Any

from modelwire.messages import ChatMessage, Turn

CODE = """import os


def total(items):
    amount = 0
    for item in items:
        amount += itme
    return amount
"""
UNDEFINED = "undefined name 'itme'"

House = Any
Editors = Any


def turns(house: House, *, speculative: bool) -> list[Turn]:
    return [turn for turn in house.modeld.received(Turn) if turn.speculative is speculative]


def text_of(turn: Turn) -> str:
    return "\n".join(part.content for part in turn.suffix if isinstance(part, ChatMessage))


async def test_the_diagnostic_at_the_cursor_is_guessed_and_its_explanation_streams(
    house: House, editors: Editors
) -> None:
    """S10"""
    async with editors() as editor:
        uri = editor.open("stock.py", CODE)
        editor.diagnose(uri, (6, UNDEFINED))
        editor.cursor(uri, 6)
        await house.modeld.wait_for(Turn)
        async with house.connect() as door:
            await house.until(door, lambda status: "warm" in status.reason)
        told = await editor.command("intent.explain", uri=uri, position={"line": 6, "character": 4})
        (guess,), (question,) = turns(house, speculative=True), turns(house, speculative=False)
        assert (guess.session, guess.prefix, guess.suffix) == (question.session, question.prefix, question.suffix)
        assert f"error: {UNDEFINED} [E1]" in text_of(question)
        assert "def total(items):" in text_of(question)
        assert told["text"] == "Hello, world"
        assert (told["outcome"], told["reason"]) == ("hit", "end")
        assert [one["kind"] for one in editor.answers][0::4] == ["begin", "end"]
        assert "".join(one["text"] for one in editor.answers if one["kind"] == "text") == "Hello, world"
        assert {one["answer"] for one in editor.answers} == {told["answer"]}
        assert editor.answers[0]["uri"] == uri
