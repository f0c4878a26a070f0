"""Owns how an operation of the wire becomes a run of the engine on a session's contents. It keeps nothing.

Text: the run's base are the session's ids up to its head, its prompt is what is new. Chat: the base is empty and the
prompt is the whole conversation, because a template's output for it is not always the beginning of its output for more;
the engine finds by ids what is resident. Only an answer that is under way goes on from the ids.
"""

import struct
from hashlib import blake2b
from pathlib import Path

from attrs import frozen

from modeld.contents import NOTHING, Contents, chat_of
from modeld.engine.messages import Probe, Run
from modeld.sessions import Session
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import (
    ChatMessage,
    Decode,
    EnsurePrefix,
    Load,
    PrefillSuffix,
    Prompt,
    Restore,
    SlotOperation,
    Snapshot,
    Text,
    Tokenize,
    Turn,
    Unload,
)

MAX_NAME = 200


@frozen(kw_only=True)
class Plan:
    """A run, and the chat part of what its session stands for once the whole prompt is resident (see `Contents`)."""

    run: Run
    chat: tuple[ChatMessage, ...] = ()
    answer: str | None = None

    def contents(self, before: Contents, ids: bytes, length: int) -> Contents:
        """What the session stands for when `length` of the prompt's `ids` are resident.

        Half a chat message is no message: until its prompt is complete, a conversation stays what it was.
        """
        if length * 4 >= len(ids):
            return Contents(ids=ids, chat=self.chat, answer=self.answer)
        if not self.chat:
            return Contents(ids=ids[: length * 4])
        return Contents(ids=ids[: length * 4], chat=before.conversation) if before.chat else NOTHING


def bad_request(message: str) -> WireError:
    return WireError(ErrorCode.BAD_REQUEST, message)


def empty(session: str) -> WireError:
    return bad_request(
        f"session {session!r} is empty (new, closed, of another model, or it gave way to newer ones: the limit is "
        "sessions): ensure a prefix or send a turn first"
    )


def check_operation(message: SlotOperation | Tokenize | Load | Unload | Snapshot | Probe) -> None:
    """Raises `WireError(BAD_REQUEST)` for what makes no sense whatever the session stands for."""
    if isinstance(message, Probe):
        return
    if isinstance(message, Load | Unload):
        _check_switch(message)
        return
    if not isinstance(message, Decode | Snapshot | Restore):
        _check_prompt(_prompt_of(message))
    if isinstance(message, Tokenize):
        return
    if not 0 < len(message.session) <= MAX_NAME:
        raise bad_request(f"a session's name has 1 to {MAX_NAME} characters, this one has {len(message.session)}")
    if isinstance(message, Snapshot):
        return
    if message.lane is not None and len(message.lane) > MAX_NAME:
        raise bad_request(f"a lane's name has at most {MAX_NAME} characters, this one has {len(message.lane)}")
    if message.deadline_ms is not None and message.deadline_ms < 0:
        raise bad_request(f"deadline_ms is {message.deadline_ms}: give milliseconds from now, or leave it out")
    if isinstance(message, Decode) and message.speculative:
        raise bad_request("a decode cannot be speculative: guess the prompt with a speculative turn")


def _check_switch(message: Load | Unload) -> None:
    if isinstance(message, Load) and message.model is not None and not Path(message.model).is_absolute():
        raise bad_request("the model is not an absolute path: this daemon has another working directory than you")


def _prompt_of(message: EnsurePrefix | PrefillSuffix | Turn | Tokenize) -> Prompt:
    return message.prefix + message.suffix if isinstance(message, Turn) else message.prompt


def _check_prompt(prompt: Prompt) -> None:
    chat = chat_of(prompt)
    if chat and len(chat) != len(prompt):
        raise bad_request("the prompt mixes text and chat messages: send either all text or all messages")
    if not chat and not any(part.text for part in prompt if isinstance(part, Text)):
        raise bad_request("the prompt is empty: send at least one character or one message")


def restoring(message: Restore, client: str, saved: Contents) -> Plan:
    """The run that makes a snapshot's contents resident, from its bytes where they are kept, and else by prefill."""
    run = Run(client=client, session=message.session, guess=message.speculative, base=saved.ids)
    return Plan(run=run, chat=saved.chat, answer=saved.answer)


def plan(message: EnsurePrefix | PrefillSuffix | Decode | Turn, client: str, session: Session | None) -> Plan:
    """Raises `WireError(BAD_REQUEST)` where the session's contents do not allow it."""
    before = session.contents_for(speculative=message.speculative) if session else NOTHING
    if isinstance(message, EnsurePrefix | Turn):
        prompt = _prompt_of(message)
        return _plan(message, client, NOTHING, prompt, complete=isinstance(message, Turn))
    if not before:
        raise empty(message.session)
    if isinstance(message, PrefillSuffix):
        if bool(chat_of(message.prompt)) != bool(before.chat):
            held = "chat messages" if before.chat else "text"
            raise bad_request(f"session {message.session!r} holds {held}: its suffix must be {held} as well")
        return _plan(message, client, before, message.prompt, complete=True)
    return _plan(message, client, before, (), complete=True)


def _plan(
    message: EnsurePrefix | PrefillSuffix | Decode | Turn, client: str, before: Contents, new: Prompt, *, complete: bool
) -> Plan:
    wanted = message.decode if isinstance(message, Turn | Decode) else None
    if message.speculative and not (isinstance(message, Turn) and message.ahead):
        wanted = None
    chat = (*before.conversation, *chat_of(new)) if before.chat else chat_of(new)
    goes_on = not new and before.answer is not None
    if goes_on:
        chat = before.chat
    whole = chat and not goes_on
    run = Run(
        client=client,
        session=message.session,
        guess=message.speculative,
        base=b"" if whole else before.ids,
        prompt=chat if whole else new,
        complete=bool(whole) and complete,
        decode=wanted,
    )
    opened = "" if chat and complete else None
    return Plan(run=run, chat=chat, answer=before.answer if goes_on else opened)


def digest(run: Run) -> bytes:
    """Equal for two runs that would do the same."""
    state = blake2b(digest_size=16)
    for piece in (run.client.encode(), run.session.encode(), run.base, bytes([run.complete])):
        _add(state, piece)
    for part in run.prompt:
        name = part.role if isinstance(part, ChatMessage) else f"text {part.special}"
        _add(state, name.encode())
        _add(state, (part.content if isinstance(part, ChatMessage) else part.text).encode())
    if run.guess and run.decode is not None:
        _add(state, repr(run.decode).encode())
    return state.digest()


def _add(state: blake2b, piece: bytes) -> None:
    state.update(struct.pack("<Q", len(piece)))
    state.update(piece)
