"""Replays of recorded edits: targets are known, and time is modelled."""

from bench.decode_recorded import CURVES, Replay, latest_3gram, llama_cpp_python, oracle, ours, play, row
from bench.recordings import Recording

COPY = Recording("group", list(range(10, 90)), [1, *range(10, 80), 2, *range(81, 90)])


def test_every_drafter_generates_the_whole_target() -> None:
    for steps in (ours(COPY, CURVES["fast"]), llama_cpp_python(COPY), latest_3gram(COPY), oracle(COPY, 31)):
        assert 1 + sum(gave for _, gave in steps) == len(COPY.target)
        assert all(1 <= gave <= rows for rows, gave in steps)


def test_a_draft_counts_as_far_as_it_agrees() -> None:
    assert play(Recording("group", [5], [1, 2, 3, 4]), lambda tape: [2, 9], lambda step: None) == [(3, 2), (3, 1)]


def test_no_copying_drafter_needs_fewer_passes_than_the_oracle() -> None:
    best = len(oracle(COPY, 31))
    assert all(len(steps) >= best for steps in (ours(COPY, CURVES["gpu"]), llama_cpp_python(COPY), latest_3gram(COPY)))


def test_the_oracle_drafts_not_a_row_more_than_agrees() -> None:
    assert all(gave == rows for rows, gave in oracle(COPY, 31))


def test_a_row_compares_ours_with_the_others() -> None:
    steps = {"ours": [(4, 4)], "llama_cpp_python": [(1, 1)] * 4, "latest_3gram": [(1, 1)] * 4, "oracle": [(4, 4)]}
    found = row([Replay(Recording("group", [1], [1, 2, 3, 4, 5]), steps)], {1: 10.0, 4: 20.0})
    assert found["modelled_speedup"]["ours"] == 2.0
    assert found["of_oracle"] == 1.0
    assert found["of_llama_cpp_python"] == 2.0
