"""Completions as editors see them: made ahead, answered from the buffer, never stale."""

import asyncio
from typing import Any

from modelwire.messages import Done, Error, Reason, Text, Turn
from modelwire.testing import PATIENCE_S

CODE = "def area(width, height):\n    return \n"
HEIGHT = "width * height"

House = Any
Editors = Any


def turns(house: House, *, speculative: bool) -> list[Turn]:
    return [turn for turn in house.modeld.received(Turn) if turn.speculative is speculative]


async def made(house: House, count: int = 1) -> None:
    """So many completions are made ahead; the editor may not have the last one yet."""
    await house.modeld.wait_until(lambda: len(turns(house, speculative=True)) >= count, f"{count} made ahead")


async def figures(house: House, name: str, value: int) -> None:
    async with house.connect() as door:
        await house.until(door, lambda status: status.figures.get(name, 0) == value)


def says(house: House, *tokens: str) -> None:
    house.modeld.script.tokens = tokens


async def test_a_completion_is_made_before_it_is_asked_for(house: House, editors: Editors) -> None:
    """S10"""
    says(house, HEIGHT)
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        editor.cursor(uri, 1, 11, insert=True)
        await made(house)
        assert await editor.complete(uri, 1, 11) == HEIGHT
        (turn,) = house.modeld.received(Turn)
        assert (turn.speculative, turn.ahead) == (True, True)
        assert turn.prefix == (Text(text="def area(width, height):\n    return "),)
        async with house.connect() as door:
            status = await house.until(door, lambda status: status.triggers["inline"]["asks"] == 1)
        assert status.triggers["inline"]["misses"] == 0


async def test_what_is_asked_is_what_would_have_been_made_ahead(house: House, editors: Editors) -> None:
    """S10"""
    says(house, HEIGHT)
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        assert await editor.complete(uri, 1, 11) == HEIGHT
        other = editor.open("other.py", CODE)
        editor.cursor(other, 1, 11, insert=True)
        await made(house)
        (asked,), (ahead,) = turns(house, speculative=False), turns(house, speculative=True)
        assert (asked.prefix, asked.suffix, asked.decode) == (ahead.prefix, ahead.suffix, ahead.decode)
        assert asked.deadline_ms is not None
        assert asked.lane != ahead.lane


async def test_typing_through_keeps_the_rest(house: House, editors: Editors) -> None:
    says(house, HEIGHT)
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        editor.cursor(uri, 1, 11, insert=True)
        await made(house)
        assert await editor.complete(uri, 1, 11) == HEIGHT
        for index, letter in enumerate("width"):
            editor.type(uri, 1, 11 + index, letter)
            assert await editor.complete(uri, 1, 12 + index) == HEIGHT[index + 1 :]
        editor.type(uri, 1, 15, "", erase=1)
        assert await editor.complete(uri, 1, 15) == HEIGHT[4:]
        assert len(house.modeld.received(Turn)) == 1


async def test_a_word_and_the_whole_are_accepted_and_counted_and_the_next_is_made(
    house: House, editors: Editors
) -> None:
    says(house, HEIGHT)
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        editor.cursor(uri, 1, 11, insert=True)
        await made(house)
        assert await editor.complete(uri, 1, 11) == HEIGHT
        editor.type(uri, 1, 11, "width ")
        await figures(house, "completions_accepted", 1)
        assert await editor.complete(uri, 1, 17) == "* height"
        says(house, " * depth")
        editor.type(uri, 1, 17, "* height")
        await figures(house, "completions_accepted", 2)
        await made(house, 2)
        assert await editor.complete(uri, 1, 25) == " * depth"
        await figures(house, "completions_rejected", 0)


async def test_lines_are_accepted_one_by_one(house: House, editors: Editors) -> None:
    says(house, "    first = 1\n    second = 2")
    async with editors() as editor:
        uri = editor.open("lines.py", "def f():\n")
        editor.cursor(uri, 1, 0, insert=True)
        await made(house)
        assert await editor.complete(uri, 1, 0) == "    first = 1\n    second = 2"
        editor.type(uri, 1, 0, "    first = 1\n")
        assert await editor.complete(uri, 2, 0) == "    second = 2"
        assert len(house.modeld.received(Turn)) == 1


async def test_lines_end_as_those_of_the_document(house: House, editors: Editors) -> None:
    says(house, "    first = 1\n    second = 2")
    async with editors() as editor:
        uri = editor.open("lines.py", "def f():\r\n")
        assert await editor.complete(uri, 1, 0) == "    first = 1\r\n    second = 2"
        editor.type(uri, 1, 0, "    first = 1\r\n")
        assert await editor.complete(uri, 2, 0) == "    second = 2"
        assert len(house.modeld.received(Turn)) == 1


async def test_indentation_that_is_typed_is_not_said_again(house: House, editors: Editors) -> None:
    says(house, "  ", "  return 1")
    async with editors() as editor:
        uri = editor.open("indent.py", "def f():\n    \n")
        assert await editor.complete(uri, 1, 4) == "return 1"
        (turn,) = house.modeld.received(Turn)
        assert turn.prefix == (Text(text="def f():\n"),)


