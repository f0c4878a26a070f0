"""Owns the index of a growing row of tokens: the longest suffix that occurred before, and where. No tapes, no costs.

A suffix automaton, built online (Blumer et al., 1985): amortised constant time a token, at most 2n states. The states
on the path of suffix links from the newest one are the suffixes of the text; the first of them is the longest suffix
that occurred before, which is all that drafting asks for.
"""

from attrs import define, field, frozen

PATH_LIMIT = 64
"""How many suffixes learn of a new occurrence. Real text has fewer; a row of one and the same token has any number, and
then the shortest of them keep an older occurrence."""


@frozen
class Match:
    """The last `length` tokens stand also at `follow - length` … `follow - 1`; at `follow` is what came after."""

    length: int
    follow: int


@define
class Automaton:
    """A row of tokens and every substring of it."""

    tokens: list[int] = field(factory=list)
    _next: list[dict[int, int]] = field(factory=lambda: [{}])
    _link: list[int] = field(factory=lambda: [-1])
    _length: list[int] = field(factory=lambda: [0])
    _follow: list[int] = field(factory=lambda: [0])  # just behind the most recent occurrence
    _newest: int = 0

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def states(self) -> int:
        return len(self._next)

    def append(self, token: int) -> Match:
        """Add a token; the longest suffix that occurred before, at its most recent earlier occurrence."""
        follow, link = self._follow, self._link
        self.tokens.append(token)
        end = len(self.tokens)
        state = self._grow(token, end)
        suffix = link[state]
        match = Match(self._length[suffix], follow[suffix])
        for _ in range(PATH_LIMIT):
            if suffix <= 0:
                break
            follow[suffix] = end
            suffix = link[suffix]
        return match

    def _grow(self, token: int, end: int) -> int:
        """The textbook step: a state for the whole text, transitions to it from all suffixes that lack one."""
        following, link = self._next, self._link
        state = self._state({}, self._length[self._newest] + 1, end)
        suffix, self._newest = self._newest, state
        while suffix >= 0 and token not in following[suffix]:
            following[suffix][token] = state
            suffix = link[suffix]
        link[state] = self._split(suffix, token) if suffix >= 0 else 0
        return state

    def _split(self, suffix: int, token: int) -> int:
        """The state of `suffix` + `token` alone, cut out of a state that also stands for longer strings if need be."""
        following, link, length = self._next, self._link, self._length
        target = following[suffix][token]
        if length[suffix] + 1 == length[target]:
            return target
        clone = self._state(following[target].copy(), length[suffix] + 1, self._follow[target])
        link[clone] = link[target]
        link[target] = clone
        while suffix >= 0 and following[suffix].get(token) == target:
            following[suffix][token] = clone
            suffix = link[suffix]
        return clone

    def _state(self, following: dict[int, int], length: int, follow: int) -> int:
        self._next.append(following)
        self._link.append(0)
        self._length.append(length)
        self._follow.append(follow)
        return len(self._next) - 1

    def reach(self, tokens: list[int]) -> int:
        """How many of `tokens`, from the first, stand in a row somewhere in the text."""
        state = 0
        for count, token in enumerate(tokens):
            if token not in self._next[state]:
                return count
            state = self._next[state][token]
        return len(tokens)
