"""Owns intentd's command line: what can be said, and which exit status it gives. The work is done elsewhere.

Modules are imported where a command needs them: a wrapped command must not wait for what only the daemon uses.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from modelwire.interrupts import INTERRUPTED, ends_at_once

_SETTINGS = ("socket", "modeld", "templates", "tools", "log_level", "log_format")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"intentd: {message}; see '{self.prog} --help'\n")


def main(argv: Sequence[str] | None = None) -> int:
    """1 for an error, 2 for a wrong command line or setting; `run` ends as its command does."""
    with ends_at_once():
        options = _parser().parse_args(argv)
    if options.command == "run":
        return _run(options)
    if options.command == "pipe":
        return _pipe(options)
    if options.command == "nvim-plugin-path":
        return _show_plugin()
    with ends_at_once():
        from intentd.config import ConfigError
        from modelwire.errors import DaemonUnreachable, EndpointError, WireError

    try:
        return _talk(options)
    except (ConfigError, EndpointError, DaemonUnreachable, WireError) as fault:
        print(f"intentd: {fault}", file=sys.stderr)
        return 2 if isinstance(fault, ConfigError) else 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(options: argparse.Namespace) -> int:
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    if not words:
        print("intentd: run needs a command: intentd run -- pytest -q", file=sys.stderr)
        return 2
    with ends_at_once():
        from intentd.sources.report import DoorReporter
        from intentd.sources.run import run

        run(words, DoorReporter(options.socket))


def _pipe(options: argparse.Namespace) -> int:
    with ends_at_once():
        from intentd.sources.pipe import pipe
        from intentd.sources.report import DoorReporter

    return pipe(DoorReporter(options.socket))


def _show_plugin() -> int:
    print(Path(__file__).parent / "editors/nvim")
    return 0


def _talk(options: argparse.Namespace) -> int:
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


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="intentd",
        description="Prepares the next request to the model before you ask it.",
        epilog="example: intentd serve & intentd run -- pytest -q; intentd explain",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    serve = _command(commands, "serve", "run the daemon until Ctrl-C", "intentd serve --log-level info")
    serve.add_argument("--modeld", metavar="ENDPOINT", help="where modeld serves (default: GUESSAHEAD_MODELD)")
    serve.add_argument("--templates", metavar="DIR", help="templates that replace the built-in ones")
    serve.add_argument("--tools", metavar="DIR", help="tools' patterns that add to the built-in ones or replace them")
    serve.add_argument("--idle", type=float, metavar="SECONDS", help="end when no editor was there for so long")
    serve.add_argument("--log-level", choices=("debug", "info", "warning", "error"))
    serve.add_argument("--log-format", choices=("text", "json"), help="json is one object a line")
    lsp = _command(commands, "lsp", "be a language server on standard input and output", "intentd lsp --no-autostart")
    lsp.add_argument("--no-autostart", dest="autostart", action="store_false", help="do not start missing daemons")
    lsp.add_argument("--templates", metavar="DIR", help="templates that replace the built-in ones")
    lsp.add_argument("--log-level", choices=("debug", "info", "warning", "error"))
    run = _command(commands, "run", "run a command and watch it; it behaves as without", "intentd run -- pytest -q")
    run.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the command with its arguments")
    _command(commands, "pipe", "pass on what comes through a pipe, and watch it", "make |& intentd pipe")
    for name, words in (("explain", "explain a failure in this workspace"), ("fix", "show a change that mends one")):
        ask = _command(commands, name, words, f"intentd {name} --stats")
        ask.add_argument("named", nargs="?", metavar="N", help="which one (see 'intentd offers'; default: the first)")
        ask.add_argument("--offer", metavar="ID", help="the same by its id")
        ask.add_argument("--stats", "--verbose", action="store_true", help="say how warm it was, on stderr")
        ask.add_argument("--json", action="store_true", help="one JSON object a line instead of text")
    offers = _command(commands, "offers", "list what can be asked in this workspace", "intentd offers --json")
    show = _command(commands, "show", "print the exact prompt of an offer", "intentd show 2 --fix")
    show.add_argument("number", nargs="?", metavar="N", help="which one (see 'intentd offers'; default: the first)")
    show.add_argument("--fix", action="store_true", help="the prompt of 'intentd fix'")
    _command(commands, "pause", "guess nothing until 'intentd resume'", "intentd pause")
    _command(commands, "resume", "guess again", "intentd resume")
    status = _command(commands, "status", "say what the daemon does", "intentd status --json")
    commands.add_parser(
        "nvim-plugin-path",
        help="print where the Neovim plugin is",
        description="intentd nvim-plugin-path: print the directory to put on Neovim's runtimepath.",
        epilog='example: ln -s "$(intentd nvim-plugin-path)" ~/.local/share/nvim/site/pack/intentd/start/intentd',
    )
    for command in (offers, show, status):
        command.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _command(
    commands: "argparse._SubParsersAction[_Parser]", name: str, words: str, example: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name, help=words, description=f"intentd {name}: {words}.", epilog=f"example: {example}"
    )
    parser.add_argument("--socket", metavar="ENDPOINT", help="where intentd serves (default: GUESSAHEAD_INTENTD)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
