"""How a status and a description look in a terminal."""

import pytest

from modeld.findings import Finding
from modeld.report import description_table, status_table
from modeld.testing import MODEL
from modelwire.messages import Description, Exactness, Limits, Status


def test_a_status_is_a_table_of_its_figures() -> None:
    figures = {"operations_total": 1234.0, "wasted_s": 1.25, "tokens_per_pass": 1.5, "acceptance_8": 0.875}
    status = Status(state="idle", instance="a" * 32, model="twin", engine_pid=7, uptime_s=3725.0, figures=figures)
    assert status_table(status).splitlines() == [
        "state             idle",
        "model             twin",
        "engine            pid 7",
        "uptime            1 h 2 min",
        "instance          aaaaaaaaaaaa",
        "exactness         untested",
        "operations total  1,234",
        "wasted            1.2 s",
        "tokens per pass   1.50",
        "acceptance 8      0.88",
    ]


@pytest.mark.parametrize(
    ("exactness", "words"),
    [
        (Exactness(verdict="exact"), "exact"),
        (Exactness(reason="no room"), "untested: no room"),
        (Exactness(running=True, progress=0.4), "being tested, 40% done"),
        (
            Exactness(verdict="approximate", largest_difference=0.1234, differing_tokens=0.025),
            "approximate: logits differ by up to 0.12, 2.5% of tokens",
        ),
    ],
)
def test_a_verdict_says_how_exact_the_model_is(exactness: Exactness, words: str) -> None:
    status = Status(state="idle", instance="a", model="", engine_pid=0, uptime_s=1, figures={}, exactness=exactness)
    assert f"exactness  {words}" in status_table(status).splitlines()


def test_a_status_without_a_model_says_so() -> None:
    status = Status(state="loading", instance="a", model="", engine_pid=0, uptime_s=61.0, figures={})
    assert "(not loaded)" in status_table(status)
    assert "1 min 1 s" in status_table(status)


def test_what_is_wrong_with_the_engine_stands_beneath_the_state() -> None:
    trouble = "the engine was ended by SIGKILL"
    status = Status(state="restarting", instance="a", model="", engine_pid=0, uptime_s=1, figures={}, problem=trouble)
    assert status_table(status).splitlines()[1].split(None, 1) == ["problem", trouble]


def test_a_description_says_what_the_model_can_do() -> None:
    description = Description(
        backend="twin",
        profile="exact",
        model=MODEL,
        capabilities={"fork": "cells", "rollback": True, "logits": False},
        exactness=Exactness(),
        limits=Limits(message_bytes=1000, context=4096, sessions=64, queue=8, silence_ms=6000),
    )
    rows = dict(line.split("  ", 1) for line in description_table(description).splitlines())
    found = {name.strip(): value.strip() for name, value in rows.items()}
    assert found["model"] == "twin (none, Q4_0)"
    assert (found["templates"], found["fork"], found["rollback"], found["logits"]) == ("chat", "cells", "yes", "no")
    assert (found["context"], found["exactness"]) == ("4,096 tokens (trained for 4,096)", "untested")


def test_a_description_says_which_backends_are_installed_and_how_to_install_the_others() -> None:
    description = Description(
        backend="twin",
        profile="exact",
        model=MODEL,
        capabilities={},
        exactness=Exactness(),
        limits=Limits(message_bytes=1000, context=4096, sessions=64, queue=8, silence_ms=6000),
    )
    installed = (
        Finding(about="llama.cpp", says="llama-cpp-python 1.2"),
        Finding(about="OpenVINO", says="not installed", advice="pip install it"),
    )
    assert [line.split(maxsplit=1) for line in description_table(description, installed).splitlines()[-2:]] == [
        ["llama.cpp", "llama-cpp-python 1.2"],
        ["OpenVINO", "not installed: pip install it"],
    ]
