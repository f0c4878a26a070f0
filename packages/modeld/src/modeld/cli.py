"""Owns modeld's command line: what is typed, what is printed, the exit status. It serves and asks through others."""

import argparse
import asyncio
import io
import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from attrs import asdict

from modeld import config, keyring
from modeld.config import ConfigError
from modeld.findings import backends
from modeld.report import description_table, difference_lines, findings_table, settings_table, status_table
from modelwire import logs
from modelwire.client import Client
from modelwire.errors import DaemonUnreachable, EndpointError, ErrorCode, WireError, why
from modelwire.interrupts import INTERRUPTED, ends_at_once
from modelwire.messages import ChatMessage, DecodeConfig, Description, Done, Prompt, Reason, Text, Tokens

if TYPE_CHECKING:
    from modeld.top import View

FAILED, USAGE = 1, 2
POLL_S, LOADING_POLLS = 0.1, 1200
PATIENCE_S = 1.0
"""So much longer than until the next look `top` waits for an answer."""
WIDE = 200
"""Columns where there is no terminal that has some."""
_FAULTS = (EndpointError, DaemonUnreachable, WireError)


class _Unwritten(Exception):
    """Our output cannot be written."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        _finish()  # help, or the version
        super().exit(status, message)

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"modeld: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """`modeld` as a command."""
    try:
        status = _run(arguments)
        _finish()
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:  # whoever read our output has left
        status = _give_up_output()
    except _Unwritten as fault:
        status = _complain(fault, _give_up_output())
    sys.exit(status)


def _run(arguments: Sequence[str] | None) -> int:
    with ends_at_once():
        wanted = _parsed(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that is not UTF-8 cannot show all that a model says
    try:
        status: int = asyncio.run(wanted.command(wanted))
    except ConfigError as fault:
        return _complain(fault, USAGE)
    except _FAULTS as fault:
        return _complain(fault, FAILED)
    return status


@contextmanager
def _writing() -> Iterator[None]:
    """Raises `_Unwritten`, and BrokenPipeError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as fault:
        raise _Unwritten(f"the output cannot be written: {why(fault)}; write it to another place") from None


def _say(text: str = "", *, end: str = "\n", flush: bool = False) -> None:
    with _writing():
        print(text, end=end, flush=flush)


def _finish() -> None:
    """Writes what is still in the buffer."""
    if sys.stdout:  # else it is closed
        with _writing():
            sys.stdout.flush()


