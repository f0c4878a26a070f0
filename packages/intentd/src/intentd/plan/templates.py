"""Owns what a turn says, as data: the form of a template file and the filling of its places. It reads no files."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import PurePath
from string import Template as Places
from typing import Any, NoReturn

from attrs import fields, frozen

from modelwire.codec import Codec
from modelwire.decoding import check_config
from modelwire.errors import WireError
from modelwire.messages import DecodeConfig

_SYSTEM = {"workspace"}
_USER = {"test", "tool", "message", "source", "code", "traceback", "diff"}
_TITLE = {"test", "tool"}

CHARACTERS = 12000
"""Where a template has no budget of its own."""
_LINE = re.compile(r"at line (\d+)")
_WIRE = Codec({"decode": DecodeConfig})
_DECODE_KINDS: Mapping[str, tuple[type, ...]] = {
    "temperature": (int, float),
    "top_p": (int, float),
    "min_p": (int, float),
    "repeat_penalty": (int, float),
    "stop": (list,),
}


class TemplateError(Exception):
    """A template file cannot be used. The message says what is wrong in which one."""


@frozen(kw_only=True)
class Template:
    """A template by its trigger's name. `characters` bounds all contents of a prompt together."""

    name: str
    title: Places
    system: Places
    user: Places
    decode: DecodeConfig
    characters: int

    def fill_system(self, **contents: str) -> str:
        return self.system.substitute(contents)

    def fill_user(self, **contents: str) -> str:
        return self.user.substitute(contents)

    def fill_title(self, **contents: str) -> str:
        return self.title.substitute(contents)

    @property
    def shows_diff(self) -> bool:
        return "diff" in self.user.get_identifiers()

    @property
    def words(self) -> int:
        """Characters of the template itself, both messages together."""
        return len(self.system.template) + len(self.user.template)


def parse(file: str, text: str) -> Template:
    """The template in `text`. Raises `TemplateError` with the file and the line."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        place = _LINE.search(str(fault))
        raise TemplateError(f"{file}:{place[1] if place else 1}: not TOML: {fault}") from None
    except RecursionError:
        raise TemplateError(f"{file}:1: its lists are nested too deeply") from None
    return _Reading(file, text, data).template()


@frozen
class _Reading:
    """A template file while it is read, so that a problem can say where it is."""

    file: str
    text: str
    data: Mapping[str, Any]

    def template(self) -> Template:
        self._only(self.data, {"title", "system", "user", "decode", "budget"})
        return Template(
            name=PurePath(self.file).stem,
            title=self._places("title", _TITLE),
            system=self._places("system", _SYSTEM),
            user=self._places("user", _USER),
            decode=self._decode(self._table("decode")),
            characters=self._characters(self._table("budget")),
        )

    def _fail(self, key: str, what: str) -> NoReturn:
        lines = enumerate(self.text.splitlines(), 1)
        marks = (f"{key}=", f"[{key}]")
        line = next((number for number, line in lines if line.replace(" ", "").startswith(marks)), 1)
        raise TemplateError(f"{self.file}:{line}: {what}")

    def _only(self, table: Mapping[str, Any], known: set[str]) -> None:
        for key in table.keys() - known:
            self._fail(key, f"{key!r} is not known; there are {', '.join(sorted(known))}")

    def _table(self, key: str) -> dict[str, Any]:
        table = self.data.get(key, {})
        if not isinstance(table, dict):
            self._fail(key, f"{key!r} must be a table")
        return table

    def _places(self, key: str, known: set[str]) -> Places:
        if key not in self.data:
            self._fail(key, f'there is no {key!r}: add {key} = "…" above all tables')
        text = self.data[key]
        if not isinstance(text, str) or not text.strip():
            self._fail(key, f"{key!r} must be a text")
        places = Places(text.strip())
        if not places.is_valid():
            self._fail(key, f"a '$' in {key!r} is no placeholder; write '$$' for the sign")
        if unknown := set(places.get_identifiers()) - known:
            self._fail(key, f"{key!r} has no ${min(unknown)}; it has {', '.join(sorted(known))}")
        return places

    def _decode(self, table: dict[str, Any]) -> DecodeConfig:
        self._only(table, {setting.name for setting in fields(DecodeConfig)})
        for key, value in table.items():
            kinds: Any = _DECODE_KINDS.get(key, (int,))
            wrong = not isinstance(value, kinds) or isinstance(value, bool)
            if wrong or (key == "max_tokens" and value < 1):
                self._fail(key, f"{key!r} cannot be {value!r}")
        if not all(isinstance(word, str) for word in table.get("stop", ())):
            self._fail("stop", "'stop' must be a list of texts")
        settings = {**table, "stop": tuple(table.get("stop", ()))}
        for key, value in settings.items():
            config = DecodeConfig(**{key: value})
            if not _can_be_sent(config):
                self._fail(key, f"{key!r} cannot be {value!r:.40}")
            try:
                check_config(config)
            except WireError as refusal:
                self._fail(key, refusal.message)
        return DecodeConfig(**settings)

    def _characters(self, table: dict[str, Any]) -> int:
        self._only(table, {"characters"})
        characters = table.get("characters", CHARACTERS)
        if type(characters) is not int or characters < 1:
            self._fail("characters", "'characters' in [budget] must be a whole number above 0")
        return characters


def _can_be_sent(config: DecodeConfig) -> bool:
    """Not where a number is beyond 64 bits or not finite."""
    try:
        _WIRE.decode(_WIRE.encode("template", config))
    except WireError:
        return False
    return True
