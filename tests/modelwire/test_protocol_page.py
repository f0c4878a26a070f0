"""The page is the specification: it and the code say the same, and its example client works as it stands there."""

import asyncio
import json
import os
import re
import sys
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

import modelwire.codec
from modelwire import messages
from modelwire.errors import ErrorCode, fault_of
from modelwire.messages import KINDS, ChatMessage, Close, Hello, Outcome, Prompt, Reason, Turn
from modelwire.testing import PATIENCE_S, Script, ScriptedDaemon

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
NESTED = ("Text", "ChatMessage", "DecodeConfig", "Usage", "Timings", "ModelDescription", "Exactness", "Limits")


def section(title: str) -> str:
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"the page has no section {title!r}"
    return found[2]


def rows(text: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def names(title: str) -> list[str]:
    return [row[0].strip("`") for row in rows(section(title))]


def spelled(cls: Any) -> str:
    """A type in the page's words."""
    origin, inner = typing.get_origin(cls), typing.get_args(cls)
    simple = {Prompt: "prompt", str: "text", int: "integer", float: "number", bool: "boolean", type(None): "nil"}
    if cls in simple:
        return simple[cls]
    if origin is tuple:
        return f"list of {spelled(inner[0])}"
    if origin is Mapping:
        return f"map to {spelled(inner[1])}"
    if origin is typing.Literal:
        return " or ".join(f"`{value}`" for value in inner)
    return " or ".join(map(spelled, inner)) if inner else str(cls.__name__)


def default(field: "attrs.Attribute[Any]") -> str:
    value: Any = field.default
    if value is attrs.NOTHING:
        return "required"
    if hasattr(value, "factory"):
        value = value.factory()
    if value is None:
        return "`nil`"
    return "`{}`" if attrs.has(type(value)) else f"`{json.dumps(value)}`"


def test_the_page_has_every_kind_and_no_other() -> None:
    assert set(re.findall(r"^### `(\w+)`$", PAGE, re.MULTILINE)) == set(KINDS)


def test_the_page_has_every_nested_class_and_no_other() -> None:
    capitalised = set(re.findall(r"^### ([A-Z]\w+)$", PAGE, re.MULTILINE))
    assert capitalised == {*NESTED, "Reasons", "Outcomes"}


@pytest.mark.parametrize("title", [*KINDS, *NESTED])
def test_fields_types_and_defaults_are_those_of_the_code(title: str) -> None:
    cls = KINDS[title] if title in KINDS else getattr(messages, title)
    text = section(f"`{title}`" if title in KINDS else title)
    expected = {field.name: (spelled(field.type), default(field)) for field in attrs.fields(cls)}
    assert {row[0].strip("`"): (row[1], row[2]) for row in rows(text)} == expected
    assert ("No fields." in text) == (not expected)


def test_error_codes_and_whose_fault_they_are_agree() -> None:
    stated = {row[0].strip("`"): row[1] for row in rows(section("Errors"))}
    assert stated == {code.value: fault_of(code) for code in ErrorCode}


def test_reasons_and_outcomes_agree() -> None:
    assert names("Reasons") == [reason.value for reason in Reason]
    assert names("Outcomes") == [outcome.value for outcome in Outcome]


def test_version_and_limits_agree() -> None:
    assert f"version {messages.PROTOCOL_VERSION}\n" in PAGE
    limits = ("MESSAGE_BYTES", "OP_LENGTH", "ITEMS", "NESTED", "ENTRIES", "MAP_ENTRIES", "PARTS")
    for name in limits:
        assert re.search(rf"\b{getattr(modelwire.codec, f'MAX_{name}')}\b", PAGE), name


@pytest.fixture
def example(directory: Path) -> Path:
    source = re.search(r"```python\n(.*?)```", section("A complete client"), re.DOTALL)
    assert source
    assert "modelwire" not in source[1]
    path = directory / "client.py"
    path.write_text(source[1])
    return path


async def run(path: Path, daemon: ScriptedDaemon) -> tuple[str, int | None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(path),
        daemon.endpoint,
        "Why?",
        env={**os.environ, "GUESSAHEAD_MODELD": daemon.endpoint},
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 2 * PATIENCE_S)
    return output.decode(), process.returncode


async def test_the_pages_client_runs_as_it_stands_there(daemon: ScriptedDaemon, example: Path) -> None:
    assert await run(example, daemon) == ("Hello, world\n[done: end]\n", 0)
    assert daemon.received(Hello) == [Hello(client="example")]
    assert daemon.received(Turn)[0].prefix == (ChatMessage(role="user", content="Why?"),)
    await daemon.wait_for(Close)


async def test_the_pages_client_says_what_an_error_says(daemon: ScriptedDaemon, example: Path) -> None:
    daemon.script = Script(answers={Turn: lambda _: [messages.Error(code="not_ready", message="no model: load one")]})
    output, _ = await run(example, daemon)
    assert output == "\n[error: no model: load one]\n"


async def test_the_pages_client_says_beat_while_it_waits(daemon: ScriptedDaemon, example: Path) -> None:
    daemon.script = Script(held=True, beat_ms=50)

    async def release() -> None:
        await daemon.wait_for(messages.Beat, 3)
        daemon.release()

    output, _ = await asyncio.gather(run(example, daemon), release())
    assert output[0].startswith("Hello, world")


async def test_the_pages_client_with_modelwire_runs_as_it_stands_there(daemon: ScriptedDaemon, directory: Path) -> None:
    source = re.search(r"```python\n(.*?)```", section("With modelwire"), re.DOTALL)
    assert source
    path = directory / "client.py"
    path.write_text(source[1])
    assert await run(path, daemon) == ("Hello, world", 0)
    assert daemon.received(Turn)[0].prefix == (ChatMessage(role="user", content="What is a tape?"),)
