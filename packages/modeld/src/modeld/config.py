"""Owns the daemon's settings: what each is called, what it may be, where its value comes from. It starts nothing.

A flag wins over an environment variable, that over the file, that over the default.
"""

import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from attrs import Attribute, asdict, field, fields, frozen
from platformdirs import user_config_path

from modeld.engine.config import BACKENDS, DEVICES, FEWEST_SEQUENCES, MOST_SEQUENCES, EngineConfig
from modelwire import logs
from modelwire.codec import MAX_MESSAGE_BYTES
from modelwire.endpoint import check_endpoint, default_endpoint, is_tcp, written
from modelwire.errors import EndpointError, why


class ConfigError(Exception):
    """An option is wrong. The message is one line: which, where it was given, what it may be."""


def _choice(*allowed: str) -> tuple[Callable[[Any], str], str]:
    def parse(value: Any) -> str:
        if value not in allowed:
            raise ValueError
        return str(value)

    return parse, "one of " + ", ".join(allowed)


def _number(least: int, most: int | None = None) -> tuple[Callable[[Any], int], str]:
    def parse(value: Any) -> int:
        if isinstance(value, bool | float) or int(value) < least or (most is not None and int(value) > most):
            raise ValueError
        return int(value)

    return parse, f"a whole number from {least} " + ("up" if most is None else f"to {most}")


