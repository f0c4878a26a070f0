"""Owns modeld's commands: what each does, what it prints, its exit status. It serves and asks through others."""

import argparse
import asyncio
import io
import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from attrs import asdict

from modeld import config, keyring
from modeld.arguments import USAGE, parse
from modeld.config import ConfigError
from modeld.findings import backends
from modeld.report import description_table, difference_lines, findings_table, settings_table, status_table
from modelwire import logs, output
from modelwire.client import Client
from modelwire.errors import DaemonUnreachable, EndpointError, ErrorCode, WireError
from modelwire.interrupts import INTERRUPTED, ends_at_once
from modelwire.messages import ChatMessage, DecodeConfig, Description, Done, Prompt, Reason, Text, Tokens

if TYPE_CHECKING:
    from modeld.top import View

FAILED = 1
POLL_S, LOADING_POLLS = 0.1, 1200
PATIENCE_S = 1.0
"""So much longer than until the next look `top` waits for an answer."""
WIDE = 200
"""Columns where there is no terminal that has some."""
_FAULTS = (EndpointError, DaemonUnreachable, WireError)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """`modeld` as a command."""
    try:
        status = _run(arguments)
        output.finish()
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:  # whoever read our output has left
        output.give_up()
        status = FAILED
    except output.Unwritten as fault:
        output.give_up()
        status = _complain(fault, FAILED)
    sys.exit(status)


def _run(arguments: Sequence[str] | None) -> int:
    with ends_at_once():
        wanted = parse(arguments)
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # a terminal that is not UTF-8 cannot show all that a model says
        if wanted.command in _READERS:
            return _READERS[wanted.command](wanted)
        if wanted.command == "ask" and wanted.text == "-":
            wanted.text = sys.stdin.read()
    try:
        status: int = asyncio.run(_COMMANDS[wanted.command](wanted))
    except ConfigError as fault:
        return _complain(fault, USAGE)
    except _FAULTS as fault:
        return _complain(fault, FAILED)
    return status


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

    view = View(BARS if "utf" in (getattr(sys.stdout, "encoding", None) or "").lower() else PLAIN_BARS)
    async with _client(wanted) as client:
        for number in count(1):
            problem = ""
            try:
                # `wait_for` of Python 3.11 can swallow Ctrl-C.
                async with asyncio.timeout(None if number == 1 else wanted.interval + PATIENCE_S):
                    status = await client.status()
                view.add(status, time.monotonic())
            except TimeoutError:
                problem = "modeld does not answer"
            except (DaemonUnreachable, WireError) as fault:
                if number == 1:
                    raise
                problem = f"modeld: {fault}"
            if wanted.json:
                seen = {"problem": problem} if problem else {**asdict(status), "a_second": view.rates()}
                output.say(json.dumps(seen), flush=True)
            else:
                _show(view, problem)
            if number == wanted.count:
                return FAILED if problem else 0
            await asyncio.sleep(wanted.interval)
    raise AssertionError("counting does not end")


def _show(view: "View", problem: str) -> None:
    """On a terminal in place of what was there, without a mode that it could be left in."""
    in_place = sys.stdout and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    frame = view.frame(shutil.get_terminal_size().columns if in_place else WIDE, problem)
    output.say(f"\033[H\033[J{frame}" if in_place else f"{frame}\n", flush=True)


async def _describe(wanted: argparse.Namespace) -> int:
    async with _client(wanted) as client:
        description = await _when_loaded(client)
    _print(asdict(description) if wanted.json else description_table(description, backends()))
    return 0


async def _ask(wanted: argparse.Namespace) -> int:
    async with _client(wanted) as client:
        chat = (await _when_loaded(client)).model.chat
        prompt: Prompt = (ChatMessage(role="user", content=wanted.text),) if chat else (Text(text=wanted.text),)
        decode = DecodeConfig(max_tokens=wanted.max_tokens)
        async with client.turn(session="ask", prefix=prompt, decode=decode) as replies:
            async for reply in replies:
                if isinstance(reply, Tokens):
                    output.say(reply.text, end="", flush=True)
    output.say()
    if isinstance(reply, Done) and reply.reason in (Reason.LENGTH, Reason.CONTEXT):
        print(f"modeld: the answer was cut after {reply.usage.generated} tokens", file=sys.stderr)
    return 0


async def _load(wanted: argparse.Namespace) -> int:
    file = _model_file(wanted.file) if wanted.file else None
    async with _client(wanted) as client:
        changed = await client.load(file)
        name = (await _when_loaded(client)).model.name
    output.say(
        f"{name} is loaded" if changed else f"{name} is loaded already; if its file was replaced, unload it first"
    )
    return 0


async def _unload(wanted: argparse.Namespace) -> int:
    async with _client(wanted) as client:
        changed = await client.unload()
    output.say("unloaded: the next operation loads it again" if changed else "nothing is loaded")
    return 0


async def _story(wanted: argparse.Namespace) -> int:
    async with _client(wanted) as client:
        lines = await client.story(wanted.op or "", client=wanted.client)
    _print({"lines": lines} if wanted.json else "\n".join(lines))
    return 0


def _replay(wanted: argparse.Namespace) -> int:
    from modeld import recording
    from modeld.schedule.journal import replay

    events = 0
    try:
        for number, segment in enumerate(recording.read(Path(wanted.file)), start=1):
            if difference := replay(segment):
                output.say(difference_lines(number, difference))
                return FAILED
            events += len(segment.entries)
    except recording.RecordFault as fault:
        return _complain(fault, FAILED)
    output.say(f"{events:,} events gave the same commands as when they were recorded")
    return 0


def _trace(wanted: argparse.Namespace) -> int:
    from modeld import recording
    from modeld.trace import trace

    try:
        events = list(trace(recording.read(Path(wanted.file))))
    except recording.RecordFault as fault:
        return _complain(fault, FAILED)
    output.say(json.dumps({"displayTimeUnit": "ms", "traceEvents": events}, allow_nan=False))
    return 0


async def _keys(wanted: argparse.Namespace) -> int:
    status, text = keyring.run(wanted)
    output.say(text)
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
    output.say(what if isinstance(what, str) else json.dumps(what, indent=2))


_READERS: Mapping[str, Callable[[argparse.Namespace], int]] = {"replay": _replay, "trace": _trace}
"""What needs no daemon and no loop, in which a first Ctrl-C would wait for the end of what is read."""
_COMMANDS: Mapping[str, Callable[[argparse.Namespace], Coroutine[Any, Any, int]]] = {
    "serve": _serve,
    "status": _status,
    "top": _top,
    "describe": _describe,
    "ask": _ask,
    "load": _load,
    "unload": _unload,
    "story": _story,
    "keys": _keys,
    "config": _config,
    "doctor": _doctor,
}
