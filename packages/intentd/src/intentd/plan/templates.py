"""Owns what a turn says, as data: the form of a template file and the filling of its places. It reads no files."""

import tomllib
from collections.abc import Mapping
from string import Template as Places
from typing import Any

from attrs import frozen

from modelwire.messages import DecodeConfig

_SYSTEM = {"workspace"}
_USER = {"test", "message", "source", "code", "traceback"}
_TITLE = {"test"}


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
    def words(self) -> int:
        """Characters of the template itself, both messages together."""
        return len(self.system.template) + len(self.user.template)


def parse(name: str, text: str) -> Template:
    """Raises `TemplateError`."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise TemplateError(f"template {name}: {fault}") from None
    if unknown := set(data) - {"title", "system", "user", "decode", "budget"}:
        raise TemplateError(f"template {name}: unknown {', '.join(sorted(unknown))}")
    return Template(
        name=name,
        title=_places(name, data, "title", _TITLE),
        system=_places(name, data, "system", _SYSTEM),
        user=_places(name, data, "user", _USER),
        decode=_decode(name, data.get("decode", {})),
        characters=_characters(name, data.get("budget", {})),
    )


def _places(name: str, data: Mapping[str, Any], key: str, known: set[str]) -> Places:
    text = data.get(key)
    if not isinstance(text, str) or not text.strip():
        raise TemplateError(f"template {name}: {key!r} must be a text")
    places = Places(text.strip())
    if not places.is_valid():
        raise TemplateError(f"template {name}: a '$' in {key!r} is no placeholder; write '$$' for the sign")
    if unknown := set(places.get_identifiers()) - known:
        raise TemplateError(f"template {name}: {key!r} has no ${unknown.pop()}; it has {', '.join(sorted(known))}")
    return places


def _decode(name: str, data: Any) -> DecodeConfig:
    if not isinstance(data, dict):
        raise TemplateError(f"template {name}: 'decode' must be a table")
    if "stop" in data:
        data = {**data, "stop": tuple(data["stop"])}
    try:
        decode = DecodeConfig(**data)
    except TypeError as fault:
        raise TemplateError(f"template {name}: 'decode': {fault}") from None
    if type(data.get("max_tokens", 1)) is not int or decode.max_tokens < 1:
        raise TemplateError(f"template {name}: 'max_tokens' must be a whole number above 0")
    return decode


def _characters(name: str, data: Any) -> int:
    characters = data.get("characters") if isinstance(data, dict) else None
    if not isinstance(characters, int) or characters < 1:
        raise TemplateError(f"template {name}: 'budget.characters' must be a whole number above 0")
    return characters
