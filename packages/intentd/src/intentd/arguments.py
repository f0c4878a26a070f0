"""Owns the words of intentd's command line: what can be said, and how it is explained. It does nothing of it."""

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from modelwire import output


class _Parser(argparse.ArgumentParser):
    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        output.finish()  # help, or the version
        super().exit(status, message)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"intentd: {message}; see '{self.prog} --help'\n")

    def format_help(self) -> str:
        if self.prog != "intentd serve":
            return super().format_help()
        from intentd.config import notes  # only here: it takes its time

        return super().format_help() + notes()


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from importlib.metadata import version  # which takes its time

        print(f"{parser.prog} {version(parser.prog)}")
        parser.exit()


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Leaves with status 2, or for help with 0."""
    parser = _parser()
    found, unknown = parser.parse_known_args(words)
    if unknown:
        hint = "put -- before the command, or see" if found.command == "run" else "see"
        words = f"unrecognized arguments: {' '.join(unknown)}; {hint} 'intentd {found.command} --help'"
        parser.exit(2, f"intentd: {words}\n")
    return found


def _parser() -> argparse.ArgumentParser:
    made = _Parser(
        prog="intentd",
        description="Prepares the next request to the model before you ask it.",
        epilog="example: intentd run -- pytest -q; intentd explain (while 'modeld serve' and 'intentd serve' run)",
    )
    made.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    serve = _command(commands, "serve", "run the daemon until Ctrl-C", "intentd serve --log-level info")
    help = "where modeld serves (default: GUESSAHEAD_MODELD)"
    serve.add_argument("--modeld", type=_endpoint, metavar="ENDPOINT", help=help)
    serve.add_argument("--templates", metavar="DIR", help="templates that replace the built-in ones")
    serve.add_argument("--tools", metavar="DIR", help="tools' patterns that add to the built-in ones or replace them")
    serve.add_argument("--idle", type=float, metavar="SECONDS", help="end when no editor was there for so long")
    serve.add_argument("--log-level", choices=("debug", "info", "warning", "error"))
    serve.add_argument("--log-format", choices=("text", "json"), help="json is one object a line")
    lsp = _command(commands, "lsp", "be a language server on standard input and output", "intentd lsp --no-autostart")
    lsp.add_argument("--no-autostart", dest="autostart", action="store_false", help="do not start missing daemons")
    lsp.add_argument("--stdio", action="store_true", help="nothing: for editors that say it to every server")
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
    return made


def _command(
    commands: "argparse._SubParsersAction[_Parser]", name: str, words: str, example: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name, help=words, description=f"intentd {name}: {words}.", epilog=f"example: {example}"
    )
    help = "where intentd serves (default: GUESSAHEAD_INTENTD)"
    parser.add_argument("--socket", type=_endpoint, metavar="ENDPOINT", help=help)
    return parser


def _endpoint(name: str) -> str:
    """Also of `run`, which reads no settings and could say nothing of a wrong one later."""
    from intentd.where import as_endpoint
    from modelwire.errors import EndpointError

    try:
        return as_endpoint(name)
    except EndpointError as fault:
        raise argparse.ArgumentTypeError(str(fault)) from None
