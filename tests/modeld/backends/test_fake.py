"""The fake shows every wrong reuse, and goes wrong as it is told."""

import subprocess
import sys

import numpy as np
import pytest

from modeld.backends.base import BackendError, Ids, LoadError, OutOfCells
from modeld.backends.fake import FakeBackend, FakeScript, Fault
from modeld.backends.flag import LocalFlag
from modelwire.messages import DecodeConfig


def _ids(text: str) -> Ids:
    return np.frombuffer(text.encode(), np.uint8).astype(np.int32)


def _fake(**script: object) -> tuple[FakeBackend, LocalFlag, list[float]]:
    flag, slept = LocalFlag(), list[float]()
    return FakeBackend(FakeScript(**script), flag, sleep=slept.append), flag, slept  # type: ignore[arg-type]


def _logits(fake: FakeBackend, sequence: int, text: str, start: int = 0) -> list[float]:
    fake.extend(sequence, _ids(text), start, 1)
    return [float(score) for score in fake.logits(0)]


def test_s6_logits_depend_on_every_token_that_is_really_there() -> None:
    fake, _, _ = _fake()
    right = _logits(fake, 0, "abcdef")
    for number, wrong in enumerate(("Xbcdef", "abcXef", "bcdef", "abcdeff"), start=1):
        assert _logits(fake, number, wrong) != right


def test_s6_claiming_that_something_is_resident_does_not_make_it_so() -> None:
    fake, _, _ = _fake()
    right = _logits(fake, 0, "abcdef")
    fake.extend(1, _ids("abX"), 0, 1)
    assert _logits(fake, 1, "abcdef", 3) != right
    with pytest.raises(BackendError, match="ends at 6, cannot write at 4"):
        fake.extend(1, _ids("abcdefg")[:5], 4, 1)
    with pytest.raises(BackendError, match="ends at 0"):
        fake.extend(2, _ids("abc"), 2, 1)


def test_it_says_characters_of_its_alphabet_and_cuts_them_between_tokens() -> None:
    fake, _, _ = _fake(fork="content", alphabet="é😀")
    pieces = [
        fake.vocabulary.piece(t) for step in fake.generate(0, _ids("a"), DecodeConfig(max_tokens=24)) for t in step
    ]
    assert set(b"".join(pieces).decode(errors="ignore")) == {"é", "😀"}
    assert all(len(piece) == 1 for piece in pieces)


def test_it_can_be_told_what_to_answer() -> None:
    script = FakeScript(answer="the é", fork="content")
    fake = FakeBackend(script, LocalFlag())
    prompt = [*fake.vocabulary.tokenise("question"), 257, 256, *fake.vocabulary.tokenise("assistant\n")]
    said = [
        token for step in fake.generate(0, np.array(prompt, np.int32), DecodeConfig(max_tokens=24)) for token in step
    ]
    assert b"".join(map(fake.vocabulary.piece, said)).decode() == "the é"
    assert said[-1] in fake.vocabulary.end_ids


def test_a_chunk_stops_within_it_and_keeps_whole_micro_batches() -> None:
    fake, flag, slept = _fake(poll_tokens=4, ubatch=8, token_ms=2, step_ms=5)
    flag.after = 3
    extended = fake.extend(0, _ids("a" * 40), 0, 1)
    assert (extended.length, extended.stopped) == (8, True)
    assert slept == [0.005, 0.008, 0.008, 0.008]
    assert len(fake.resident(0)) == 8


def test_with_step_the_flag_is_not_read_inside_a_chunk() -> None:
    fake, flag, _ = _fake(stop="step")
    flag.set()
    assert not fake.extend(0, _ids("abc"), 0, 1).stopped


def test_faults_come_at_their_extend() -> None:
    fake, _, _ = _fake(faults={1: "cells", 3: "fail"})
    with pytest.raises(OutOfCells):
        fake.extend(0, _ids("abc"), 0, 1)
    fake.extend(0, _ids("abc"), 0, 1)
    with pytest.raises(BackendError):
        fake.extend(0, _ids("abcd"), 3, 1)
    assert fake.resident(0) != tuple(b"abc")


@pytest.mark.parametrize(("fault", "status"), [(Fault.CRASH, 70), (Fault.ABORT, -6)])
def test_it_can_take_its_process_with_it(fault: Fault, status: int) -> None:
    code = (
        "import numpy as np; from modeld.backends.fake import *; from modeld.backends.flag import LocalFlag;"
        f"FakeBackend(FakeScript(faults={{1: {fault.value!r}}}), LocalFlag()).extend(0, np.zeros(3, np.int32), 0, 1)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == status


def test_it_can_hang() -> None:
    class Enough(Exception):
        pass

    def sleep(seconds: float) -> None:
        raise Enough

    fake = FakeBackend(FakeScript(faults={1: Fault.HANG}), LocalFlag(), sleep=sleep)
    with pytest.raises(Enough):
        fake.extend(0, _ids("a"), 0, 1)


def test_it_can_refuse_to_load_and_take_its_time() -> None:
    with pytest.raises(LoadError, match="no such model"):
        _fake(load_error="no such model")
    assert _fake(load_ms=250)[2] == [0.25]


def test_a_content_cache_computes_only_what_it_has_not_seen() -> None:
    fake, flag, _ = _fake(fork="content")
    fake.extend(0, _ids("a" * 64), 0, 0)
    assert fake.computed == 64
    fake.extend(1, _ids("a" * 64 + "b" * 16), 64, 0)
    assert fake.computed == 80
    flag.set()
    assert fake.extend(2, _ids("c" * 32), 0, 0).length == 0
    flag.clear()
    fake.extend(2, _ids("c" * 32), 0, 0)
    assert fake.computed == 80 + 32


def test_a_script_is_read_from_json_and_written_to_it() -> None:
    script = FakeScript(token_ms=1.5, faults={3: "crash"}, fork="content")
    assert FakeScript.from_json(script.to_json()) == script
    assert FakeScript.from_json("") == FakeScript()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "JSON object"),
        ('{"tokens": 1}', "no option tokens"),
        ('{"fork": "spoon"}', "fork"),
        ('{"faults": {"1": "explode"}}', "explode"),
        ('{"chunk": 0}', "chunk"),
        ("{", "not JSON"),
    ],
)
def test_a_wrong_script_is_refused_with_the_reason(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        FakeScript.from_json(text)
