"""Owns how text becomes ids without ever becoming a special token. It knows tokenisers only as a function.

A tokeniser that is told not to parse special tokens can still give one: llama.cpp matches user-defined tokens
(`<tool_call>`, say) in any text, and pieces can merge into the spelling of a control token. So its answer is looked
through, and where a special token came out, the text is cut inside the spelling and the halves are tokenised apart.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Tokenise = Callable[[str], Ids]


def tokenise_plain(
    text: str, *, first: Tokenise, later: Tokenise, special: Mapping[int, str], spell: Callable[[str], Ids]
) -> Ids:
    """Ids of `text`, none of them in `special` (id → its text).

    `first` tokenises the beginning of a text, `later` a part in the middle of one (some vocabularies put a space before
    a text). `spell` gives ids for characters that are a special token by themselves.
    """
    ids = first(text)
    found = [special[token] for token in np.unique(ids).tolist() if token in special]
    if not found:
        return ids
    parts = cut(text, found)
    if len(text) == 1:
        return spell(text)
    if len(parts) == 1:  # a spelling that the tokeniser made by normalising
        parts = list(text)
    return _tokenise_parts(parts, first, later, special, spell)


def _tokenise_parts(
    parts: list[str], first: Tokenise, later: Tokenise, special: Mapping[int, str], spell: Callable[[str], Ids]
) -> Ids:
    return np.concatenate(
        [
            tokenise_plain(part, first=later if index else first, later=later, special=special, spell=spell)
            for index, part in enumerate(parts)
        ]
    )


def cut(text: str, spellings: list[str]) -> list[str]:
    """`text` in parts, cut behind the first character of every occurrence of every spelling, overlapping ones too.

    A spelling of one character cannot be cut; it becomes a part of its own.
    """
    cuts = {0, len(text)}
    for spelling in spellings:
        at = text.find(spelling)
        while at >= 0:
            cuts |= {at + 1} if len(spelling) > 1 else {at, at + 1}
            at = text.find(spelling, at + 1)
    edges = sorted(cuts)
    return [text[start:end] for start, end in pairwise(edges)]
