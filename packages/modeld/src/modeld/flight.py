"""Owns what is known of one live operation, from its arrival to its last reply. It decides nothing (`driver` does).

The contents of the operation's session advance here, and only by what the engine acknowledged: up to the last token
that is resident or was sent. A guess changes nothing but the session's ghost.
"""

from hashlib import blake2b

import numpy as np
from attrs import define, evolve

from modeld.engine.messages import Encode, Encoded, Ended, Failed, Generated, Run
from modeld.runs import Plan, digest, plan
from modeld.schedule.messages import Kind, Op, OpKey
from modeld.sessions import NOTHING, Contents, Session, Sessions, chat_of
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import (
    Acknowledged,
    Done,
    EnsurePrefix,
    Error,
    Load,
    Progress,
    Reason,
    SlotOperation,
    Timings,
    TokenIds,
    Tokenize,
    Turn,
    Unload,
    Usage,
)

Last = Done | Error | TokenIds | Acknowledged
"""What ends an operation or answers a question."""
Asked = SlotOperation | Tokenize | Load | Unload
"""What a client asks of the slot. The last three are questions: answered by one reply."""


@define(eq=False)
class Flight:
    """Times are of the daemon's clock, in seconds. `end` is how the engine ended it."""

    key: OpKey
    message: Asked
    arrived: float
    plan: Plan | None = None
    session: Session | None = None
    before: Contents = NOTHING
    started: float | None = None
    first_token: float | None = None
    ids: bytes = b""
    reused: int = 0
    resident: int = 0
    end: Ended | Encoded | Failed | Acknowledged | None = None

    @property
    def client(self) -> str:
        return self.key.client

    @property
    def address(self) -> tuple[str, str]:
        """(client, op): where its replies go."""
        return self.key.client, self.key.op

    @property
    def is_question(self) -> bool:
        return isinstance(self.message, Tokenize | Load | Unload)

    @property
    def switches(self) -> bool:
        """Whether it changes what is loaded."""
        return isinstance(self.message, Load | Unload)

    @property
    def is_guess(self) -> bool:
        return not isinstance(self.message, Tokenize | Load | Unload) and self.message.speculative

    @property
    def session_name(self) -> str | None:
        return None if isinstance(self.message, Tokenize | Load | Unload) else self.message.session

    @property
    def what(self) -> str:
        return "guessed " * self.is_guess + type(self.message).__name__.lower()

    def schedule_op(self, sessions: Sessions) -> Op:
        """What the scheduler must know of it."""
        if isinstance(self.message, Tokenize | Load | Unload):
            return Op(key=self.key, kind=Kind.REAL, switches=self.switches)
        wait = self.message.deadline_ms
        return Op(
            key=self.key,
            kind=Kind.GUESS if self.is_guess else Kind.REAL,
            digest=self._digest(self.message, sessions) if self.is_guess else b"",
            lane=None if self.message.lane is None else _hashed(self.message.lane),
            deadline=None if wait is None else self.arrived + wait / 1000,
        )

    def _digest(self, message: SlotOperation, sessions: Sessions) -> bytes:
        try:
            return digest(plan(message, self.client, sessions.find(self.client, message.session)).run)
        except WireError:  # what it builds on may still be under way; it is checked again when it starts
            return self.key.op.encode()

    def request(self, sessions: Sessions) -> Run | Encode:
        """What the engine is asked. Raises `WireError` where the session's contents do not allow it."""
        if isinstance(self.message, Tokenize):
            return Encode(prompt=self.message.prompt, complete=bool(chat_of(self.message.prompt)))
        assert not isinstance(self.message, Load | Unload), "the engine is not asked for this"
        name = self.message.session
        if self.plan is None:
            makes = isinstance(self.message, EnsurePrefix | Turn)
            session = sessions.find(self.client, name)
            self.plan = plan(self.message, self.client, session)
            if makes:
                session = sessions.open(self.client, name, speculative=self.is_guess)
            self.session = session
            self.before = session.contents if session else NOTHING
        self.ids, self.reused, self.resident = b"", 0, 0
        return evolve(self.plan.run, closed=sessions.take_closed())

    # --- what the engine acknowledged ---------------------------------------------------------------------

    def begun(self, ids: bytes, reused: int) -> Progress:
        self.ids = ids
        self.reused = reused
        if self.is_guess and isinstance(self.message, EnsurePrefix) and self.session and self.plan:
            self.session.ghost = Contents(ids=ids, chat=self.plan.chat)
        return self.advanced(reused)

    def advanced(self, length: int) -> Progress:
        total = len(self.ids) // 4
        self.resident = min(length, total)
        if not self.is_guess and self.session and self.plan:
            self.session.ghost = None
            self.session.contents = self.plan.contents(self.before, self.ids, self.resident)
        return Progress(reused=self.reused, done=self.resident, total=total)

    def generated(self, message: Generated, now: float) -> None:
        self.first_token = self.first_token or now
        if self.resident * 4 < len(self.ids):
            self.advanced(len(self.ids) // 4)
        if self.session and not self.is_guess:
            contents = self.session.contents
            answer = None if contents.answer is None else contents.answer + message.text
            self.session.contents = evolve(contents, ids=contents.ids + _as_bytes(message.ids), answer=answer)

    def ended(self, message: Ended | Encoded | Failed) -> None:
        self.end = message
        if isinstance(message, Ended) and self.resident * 4 < len(self.ids):
            self.advanced(message.length)

    # --- what the client is told --------------------------------------------------------------------------

    def last_reply(self, reason: Reason | None, now: float) -> Last:
        """`reason` None: as the engine ended it."""
        match self.end:
            case Failed() as failed if reason is None:
                return Error(code=failed.code, message=failed.message, retry=failed.retry, numbers=failed.numbers)
            case Encoded() as encoded:
                return TokenIds(ids=encoded.ids)
            case Acknowledged() as acknowledged:
                return acknowledged
        if self.is_question:
            return Error(code=ErrorCode.BAD_REQUEST, message=f"this question was ended ({reason}) by its client")
        ended = self.end if isinstance(self.end, Ended) else None
        if reason is None:
            assert ended, f"{self.key} ended without a reason"
            reason = ended.reason
        usage = ended.usage if ended else Usage()
        return Done(reason=reason, head=self._head(), usage=usage, timings=self._timings(ended, now))

    def _head(self) -> int:
        return self.session.contents.head if self.session else 0

    def _timings(self, ended: Ended | None, now: float) -> Timings:
        return evolve(
            ended.timings if ended else Timings(),
            queue=self.queue_ms(now),
            first_pass=self._since_arrival(ended.first_pass_at if ended else None),
            first_token=self._since_arrival(self.first_token),
            total=self._since_arrival(now),
        )

    def _since_arrival(self, when: float | None) -> float:
        return 0.0 if when is None else 1000 * (when - self.arrived)

    def queue_ms(self, now: float) -> float:
        return 1000 * ((now if self.started is None else self.started) - self.arrived)

    def summary(self, last: Last, now: float) -> str:
        """One line for the log: lengths and times, no text."""
        outcome = last.reason if isinstance(last, Done) else last.code if isinstance(last, Error) else "answered"
        length = f"prompt {len(self.ids) // 4}, reused {self.reused}, resident {self.resident}"
        return f"{self.what} {outcome} after {1000 * (now - self.arrived):.1f} ms: {length}"


def _hashed(lane: str) -> str:
    """A lane can be the name of a file; the scheduler's events are kept."""
    return blake2b(lane.encode(), digest_size=8).hexdigest()


def _as_bytes(ids: tuple[int, ...]) -> bytes:
    return np.asarray(ids, np.dtype("<i4")).tobytes()
