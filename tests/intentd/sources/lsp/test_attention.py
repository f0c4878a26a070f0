"""What the server takes for attention: when a person rests, what is at the cursor, which document is before them."""

from pathlib import Path
from typing import Any

import pytest

from intentd.plan.rhythm import Rhythm
from modelwire.messages import Turn

CODE = "def area(width, height):\n    return \n"

House = Any
Editors = Any


async def heard(editor: Any, uri: str) -> None:
    """The server has heard of everything up to now."""
    await editor.actions(uri, (0, 0), (0, 0))


async def test_the_daemon_is_told_once_the_person_rests_by_their_own_rhythm(
    house: House, editors: Editors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rhythm, "rest_s", 3600.0)
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        for at, letter in enumerate("width"):
            editor.type(uri, 1, 11 + at, letter)
        await heard(editor, uri)
        server = editor.server
        assert len(server.rhythm._between) > 0
        editor.diagnose(uri, (1, "nothing is returned"))
        await heard(editor, uri)
        first = server._timers[uri]
        editor.type(uri, 1, 16, " ")
        await heard(editor, uri)
        assert first.cancelled()
        assert set(server._timers) == {uri}
        assert not house.modeld.received(Turn)


async def test_a_tool_that_tells_all_the_time_does_not_keep_the_daemon_from_hearing_of_it(
    house: House, editors: Editors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rhythm, "rest_s", 3600.0)
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        editor.diagnose(uri, (1, "nothing is returned"))
        await heard(editor, uri)
        first = editor.server._timers[uri]
        editor.diagnose(uri, (1, "nothing at all"))
        await heard(editor, uri)
        assert editor.server._timers[uri] is first
        assert not first.cancelled()


async def test_nothing_is_completed_for_who_does_not_type(house: House, editors: Editors) -> None:
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        editor.cursor(uri, 1, 11, insert=False)
        editor.diagnose(uri, (1, "nothing is returned"))
        turn, *_ = await house.modeld.wait_for(Turn)
        assert not turn.ahead


async def test_who_types_is_completed_where_an_editor_tells_nothing_of_the_cursor(
    house: House, editors: Editors
) -> None:
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        editor.type(uri, 1, 11, "w")
        (turn,) = await house.modeld.wait_for(Turn)
        assert turn.ahead
        assert turn.prefix[0].text == "def area(width, height):\n    return w"


async def test_an_edit_by_others_is_no_typing_where_an_editor_tells_of_the_cursor(
    house: House, editors: Editors
) -> None:
    """A rename changes many documents at once; nobody types in them."""
    async with editors() as editor:
        uri, other = editor.open("area.py", CODE), editor.open("other.py", CODE)
        editor.cursor(uri, 1, 11)
        editor.type(other, 0, 4, "the_")
        editor.diagnose(other)
        editor.type(uri, 0, 0, "import os\n")
        server = editor.server
        await editor.complete(editor.uri("unknown.py"), 0, 0)  # by now the server has heard of it
        assert server._here == uri
        one, another = server.buffers.get(uri), server.buffers.get(other)
        assert (one.inserting, another.inserting) == (False, False)
        assert (one.cursor, one.character, server.rhythm._last) == (2, 11, None)
        editor.cursor(uri, 2, 11, insert=True)
        editor.type(other, 0, 4, "the_")
        editor.type(uri, 2, 11, "w")
        (turn,) = await house.modeld.wait_for(Turn)
        assert turn.prefix[0].text == "import os\ndef area(width, height):\n    return w"
        assert server.rhythm._last is not None
        editor.cursor(other, 0, insert=False)
        editor.type(uri, 2, 12, "x")  # the person may have left so fast that nobody said so
        await editor.complete(editor.uri("unknown.py"), 0, 0)
        assert (one.cursor, one.character) == (2, 12)


async def test_the_diagnostic_at_the_cursor_is_known_however_many_there_are(house: House, editors: Editors) -> None:
    async with editors() as editor:
        uri = editor.open("long.py", "x = 1\n" * 1000)
        editor.cursor(uri, 900)
        editor.diagnose(uri, *((line, f"no. {line}") for line in range(1000)))
        explain, _ = await editor.actions(uri, (900, 4), (900, 4))
        assert explain.title == "Explain: no. 900"


async def test_diagnostics_that_are_told_of_others_take_no_place_from_the_document_in_use(
    house: House, editors: Editors
) -> None:
    """As a tool publishes all that it has after each save."""
    async with editors() as editor, house.connect() as door:
        uris = [editor.open(name, CODE) for name in ("one.py", "two.py", "three.py")]
        for uri in uris:
            editor.cursor(uri, 1)
            editor.diagnose(uri, (1, "nothing is returned"))
        editor.cursor(uris[0], 1)

        def prepared() -> list[str]:
            return [Path(offer.view.path).name for offer in house.app.desks.offers()]

        await house.until(door, lambda _: prepared() == ["one.py", "three.py"])
        await heard(editor, editor.uri("unknown.py"))
        for uri in uris:
            editor.diagnose(uri, (1, "nothing at all"))
        await house.until(
            door,
            lambda _: {offer.view.diagnostics[0].message for offer in house.app.desks.offers()} == {"nothing at all"},
        )
        assert prepared() == ["one.py", "three.py"]


async def test_a_daemon_that_has_just_come_hears_which_document_was_used_last(house: House, editors: Editors) -> None:
    async with editors() as editor:
        uris = [editor.open(name, CODE) for name in ("one.py", "two.py", "three.py")]
        for uri in uris:
            editor.diagnose(uri, (1, "nothing is returned"))
        editor.cursor(uris[0], 1)
        editor.open("silent.py", CODE)
        await heard(editor, uris[0])
        editor.server.link._news.clear()
        editor.server._met()
        told = editor.server.link._news
        assert set(told) == set(uris)
        assert max(uris, key=lambda uri: told[uri].used) == uris[0]


async def test_what_was_forwarded_counts_more_than_what_a_request_holds(house: House, editors: Editors) -> None:
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        editor.diagnose(uri, (0, "no docstring"), (1, "nothing is returned"))
        (explain, _) = await editor.actions(uri, (1, 0), (1, 0))
        assert await editor.actions(uri, (1, 0), (1, 0), *explain.diagnostics)
        assert [one.message for one in editor.server.buffers.get(uri).diagnostics] == [
            "no docstring",
            "nothing is returned",
        ]
        here, *_ = await editor.actions(uri, (0, 0), (0, 0))
        assert here.title == "Explain: no docstring"
        editor.diagnose(uri)
        assert await editor.actions(uri, (1, 0), (1, 0)) == []


async def test_an_empty_selection_is_none(house: House, editors: Editors) -> None:
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        editor.select(uri, 0, 1)
        await heard(editor, uri)
        assert editor.server.buffers.get(uri).selection == (0, 1)
        editor.select(uri, 1, 1)
        await heard(editor, uri)
        assert editor.server.buffers.get(uri).selection == ()
