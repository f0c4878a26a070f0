"""Owns the vocabulary of the fake backend: the 256 bytes, two tokens of several bytes, three special tokens."""

import re
from collections.abc import Mapping, Sequence

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
IM_START, IM_END, END_OF_TEXT, TH, SPLIT_EMOJI, SIZE = 256, 257, 258, 259, 260, 261
_SPECIAL = {"<|im_start|>": IM_START, "<|im_end|>": IM_END, "<|endoftext|>": END_OF_TEXT}
_MERGED = {b"th": TH, b"\xf0\x9f\x98": SPLIT_EMOJI}
"""`th` makes ids depend on where text is cut; the other ends inside a character, so characters span tokens."""
_UNIT = re.compile(b"th|\xf0\x9f\x98|.", re.DOTALL)


class FakeVocabulary:
    """Bytes and a few more; `prepend` is `<|endoftext|>` with `bos`."""

    def __init__(self, chat_template: str | None, bos: bool) -> None:
        self._chat_template = chat_template
        self._prepend = (END_OF_TEXT,) if bos else ()
        self._pieces = {token: piece for piece, token in _MERGED.items()}
        self._texts = {token: text for text, token in _SPECIAL.items()}

    @property
    def size(self) -> int:
        return SIZE

    @property
    def special(self) -> Mapping[str, int]:
        return _SPECIAL

    @property
    def prepend(self) -> Sequence[int]:
        return self._prepend

    @property
    def end_ids(self) -> frozenset[int]:
        return frozenset({IM_END, END_OF_TEXT})

    @property
    def chat_template(self) -> str | None:
        return self._chat_template

    def tokenise(self, text: str) -> Sequence[int]:
        return [_MERGED.get(unit, unit[0]) for unit in _UNIT.findall(text.encode())]

    def piece(self, token: int) -> bytes:
        if token in self._texts:
            return b""
        return self._pieces[token] if token in self._pieces else bytes([token])

    def goes_on(self, answer: str, tape: Sequence[int]) -> int | None:
        """The next token of an assistant that answers so, and ends; None where no assistant is speaking, or otherwise.

        Under `CHATML`, whose last turn begins at the last `<|im_start|>`.
        """
        behind = list(tape)[::-1]
        turn = behind[: behind.index(IM_START)][::-1] if IM_START in behind else []
        speaker, _, said = b"".join(self.piece(token) for token in turn).partition(b"\n")
        whole = answer.encode()
        if speaker != b"assistant" or not whole.startswith(said):
            return None
        return whole[len(said)] if len(said) < len(whole) else IM_END

    def text_of(self, token: int) -> str:
        return self._texts.get(token) or self.piece(token).decode(errors="replace")
