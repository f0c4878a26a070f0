"""How the log looks, in a process of its own: a process has one."""

import json
import subprocess
import sys

SCRIPT = """
import logging
from modelwire import logs
logs.set_up("modeld", level="info", form={form!r})
logging.getLogger("a.b").debug("not this")
logging.getLogger("a.b").info("%d tokens – ok", 7)
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("a").exception("it failed")
"""


def lines(form: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", SCRIPT.format(form=form)],
        capture_output=True,
        timeout=30,
        check=True,
        encoding="utf-8",
    )
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_json_is_one_object_a_line_with_the_traceback_inside() -> None:
    first, second = map(json.loads, lines("json"))
    assert {name: first[name] for name in ("level", "service", "logger", "message")} == {
        "level": "info",
        "service": "modeld",
        "logger": "a.b",
        "message": "7 tokens – ok",
    }
    assert "ZeroDivisionError" in second["fault"]


def test_text_is_a_line_for_people() -> None:
    assert lines("text")[0] == "modeld INFO a.b: 7 tokens – ok"
