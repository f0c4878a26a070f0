"""A report is somebody's file: bombs are refused, half a file is told or read as far as it goes."""

import json

import pytest

from intentd.plan.tools import ReportError, read_junit, read_reportlog
from intentd.plan.tools import reports as module

BOMB = b"""<?xml version="1.0"?>
<!DOCTYPE b [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;">]>
<testsuite><testcase name="&c;"><failure message="x"/></testcase></testsuite>"""
EXTERNAL = b"""<!DOCTYPE t [<!ENTITY x SYSTEM "file:///etc/hostname">]><testsuite>&x;</testsuite>"""


@pytest.mark.parametrize("data", [BOMB, EXTERNAL, b"<!DOCTYPE t><testsuite/>"])
def test_a_document_type_is_refused(data: bytes) -> None:
    with pytest.raises(ReportError, match="without them"):
        read_junit(data)


@pytest.mark.parametrize(
    "data", [b"", b"<testsuite><testcase", b"\xff\x00", b'<?xml version="1.0" encoding="no"?><t/>']
)
def test_what_is_no_xml_is_told(data: bytes) -> None:
    with pytest.raises(ReportError, match="not XML"):
        read_junit(data)


def test_a_report_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REPORT_BYTES", 10)
    for read in (read_junit, read_reportlog):
        with pytest.raises(ReportError, match="report fewer tests"):
            read(b"x" * 11)


def test_deep_xml_is_read_without_an_error() -> None:
    assert read_junit(b"<a>" * 50_000 + b"</a>" * 50_000) == []


def test_another_tools_junit_is_read() -> None:
    data = b"""<testsuites><testsuite name="s"><testcase classname="com.Shop" name="total" file="Shop.java">
    <failure message="expected: 5&#10;but was: 6">at Shop.java</failure></testcase><testcase name="fine"/>
    <testcase name="bare"><error/></testcase></testsuite></testsuites>"""
    told = [(f.kind, f.name, f.file, f.message) for f in read_junit(data)]
    assert told == [
        ("test_failed", "com.Shop.total", "Shop.java", "expected: 5"),
        ("error", "bare", None, ""),
    ]


def test_a_report_log_that_is_cut_off_is_read_as_far_as_it_goes() -> None:
    good = json.dumps(
        {"$report_type": "TestReport", "when": "call", "outcome": "failed", "nodeid": "a.py::t", "longrepr": "E   no"}
    )
    data = f'{good}\n[1]\nnull\n{{"nodeid": 3}}\n{good[:40]}'.encode()
    (finding,) = read_reportlog(data)
    assert (finding.name, finding.kind, finding.message) == ("a.py::t", "test_failed", "no")


@pytest.mark.parametrize("longrepr", [None, 3, [], {}, {"chain": [3, [], [{"reprentries": [3, {"data": 4}]}]]}, "x"])
def test_a_strange_longrepr_is_no_error(longrepr: object) -> None:
    row = {"$report_type": "TestReport", "when": "setup", "outcome": "failed", "nodeid": "a", "longrepr": longrepr}
    (finding,) = read_reportlog(json.dumps(row).encode())
    assert (finding.kind, finding.name) == ("error", "a")


def test_json_that_is_nested_too_deep_is_left_out() -> None:
    assert read_reportlog(b"[" * 200_000) == []


@pytest.mark.parametrize(
    ("nodeid", "place", "crash", "name"),
    [
        ("tests/test_a.py::t", "tests/test_a.py", "/w/tests/test_a.py", "tests/test_a.py::t"),
        ("pkg/tests/test_a.py::t[x]", "tests/test_a.py", "/w/pkg/tests/test_a.py", "tests/test_a.py::t[x]"),
        ("pkg/tests/test_a.py::t", "lib.py", "/w/pkg/tests/test_a.py", "/w/pkg/tests/test_a.py::t"),
        ("tests/test_a.py::t", "../tests/test_a.py", "/w/lib.py", "../tests/test_a.py::t"),
        ("tests/test_a.py::t", "lib.py", "/w/lib.py", "tests/test_a.py::t"),
        ("pkg/tests/test_a.py", "tests/test_a.py", "/w/pkg/tests/test_a.py", "tests/test_a.py"),
        ("tests/a:b.py::t", "tests/a:b.py", "/w/tests/a:b.py", "tests/a:b.py::t"),
        ("tests/[a/b.py::t[::1]", "tests/[a/b.py", "/w/tests/[a/b.py", "tests/[a/b.py::t[::1]"),
    ],
)
def test_an_id_in_a_report_log_names_its_file_from_where_pytest_ran(
    nodeid: str, place: str, crash: str, name: str
) -> None:
    """pytest writes it there as seen from its root folder."""
    entry = {"data": {"lines": ["E   no"], "reprfileloc": {"path": place, "lineno": 3, "message": ""}}}
    longrepr = {
        "reprcrash": {"path": crash, "lineno": 3, "message": "no"},
        "chain": [[{"reprentries": [entry]}, None, None]],
    }
    row = {"$report_type": "TestReport", "when": "call", "outcome": "failed", "nodeid": nodeid, "longrepr": longrepr}
    (finding,) = read_reportlog(json.dumps(row).encode())
    assert finding.name == name
