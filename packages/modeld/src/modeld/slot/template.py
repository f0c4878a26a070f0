"""Owns the model's chat template: from messages to text whose contents are told apart from the template's own. No ids.

Every content is replaced by a sentinel before the template runs, and found again in what it renders. So a content can
spell anything, a special token, Jinja or a sentinel, and stays a content.
"""

import json
import re
from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from typing import NoReturn

from attrs import frozen
from jinja2 import Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from modeld.slot.settings import Today
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import ChatMessage

PLAIN = (
    "{% for message in messages %}{{ message.role | capitalize }}: {{ message.content }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
"""For a model without a chat template: "Role: content" paragraphs."""

_LEFT, _RIGHT = "\u2003", "\u2002"
"""Spaces around a sentinel: where the template strips them, it would have stripped the content."""


@frozen
class Segment:
    """A piece of a rendered conversation. Only the template's own text may spell special tokens."""

    text: str
    content: bool


class ChatTemplate:
    """Renders as Hugging Face transformers do: sandboxed, with `raise_exception` and `strftime_now`."""

    def __init__(self, source: str | None, *, bos: str = "", eos: str = "", today: Today | None = None) -> None:
        self._source = source = PLAIN if source is None else source
        self._today = today
        self._nonce = sha256(source.encode(errors="replace")).hexdigest()[:16]
        self._variables = {"bos_token": bos, "eos_token": eos, "tools": None, "documents": None}

    def render(self, messages: Sequence[ChatMessage], *, complete: bool) -> list[Segment]:
        """Raises `WireError(BAD_REQUEST)` where the template cannot render these messages as they are."""
        template = self._compiled
        shown = [{"role": m.role, "content": self._sentinel(number)} for number, m in enumerate(messages)]
        try:
            text = template.render(messages=shown, add_generation_prompt=complete, **self._variables)
        except Exception as fault:  # the template comes with the model and can do anything that Jinja can
            raise _refused(f"refused these messages: {fault!s:.200}") from None
        return self._split(text, messages)

    def _sentinel(self, number: int) -> str:
        """Letters of both cases and markup, so that a template that changes a content breaks it visibly."""
        return f"{_LEFT}\ue000{self._nonce}Zz<&{number}>\ue001{_RIGHT}"

    def _split(self, text: str, messages: Sequence[ChatMessage]) -> list[Segment]:
        pattern = f"({_LEFT}?)\ue000{self._nonce}Zz<&([0-9]+)>\ue001({_RIGHT}?)"
        pieces = re.split(pattern, text)
        if any(self._nonce in own.lower() for own in pieces[::4]):
            raise _refused("changes the text of messages")
        numbers = [int(number) for number in pieces[2::4]]
        if sorted(numbers) != list(range(len(messages))):
            lost = sorted(set(range(len(messages))) - set(numbers))
            wrong = f"leaves out message {lost[0]} ({messages[lost[0]].role})" if lost else "repeats a message"
            raise _refused(wrong)
        segments = [Segment(pieces[0], content=False)]
        for left, number, right, own in zip(*(pieces[at::4] for at in (1, 2, 3, 4)), strict=True):
            content = messages[int(number)].content
            content = content if left else content.lstrip()
            segments += [Segment(content if right else content.rstrip(), content=True), Segment(own, content=False)]
        return segments

    @cached_property
    def _compiled(self) -> Template:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals |= {"raise_exception": _raise_exception, "strftime_now": self._strftime}
        environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
        try:
            return environment.from_string(self._source)
        except TemplateError as fault:
            raise _refused(f"cannot be read: {fault!s:.200}") from None

    def _strftime(self, format: str) -> str:
        if self._today is None:
            raise TemplateError("it prints the date, and none was given")
        return self._today.strftime(format)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _refused(what: str) -> WireError:
    return WireError(
        ErrorCode.BAD_REQUEST, f"the model's chat template {what}; change the messages, or send raw text instead"
    )
