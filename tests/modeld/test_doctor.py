"""What the doctor finds, and that each finding that is not well says what to do."""

import json
from pathlib import Path

import pytest

from modeld import doctor, findings, openvino_findings
from modeld.cli import main
from modeld.config import Settings
from modeld.doctor import GIB, _memory, examine
from modeld.findings import Finding
from modeld.models.openvino_folder import DETOKENIZER, MODEL, TOKENIZER
from modeld.models.packaged import packaged
from modelwire.messages import Status, Welcome

CELL = 100 * 1024


@pytest.fixture(autouse=True)
def machine(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's directories, all new."""
    for name, folder in (
        ("GUESSAHEAD_RUNTIME_DIR", "run"),
        ("GUESSAHEAD_KEYS", "keys"),
        ("GUESSAHEAD_CACHE_DIR", "cache"),
        ("XDG_CONFIG_HOME", "config"),
    ):
        monkeypatch.setenv(name, str(runtime / folder))
    monkeypatch.delenv("GUESSAHEAD_MODELD", raising=False)
    return runtime


async def finding(about: str, **flags: str) -> Finding:
    [found] = [finding for finding in await examine(flags) if finding.about == about]
    return found


async def test_a_model_in_no_home_is_a_wrong_setting() -> None:
    [found] = await examine({"model": "~nobody-of-this-name/x.gguf"})
    assert (found.about, found.state) == ("settings", "failure")
    assert "leads nowhere" in found.says


async def test_on_a_machine_in_order_only_the_daemon_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_free_memory", lambda: 100 * GIB)
    found = await examine({})
    assert [finding.about for finding in found if finding.state != "ok"] == ["daemon"]
    assert (await finding("daemon")).says.endswith("start it with 'modeld serve'")


async def test_the_memory_plan_counts_the_packaged_models_own_positions() -> None:
    """30 layers, 3 heads of 64 for keys and as many for values, 2 bytes each."""
    assert f"positions of {30 * 3 * 64 * 2 * 2 / 1024:,.1f} KiB" in (await finding("memory")).says


async def test_the_packaged_model_is_named_as_the_file_that_is_loaded(machine: Path) -> None:
    name, _, made_of = (await finding("model")).says.partition(", ")
    assert name.endswith("-Q4_0.gguf")
    assert made_of.startswith("made at the first start of SmolLM2-135M-Instruct.Q4_1.gguf")
    made = machine / "cache" / "models" / name
    made.write_bytes(packaged().read_bytes())  # the doctor looks at its size and its shape
    assert (await finding("model")).says == f"{name}, {made.stat().st_size / GIB:.2f} GiB"


@pytest.mark.parametrize(("free", "state"), [(100 * GIB, "ok"), (8 * GIB, "warning"), (4 * GIB, "failure")])
def test_the_memory_plan_is_held_against_what_is_free(free: int, state: str) -> None:
    found = _memory(7 * GIB, CELL, Settings(), free)
    assert found.state == state
    assert bool(found.advice) == (state != "ok")


@pytest.mark.parametrize(("backend", "state"), [("openvino", "failure"), ("llamacpp", "ok")])
async def test_a_missing_openvino_is_a_fault_only_where_it_is_wanted(
    backend: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings, "find_spec", lambda name: None)
    found = await finding("OpenVINO", backend=backend)
    assert (found.state, found.says, found.advice) == (state, "not installed", "pip install 'modeld[openvino]'")


async def test_a_device_of_openvino_that_modeld_cannot_use_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino_findings, "_devices", lambda: {"CPU": "a processor", "GPU": "a card"})
    found = [finding for finding in await examine({"backend": "openvino", "device": "GPU"}) if finding.advice]
    says = "it sees CPU (a processor), GPU (a card); modeld runs on its CPU alone, not on GPU"
    assert [finding.says for finding in found if finding.state == "failure"] == [says]


async def test_a_wrong_model_is_a_failure_that_says_so(machine: Path) -> None:
    found = await finding("model", model=str(machine / "missing.gguf"))
    assert (found.state, "no such model file" in found.says) == ("failure", True)


@pytest.mark.parametrize(
    ("backend", "says"), [("llamacpp", "give the .gguf file in it"), ("openvino", "openvino_model.xml")]
)
async def test_a_folder_that_is_no_model_is_a_failure_among_the_other_findings(
    machine: Path, backend: str, says: str
) -> None:
    found = await finding("model", model=str(machine), backend=backend)
    assert (found.state, says in found.says) == ("failure", True)


async def test_an_exported_folder_without_its_weights_is_a_failure_that_says_so(machine: Path) -> None:
    for name in (MODEL, TOKENIZER, DETOKENIZER):
        (machine / name).touch()
    found = await finding("model", model=str(machine), backend="openvino")
    assert (found.state, "openvino_model.bin" in found.says, bool(found.advice)) == ("failure", True, True)


async def test_a_missing_file_is_said_where_llama_cpp_is_missing_too(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    found = await finding("model", model=str(machine / "missing.gguf"))
    assert (found.state, "no such model file" in found.says) == ("failure", True)


async def test_a_directory_that_others_can_enter_is_a_failure(machine: Path) -> None:
    (machine / "run").mkdir(mode=0o755)
    found = await finding("sockets")
    assert (found.state, "chmod 700" in found.says) == ("failure", True)


async def test_engines_that_keep_dying_are_a_warning_with_what_to_do(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = Status(state="restarting", instance="a", model="", engine_pid=0, uptime_s=1, figures={}, problem="it is ill")

    class Ill:
        welcome = Welcome(protocol=1, server="modeld", version="1", instance="a", beat_ms=1)

        def __init__(self, *_: object, **__: object) -> None: ...

        async def __aenter__(self) -> "Ill":
            return self

        async def __aexit__(self, *_: object) -> None: ...

        async def status(self) -> Status:
            return said

    monkeypatch.setattr(doctor, "Client", Ill)
    found = await finding("daemon")
    assert (found.state, "it is ill" in found.says, "--context" in found.advice) == ("warning", True, True)


async def test_a_wrong_setting_is_the_only_finding(machine: Path) -> None:
    [found] = await examine({"context": "many"})
    assert (found.about, found.state) == ("settings", "failure")


@pytest.mark.parametrize(("arguments", "status"), [(["--backend", "fake"], 0), (["--model", "/missing.gguf"], 1)])
def test_the_status_says_whether_something_keeps_it_from_serving(
    capsys: pytest.CaptureFixture[str], arguments: list[str], status: int
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--json", *arguments])
    assert ended.value.code == status
    assert {"about", "state", "says", "advice"} == set(json.loads(capsys.readouterr().out)[0])
