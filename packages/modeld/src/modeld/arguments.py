"""Owns the words of modeld's command line: what can be typed, and how it is explained. It does nothing of it."""

import argparse
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NoReturn

from modeld import config, keyring
from modelwire import output

USAGE = 2


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        output.finish()  # help, or the version
        super().exit(status, message)

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"modeld: {message} (see {self.prog} --help)\n")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Leaves with status 2, or for help and the version with 0."""
    parser = _parser()
    wanted, unknown = parser.parse_known_args(arguments)
    if unknown:
        words = f"unrecognized arguments: {' '.join(unknown)} (see modeld {wanted.command} --help)"
        parser.exit(USAGE, f"modeld: {words}\n")
    return wanted


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="modeld",
        description="One local model in one slot, with guesses that yield at once.",
        epilog='Example: modeld serve &  modeld ask "What is a KV cache?"',
    )
    parser.add_argument("--version", action="version", version=f"modeld {version('modeld')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    _add_serve(commands)
    status = _add(commands, "status", "live figures of the daemon", "modeld status --json")
    top = _add(commands, "top", "live figures that stay on the screen, until Ctrl-C", "modeld top")
    describe = _add(commands, "describe", "what the daemon and its model can do", "modeld describe")
    ask = _add(commands, "ask", "ask the model something", 'modeld ask "What is a KV cache?"')
    story = _add(commands, "story", "what happened to one operation, in words", "modeld story --last")
    load = _add(commands, "load", "load another model, or what was unloaded", "modeld load ~/models/coder.gguf")
    unload = _add(commands, "unload", "give the model's memory back until it is needed", "modeld unload")
    _add_replay(commands)
    help = "recorded events for a trace viewer (ui.perfetto.dev, chrome://tracing)"
    traced = _add(commands, "trace", help, "modeld trace events.jsonl > trace.json")
    traced.add_argument("file", help="what 'modeld serve --record FILE' wrote, or a daemon that failed left behind")
    keys = _add(commands, "keys", "who may talk to this daemon over TCP", "modeld keys list", keyring.NOTES)
    keyring.add_arguments(keys)
    help = "what 'modeld serve' would run with, and where each setting comes from"
    shown = _add(commands, "config", help, "modeld config --profile fast")
    _add_options(shown)
    notes = "\nStatus 1 where something keeps modeld from serving; a warning does not."
    doctor = _add(commands, "doctor", "what is well here, and what to do where not", "modeld doctor", notes)
    _add_options(doctor)
    which = story.add_mutually_exclusive_group(required=True)
    which.add_argument("op", nargs="?", type=_id, help="its id, as its client and the log name it")
    which.add_argument("--last", action="store_true", help="the newest")
    story.add_argument("--client", default="", help="the beginning of the client's name, where several used the id")
    load.add_argument("file", nargs="?", help="the model; without it, what was unloaded")
    top.add_argument("--interval", type=_seconds, default=1.0, metavar="S", help="seconds between two looks (1)")
    top.add_argument("--count", type=_count, metavar="N", help="end after so many looks")
    for command in (status, top, describe, story, keys, shown, doctor):
        command.add_argument("--json", action="store_true", help="print JSON")
    ask.add_argument("text", help="the question; - reads it from standard input")
    ask.add_argument("--max-tokens", type=_count, default=256, metavar="N", help="the longest answer (256)")
    for command in (status, top, describe, ask, story, load, unload):
        command.add_argument("--socket", help="where the daemon serves, as ipc:///path/modeld.sock")
    return parser


def _id(word: str) -> str:
    """On the wire an empty one means the newest, which a script with an empty variable does not."""
    if not word:
        raise argparse.ArgumentTypeError("an id is not empty: --last tells of the newest")
    return word


def _count(word: str) -> int:
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"{word!r} is no whole number from 1 up")
    return int(word)


def _seconds(word: str) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{word!r} is no number of seconds from 0.1 to 3600")
    return seconds


def _add_replay(commands: Any) -> None:
    notes = "\nStatus 0: the same commands to every event. 1: not, and it says which is the first that differs."
    help = "give recorded events to a fresh scheduler, and compare what it commands"
    replay = _add(commands, "replay", help, "modeld replay events.jsonl", notes)
    replay.add_argument("file", help="what 'modeld serve --record FILE' wrote, or a daemon that failed left behind")


def _add(commands: Any, name: str, help: str, example: str, notes: str = "") -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=f"{help[0].upper()}{help[1:]}.",
        epilog=f"Example: {example}\n{notes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def _add_serve(commands: Any) -> None:
    notes = (
        "\nEvery option can also be set by the variable beside it, or by its name in the file\n"
        f"  {config.config_file()}\n"
        "A flag wins over a variable, that over the file. Ctrl-C ends every operation and stops (status 130;\n"
        "SIGTERM: status 0); a second one stops at once."
    )
    example = "modeld serve --model ~/models/coder.gguf --context 16384"
    _add_options(_add(commands, "serve", "serve one model until stopped", example, notes))


def _add_options(parser: argparse.ArgumentParser) -> None:
    for option in config.options():
        _, allowed = option.metadata["kind"]
        default = "" if option.default is None else f"; {option.default} if not given"
        parser.add_argument(
            f"--{option.name.replace('_', '-')}",
            metavar=option.name.rpartition("_")[2].upper(),
            help=f"{option.metadata['help']} ({allowed}{default}) [{config.variable(option)}]",
        )
