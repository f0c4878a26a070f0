"""Owns what each session stands for: the ids and chat messages of its contents. What is resident the engine knows.

Sessions are bounded. The ones used longest ago are closed first, those that only a guess has made before all others: a
guess never closes a real session.
"""

from collections.abc import Sequence

from attrs import define, frozen

from modelwire.messages import ChatMessage, Prompt

SessionKey = tuple[str, str]
"""(client, name)"""


@frozen(kw_only=True)
class Contents:
    """What a session stands for. `ids` are int32 little-endian; the head is at their end.

    `chat`: its messages, where it is a conversation. `answer`: what was generated behind them so far, where `ids` end
    in that answer; it becomes a message when the conversation goes on.
    """

    ids: bytes = b""
    chat: tuple[ChatMessage, ...] = ()
    answer: str | None = None

    @property
    def head(self) -> int:
        return len(self.ids) // 4

    @property
    def conversation(self) -> tuple[ChatMessage, ...]:
        return (*self.chat, ChatMessage(role="assistant", content=self.answer)) if self.answer else self.chat

    def __bool__(self) -> bool:
        return bool(self.ids or self.chat)


NOTHING = Contents()


@define(eq=False)
class Session:
    """`ghost`: the contents as the last speculative `ensure_prefix` would have them, for the guesses that follow it."""

    contents: Contents = NOTHING
    ghost: Contents | None = None

    def contents_for(self, *, speculative: bool) -> Contents:
        return self.ghost if speculative and self.ghost else self.contents


def chat_of(prompt: Prompt) -> tuple[ChatMessage, ...]:
    """The messages of a chat prompt; empty for text."""
    return tuple(part for part in prompt if isinstance(part, ChatMessage))


@frozen(kw_only=True)
class SessionLimits:
    per_client: int = 64
    total: int = 256


class Sessions:
    """All sessions, the one used last at the end."""

    def __init__(self, limits: SessionLimits | None = None) -> None:
        self._limits = limits or SessionLimits()
        self._table: dict[SessionKey, Session] = {}
        self._closed: dict[SessionKey, None] = {}

    def __len__(self) -> int:
        return len(self._table)

    @property
    def clients(self) -> set[str]:
        return {client for client, _ in self._table}

    def find(self, client: str, name: str) -> Session | None:
        """The session, which counts as used now."""
        session = self._table.pop((client, name), None)
        if session is not None:
            self._table[client, name] = session
        return session

    def open(self, client: str, name: str, *, speculative: bool) -> Session | None:
        """The session, made if it is missing. None where there is no room for one that only a guess wants."""
        session = self.find(client, name)
        if session is None and self._make_room(client, speculative=speculative):
            session = self._table[client, name] = Session()
        return session

    def close(self, client: str, name: str) -> bool:
        """Whether there was one."""
        if self._table.pop((client, name), None) is None:
            return False
        self._closed[client, name] = None
        return True

    def close_all(self, client: str) -> int:
        """How many there were."""
        return sum([self.close(*key) for key in list(self._table) if key[0] == client])

    def take_closed(self) -> tuple[SessionKey, ...]:
        """The sessions closed since the last call."""
        closed, self._closed = tuple(self._closed), {}
        return closed

    def put_back(self, closed: tuple[SessionKey, ...]) -> None:
        """What `take_closed` gave has not reached the engine."""
        self._closed = {**dict.fromkeys(closed), **self._closed}

    def void(self) -> None:
        """Another model is loaded: ids of the one before mean nothing to it, and it knows of no session."""
        self._table.clear()
        self._closed.clear()

    def _make_room(self, client: str, *, speculative: bool) -> bool:
        own = [key for key in self._table if key[0] == client]
        if len(own) >= self._limits.per_client:
            return self._close_one(own, speculative=speculative)
        if len(self._table) >= self._limits.total:
            return self._close_one(list(self._table), speculative=speculative)
        return True

    def _close_one(self, keys: Sequence[SessionKey], *, speculative: bool) -> bool:
        made_by_guesses = (key for key in keys if not self._table[key].contents)
        oldest = next(made_by_guesses, None if speculative else keys[0])
        return oldest is not None and self.close(*oldest)

    def check(self) -> None:
        """Raises AssertionError where the bounds are broken."""
        assert len(self._table) <= self._limits.total
        for client in self.clients:
            assert sum(key[0] == client for key in self._table) <= self._limits.per_client
