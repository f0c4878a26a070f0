"""Owns reading the reports that the user's own command writes: JUnit XML and pytest's report log. It starts nothing.

A report is somebody's file: its size is bounded, a document type (and with it every entity bomb) is refused, and what
does not look as it should is an error that says so, or a line that is left out.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from intentd.plan.plain import plain
from intentd.plan.tools.finding import Finding, Kind, excerpt, file_and_test, repeats_subtests

Clean = Callable[[str], str]
"""What is done to a whole text before anything is taken from it: makes it plain, and fit for a prompt."""

MAX_REPORT_BYTES = 16 * 1024 * 1024
MAX_FINDINGS = 500

_PLACE = re.compile(r'^(?:([^\s:"]+):(\d+):|(?:E +)? +File "([^"\n]+)", line (\d+))', re.MULTILINE)
_SAID = re.compile(r"^E   (\S.*)", re.MULTILINE)
_IN_FIXTURE = re.compile(r'^failed on \w+ with "(.*?)"?$')
_CONTROL = re.compile(r"#x(0[0-8BCEF]|1[0-9A-F]|7F)")
_NOT_OURS = re.compile(r"site-packages|lib/python3|^<")


class ReportError(ValueError):
    """A report cannot be read. The message says why and what to do."""


def read_junit(data: bytes, clean: Clean = plain) -> list[Finding]:
    """The failures and errors of a JUnit XML file, whichever tool wrote it."""
    _check_size(data)
    try:
        root = fromstring(data, forbid_dtd=True)
    except DefusedXmlException:
        raise ReportError("the JUnit XML has a document type or entities; write it without them") from None
    except (ParseError, ValueError, LookupError) as error:
        raise ReportError(f"not XML ({error}); is the report complete?") from None
    found: list[Finding] = []
    for case in root.iter("testcase"):
        found += [_of_case(case, result, clean) for result in case if _is_failure(result)]
        if len(found) >= MAX_FINDINGS:
            break
    return found[:MAX_FINDINGS]


def _is_failure(result: Element) -> bool:
    return result.tag in ("failure", "error") and not repeats_subtests(result.get("message"))


def _of_case(case: Element, result: Element, clean: Clean) -> Finding:
    text = clean(_told(result.text) or _told(result.get("message")))
    file, line = _place(text)
    message = clean(_told(result.get("message"))) or text.strip()
    if message == "collection failure":
        message = _last_said(text)
    return Finding(
        tool="junit",
        kind="test_failed" if result.tag == "failure" else "error",
        name=clean(_told(_case_name(case, text))),
        file=file or _fit(case.get("file"), clean),
        line=line,
        message=_one_line(message),
        excerpt=excerpt(text.splitlines()),
    )


def _fit(path: str | None, clean: Clean) -> str | None:
    return clean(path) if path else None


def _told(text: str | None) -> str:
    """XML has no control characters, so pytest writes them as #x1B: a colour would split a secret."""
    return _CONTROL.sub(lambda hit: chr(int(hit[1], 16)), text or "")


def _case_name(case: Element, text: str) -> str:
    """The test's name; pytest's own id where the report's class name is the path of a file that the text names."""
    classname, name = case.get("classname", ""), case.get("name", "")
    for place in _PLACE.finditer(text):
        file = place[1] or place[3]
        module = file.removesuffix(".py").replace("/", ".")
        if file.endswith(".py") and f"{classname}.".startswith(f"{module}."):
            inner = classname[len(module) + 1 :]
            return "::".join([file, *filter(None, inner.split(".")), name])
    return f"{classname}.{name}" if classname else name


def read_reportlog(data: bytes, clean: Clean = plain) -> list[Finding]:
    """The failures in a file of pytest-reportlog. A line that is cut off or no JSON is left out."""
    _check_size(data)
    found: list[Finding] = []
    for report in _reports(data):
        kind = _outcome(report)
        if kind is not None:
            found.append(_of_report(report, kind, clean))
        if len(found) >= MAX_FINDINGS:
            break
    return found


