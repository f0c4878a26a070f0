"""Owns what is known of one live operation, from its arrival to its last reply. It decides nothing (`driver` does).

The contents of the operation's session advance here, and only by what the engine acknowledged: up to the last token
that is resident or was sent. A guess changes nothing but the session's ghost.
"""

import struct
from functools import partial
from hashlib import blake2b

from attrs import define, evolve, field

from modeld.contents import NOTHING, Contents, chat_of
from modeld.engine.messages import Encode, Encoded, Ended, Failed, Generated, Probe, Probed, Run, Save, Saved
from modeld.runs import Plan, digest, empty, plan, restoring
from modeld.schedule.messages import Kind, Op, OpKey
from modeld.sessions import Session, Sessions
from modeld.snapshots import new_handle, place_of
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import (
    Acknowledged,
    Done,
    EnsurePrefix,
    Error,
    Load,
    Progress,
    Reason,
    Restore,
    SlotOperation,
    Snapshot,
    SnapshotTaken,
    Timings,
    TokenIds,
    Tokenize,
    Turn,
    Unload,
    Usage,
)

Last = Done | Error | TokenIds | Acknowledged | SnapshotTaken
"""What ends an operation or answers a question."""
Question = Tokenize | Load | Unload | Snapshot | Probe
"""What waits its turn like an operation, but is answered by one reply; `Probe`, which nobody asks, by none."""
Asked = SlotOperation | Question
"""What is asked of the slot."""


@define(eq=False)
class Flight:
    """Times are of the daemon's clock, in seconds. `end` is how the engine ended it; `handle`, of a snapshot."""

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
    produced: int = 0
    handle: str = ""
    is_question: bool = field(init=False)
    is_house: bool = field(init=False)  # nobody asked for it
    is_guess: bool = field(init=False)
    end: Ended | Encoded | Saved | Failed | Probed | Acknowledged | None = None

    def __attrs_post_init__(self) -> None:
        self.is_question = isinstance(self.message, Question)
        self.is_house = isinstance(self.message, Probe)
        self.is_guess = not isinstance(self.message, Question) and self.message.speculative

    @property
    def client(self) -> str:
        return self.key.client

    @property
    def switches(self) -> bool:
        """Whether it changes what is loaded."""
        return isinstance(self.message, Load | Unload)

    @property
    def session_name(self) -> str | None:
        return None if isinstance(self.message, Tokenize | Load | Unload | Probe) else self.message.session

    @property
    def what(self) -> str:
        return "guessed " * self.is_guess + type(self.message).__name__.lower()

    def schedule_op(self, sessions: Sessions) -> Op:
        """What the scheduler must know of it."""
        if isinstance(self.message, Question):
            return Op(key=self.key, kind=Kind.HOUSE if self.is_house else Kind.REAL, switches=self.switches)
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
            return digest(self._planned(message, sessions).run)
        except WireError:  # what it builds on may still be under way; it is checked again when it starts
            return self.key.op.encode()

    def _planned(self, message: SlotOperation, sessions: Sessions) -> Plan:
        if isinstance(message, Restore):
            return restoring(message, self.client, sessions.snapshots.find(self.client, message.handle))
        return plan(message, self.client, sessions.find(self.client, message.session))

    def request(self, sessions: Sessions) -> Run | Encode | Save | Probe:
        """What the engine is asked. Raises `WireError` where the session's contents do not allow it."""
        if isinstance(self.message, Snapshot):
            return self._save(self.message, sessions)
        if isinstance(self.message, Probe):
            return self.message
        if isinstance(self.message, Tokenize):
            return Encode(prompt=self.message.prompt, complete=bool(chat_of(self.message.prompt)))
        assert not isinstance(self.message, Load | Unload), "the engine is not asked for this"
        name = self.message.session
        if self.plan is None or (self.session and sessions.find(self.client, name) is not self.session):
            self.plan = self._planned(self.message, sessions)
            makes = isinstance(self.message, EnsurePrefix | Turn | Restore)
            find = partial(sessions.open, speculative=self.is_guess) if makes else sessions.find
            self.session = session = find(self.client, name)
            self.before = session.contents if session else NOTHING
        self.ids, self.reused, self.resident, self.produced = b"", 0, 0, 0
        closed = sessions.take_closed()
        return evolve(self.plan.run, closed=closed) if closed else self.plan.run

    def _save(self, message: Snapshot, sessions: Sessions) -> Save:
        sessions.snapshots.check_room()
        session = sessions.find(self.client, message.session)
        if session is None or not session.contents:
            raise empty(message.session)
        self.before, self.handle = session.contents, new_handle()
        place = place_of(self.handle)
        return Save(client=self.client, place=place, ids=self.before.ids, closed=sessions.take_closed())

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
        self.produced += len(message.ids)
        if self.resident * 4 < len(self.ids):
            self.advanced(len(self.ids) // 4)
        if self.session and not self.is_guess:
            contents = self.session.contents
            answer = None if contents.answer is None else contents.answer + message.text
            ids = contents.ids + _as_bytes(message.ids)
            self.session.contents = Contents(ids=ids, chat=contents.chat, answer=answer)

    def ended(self, message: Ended | Encoded | Saved | Failed | Probed) -> Progress | None:
        """What of the prompt became resident since it was last said."""
        self.end = message
        if not isinstance(message, Ended) or self.resident * 4 == len(self.ids):
            return None
        before, progress = self.resident, self.advanced(message.length)
        return progress if progress.done > before else None

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
            case Saved() as saved if reason is None:
                return SnapshotTaken(handle=self.handle, head=self.before.head, bytes=saved.bytes)
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
        engine = ended.timings if ended else Timings()
        return Timings(
            queue=self.queue_ms(now),
            tokenise=engine.tokenise,
            prefill=engine.prefill,
            first_token=self._since_arrival(self.first_token),
            decode=engine.decode,
            total=self._since_arrival(now),
            stopped_chunk=engine.stopped_chunk,
            chunk=engine.chunk,
            first_pass=self._since_arrival(ended.first_pass_at if ended else None),
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
    return struct.pack(f"<{len(ids)}i", *ids)
