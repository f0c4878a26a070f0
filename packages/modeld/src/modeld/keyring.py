"""Owns `modeld keys`: what is typed and printed about who may talk over TCP. The keys themselves are modelwire's."""

import argparse
import json
from collections.abc import Mapping
from typing import Any

from modelwire.keys import Keys, check, to_hex

FAILED = 1

NOTES = """
modeld keys                          this user's own public key, for 'allow' and 'trust' on another machine
modeld keys allow laptop KEY         let the owner of KEY in, under a name of your choice
modeld keys refuse laptop            no longer; connections that are open stay open
modeld keys trust tcp://HOST:PORT KEY   the daemon there must own KEY
modeld keys list                     all of them

To serve: modeld serve --socket tcp://0.0.0.0:7411. To use it from elsewhere: GUESSAHEAD_MODELD=tcp://HOST:7411.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", parser_class=type(parser))
    allow = actions.add_parser("allow", help="let a key in", epilog="Example: modeld keys allow laptop 1f…")
    allow.add_argument("name", help="what to call its owner")
    allow.add_argument("key", help="the public key that 'modeld keys' prints there")
    refuse = actions.add_parser("refuse", help="let it in no longer", epilog="Example: modeld keys refuse laptop")
    refuse.add_argument("name", help="the name that it was let in under")
    trust = actions.add_parser(
        "trust", help="know a daemon by its key", epilog="Example: modeld keys trust tcp://h:1 1f…"
    )
    trust.add_argument("endpoint", help="where it serves, as tcp://HOST:PORT")
    trust.add_argument("key", help="the public key that 'modeld keys' prints there")
    actions.add_parser("list", help="every key that is known", epilog="Example: modeld keys --json list")


def run(wanted: argparse.Namespace) -> tuple[int, str]:
    """The exit status and what to print. Raises `EndpointError`."""
    keys = Keys()
    match wanted.action:
        case "allow":
            keys.allow(wanted.name, wanted.key)
            return _said(wanted, {"allowed": wanted.name, "key": check(wanted.key)}, f"{wanted.name} is let in")
        case "refuse":
            found = keys.refuse(wanted.name)
            says = (
                f"{wanted.name} is let in no longer" if found else f"no key was let in under the name {wanted.name!r}"
            )
            return (0 if found else FAILED), _said(wanted, {"refused": wanted.name, "found": found}, says)[1]
        case "trust":
            keys.trust(wanted.endpoint, wanted.key)
            return _said(wanted, {"trusted": wanted.endpoint}, f"the daemon at {wanted.endpoint} must own this key")
        case "list":
            known = {"own": _own(keys), "allowed": keys.allowed(), "daemons": keys.daemons()}
            return _said(wanted, known, _table(known))
    return _said(wanted, {"own": _own(keys)}, _own(keys))


def _own(keys: Keys) -> str:
    return to_hex(keys.own().public)


def _said(wanted: argparse.Namespace, answer: Mapping[str, Any], text: str) -> tuple[int, str]:
    return 0, json.dumps(answer, indent=2) if wanted.json else text


def _table(known: Mapping[str, Any]) -> str:
    rows = [("own", known["own"])]
    rows += [(f"let in: {name}", key) for name, key in known["allowed"].items()]
    rows += [(endpoint, key) for endpoint, key in known["daemons"].items()]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {key}" for name, key in rows)
