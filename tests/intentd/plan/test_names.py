"""What a Python block names, and where that may be."""

import ast

import pytest

from intentd.plan.names import MAX_NAMES, Import, imported, named, places

FILE = '''\
import calc
import shop.rates
from pytest import approx
from . import conftest
from .prices import gross as with_tax, net
from shop import (
    totals,
)


def test_sums():
    """gross"""
    assert calc.mean([1, 2]) == approx(with_tax(1))
    assert shop.rates.of("book") == totals.add(1, 2) == calc.mean([3])


def test_nothing():
    assert len("abc") == 2
'''
LINES = FILE.splitlines()


def test_what_a_test_takes_from_other_modules_comes_in_the_order_of_its_use() -> None:
    assert named(LINES, 13) == [
        Import("calc", "mean"),
        Import("pytest", "approx"),
        Import("prices", "gross", 1),
        Import("shop.rates", "of"),
        Import("shop.totals", "add"),
        Import("shop", "totals"),
    ]
    assert named(LINES, 18) == []


@pytest.mark.parametrize("text", ["def (", "\0", "(" * 5000, "x = '", "## no code"])
def test_what_is_no_python_names_nothing(text: str) -> None:
    assert named(text.split("\n"), 1) == []
    assert imported(text.split("\n"), "x") is None


def test_a_block_that_uses_very_many_names_gives_the_first_ones() -> None:
    uses = [f"    m.f{number}()" for number in range(100)]
    assert len(named(["import m", "def test():", *uses], 2)) == MAX_NAMES


def test_a_module_is_looked_for_from_the_workspace_its_src_and_the_folders_of_the_file() -> None:
    assert list(places(Import("a.b", "f"), "/w/tests/unit/test_a.py", "/w")) == [
        "/w/a/b.py",
        "/w/a/b/__init__.py",
        "/w/src/a/b.py",
        "/w/src/a/b/__init__.py",
        "/w/tests/unit/a/b.py",
        "/w/tests/unit/a/b/__init__.py",
        "/w/tests/a/b.py",
        "/w/tests/a/b/__init__.py",
    ]


def test_dots_count_from_the_folder_of_the_file() -> None:
    assert list(places(Import("b", "f", 2), "/w/a/tests/test_a.py", "/w")) == ["/w/a/b.py", "/w/a/b/__init__.py"]
    assert list(places(Import("", "f", 1), "/w/a/test_a.py", "/w")) == ["/w/a/__init__.py"]


@pytest.mark.parametrize("deep", ["m.make()" + ".step(1)" * 400, "m.make(" + " + ".join(['"a"'] * 600) + ").x()"])
def test_a_long_chain_of_calls_or_texts_names_what_it_begins_with(deep: str) -> None:
    assert named(["import m", "def test():", f"    {deep}"], 3) == [Import("m", "make")]


def test_s10_a_parser_that_another_thread_disturbs_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the question would fail, or not be the same bytes as its guess."""
    real, faults = ast.parse, [SystemError("AST constructor recursion depth mismatch")] * 2

    def disturbed(text: str) -> ast.Module:
        if faults:
            raise faults.pop()
        return real(text)

    expected = named(LINES, 12)
    monkeypatch.setattr(ast, "parse", disturbed)
    assert named(LINES, 12) == expected
    faults.extend([SystemError()] * 100)
    assert named(LINES, 12) == []