def _give_up_output() -> int:
    """What is still to be written would be tried once more at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED


def _complain(fault: Exception, status: int) -> int:
    print(f"modeld: {' '.join(str(fault).split())}", file=sys.stderr)
    return status


# --- commands -------------------------------------------------------------------------------------------


async def _serve(wanted: argparse.Namespace) -> int:
    from modeld.app import App, CannotServe  # the other commands are quick because they do not load the daemon

    settings = config.load(vars(wanted))
    logs.set_up("modeld", level=settings.log_level, form=settings.log_format)
    if unknown := config.unknown_variables():
        logging.getLogger(__name__).warning("%s", unknown)
    settings.check_place()
    try:
        return await App(settings).run()
    except CannotServe as fault:
        return _complain(fault, FAILED)


async def _status(wanted: argparse.Namespace) -> int:
    async with _client(wanted) as client:
        status = await client.status()
    _print(asdict(status) if wanted.json else status_table(status))
    return 0


async def _top(wanted: argparse.Namespace) -> int:
    """Until Ctrl-C. A daemon that goes or hangs is waited for; one that was never there is an error."""
    from modeld.top import BARS, PLAIN_BARS, View

    view = View(BARS if "utf" in (sys.stdout.encoding or "").lower() else PLAIN_BARS)
    async with _client(wanted) as client:
        for number in count(1):
            problem = ""
            try:
                status = await asyncio.wait_for(client.status(), None if number == 1 else wanted.interval + PATIENCE_S)
                view.add(status, time.monotonic())
            except TimeoutError:
                problem = "modeld does not answer"
            except (DaemonUnreachable, WireError) as fault:
                if number == 1:
                    raise
                problem = f"modeld: {fault}"
            if wanted.json:
                seen = {"problem": problem} if problem else {**asdict(status), "a_second": view.rates()}
                _say(json.dumps(seen), flush=True)
            else:
                _show(view, problem)
            if number == wanted.count:
                return FAILED if problem else 0
            await asyncio.sleep(wanted.interval)
    raise AssertionError("counting does not end")


def _show(view: "View", problem: str) -> None:
    """On a terminal in place of what was there, without a mode that it could be left in."""
    in_place = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    frame = view.frame(shutil.get_terminal_size().columns if in_place else WIDE, problem)
    _say(f"\033[H\033[J{frame}" if in_place else f"{frame}\n", flush=True)


async def _describe(wanted: argparse.Namespace) -> int:
    async with _client(wanted) as client:
        description = await _when_loaded(client)
    _print(asdict(description) if wanted.json else description_table(description, backends()))
    return 0


async def _ask(wanted: argparse.Namespace) -> int:
    text = sys.stdin.read() if wanted.text == "-" else wanted.text
    async with _client(wanted) as client:
        chat = (await _when_loaded(client)).model.chat
        prompt: Prompt = (ChatMessage(role="user", content=text),) if chat else (Text(text=text),)
        decode = DecodeConfig(max_tokens=wanted.max_tokens)
        async with client.turn(session="ask", prefix=prompt, decode=decode) as replies:
            async for reply in replies:
                if isinstance(reply, Tokens):
                    _say(reply.text, end="", flush=True)
    _say()
    if isinstance(reply, Done) and reply.reason in (Reason.LENGTH, Reason.CONTEXT):
        print(f"modeld: the answer was cut after {reply.usage.generated} tokens", file=sys.stderr)
    return 0


async def _load(wanted: argparse.Namespace) -> int:
    file = _model_file(wanted.file) if wanted.file else None
    async with _client(wanted) as client:
        changed = await client.load(file)
        name = (await _when_loaded(client)).model.name
    _say(f"{name} is loaded" if changed else f"{name} is loaded already; if its file was replaced, unload it first")
    return 0


async def _unload(wanted: argparse.Namespace) -> int:
    async with _client(wanted) as client:
        changed = await client.unload()
    _say("unloaded: the next operation loads it again" if changed else "nothing is loaded")
    return 0


async def _story(wanted: argparse.Namespace) -> int:
    async with _client(wanted) as client:
        lines = await client.story(wanted.op or "", client=wanted.client)
    _print({"lines": lines} if wanted.json else "\n".join(lines))
    return 0


async def _replay(wanted: argparse.Namespace) -> int:
    from modeld import recording
    from modeld.schedule.journal import replay

    events = 0
    try:
        for number, segment in enumerate(recording.read(Path(wanted.file)), start=1):
            if difference := replay(segment):
                _say(difference_lines(number, difference))
                return FAILED
            events += len(segment.entries)
    except recording.RecordFault as fault:
        return _complain(fault, FAILED)
    _say(f"{events:,} events gave the same commands as when they were recorded")
    return 0


async def _trace(wanted: argparse.Namespace) -> int:
    from modeld import recording
    from modeld.trace import trace

    try:
        events = list(trace(recording.read(Path(wanted.file))))
    except recording.RecordFault as fault:
        return _complain(fault, FAILED)
    _say(json.dumps({"displayTimeUnit": "ms", "traceEvents": events}, allow_nan=False))
    return 0


async def _keys(wanted: argparse.Namespace) -> int:
    status, text = keyring.run(wanted)
    _say(text)
    return status


async def _config(wanted: argparse.Namespace) -> int:
    """What `modeld serve` would run with, and where each value comes from."""
    found = config.origins(vars(wanted))
    if unknown := config.unknown_variables():
        print(f"modeld: {unknown}", file=sys.stderr)
    _print(found if wanted.json else settings_table(found))
    return 0


async def _doctor(wanted: argparse.Namespace) -> int:
    from modeld.doctor import examine

    found = await examine(vars(wanted))
    _print([asdict(finding) for finding in found] if wanted.json else findings_table(found))
    return FAILED if any(finding.state == "failure" for finding in found) else 0


def _client(wanted: argparse.Namespace) -> Client:
    return Client(config.load({"socket": wanted.socket}).endpoint(), name="modeld command")


def _model_file(name: str) -> str:
    """The daemon has another working directory."""
    path = config.path_of(name)
    if not path.exists():
        raise ConfigError(f"{path} is no file and no folder: give the path of a model")
    return str(path)


async def _when_loaded(client: Client) -> Description:
    """Waits a bounded time for a model that is being loaded."""
    for _ in range(LOADING_POLLS):
        try:
            return await client.describe()
        except WireError as fault:
            if fault.code != ErrorCode.NOT_READY:
                raise
        await asyncio.sleep(POLL_S)
    return await client.describe()


def _print(what: dict[str, Any] | list[Any] | str) -> None:
    _say(what if isinstance(what, str) else json.dumps(what, indent=2))


# --- what can be typed ----------------------------------------------------------------------------------


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _parser()
    wanted, unknown = parser.parse_known_args(arguments)
    if unknown:
        words = f"unrecognized arguments: {' '.join(unknown)} (see modeld {wanted.command_name} --help)"
        parser.exit(USAGE, f"modeld: {words}\n")
    return wanted


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="modeld",
        description="One local model in one slot, with guesses that yield at once.",
        epilog='Example: modeld serve &  modeld ask "What is a KV cache?"',
    )
    parser.add_argument("--version", action="version", version=f"modeld {version('modeld')}")
    commands = parser.add_subparsers(dest="command_name", required=True, metavar="COMMAND", parser_class=_Parser)
    _add_serve(commands)
    status = _add(commands, "status", _status, "live figures of the daemon", "modeld status --json")
    top = _add(commands, "top", _top, "live figures that stay on the screen, until Ctrl-C", "modeld top")
    describe = _add(commands, "describe", _describe, "what the daemon and its model can do", "modeld describe")
    ask = _add(commands, "ask", _ask, "ask the model something", 'modeld ask "What is a KV cache?"')
    story = _add(commands, "story", _story, "what happened to one operation, in words", "modeld story --last")
    load = _add(commands, "load", _load, "load another model, or what was unloaded", "modeld load ~/models/coder.gguf")
    unload = _add(commands, "unload", _unload, "give the model's memory back until it is needed", "modeld unload")
    _add_replay(commands)
    help = "recorded events for a trace viewer (ui.perfetto.dev, chrome://tracing)"
    traced = _add(commands, "trace", _trace, help, "modeld trace events.jsonl > trace.json")
    traced.add_argument("file", help="what 'modeld serve --record FILE' wrote, or a daemon that failed left behind")
    keys = _add(commands, "keys", _keys, "who may talk to this daemon over TCP", "modeld keys list", keyring.NOTES)
    keyring.add_arguments(keys)
    help = "what 'modeld serve' would run with, and where each setting comes from"
    shown = _add(commands, "config", _config, help, "modeld config --profile fast")
    _add_options(shown)
    notes = "\nStatus 1 where something keeps modeld from serving; a warning does not."
    doctor = _add(commands, "doctor", _doctor, "what is well here, and what to do where not", "modeld doctor", notes)
    _add_options(doctor)
    which = story.add_mutually_exclusive_group(required=True)
    which.add_argument("op", nargs="?", help="its id, as its client and the log name it")
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
    replay = _add(commands, "replay", _replay, help, "modeld replay events.jsonl", notes)
    replay.add_argument("file", help="what 'modeld serve --record FILE' wrote, or a daemon that failed left behind")


def _add(
    commands: Any,
    name: str,
    command: Callable[[argparse.Namespace], Coroutine[Any, Any, int]],
    help: str,
    example: str,
    notes: str = "",
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=f"{help[0].upper()}{help[1:]}.",
        epilog=f"Example: {example}\n{notes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=command)
    return parser


def _add_serve(commands: Any) -> None:
    notes = (
        "\nEvery option can also be set by the variable beside it, or by its name in the file\n"
        f"  {config.config_file()}\n"
        "A flag wins over a variable, that over the file. Ctrl-C ends every operation and stops (status 130;\n"
        "SIGTERM: status 0); a second one stops at once."
    )
    example = "modeld serve --model ~/models/coder.gguf --context 16384"
    _add_options(_add(commands, "serve", _serve, "serve one model until stopped", example, notes))


def _add_options(parser: argparse.ArgumentParser) -> None:
    for option in config.options():
        _, allowed = option.metadata["kind"]
        default = "" if option.default is None else f"; {option.default} if not given"
        parser.add_argument(
            f"--{option.name.replace('_', '-')}",
            metavar=option.name.rpartition("_")[2].upper(),
            help=f"{option.metadata['help']} ({allowed}{default}) [{config.variable(option)}]",
        )
