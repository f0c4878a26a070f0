"""A slot on a fake backend, with what was said to it and what it said."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from modeld.backends.fake import FakeBackend, FakeScript
from modeld.backends.flag import LocalFlag
from modeld.engine.messages import Begun, Ended, Failed, FromEngine, Run
from modeld.slot import Slot, SlotSettings
from modeld.slot.draft import Drafters, NoDrafts
from modeld.testing import generated
from modelwire.messages import DecodeConfig, Prompt, Text


class Said:
    """What one run emitted."""

    def __init__(self, messages: Sequence[FromEngine]) -> None:
        self.messages = list(messages)

    @property
    def text(self) -> str:
        return generated(self.messages)[0]

    @property
    def ids(self) -> list[int]:
        return generated(self.messages)[1]

    @property
    def begun(self) -> Begun:
        return next(m for m in self.messages if isinstance(m, Begun))

    @property
    def prompt_ids(self) -> list[int]:
        return [int(token) for token in np.frombuffer(self.begun.ids, "<i4")]

    @property
    def ended(self) -> Ended:
        end = self.messages[-1]
        assert isinstance(end, Ended), end
        return end

    @property
    def failed(self) -> Failed:
        end = self.messages[-1]
        assert isinstance(end, Failed), end
        return end


class Bench:
    """One slot; `time` is its clock in seconds, which the fake's delays move."""

    def __init__(self, script: FakeScript, drafters: Drafters, settings: SlotSettings) -> None:
        self.time = 0.0
        self.flag = LocalFlag()
        self.backend = FakeBackend(script, self.flag, sleep=self._sleep)
        self.awaited = False
        self.slot = Slot(
            self.backend,
            stop=self.flag,
            clock=lambda: self.time,
            settings=settings,
            drafters=drafters,
            awaited=lambda: self.awaited,
        )

    def _sleep(self, seconds: float) -> None:
        self.time += seconds

    def run(
        self,
        prompt: str | Prompt = "",
        *,
        base: Sequence[int] = (),
        guess: bool = False,
        client: str = "ann",
        session: str = "one",
        decode: DecodeConfig | None = None,
        complete: bool = False,
        closed: tuple[tuple[str, str], ...] = (),
    ) -> Said:
        parts: Prompt = (Text(text=prompt),) if isinstance(prompt, str) and prompt else tuple(prompt)  # type: ignore[arg-type]
        request = Run(
            client=client,
            session=session,
            guess=guess,
            base=np.array(base, "<i4").tobytes(),
            prompt=parts,
            complete=complete,
            decode=decode,
            closed=closed,
        )
        messages: list[FromEngine] = []
        self.slot.run(request, messages.append)
        self.slot.check()
        return Said(messages)

    def tapes(self) -> list[tuple[str, str, int]]:
        return sorted((t.kind.value, f"{t.owner.client}/{t.owner.session}", t.length) for t in self.slot.shelf.tapes)


MakeBench = Callable[..., Bench]


@pytest.fixture
def bench() -> MakeBench:
    """Makes a slot; arguments are those of `FakeScript`, and `drafters` and `settings` of the slot."""

    def make(
        drafters: Drafters = NoDrafts(),  # noqa: B008 - without state
        settings: SlotSettings = SlotSettings(),  # noqa: B008 - frozen
        **script: object,
    ) -> Bench:
        return Bench(FakeScript(**script), drafters, settings)  # type: ignore[arg-type]

    return make
