"""Owns intentd's settings, parsed once. A flag wins over the environment, that over the file, that over defaults."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from attrs import field, fields, frozen

from intentd.limits import Limits
from intentd.where import SOCKET_VARIABLE, as_endpoint, config_dir, config_file
from modelwire import logs
from modelwire.endpoint import default_endpoint
from modelwire.errors import EndpointError, why


class ConfigError(Exception):
    """A setting cannot be used. The message says which, where it came from and what it may be."""


@frozen(kw_only=True)
class Config:
    """Settings of the daemon and its commands.

    `socket` and `modeld` are endpoints; `guess` false starts paused; above a load of `max_load` for each processor
    nothing is guessed; `templates` and `tools` are directories whose
    files replace the built-in templates and tools' patterns of the same name, or add to them. `Limits` says what the
    last four bound.
    """

    socket: str = field(factory=lambda: default_endpoint("intentd"))
    modeld: str = field(factory=lambda: default_endpoint("modeld"))
    guess: bool = True
    max_load: float = 4.0
    templates: Path = field(factory=lambda: config_dir() / "templates")
    tools: Path = field(factory=lambda: config_dir() / "tools")
    log_level: str = "warning"
    log_format: Literal["text", "json"] = "text"
    clients: int = 1024
    buffer_mb: int = 8
    questions: int = 64
    commands: int = 256

    def problems(self) -> tuple[str, ...]:
        """One line for each directory that cannot be looked at, or was named and is not there."""
        lacks = (_lack_of(kind, getattr(self, kind)) for kind in ("templates", "tools"))
        return tuple(filter(None, lacks))

    def limits(self) -> Limits:
        return Limits(**{limit.name: getattr(self, limit.name) for limit in fields(Limits)})


def _lack_of(kind: str, path: Path) -> str:
    """Empty for a directory, and for the usual one where it is not there."""
    try:
        os.stat(f"{path}/.")  # noqa: PTH116 - whether it may be entered, which pathlib leaves out
    except (FileNotFoundError, NotADirectoryError):
        usual = path == config_dir() / kind
        return "" if usual else f"{path}: there is no such directory of {kind}; the built-in ones are used"
    except (OSError, ValueError) as fault:
        return f"{path}: this directory of {kind} cannot be looked at ({why(fault)}); the built-in ones are used"
    try:
        os.scandir(path).close()
    except OSError as fault:
        return f"{path}: this directory of {kind} cannot be listed ({why(fault)}); what is in it may go unnoticed"
    return ""


_VARIABLES = {
    "socket": SOCKET_VARIABLE,
    "modeld": "GUESSAHEAD_MODELD",
    "guess": "GUESSAHEAD_GUESS",
    "max_load": "GUESSAHEAD_MAX_LOAD",
    "templates": "GUESSAHEAD_TEMPLATES",
    "tools": "GUESSAHEAD_TOOLS",
    "log_level": "GUESSAHEAD_LOG_LEVEL",
    "log_format": "GUESSAHEAD_LOG_FORMAT",
    **{limit.name: f"INTENTD_{limit.name.upper()}" for limit in fields(Limits)},
}
_LEVELS = ("debug", "info", "warning", "error")
_SWITCH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def notes() -> str:
    """For `intentd serve --help`."""
    variables = "\n".join(f"  {name:<12} {variable}" for name, variable in _VARIABLES.items())
    return (
        f"\nEvery setting can also be given by a variable, or by its name in the file\n  {config_file()}\n{variables}\n"
        "A flag wins over a variable, that over the file.\n"
    )


def unknown_variables(environ: Mapping[str, str] | None = None) -> str:
    """One line about those that look like ours, "" without any. They may be others': containers set `INTENTD_PORT`."""
    variables, names = _VARIABLES.values(), os.environ if environ is None else environ
    unknown = sorted(name for name in names if name.startswith("INTENTD_") and name not in variables)
    return f"no setting is named {', '.join(unknown)}; the variables are {', '.join(variables)}" if unknown else ""


def load(flags: Mapping[str, Any], *, environ: Mapping[str, str] | None = None, file: Path | None = None) -> Config:
    """Raises `ConfigError` for a setting that is unknown or of the wrong kind."""
    environ = os.environ if environ is None else environ
    file = file or config_file()
    settings = {name: _check(name, value, str(file)) for name, value in _read(file).items()}
    for name, variable in _VARIABLES.items():
        if value := environ.get(variable):
            settings[name] = _check(name, value, variable)
    settings |= {name: _check(name, value, f"--{name}") for name, value in flags.items() if value is not None}
    return Config(**settings)


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as fault:
        raise ConfigError(f"{file} cannot be read: {why(fault)}") from None
    except RecursionError:
        raise ConfigError(f"{file} cannot be read: its lists are nested too deeply") from None


def _check(name: str, value: Any, origin: str) -> Any:
    known = [setting.name for setting in fields(Config)]
    if name not in known:
        raise ConfigError(f"{origin}: there is no setting {name!r}; there are {', '.join(known)}")
    if name == "guess":
        switch = value if isinstance(value, bool) else _SWITCH.get(str(value).lower())
        if switch is None:
            raise ConfigError(f"{origin}: 'guess' is true or false, not {value!r}")
        return switch
    if name == "max_load":
        return _positive(value, origin)
    if name in {limit.name for limit in fields(Limits)}:
        return _whole(name, value, origin)
    if not isinstance(value, str | Path) or not str(value):
        raise ConfigError(f"{origin}: {name!r} is a string, not {value!r}")
    if name == "log_level" and value not in _LEVELS:
        raise ConfigError(f"{origin}: 'log_level' is one of {', '.join(_LEVELS)}, not {value!r}")
    if name == "log_format" and value not in logs.FORMS:
        raise ConfigError(f"{origin}: 'log_format' is one of {', '.join(logs.FORMS)}, not {value!r}")
    if name in ("socket", "modeld"):
        return _endpoint(str(value), origin)
    return Path(value).expanduser() if name in ("templates", "tools") else value


def _endpoint(value: str, origin: str) -> str:
    try:
        return as_endpoint(value)
    except EndpointError as fault:
        raise ConfigError(f"{origin}: {fault}") from None


def _whole(name: str, value: Any, origin: str) -> int:
    if isinstance(value, bool) or not str(value).isdecimal() or int(value) < 1:
        raise ConfigError(f"{origin}: {name!r} is a whole number above 0, not {value!r}")
    return int(value)


def _positive(value: Any, origin: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if isinstance(value, bool) or not 0 < number < float("inf"):
        raise ConfigError(f"{origin}: 'max_load' is a number above 0, not {value!r}")
    return number
