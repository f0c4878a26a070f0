"""Owns intentd's command line: what can be said, and which exit status it gives. The work is done elsewhere.

Modules are imported where a command needs them: a wrapped command must not wait for what only others use.
"""

import io
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modelwire.interrupts import INTERRUPTED, ends_at_once

if TYPE_CHECKING:
    import argparse

_SETTINGS = ("socket", "modeld", "templates", "tools", "log_level", "log_format")


def main(argv: Sequence[str] | None = None) -> int:
    """1 for an error, 2 for a wrong command line or setting; `run` ends as its command does."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:2] == ["run", "--"]:  # as it is mostly called: there is nothing to parse
        return _run(None, words[2:])
    with ends_at_once():
        from modelwire import output
    try:
        status = _do(words)
        output.finish()
    except BrokenPipeError:  # whoever read our output has left
        output.give_up()
        return 1
    except output.Unwritten as fault:
        output.give_up()
        print(f"intentd: {fault}", file=sys.stderr)
        return 1
    return status


def _do(words: Sequence[str]) -> int:
    with ends_at_once():
        from intentd.arguments import parse

        options = parse(words)
    if options.command == "run":
        return _run(options.socket, options.words[1:] if options.words[:1] == ["--"] else options.words)
    if options.command == "pipe":
        return _pipe(options)
    if options.command == "nvim-plugin-path":
        return _show_plugin()
    with ends_at_once():
        from intentd.config import ConfigError
        from intentd.where import LostDirectory
        from modelwire.errors import DaemonUnreachable, EndpointError, WireError

    try:
        return _talk(options)
    except (ConfigError, LostDirectory, EndpointError, DaemonUnreachable, WireError) as fault:
        print(f"intentd: {fault}", file=sys.stderr)
        return 2 if isinstance(fault, ConfigError) else 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(socket: str | None, words: Sequence[str]) -> int:
    if not words:
        print("intentd: run needs a command: intentd run -- pytest -q", file=sys.stderr)
        return 2
    with ends_at_once():
        from intentd.sources.report import DoorReporter
        from intentd.sources.run import run

        run(words, DoorReporter(socket))


def _pipe(options: "argparse.Namespace") -> int:
    with ends_at_once():
        from intentd.sources.pipe import pipe
        from intentd.sources.report import DoorReporter

    return pipe(DoorReporter(options.socket))


def _show_plugin() -> int:
    from pathlib import Path

    from modelwire import output

    output.say(str(Path(__file__).parent / "editors/nvim"))
    return 0


def _talk(options: "argparse.Namespace") -> int:
    with ends_at_once():
        from intentd.config import load

        config = load({name: getattr(options, name, None) for name in _SETTINGS})
    if options.command == "serve":
        with ends_at_once():
            from intentd.app import serve

        return serve(config, idle_s=options.idle)
    if options.command == "lsp":
        with ends_at_once():
            from intentd.sources.lsp.server import serve as serve_editor

        return serve_editor(config, autostart=options.autostart)
    with ends_at_once():
        from intentd.present import terminal

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that is not UTF-8 cannot show all that a model says
    match options.command:
        case "explain" | "fix":
            offer = options.named or options.offer
            return terminal.ask(config, options.command, offer=offer, as_json=options.json, stats=options.stats)
        case "offers":
            return terminal.show_offers(config, as_json=options.json)
        case "show":
            return terminal.show_prompt(config, options.number, fix=options.fix, as_json=options.json)
        case "pause" | "resume":
            return terminal.pause(config, paused=options.command == "pause")
    return terminal.show_status(config, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