def _reports(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.splitlines():
        try:
            report = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(report, dict) and isinstance(report.get("nodeid"), str):
            yield report


def _outcome(report: dict[str, Any]) -> Kind | None:
    """A test that failed; its fixture or its file, which is an error."""
    if report.get("outcome") != "failed" or repeats_subtests(report.get("longrepr")):
        return None
    called = report.get("$report_type") in ("TestReport", "SubTestReport") and report.get("when") == "call"
    return "test_failed" if called else "error"


def _of_report(report: dict[str, Any], kind: Kind, clean: Clean) -> Finding:
    longrepr = report.get("longrepr")
    crash = longrepr.get("reprcrash") if isinstance(longrepr, dict) else None
    text = clean("\n".join(_lines(longrepr)))
    file, line = _place(text)
    message = _last_said(text)
    if isinstance(crash, dict):
        message = str(crash.get("message", ""))
        line = crash["lineno"] if type(crash.get("lineno")) is int else line
        file = _fit(str(crash.get("path") or ""), clean) or file
    return Finding(
        tool="pytest",
        kind=kind,
        name=_from_here(clean(report["nodeid"]), [*_files(text), file or ""]),
        file=file,
        line=line,
        message=_one_line(clean(message)),
        excerpt=excerpt(text.splitlines()),
    )


def _from_here(nodeid: str, files: Iterable[str]) -> str:
    """The id with its file as the traceback names it, from where pytest ran: an id has it from pytest's root folder."""
    own, test = file_and_test(nodeid) if "::" in nodeid else (nodeid, "")
    if not own:
        return nodeid
    alike = [file for file in files if file and (f"/{file}".endswith(f"/{own}") or own.endswith(f"/{file}"))]
    return min(alike, key=lambda file: (file != own, file.startswith("/")), default=own) + ("::" if test else "") + test


def _lines(longrepr: Any) -> Iterator[str]:
    """What pytest would have printed, from its own pieces: source lines and where they are."""
    if isinstance(longrepr, str):
        yield longrepr
    if not isinstance(longrepr, dict):
        return
    for link in longrepr.get("chain") or [[longrepr.get("reprtraceback"), None, None]]:
        traceback = link[0] if isinstance(link, list) and link else None
        entries = traceback.get("reprentries") if isinstance(traceback, dict) else None
        for entry in entries if isinstance(entries, list) else ():
            entry_data = entry.get("data") if isinstance(entry, dict) else None
            yield from _entry(entry_data if isinstance(entry_data, dict) else {})


def _entry(entry: dict[str, Any]) -> Iterator[str]:
    lines, place = entry.get("lines"), entry.get("reprfileloc")
    told = [str(line) for line in (lines if isinstance(lines, list) else ())]
    if isinstance(place, dict):
        # Its short form names the place first.
        at = 0 if entry.get("style") == "short" else len(told)
        told.insert(at, f"{place.get('path')}:{place.get('lineno')}: {place.get('message') or ''}")
    yield from told


def _place(text: str) -> tuple[str | None, int | None]:
    """The last place that the text names, in the user's own code if there is one."""
    places = [(hit[1] or hit[3], int((hit[2] or hit[4])[:9])) for hit in _PLACE.finditer(text)]
    ours = [place for place in places if not _NOT_OURS.search(place[0])]
    return next(iter(reversed(ours or places)), (None, None))


def _files(text: str) -> Iterator[str]:
    return (hit[1] or hit[3] for hit in _PLACE.finditer(text))


def _last_said(text: str) -> str:
    """The last line that pytest marks as the exception's own; without one, the text."""
    said = _SAID.findall(text)
    return str(said[-1]) if said else text


def _one_line(message: str) -> str:
    line = message.strip().partition("\n")[0].strip()
    return _IN_FIXTURE.sub(r"\1", line)


def _check_size(data: bytes) -> None:
    if len(data) > MAX_REPORT_BYTES:
        raise ReportError(
            f"the report has {len(data)} bytes, more than {MAX_REPORT_BYTES}; report fewer tests at a time"
        )