def _text(says: str) -> tuple[Callable[[Any], str], str]:
    def parse(value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise ValueError
        return value

    return parse, says


def _endpoint() -> tuple[Callable[[Any], str], str]:
    parse, says = _text("ipc:// and an absolute path, or tcp://HOST:PORT")
    return lambda value: written(parse(value)), says


def _option(kind: tuple[Callable[[Any], Any], str], help: str, *, default: Any, variable: str = "") -> Any:
    return field(default=default, metadata={"kind": kind, "help": help, "variable": variable})


@frozen(kw_only=True)
class Settings:
    """What `modeld serve` can be told. `None` leaves it to the part that it is for."""

    socket: str | None = _option(
        _endpoint(),
        "where to serve",
        default=None,
        variable="GUESSAHEAD_MODELD",
    )
    model: str | None = _option(
        _text("the path of a GGUF file, or of an OpenVINO folder"),
        "the model; the packaged one if not given",
        default=None,
    )
    backend: str = _option(_choice(*BACKENDS), "what runs the model; fake runs without one", default="llamacpp")
    profile: str = _option(
        _choice("exact", "fast"), "exact gives the same results however a prompt is cut, fast may not", default="exact"
    )
    context: int | None = _option(_number(256), "the longest prompt and answer, in tokens", default=None)
    threads: int | None = _option(_number(1), "threads for the model; all processors if not given", default=None)
    sequences: int | None = _option(
        _number(FEWEST_SEQUENCES, MOST_SEQUENCES), "how many tapes may be resident", default=None
    )
    extra_cells: int | None = _option(_number(0), "KV positions beyond the context, for guesses", default=None)
    spare_cells: int | None = _option(
        _number(0),
        "KV positions that guesses and ownerless tapes may hold; one context's if not given",
        default=None,
    )
    parking_mb: int | None = _option(
        _number(0), "host memory in MB for tapes and snapshots that have no room in the KV", default=None
    )
    chunk: int | None = _option(_number(1), "tokens of one prefill chunk", default=None)
    draft: str = _option(
        _choice("on", "off"), "copy ahead from the prompt and answers where that pays; same text, sooner", default="on"
    )
    device: str = _option(
        _choice(*DEVICES), "what openvino computes on; GPU and AUTO are refused so far", default="CPU"
    )
    lookup: str = _option(
        _choice("on", "off"), "openvino copies ahead from the prompt: faster edits, slower other answers", default="off"
    )
    queue: int = _option(_number(1), "how many operations may wait", default=64)
    sessions: int = _option(_number(1), "how many sessions a client may have", default=64)
    clients: int = _option(
        _number(1), "how many clients may be there; the one that is silent for longest gives way", default=1024
    )
    message_bytes: int = _option(
        _number(2**16, MAX_MESSAGE_BYTES), "how long a message may be, in bytes", default=MAX_MESSAGE_BYTES
    )
    buffer_mb: int = _option(_number(1), "MB kept for a client that reads slowly, before it is given up", default=8)
    snapshots: int = _option(_number(0), "how many snapshots a client may have", default=16)
    unload_after: int | None = _option(
        _number(1), "unload the model after so many seconds without any operation; the next one loads it", default=None
    )
    exactness_after: int = _option(
        _number(0), "test the model's exactness after so many seconds without any operation, once; 0: never", default=10
    )
    record: str | None = _option(
        _text("a file"), "record the scheduler's events there, without any text, for modeld replay", default=None
    )
    log_level: str = _option(_choice("DEBUG", "INFO", "WARNING", "ERROR"), "what the log tells", default="WARNING")
    log_format: Literal["text", "json"] = _option(
        _choice(*logs.FORMS), "how the log looks; json is one object a line", default="text"
    )
    fake: str | None = _option(_text("a JSON object"), "the fake backend's script, as JSON", default=None)

    def endpoint(self) -> str:
        """Raises `ConfigError` where there is no safe place for a socket."""
        try:
            return self.socket or default_endpoint("modeld")
        except EndpointError as fault:
            raise ConfigError(str(fault)) from None

    def check_place(self) -> None:
        """Raises `ConfigError` where a socket is to be in a directory that is not there or that others can enter."""
        try:
            if not is_tcp(endpoint := self.endpoint()):
                check_endpoint(endpoint)
        except EndpointError as fault:
            raise ConfigError(str(fault)) from None

    def record_path(self) -> Path | None:
        """Raises `ConfigError`."""
        return path_of(self.record) if self.record else None

    def model_path(self) -> str | None:
        """Raises `ConfigError`."""
        return str(path_of(self.model)) if self.model else None

    def engine(self) -> EngineConfig:
        """Raises `ConfigError`."""
        wanted = {option.name: getattr(self, option.name) for option in fields(Settings)}
        wanted["model"] = self.model_path()
        known = {option.name for option in fields(EngineConfig)}
        return EngineConfig(**{name: value for name, value in wanted.items() if name in known and value is not None})


def path_of(name: str) -> Path:
    """What somebody typed, for those who work elsewhere. `..` behind a link leads to where the kernel says.

    Raises `ConfigError` where there is no such home, or no working directory any more.
    """
    try:
        path = Path(name).expanduser().absolute()
        return path.parent.resolve() / path.name if ".." in path.parts else path
    except (RuntimeError, OSError) as fault:
        raise ConfigError(f"{name!r} leads nowhere ({fault}): give an absolute path") from None


def options() -> tuple["Attribute[Any]", ...]:
    return fields(Settings)


def variable(option: "Attribute[Any]") -> str:
    """The environment variable of an option."""
    return option.metadata["variable"] or f"MODELD_{option.name.upper()}"


def unknown_variables(environment: Mapping[str, str] | None = None) -> str:
    """One line about those that look like ours, "" without any. They may be others': containers set `MODELD_PORT`."""
    variables = [variable(option) for option in options()]
    names = os.environ if environment is None else environment
    unknown = sorted(name for name in names if name.startswith("MODELD_") and name not in variables)
    return f"no setting is named {', '.join(unknown)}; the variables are {', '.join(variables)}" if unknown else ""


def config_file() -> Path:
    return user_config_path("guessahead", appauthor=False) / "modeld.toml"


def load(
    flags: Mapping[str, Any],
    *,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    """Raises `ConfigError`. `flags` that are None were not given."""
    return Settings(**{name: value for name, (value, _) in _given(flags, environment, file).items()})


def origins(
    flags: Mapping[str, Any], *, environment: Mapping[str, str] | None = None, file: Path | None = None
) -> dict[str, dict[str, Any]]:
    """Every option with its `value` and its `origin`: the flag, the variable, the file, or the default.

    Raises `ConfigError`.
    """
    given = _given(flags, environment, file)
    settings = Settings(**{name: value for name, (value, _) in given.items()})
    engine = asdict(settings.engine())
    found = {name: given.get(name, (default, "default")) for name, default in asdict(settings).items()}
    found["socket"] = settings.endpoint(), found["socket"][1]
    return {
        name: {"value": engine.get(name) if value is None else value, "origin": origin}
        for name, (value, origin) in found.items()
    }


def _given(
    flags: Mapping[str, Any], environment: Mapping[str, str] | None, file: Path | None
) -> Mapping[str, tuple[Any, str]]:
    """Name → (value, origin) of what is not left to its default."""
    environment = os.environ if environment is None else environment
    file = file or config_file()
    table = _read(file)
    given: dict[str, tuple[Any, str]] = {}
    for option in options():
        for value, origin in (
            (flags.get(option.name), f"--{option.name.replace('_', '-')}"),
            (environment.get(variable(option)) or None, variable(option)),
            (table.get(option.name), str(file)),
        ):
            if value is not None:
                given[option.name] = _parse(option, value, origin), origin
                break
    return given


def _parse(option: "Attribute[Any]", value: Any, origin: str) -> Any:
    parse, allowed = option.metadata["kind"]
    try:
        return parse(value)
    except EndpointError as fault:
        raise ConfigError(f"{option.name} in {origin}: {fault}") from None
    except (TypeError, ValueError):
        raise ConfigError(f"{option.name} is {value!r:.60} in {origin}; it must be {allowed}") from None


def _read(file: Path) -> Mapping[str, Any]:
    try:
        table = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as fault:
        raise ConfigError(f"{file} cannot be read: {why(fault)}; correct it or move it away") from None
    known = [option.name for option in options()]
    for name in table:
        if name not in known:
            raise ConfigError(f"{name} in {file} is no option; the options are {', '.join(known)}")
    return table
