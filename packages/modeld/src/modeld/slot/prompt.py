"""Owns the way from a prompt to ids. Contents never become special tokens. It renders no template by itself.

Segments meet only at special tokens: what lies between two of them is tokenised as one run, template text and content
together. Parts of raw text are tokenised each by itself, so that a part's ids do not depend on its neighbour.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from modeld.backends.base import Ids, Vocabulary
from modeld.slot.runs import RunCache
from modeld.slot.settings import SlotSettings
from modeld.slot.template import ChatTemplate, Segment
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import ChatMessage, Prompt, Text

Piece = str | int
"""Text to tokenise, or a special token."""
BYTES_PER_TOKEN = 16
"""Hardly any text has so many; what is longer by this measure than the context is not tokenised, as that takes long."""


def check_size(prompt: Prompt, context: int) -> None:
    """Raises `WireError(CONTEXT_OVERFLOW)` for a prompt that is too long for `context` tokens, whatever they are.

    A part counts as a token at least: also a message without a word costs those of its template.
    """
    contents = (part.content if isinstance(part, ChatMessage) else part.text for part in prompt)
    size = sum(max(len(text.encode(errors="surrogatepass")), BYTES_PER_TOKEN) for text in contents)
    if size > (limit := BYTES_PER_TOKEN * context):
        raise WireError(
            ErrorCode.CONTEXT_OVERFLOW,
            f"the prompt has {size} bytes (each of its {len(prompt)} parts counts as {BYTES_PER_TOKEN} at least), more "
            f"than can fit into a context of {context} tokens: shorten it to less than {limit} bytes, or start modeld "
            "with a larger --context",
            numbers={"bytes": size, "limit": limit, "context": context},
        )


class Encoder:
    """Encodes prompts for one vocabulary. The same prompt has the same ids for as long as it lives."""

    def __init__(self, vocabulary: Vocabulary, settings: SlotSettings) -> None:
        self._vocabulary = vocabulary
        self._special = dict(vocabulary.special)
        longest_first = sorted((text for text in self._special if text), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._runs = RunCache(vocabulary.tokenise, settings.ids_cache_bytes)
        self._template = ChatTemplate(
            vocabulary.chat_template,
            bos="".join(map(vocabulary.text_of, vocabulary.prepend)),
            eos=vocabulary.text_of(min(vocabulary.end_ids)) if vocabulary.end_ids else "",
            today=settings.today,
        )

    def encode(self, prompt: Prompt, *, complete: bool, base: Ids | None = None) -> Ids:
        """`base` and the prompt's ids; what a prompt begins with is put in front where there is no base.

        Raises `WireError(BAD_REQUEST)`.
        """
        ids = self._joined(self._pieces(prompt, complete))
        if base is not None and len(base):
            return np.concatenate([base, ids])
        opening = np.array(self._vocabulary.prepend, np.int32)
        if not len(ids) or np.array_equal(ids[: len(opening)], opening):
            return ids
        return np.concatenate([opening, ids])

    def _pieces(self, prompt: Prompt, complete: bool) -> Iterator[Piece]:
        chat = tuple(part for part in prompt if isinstance(part, ChatMessage))
        text = tuple(part for part in prompt if isinstance(part, Text))
        _check_unicode([*(part.content for part in chat), *(part.text for part in text)])
        if chat and text:
            raise WireError(ErrorCode.BAD_REQUEST, "a prompt is all texts or all chat messages, this one mixes them")
        if chat:
            return _runs(self._chat_pieces(self._template.render(chat, complete=complete)))
        return self._text_pieces(text)

    def _chat_pieces(self, segments: Iterable[Segment]) -> Iterator[Piece]:
        for segment in segments:
            if segment.content:
                yield segment.text
            else:
                yield from self._with_special(segment.text)

    def _text_pieces(self, parts: Sequence[Text]) -> Iterator[Piece]:
        for part in parts:
            if part.special:
                yield from self._with_special(part.text)
            else:
                yield part.text

    def _with_special(self, text: str) -> Iterator[Piece]:
        at = 0
        for found in self._pattern.finditer(text):
            yield text[at : found.start()]
            yield self._special[found.group()]
            at = found.end()
        yield text[at:]

    def _joined(self, pieces: Iterable[Piece]) -> Ids:
        ids = [self._runs.ids(p) if isinstance(p, str) else np.array([p], np.int32) for p in pieces if p != ""]
        return np.concatenate(ids) if ids else np.empty(0, np.int32)


def _runs(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Joins texts that no special token parts."""
    run: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            run.append(piece)
        else:
            yield "".join(run)
            yield piece
            run = []
    yield "".join(run)


def _check_unicode(texts: Sequence[str]) -> None:
    for number, text in enumerate(texts):
        try:
            text.encode()
        except UnicodeEncodeError as fault:
            raise WireError(
                ErrorCode.BAD_REQUEST,
                f"part {number} of the prompt has a lone surrogate at character {fault.start}; send valid Unicode",
            ) from None
