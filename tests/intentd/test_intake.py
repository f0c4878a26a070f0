"""I3 for what commands print and report: scrubbed whole, before anything is cut out of it."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from intentd.intake import MAX_REPORT_BYTES, Intake
from intentd.plan.events import CommandEnded
from intentd.plan.privacy import REDACTED
from intentd.plan.tools import catalogue
from intentd.plan.triggers import Failure

INTAKE = Intake(catalogue())
TOKEN = "ghp_" + "a1B2c3" * 6
RECORDED = Path(__file__).parent / "plan" / "tools" / "recorded"
TRACEBACK = (
    'Traceback (most recent call last):\n  File "a.py", line 3, in main\n    login("{0}")\nValueError: bad {0}\n'
)
JUNIT = """<testsuites><testsuite><testcase classname="tests.test_a" name="test_x"><failure message="no {0}">
tests/test_a.py:3: in test_x
    login("{0}")
E   ValueError: no {0}</failure></testcase></testsuite></testsuites>"""


def failures(output: str, *, cut: bool = False, started_ns: int = 0, **fields: Any) -> tuple[Failure, ...] | None:
    event = CommandEnded(workspace="/w", cwd="/w", exit=1, output=output)
    return INTAKE.failures(evolve(event, **fields), cut=cut, started_ns=started_ns)


@pytest.mark.parametrize("token", [TOKEN, f"\x1b[31m{TOKEN[:9]}\x1b[0m{TOKEN[9:]}", f"{TOKEN[:20]}\n{TOKEN[20:]}"])
def test_no_secret_is_left_in_what_was_printed(token: str) -> None:
    """I3: neither split by colours nor by the terminal's edge."""
    found = failures(TRACEBACK.format(token))
    assert TOKEN[10:20] not in repr(found)
    assert TOKEN[-12:] not in repr(found)


def test_what_is_left_tells_what_failed() -> None:
    (failure,) = failures(TRACEBACK.format(TOKEN)) or ()
    assert (failure.trigger, failure.path, failure.message) == ("crash", "/w/a.py", f"ValueError: bad {REDACTED}")


def test_the_rest_of_a_key_at_the_beginning_of_what_was_kept_does_not_show() -> None:
    """I3"""
    rest = "\n".join(["h7Gk29sLqP" * 6] * 2)
    output = f"{rest}\n" + "noise\n" * 6000 + TRACEBACK.format("x")
    (failure,) = failures(output, cut=True) or ()
    assert failure.message == "ValueError: bad x"
    assert failures(f"{rest}\n{TRACEBACK.format('x')}", cut=True) is None


def test_a_report_that_the_command_wrote_counts_and_is_scrubbed(tmp_path: Path) -> None:
    """I3"""
    (tmp_path / "r.xml").write_text(JUNIT.format(TOKEN))
    found = failures("1 failed in 0.1s\n", cwd=str(tmp_path), argv=("pytest", "--junitxml=r.xml"))
    (failure,) = found or ()
    assert (failure.tool, failure.name) == ("pytest", "tests/test_a.py::test_x")
    assert failure.message == f"no {REDACTED}"
    assert f'    login("{REDACTED}")' in failure.traceback


def test_a_report_log_that_the_command_wrote_counts(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes((RECORDED / "pytest-reportlog.txt").read_bytes())
    found = failures("", cwd=str(tmp_path), argv=("pytest", "--report-log", "log.jsonl")) or ()
    assert found
    assert all(failure.tool == "pytest" for failure in found)


@pytest.mark.parametrize("kind", ["old", "huge", "broken", "missing", "pipe"])
def test_a_report_that_says_nothing_leaves_what_was_printed(tmp_path: Path, kind: str) -> None:
    report = tmp_path / "r.xml"
    if kind == "pipe":
        os.mkfifo(report)
    elif kind != "missing":
        report.write_text("<" if kind == "broken" else JUNIT.format("x") + " " * (MAX_REPORT_BYTES * (kind == "huge")))
    started_ns = time.time_ns() + 3600 * 10**9 if kind == "old" else 0
    argv = ("pytest", "--junitxml=r.xml")
    found = failures(TRACEBACK.format("x"), cwd=str(tmp_path), argv=argv, started_ns=started_ns)
    assert [failure.trigger for failure in found or ()] == ["crash"]


def test_half_a_character_in_a_report_log_costs_no_offer(tmp_path: Path) -> None:
    row = {
        "nodeid": "a.py::t\ud83d",
        "when": "call",
        "outcome": "failed",
        "$report_type": "TestReport",
        "longrepr": "\ud83d",
    }
    (tmp_path / "r.jsonl").write_text(json.dumps(row) + "\n" + json.dumps({**row, "nodeid": "a.py::whole"}))
    argv = ("pytest", "--report-log=r.jsonl")
    found = failures("2 failed in 0.1s\n", cwd=str(tmp_path), argv=argv) or ()
    assert [failure.name for failure in found] == ["a.py::t?", "a.py::whole"]
