"""Owns what a finding of the doctor is, and the one about a library. It looks at nothing else."""

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Literal

from attrs import evolve, frozen

OPENVINO = "pip install 'modeld[openvino]'"


@frozen(kw_only=True)
class Finding:
    """`says` is what was found, `advice` what to do about it where that is not part of the sentence."""

    about: str
    state: Literal["ok", "warning", "failure"] = "ok"
    says: str
    advice: str = ""


def backends() -> tuple[Finding, Finding]:
    """Which libraries that run models are installed here, and how to install those that are not."""
    openvino = installed("OpenVINO", "openvino_genai", "openvino-genai", needed=False)
    return (
        installed("llama.cpp", "llama_cpp", "llama-cpp-python", needed=False),
        evolve(openvino, advice=OPENVINO) if openvino.says == "not installed" else openvino,
    )


def installed(about: str, module: str, distribution: str, *, needed: bool) -> Finding:
    if find_spec(module):
        try:
            return Finding(about=about, says=f"{distribution} {version(distribution)}")
        except PackageNotFoundError:
            return Finding(about=about, says=f"{module} is there, without a version")
    state: Literal["failure", "ok"] = "failure" if needed else "ok"
    return Finding(about=about, state=state, says="not installed", advice=f"pip install {distribution}")
