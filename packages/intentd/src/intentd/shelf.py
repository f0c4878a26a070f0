"""Owns the templates in use: the user's file where it is good, else the built-in one, and what is wrong with a file."""

import logging
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from intentd.plan.templates import Template, TemplateError, parse
from intentd.workspace import Signature, signature
from modelwire.errors import why

log = logging.getLogger(__name__)

MAX_TEMPLATE_BYTES = 64 * 1024
_NAMES = ("crash", "diagnostic", "fix", "fix_in_place", "test_failed")
_MISNAMED = f"{{}}: no template is called so; there are {', '.join(_NAMES)}, and selection_ with a name"


class TemplateShelf:
    """The templates by their names; the user's are those in `directory`. A file that changes is read again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._kept: dict[str, tuple[Signature, Template | TemplateError]] = {}
        self._problems: dict[str, str] = {}
        self._misnamed: dict[str, str] = {}

    @property
    def problems(self) -> tuple[str, ...]:
        """One line for each file of the user's that is not used now, as the log has it."""
        theirs = self._theirs()
        for name in sorted({*self._kept, *(file.stem for file in theirs if _is_asked_for(file.stem))}):
            with suppress(TemplateError):  # which it keeps, and logs once
                self.get(name)
        found = {str(file): _MISNAMED.format(file) for file in theirs if not _is_asked_for(file.stem)}
        for file in found.keys() - self._misnamed.keys():
            log.warning("%s", found[file])
        self._misnamed = found
        return (*self._problems.values(), *found.values())

    @property
    def files(self) -> frozenset[str]:
        """Where the user's are or could be, of those that were read or asked for."""
        return frozenset(str(self._directory / f"{name}.toml") for name in self._kept)

    def names(self, beginning: str) -> tuple[str, ...]:
        """Of all templates whose names begin so, the built-in ones and the user's."""
        built_in = (one.name for one in files("intentd").joinpath("templates").iterdir())
        theirs = (one.name for one in self._theirs())
        names = {name.removesuffix(".toml") for name in (*built_in, *theirs) if name.endswith(".toml")}
        return tuple(sorted(name for name in names if name.startswith(beginning)))

    def _theirs(self) -> list[Path]:
        """None of them where the directory cannot be listed, which the settings tell of."""
        try:
            return sorted(self._directory.glob("*.toml"))
        except OSError:
            return []

    def get(self, name: str) -> Template:
        """The template and nothing else: a bad file is a problem, not an error, if there is a built-in one instead.

        Raises `TemplateError` where there is none.
        """
        theirs = self._directory / f"{name}.toml"
        signed = signature(str(theirs))
        if name not in self._kept or self._kept[name][0] != signed:
            self._kept[name] = signed, self._load(name, theirs if signed else None)
        kept = self._kept[name][1]
        if isinstance(kept, TemplateError):
            raise kept.with_traceback(None)  # else each raising would add to it
        return kept

    def _load(self, name: str, theirs: Path | None) -> Template | TemplateError:
        """An error is for a file of the user's that is bad and all there is: it is kept, so it is logged once."""
        self._problems.pop(name, None)
        built_in = files("intentd").joinpath("templates", f"{name}.toml")
        if theirs:
            try:
                return parse(str(theirs), _text(theirs))
            except TemplateError as fault:
                instead = "; the built-in template is used" if built_in.is_file() else ""
                self._problems[name] = f"{fault}{instead}"
                log.warning("%s", self._problems[name])
                if not instead:
                    return fault
        if not built_in.is_file():
            raise TemplateError(f"{name}.toml:1: there is no such template")
        return parse(f"{name}.toml", built_in.read_text("utf-8"))


def _is_asked_for(name: str) -> bool:
    return name.startswith("selection_") or name in _NAMES


def _text(file: Path) -> str:
    try:
        if not file.is_file():
            raise TemplateError(f"{file}:1: it is no file")
        with file.open("rb") as stream:
            data = stream.read(MAX_TEMPLATE_BYTES + 1)
        if len(data) > MAX_TEMPLATE_BYTES:
            raise TemplateError(f"{file}:1: longer than {MAX_TEMPLATE_BYTES} bytes")
        return data.decode()
    except (OSError, UnicodeDecodeError) as fault:
        raise TemplateError(f"{file}:1: cannot be read: {why(fault)}") from None
