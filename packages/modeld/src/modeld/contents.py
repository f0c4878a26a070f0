"""Owns what a session or a snapshot stands for, as a value. Whose it is, is not its business."""

from attrs import frozen

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


def chat_of(prompt: Prompt) -> tuple[ChatMessage, ...]:
    """The messages of a chat prompt; empty for text."""
    return tuple(part for part in prompt if isinstance(part, ChatMessage))