async def test_another_edit_makes_it_stale_and_rejected(house: House, editors: Editors) -> None:
    """I2"""
    says(house, HEIGHT)
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        editor.cursor(uri, 1, 11, insert=True)
        await made(house)
        assert await editor.complete(uri, 1, 11) == HEIGHT
        says(house, "n * height")
        editor.type(uri, 1, 11, "x")
        assert await editor.complete(uri, 1, 12) == "n * height"
        await figures(house, "completions_rejected", 1)


async def test_a_newer_question_and_a_newer_version_get_the_older_one_nothing(house: House, editors: Editors) -> None:
    """I2: editors do not cancel what is superseded, and do not look at versions."""
    says(house, HEIGHT)
    house.modeld.script.held = True
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        older = asyncio.create_task(editor.complete(uri, 1, 11))
        await house.modeld.wait_for(Turn)
        newer = asyncio.create_task(editor.complete(uri, 0, 3))
        await house.modeld.wait_for(Turn, 2)
        house.modeld.release()
        assert await older is None
        assert await newer is not None
        house.modeld.script.held = True
        waiting = asyncio.create_task(editor.complete(uri, 0, 9))
        await house.modeld.wait_for(Turn, 3)
        editor.type(uri, 0, 9, "x")
        house.modeld.release()
        assert await waiting is None


async def test_a_text_that_has_changed_below_meanwhile_gets_nothing(house: House, editors: Editors) -> None:
    """I2: what was made would still stand at the place, but not before this text."""
    says(house, HEIGHT)
    house.modeld.script.held = True
    async with editors() as editor:
        uri = editor.open("area.py", CODE + "\n\nx = 1\n")
        waiting = asyncio.create_task(editor.complete(uri, 1, 11))
        await house.modeld.wait_for(Turn)
        editor.type(uri, 4, 0, "y")
        await editor.actions(uri, (0, 0), (0, 0))  # by now the server has heard of it
        house.modeld.release()
        assert await waiting is None


async def test_the_older_of_two_questions_for_one_place_gets_nothing(house: House, editors: Editors) -> None:
    """I2"""
    says(house, HEIGHT)
    house.modeld.script.held = True
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        older = asyncio.create_task(editor.complete(uri, 1, 11))
        await house.modeld.wait_for(Turn)
        newer = asyncio.create_task(editor.complete(uri, 1, 11))
        await editor.actions(uri, (0, 0), (0, 0))
        house.modeld.release()
        assert (await older, await newer) == (None, HEIGHT)
        assert len(house.modeld.received(Turn)) == 1


async def test_what_expires_or_fails_or_says_nothing_is_nothing(house: House, editors: Editors) -> None:
    """Behind a long answer a question for a completion ends by its deadline."""
    answers = house.modeld.script.answers
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        answers[Turn] = lambda turn: [Done(reason=Reason.EXPIRED)]
        assert await editor.complete(uri, 1, 11) is None
        answers[Turn] = lambda turn: [Error(code="engine_failed", message="no")]
        assert await editor.complete(uri, 0, 3) is None
        del answers[Turn]
        says(house, "  ", "\n")
        assert await editor.complete(uri, 0, 4) is None
        assert (await editor.complete("file:///nowhere.py", 0, 0)) is None


async def test_a_guess_that_had_to_yield_is_asked_for_again(house: House, editors: Editors) -> None:
    says(house, HEIGHT)
    answers = house.modeld.script.answers
    answers[Turn] = lambda turn: [Done(reason=Reason.PREEMPTED)]
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        editor.cursor(uri, 1, 11, insert=True)
        await made(house)
        del answers[Turn]
        assert await editor.complete(uri, 1, 11) == HEIGHT
        assert len(turns(house, speculative=False)) == 1


async def test_hidden_reasoning_and_special_tokens_do_not_reach_the_editor(house: House, editors: Editors) -> None:
    says(house, "<thi", "nk>hm</th", "ink>width", "<|im_end|>")
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        assert await editor.complete(uri, 1, 11) == "width"


async def test_a_secret_in_the_line_gets_no_completion_and_one_above_is_not_sent(
    house: House, editors: Editors
) -> None:
    """I3"""
    secret = "ghp_" + "a1B2" * 9
    async with editors() as editor:
        uri = editor.open("keys.py", f'TOKEN = "{secret}"\n\n\ndef area(width):\n    return \n')
        assert await editor.complete(uri, 0, 20) is None
        assert await editor.complete(uri, 4, 11) is not None
        (turn,) = house.modeld.received(Turn)
        assert secret not in str(turn)
        (house.workspace / ".gitignore").write_text("private.py\n")
        (house.workspace / ".git").mkdir(exist_ok=True)
        uri = editor.open("private.py", CODE)
        assert await editor.complete(uri, 1, 11) is None
        assert len(house.modeld.received(Turn)) == 1


async def test_an_editor_without_inline_completion_gets_none_made(house: House, editors: Editors) -> None:
    async with editors(inline=False) as editor:
        uri = editor.open("area.py", CODE)
        editor.cursor(uri, 1, 11, insert=True)
        async with house.connect() as door, asyncio.timeout(PATIENCE_S):
            await house.until(door, lambda status: status.figures["editors"] == 1)
        editor.diagnose(uri, (1, "nothing is returned"))
        (turn,) = await house.modeld.wait_for(Turn)
        assert not turn.ahead
