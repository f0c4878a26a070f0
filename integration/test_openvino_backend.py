"""The OpenVINO backend with the packaged model: what it shares with every backend, and what is its own."""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from modeld.backends.base import StopFlag
from modeld.backends.contract import CONTRACT, Subject
from modeld.backends.flag import LocalFlag
from modeld.backends.llamacpp.quantiser import quantise
from modeld.backends.openvino import OpenVinoBackend, load
from modeld.backends.openvino.loading import OpenVinoSettings
from modeld.models.packaged import packaged
from modeld.models.requantised import requantised

SETTINGS = OpenVinoSettings(context=1280, extra_cells=256, sequences=4, threads=1, chunk=128)
TEXT = Path(argparse.__file__).read_text()


class Borrowed:
    """One loaded backend for many checks, each with its own stop flag; closing it does nothing."""

    def __init__(self, backend: OpenVinoBackend, flag: "Switchable") -> None:
        self._backend, self._flag = backend, flag

    def lend(self, flag: StopFlag) -> OpenVinoBackend:
        self._flag.now = flag
        backend = self._backend
        for sequence in range(backend.sequences):
            backend.drop(sequence)
        backend.close = lambda: None  # type: ignore[method-assign]
        return backend


class Switchable:
    """A stop flag that reads another one."""

    def __init__(self) -> None:
        self.now: StopFlag = LocalFlag()

    @property
    def address(self) -> int:
        return self.now.address

    def is_set(self) -> bool:
        return self.now.is_set()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GUESSAHEAD_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield requantised(packaged(), quantise)


@pytest.fixture(scope="module")
def borrowed(model: Path) -> Iterator[Borrowed]:
    flag = Switchable()
    backend = load(model, SETTINGS, flag)
    yield Borrowed(backend, flag)
    OpenVinoBackend.close(backend)


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_openvino_holds_to_the_contract(borrowed: Borrowed, check: Callable[[Subject], None]) -> None:
    check(Subject(make=borrowed.lend))
