"""Owns the prompts of all measurements: source code, cut to lengths in tokens, and beginnings that nobody has seen."""

import random
from pathlib import Path

from modelwire import Client
from modelwire.messages import Prompt, Text

CORPUS = Path("bench/demo/project")
_LETTERS = "bcdfghjkmnpqrstvwxz"
_SAMPLE = 4000
FILL = " a"
"""One token more, in the vocabularies that are measured here."""


def text(*parts: str) -> Prompt:
    """Each part is tokenised by itself."""
    return tuple(Text(text=part) for part in parts)


def source_code() -> str:
    return "\n".join(path.read_text() for path in sorted(CORPUS.rglob("*.py")))


async def length(client: Client, piece: str) -> int:
    return len(await client.tokenize(text(piece)))


async def cut(client: Client, piece: str, tokens: int) -> str:
    """The beginning of `piece` that comes to `tokens` tokens, or one or two fewer."""
    low, high = 0, len(piece)
    while high - low > 1:
        middle = (low + high) // 2
        if await length(client, piece[:middle]) <= tokens:
            low = middle
        else:
            high = middle
    return piece[:low]


class Words:
    """Random words, so that a prompt that begins with one finds nothing resident from its first tokens on."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def beginning(self, body: str) -> str:
        return f"{''.join(self._random.choices(_LETTERS, k=8))}\n{body}"


class Corpus:
    """Source code without end, cut by its average length of a token."""

    def __init__(self, characters_per_token: float, words: Words, seed: int) -> None:
        self._code = source_code()
        self._per_token = characters_per_token
        self._words = words
        self._random = random.Random(seed)

    @classmethod
    async def measured(cls, client: Client, seed: int) -> "Corpus":
        sample = source_code()[:_SAMPLE]
        return cls(len(sample) / await length(client, sample), Words(seed), seed)

    def prompt(self, tokens: int) -> str:
        """Roughly `tokens` tokens of code from anywhere, with a beginning of its own."""
        wanted, start = max(1, round(tokens * self._per_token)), self._random.randrange(len(self._code))
        repeated = self._code[start:] + self._code * (1 + wanted // len(self._code))
        return self._words.beginning(repeated)[:wanted]

    async def near(self, client: Client, tokens: int) -> str:
        """A few per cent off at most. The piece itself is not tokenised, so that its first reader pays for that."""
        piece = self.prompt(tokens + tokens // 4)
        return piece[: len(piece) * tokens // await length(client, piece)]

    async def exactly(self, client: Client, tokens: int) -> str:
        """Exactly so many."""
        piece = await cut(client, self.prompt(2 * tokens), tokens)
        while await length(client, piece) < tokens:
            piece += FILL
        return piece
