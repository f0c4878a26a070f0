"""Drafted output on a real model in profile `exact` is undrafted output, byte for byte (D1)."""

import argparse
import inspect
import time
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from modeld.backends.base import Ids
from modeld.backends.flag import LocalFlag
from modeld.backends.llamacpp.loading import LlamaSettings, load
from modeld.backends.llamacpp.quantiser import quantise
from modeld.engine.messages import Ended, FromEngine, Run
from modeld.models.packaged import packaged
from modeld.models.requantised import requantised
from modeld.slot import Slot, SlotSettings
from modeld.slot.draft import Costs, Lengths, NoDrafts, PromptLookup, time_widths
from modeld.testing import generated
from modelwire.messages import DecodeConfig, Text

LINES = inspect.getsource(argparse)
CODE = LINES[LINES.index("class HelpFormatter") :]
COPY = f"<|im_start|>user\nCopy this.\n```python\n{CODE[:700]}\n```<|im_end|>\n<|im_start|>assistant\n```python\n"
DEEP = f"<|im_start|>user\n{CODE[700:5200]}\n{COPY[17:]}"
STORY = "<|im_start|>user\nTell me of the sea.<|im_end|>\n<|im_start|>assistant\n"
PROMPTS = {"copy": COPY, "copy at depth": DEEP, "story": STORY}
CONFIGS = {
    "greedy": DecodeConfig(max_tokens=80),
    "seeded": DecodeConfig(max_tokens=60, temperature=0.6, top_k=40, top_p=0.95, min_p=0.02, seed=7),
    "penalised": DecodeConfig(max_tokens=60, repeat_penalty=1.1, temperature=0.3, seed=3, stop=("\n\n\n",)),
}
LONG = {("seeded", "copy at depth"), ("penalised", "copy at depth")}
EAGER = {1: 0.010, 32: 0.012}
"""Seconds by rows that let it draft whenever it can."""


class Spoiling(NoDrafts):
    """Drafts what it was told, but every fifth token is another one."""

    def __init__(self, says: Sequence[int]) -> None:
        self.says = says
        self.start = 0

    def begin(self, shortest: int | None) -> None:
        self.start = 0

    def propose(self, history: Ids, limit: int) -> Sequence[int]:
        self.start = self.start or len(history) - 1
        at = len(history) - self.start
        return [token + (place % 5 == 4) for place, token in enumerate(self.says[at:][: min(limit, 11)], at)]


class Loaded:
    def __init__(self) -> None:
        path = requantised(packaged(), quantise)
        settings = LlamaSettings(context=2304, extra_cells=2304, sequences=5, threads=1)
        self.flag = LocalFlag()
        self.backend = load(path, settings, self.flag)
        self.lookup = PromptLookup(Lengths(Costs.measured(EAGER)))
        self.slot = Slot(
            self.backend, stop=self.flag, clock=time.monotonic, settings=SlotSettings(), drafters=self.lookup
        )

    def run(self, prompt: str, config: DecodeConfig | None, client: str, guess: bool = False) -> list[FromEngine]:
        said: list[FromEngine] = []
        parts = (Text(text=prompt, special=True),)
        run = Run(client=client, session="s", guess=guess, prompt=parts, decode=config)
        self.slot.run(run, said.append)
        assert isinstance(said[-1], Ended), said[-1]
        return said


@pytest.fixture(scope="module")
def loaded() -> Iterator[Loaded]:
    here = Loaded()
    yield here
    here.backend.close()


def answer(said: Sequence[FromEngine]) -> tuple[str, list[int], str]:
    end = said[-1]
    assert isinstance(end, Ended)
    return *generated(said), end.reason


@pytest.mark.parametrize(
    ("prompt", "config"),
    [
        pytest.param(PROMPTS[p], CONFIGS[c], id=f"{c} {p}", marks=[pytest.mark.long] if (c, p) in LONG else [])
        for p in PROMPTS
        for c in CONFIGS
    ],
)
def test_d1_drafted_is_undrafted_byte_for_byte_among_guesses_and_forks(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch, prompt: str, config: DecodeConfig
) -> None:
    """At depths up to 1,500; between guesses on top and forks that outlive what they began with."""
    with monkeypatch.context() as patch:
        patch.setattr(loaded.slot, "_drafters", NoDrafts())
        plain = answer(loaded.run(prompt, config, "plain"))
    loaded.run(prompt[: len(prompt) // 2] + STORY, None, "other", guess=True)
    drafted = loaded.run(prompt, config, "drafting")
    assert answer(drafted) == plain
    loaded.run(prompt + plain[0][:20] + " or not", None, "other", guess=True)
    with monkeypatch.context() as patch:
        patch.setattr(loaded.slot, "_drafters", Spoiling(plain[1]))
        spoilt = loaded.run(prompt, config, "spoiling")
    assert answer(spoilt) == plain
    loaded.slot.check()


def test_d2_a_copy_takes_fewer_passes_than_tokens(loaded: Loaded) -> None:
    said = loaded.run(COPY, CONFIGS["greedy"], "drafting")
    end = said[-1]
    assert isinstance(end, Ended)
    assert end.drafts is not None
    assert end.usage.accepted
    assert end.drafts.passes < end.usage.generated


def test_every_width_is_timed_and_nothing_stays_resident(loaded: Loaded) -> None:
    for tape in loaded.slot.shelf.tapes:
        loaded.slot.shelf.drop(tape)
    seconds = time_widths(loaded.backend, time.monotonic)
    assert 1 in seconds
    assert np.all(np.array(list(seconds.values())) > 0)
    assert loaded.backend._memory.length(0) == 0
