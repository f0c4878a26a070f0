"""Owns the options that the measurements share, and the modeld that is started from them."""

import argparse
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.daemons import BIN, BUILD, Daemon, daemon, model_is_ready, wait_until
from modeld.backends.llamacpp.quantiser import quantise
from modeld.models.packaged import packaged
from modeld.models.requantised import requantised

BACKENDS = ("llamacpp", "openvino")


class _Backend(argparse.Action):
    """Names the result after a backend that is not the usual one, unless it has a name of its own."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        namespace.backend = values
        if values != BACKENDS[0] and namespace.out == parser.get_default("out"):
            namespace.out = namespace.out.with_stem(f"{namespace.out.stem}-{values}")


def parser(module: str, description: str | None, example: str) -> argparse.ArgumentParser:
    """One with the options that all have."""
    name = module.rpartition(".")[2]
    made = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"example: python -m {module} {example}",
    )
    made.add_argument("--out", type=Path, default=BUILD / "bench" / f"{name}.json", help="where the result goes")
    return made


def add_model(made: argparse.ArgumentParser) -> None:
    """The options of those that run a model."""
    made.add_argument(
        "--backend", action=_Backend, choices=BACKENDS, default=BACKENDS[0], help="what runs modeld's model"
    )
    made.add_argument("--lookup", choices=("on", "off"), default="off", help="whether OpenVINO copies ahead")
    made.add_argument("--model", type=Path, help="a GGUF file; without it the packaged model as Q4_0")
    made.add_argument("--threads", type=int, default=os.cpu_count() or 2, help="of both servers")
    made.add_argument("--context", type=int, default=8192, help="of both servers, in tokens")
    made.add_argument("--seed", type=int, default=1, help="of everything that is drawn by chance")


def require(*packages: str) -> None:
    """Ends a measurement before it begins, where it could not be finished."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise SystemExit(f"{' and '.join(missing)} not installed: `make setup-bench` does it")


def model_of(options: argparse.Namespace) -> Path:
    return options.model or requantised(packaged(), quantise)


def logs_of(options: argparse.Namespace) -> Path:
    folder: Path = options.out.parent / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def modeld(
    options: argparse.Namespace, model: Path, name: str = "modeld", *, profile: str = "exact"
) -> Iterator[Daemon]:
    """Serves `model` until the block ends. Only within `private_runtime`."""
    settings = ["--threads", str(options.threads), "--context", str(options.context), "--profile", profile]
    settings += ["--backend", options.backend, "--lookup", options.lookup]
    command = [str(BIN / "modeld"), "serve", "--model", str(model.absolute()), *settings]
    with daemon(name, command, logs_of(options)) as server:
        wait_until(model_is_ready, server, "loading the model")
        yield server
        server.check()
