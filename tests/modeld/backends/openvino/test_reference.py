"""The second pipeline's process: when it is not begun, and when it ends. No model."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from modeld.backends.base import BackendError, Scored
from modeld.backends.fake_vocabulary import FakeVocabulary
from modeld.backends.flag import LocalFlag
from modeld.backends.openvino import loading, reference
from modeld.backends.openvino.model_folder import Shape
from modeld.testing import MODEL


@pytest.mark.parametrize(("size", "asks"), [(1, True), (1 << 50, False)])
def test_a_second_copy_of_the_model_is_not_loaded_where_it_has_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, asks: bool
) -> None:
    """It could cost the engine that serves."""
    asked: list[reference.Question] = []

    def ask(question: reference.Question, *_: object) -> list[Scored]:
        asked.append(question)
        return []

    monkeypatch.setattr(reference, "ask", ask)
    source = loading.Source(
        folder=tmp_path,
        fingerprint="f",
        shape=Shape(size=size, kv_values=1, parameters=1, weights="i4", vocabulary=256),
        description=MODEL,
        vocabulary=FakeVocabulary(None, False),
        free=lambda: None,
    )
    answers = loading._reference_of(source, loading.OpenVinoSettings(), LocalFlag())
    tape = np.arange(5, dtype=np.int32)
    if asks:
        answers((tape,), 3, lambda: None)
    else:
        with pytest.raises(BackendError, match=r"a second copy of the model needs .* MB, .* MB are free"):
            answers((tape,), 3, lambda: None)
    assert bool(asked) is asks


def test_it_ends_where_its_engine_was_gone_before_it_looked() -> None:
    """Then its parent is another process than the one that began it."""
    command = [sys.executable, "-P", "-m", "modeld.backends.openvino.reference", str(os.getppid())]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
