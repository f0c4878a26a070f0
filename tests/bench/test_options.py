"""A measurement's options: results of different backends have different names."""

from pathlib import Path

import pytest

from bench.options import add_model, parser, require


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


def test_what_is_not_installed_is_said_before_anything_is_measured() -> None:
    require("attrs")
    with pytest.raises(SystemExit, match=r"^no_such_engine and no_such_plots not installed: `make"):
        require("no_such_engine", "attrs", "no_such_plots")
