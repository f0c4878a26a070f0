"""How the log looks, in a process of its own: a process has one."""

import json
import subprocess
import sys

import pytest

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


UNCAUGHT = """
import asyncio, logging, threading
from modelwire import logs
from modelwire.errors import EndpointError
logs.set_up("modeld", level="debug", form={form!r})

def fail():
    try:
        raise ValueError("words " "of a prompt")
    except ValueError:
        raise RuntimeError("more words " "of a prompt")

class Broken:
    def __del__(self):
        fail()

async def main():
    asyncio.get_running_loop().call_soon(lambda words: fail(), "words " "of a prompt")
    await asyncio.sleep(0)
    await asyncio.sleep(0)

try:
    fail()
except RuntimeError:
    logging.getLogger("a").exception("it failed")
try:
    raise EndpointError("choose another with --socket")
except EndpointError:
    logging.getLogger("a").exception("it failed")
asyncio.run(main())
thread = threading.Thread(target=fail)
thread.start()
thread.join()
Broken()
fail()
"""


@pytest.mark.parametrize("form", ["json", "text"])
def test_of_a_fault_the_log_has_kind_and_place_and_only_our_own_words(form: str) -> None:
    """Of one that is logged, and of one that nobody caught: in a task, a thread, a destructor, the main program."""
    done = subprocess.run(
        [sys.executable, "-c", UNCAUGHT.format(form=form)], capture_output=True, timeout=30, check=False, text=True
    )
    assert done.returncode == 1
    assert "words of a prompt" not in done.stderr
    assert done.stderr.count("ValueError") == done.stderr.count("RuntimeError") == 5
    assert "choose another with --socket" in done.stderr
