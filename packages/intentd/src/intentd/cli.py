"""Owns intentd's command line: what can be said, and which exit status it gives. The work is done elsewhere.

Modules are imported where a command needs them: a wrapped command must not wait for what only the daemon uses.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

INTERRUPTED = 130
_SETTINGS = ("socket", "modeld", "templates", "log_level")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"intentd: {message}; see '{self.prog} --help'\n")


def main(argv: Sequence[str] | None = None) -> int:
    """1 for an error, 2 for a wrong command line; `run` ends as its command does."""
    options = _parser().parse_args(argv)
    if options.command == "run":
        return _run(options)
    from intentd.config import ConfigError
    from modelwire.errors import DaemonUnreachable, EndpointError, WireError

    try:
        return _talk(options)
    except (ConfigError, EndpointError, DaemonUnreachable, WireError) as fault:
        print(f"intentd: {fault}", file=sys.stderr)
        return 1
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
    from intentd.sources.report import DoorReporter
    from intentd.sources.run import run

    run(words, DoorReporter(options.socket))


def _talk(options: argparse.Namespace) -> int:
    from intentd.config import load

    config = load({name: getattr(options, name, None) for name in _SETTINGS})
    if options.command == "serve":
        from intentd.app import serve

        return serve(config)
    from intentd.present.terminal import explain, show_status

    if options.command == "explain":
        return explain(config, offer=options.offer, as_json=options.json, stats=options.stats)
    return show_status(config, as_json=options.json)


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
    serve.add_argument("--log-level", choices=("debug", "info", "warning", "error"))
    run = _command(commands, "run", "run a command and watch it; it behaves as without", "intentd run -- pytest -q")
    run.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the command with its arguments")
    explain = _command(commands, "explain", "explain the last failure in this workspace", "intentd explain --stats")
    explain.add_argument("--offer", metavar="ID", help="explain this one (see 'intentd status')")
    explain.add_argument("--stats", "--verbose", action="store_true", help="say how warm it was, on stderr")
    explain.add_argument("--json", action="store_true", help="one JSON object a line instead of text")
    status = _command(commands, "status", "say what the daemon does", "intentd status --json")
    status.add_argument("--json", action="store_true", help="print JSON")
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
