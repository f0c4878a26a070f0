"""A tool is data that a user can add to; a bad file is told with its place and does no harm."""

import os
from pathlib import Path

import pytest

from intentd.plan.tools import PatternError, Reader, catalogue, parse_tool

GOOD = """
tool = "lint"

[[rule]]
kind = "error"
begin = '^LINT (?P<file>\\S+):(?P<line>\\d+) (?P<message>.*)$'
"""


def test_a_users_tool_is_read_beside_ours(tmp_path: Path) -> None:
    (tmp_path / "lint.toml").write_text(GOOD)
    tools = catalogue(tmp_path)
    assert tools.problems == ()
    assert {"lint", "pytest"} <= {tool.name for tool in tools.tools}
    (finding,) = Reader(tools.tools).read(["LINT main.x:3 no good"])
    assert (finding.tool, finding.file, finding.line, finding.message) == ("lint", "main.x", 3, "no good")


def test_a_users_tool_takes_the_place_of_ours(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(GOOD.replace('"lint"', '"mypy"'))
    tools = {tool.name: tool for tool in catalogue(tmp_path).tools}
    assert len(tools["mypy"].rules) == 1
    assert tools["mypy"].rules[0].begin.search("LINT a:1 b")


def test_a_bad_file_is_told_and_ours_is_used(tmp_path: Path) -> None:
    (tmp_path / "mypy.toml").write_text(GOOD.replace('"lint"', '"mypy"').replace("\\S+)", "\\S+"))
    tools = catalogue(tmp_path)
    (problem,) = tools.problems
    assert str(tmp_path / "mypy.toml") in problem
    assert ":6: [[rule]] 1" in problem
    assert '"begin"' in problem
    mypy = next(tool for tool in tools.tools if tool.name == "mypy")
    assert mypy.rules[0].begin.search("a.py:1: error: bad")


def test_a_folder_that_is_not_there_is_no_problem(tmp_path: Path) -> None:
    assert catalogue(tmp_path / "none").problems == ()


def test_where_the_folder_cannot_be_looked_at_our_tools_are_used(tmp_path: Path) -> None:
    assert catalogue(tmp_path / ("x" * 300)) == catalogue()


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "huge.toml").write_bytes(b"#" * 300_000)
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "folder.toml").mkdir()
    problems = catalogue(tmp_path).problems
    assert len(problems) == 4
    assert all("ignored" in problem for problem in problems)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tool = \n", "at line 1"),
        ('tool = "x"', '"rule": is missing'),
        ('tool = 3\n[[rule]]\nkind="error"\nbegin="x"', 'x.toml:1: key "tool": must be a text'),
        ('tool = "x"\n[[rule]]\nkind = "error"', 'x.toml:2: [[rule]] 1, key "begin": is missing'),
        ('tool = "x"\n[[rule]]\nkind = "eror"\nbegin = "x"', 'x.toml:3: [[rule]] 1, key "kind": must be one of'),
        ('tool = "x"\n[[rule]]\nkind="error"\nbegin="x"\nbegun="y"', 'x.toml:5: [[rule]] 1, key "begun": is not known'),
        ('tool = "x"\n[[rule]]\nkind="error"\nbegin="(?P<fil>x)"', "groups of unknown names: fil"),
        ('tool = "x"\n[[rule]]\nkind="error"\nbegin="(?P<file>x)|(?P<file>y)"', "two groups of one name"),
        ('tool = "x"\n[[rule]]\nkind="error"\nbegin="x"\nscope="s"', "there is no [[scope]]"),
        ('tool = "x"\n[[rule]]\nkind="error"\nbegin="x"\npick="best"', 'must be "first" or "last"'),
        ('tool = "x"\n[[rule]]\nkind="error"\nbegin="x"\nrequired=["fil"]', "must be a list out of"),
        ('tool = "x"\nrule = 3', "must be written as [[rule]]"),
        ('tool = "x"\norder = "first"\n[[rule]]\nkind="error"\nbegin="x"', "whole number"),
        (
            'tool = "x"\n[[rule]]\nkind="error"\nbegin="x"\n[[rule]]\nkind="error"\nbegin="(?=look)"',
            'x.toml:7: [[rule]] 2, key "begin": is not a pattern of RE2',
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_line_and_key(text: str, said: str) -> None:
    with pytest.raises(PatternError) as caught:
        parse_tool("x.toml", text)
    assert said in str(caught.value)
    assert str(caught.value).startswith("x.toml:")


def test_a_pattern_that_would_backtrack_for_ever_costs_nothing() -> None:
    tool = parse_tool("x.toml", "tool = 'x'\n[[rule]]\nkind = 'error'\nbegin = '^(a+)+(a|a)*$'")
    assert Reader([tool]).read(["a" * 4000 + "!"] * 200) == []
