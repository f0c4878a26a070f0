"""A measurement's options: results of different backends have different names."""

from pathlib import Path

import pytest

from bench.options import add_model, parser


@pytest.mark.parametrize(
    ("arguments", "out"),
    [
        ([], "build/bench/ttft.json"),
        (["--backend", "llamacpp"], "build/bench/ttft.json"),
        (["--backend", "openvino"], "build/bench/ttft-openvino.json"),
        (["--backend", "openvino", "--out", "mine.json"], "mine.json"),
        (["--out", "mine.json", "--backend", "openvino"], "mine.json"),
    ],
)
def test_a_result_is_named_after_its_backend(arguments: list[str], out: str) -> None:
    made = parser("bench.ttft", None, "")
    add_model(made)
    assert made.parse_args(arguments).out == Path(out)
