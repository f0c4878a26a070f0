"""An edit made of an answer: the smallest that does it, where the text was, or none."""

import pytest

from intentd.plan.mending import Mending, mend

NOW = ["    def total(self):", "        amount = 0", "        return amuont", ""]


@pytest.mark.parametrize(
    "answer",
    [
        "Here:\n```python\n    def total(self):\n        amount = 0\n        return amount\n```\nDone.",
        "```\ndef total(self):\n    amount = 0\n    return amount\n```",  # moved to the left edge
        "```\r\ndef total(self):\r\n    amount = 0\r\n    return amount\r\n```\r\n",
    ],
)
def test_only_the_lines_that_differ_change(answer: str) -> None:
    assert mend(answer, 10, NOW) == Mending(12, 13, ("        return amount",))


def test_lines_are_added_and_removed() -> None:
    assert mend("```\na\nb\nc\n```", 5, ["a", "c"]) == Mending(6, 6, ("b",))
    assert mend("```\na\n```", 5, ["a", "c"]) == Mending(6, 7, ())
    assert mend("```\na\nb\n```", 5, ["a"]) == Mending(6, 6, ("b",))
    assert mend("```\na\na\n```", 5, ["a"]) == Mending(6, 6, ("a",))
    assert mend("```\na\n```", 5, ["", ""]) == Mending(5, 5, ("a",))


@pytest.mark.parametrize(
    "answer", ["no code", "```\nx = 1", "```\n\n```", "```\na\nc\n```", "```\nkey = [redacted]\n```"]
)
def test_without_code_that_changes_something_there_is_no_edit(answer: str) -> None:
    assert mend(answer, 5, ["a", "c"]) is None


TOTAL = [
    "def total(items):",
    "    s = 0",
    "    for itme in items:",
    "        s += item.price",
    "    if s < 0:",
    "        raise ValueError(s)",
    "    return round(s, 2)",
]
MENDED = [*TOTAL[:2], "    for item in items:", *TOTAL[3:]]
METHOD = ["    def total(self):", "        return jsno"]
NESTED = ["def outer():", "    def inner():", "        return 1", "    return inner"]
FUNCTION = ["function f(a) {", "  const x = 1;", "  return g(x);", "}"]
SCRIPT = ["import os", "import sys", "", "print(os.nmae)", "print(sys.argv)", "sys.exit(0)"]


@pytest.mark.parametrize(
    ("now", "code"),
    [
        (TOTAL, ["    for item in items:"]),
        (TOTAL, MENDED[2:4]),
        (TOTAL, MENDED[1:]),  # all but its head
        (TOTAL, ["for item in items:", *["    pass"] * 9]),
        (TOTAL, [MENDED[0], MENDED[2]]),
        (TOTAL, MENDED[:4]),
        (TOTAL, [*MENDED[:4], "    # ... the rest as it is", MENDED[-1]]),
        (TOTAL, [*MENDED[:4], "    ...", MENDED[-1]]),
        (TOTAL, ["-    for itme in items:", "+    for item in items:"]),
        (TOTAL, [" def total(items):", "     s = 0", "-    for itme in items:", "+    for item in items:"]),
        (TOTAL, [*TOTAL, "+    assert items"]),
        (["@cached", *TOTAL], MENDED[2:]),
        (SCRIPT, ["print(os.name)"]),
        (SCRIPT, ["print(os.name)", "print(sys.argv)", "sys.exit(0)"]),
        (SCRIPT[:2], ["import re"]),
        (TOTAL, [*MENDED[:4], "    # (rest unchanged)", "    log(s)", MENDED[-1]]),
        (TOTAL, [*MENDED[:6], "    # rest of the function unchanged"]),
        (TOTAL, ["import math", "import re", "", *MENDED[:4], "    # existing checks", MENDED[-1]]),
        (TOTAL, ["import math", "import re", "", *MENDED[:4], "    ...", MENDED[-1]]),
        (TOTAL, ["def _check(s):", *["    assert s"] * 9]),  # what it calls, without itself
        (METHOD, ["class Basket:", "    def total(self):", "        return jsno"]),
        (METHOD, ["import json", "", "    def total(self):", "        return json"]),
        (NESTED, NESTED[1:]),
        (FUNCTION, ["const x = 2;", "const y = 3;", "const z = 4;", "return g(x);"]),
        (["", "for x in y do", "  p(x)", "end"], ["p(x + 1)", "p(x)", "p(x)"]),
        (SCRIPT, ["-import os", *(f" {line}" for line in SCRIPT[1:])]),
    ],
)
def test_a_diff_or_a_part_of_the_block_is_no_edit(now: list[str], code: list[str]) -> None:
    """What it does not show would be gone."""
    for moved in (code, [line.removeprefix("    ") for line in code]):
        assert mend("\n".join(["```python", *moved, "```"]), 10, now) is None


@pytest.mark.parametrize("kind", ["diff", "patch", "Diff title=x"])
def test_what_calls_itself_a_diff_is_one(kind: str) -> None:
    assert mend("\n".join([f"```{kind}", *MENDED, "```"]), 10, TOTAL) is None


@pytest.mark.parametrize(
    ("now", "code"),
    [
        (TOTAL, MENDED),
        (TOTAL, ["def total(items: list[Item]) -> float:", *MENDED[1:]]),
        (TOTAL, ["@cached", "# Of all.", *MENDED]),
        (["@cached", *TOTAL], MENDED),
        (TOTAL, [*MENDED[:4], MENDED[-1]]),
        (TOTAL, [MENDED[0], *MENDED[2:]]),
        (["def f():", "    retrun 1"], ["def f():", "    return 1"]),
        (["async def f():", "    a", "    b"], ["def f():", "    a", "    b"]),
        (SCRIPT, SCRIPT[1:]),
        (SCRIPT, [*SCRIPT[:3], "print(os.name)", *SCRIPT[4:]]),
        (["- one", "- tow"], ["- one", "- two"]),
        (["x = (", "  1", "+ 2"], ["x = (", "  1", "+ 2", ")"]),
        (["retrun 1"], ["return 1"]),
        (TOTAL, ["import math", "", "", *MENDED]),
        (TOTAL, ["_PLACES = 2", "", *MENDED[:-1], "    return round(s, _PLACES)"]),
        (TOTAL, ["@pytest.mark.parametrize(", "    'items', [1]", ")", *MENDED]),
        (METHOD, ["    @cached(", "        1", "    )", *METHOD]),
        (TOTAL, ["def sum_of(items):", *MENDED[1:]]),
        (["class P(Q):", "    def f(self):", "        pass"], ["class P(Q):", "    def f(self):", "        ..."]),
        (["def f():", "    a()", "    b()"], ["def f():", "    # The rest is existing.", "    c()", "    b()"]),
        (["f(", "    delta,", ")"], ["f(", "    -delta,", ")"]),
        (["steps:", "  run: make", "  uses: x"], ["steps:", "  - run: make", "  - uses: x"]),
        (["one", "two"], ["- one", "- two"]),
        (["import os", "import sys", "import re", "", "print(re)"], ["import re", "", "print(re)"]),
        (FUNCTION, [FUNCTION[0], "  const x = 2;", *FUNCTION[2:]]),
    ],
)
def test_a_block_that_is_shown_again_is_an_edit(now: list[str], code: list[str]) -> None:
    mending = mend("\n".join(["```", *code, "```"]), 0, now)
    assert mending is not None
    assert [*now[: mending.first], *mending.lines, *now[mending.last :]] == code


def test_lines_that_hold_a_code_block_themselves_are_left_alone() -> None:
    """The answer's block would end at theirs, and all that stands behind it would be gone."""
    now = ["def f():", '    """Doc.', "", "    ```", "    f()", "    ```", '    """', "    return 1"]
    answer = "\n".join(["```python", *now[:-1], "    return 2", "```"])
    assert mend(answer, 0, now) is None
    assert mend("```\nx\n```", 0, ["x = '```'"]) is None


def test_a_block_ends_as_far_left_as_it_begins() -> None:
    answer = '```\ndef f():\n    """\n    ```\n    f()\n    ```\n    """\n    return 1\n```'
    assert mend(answer, 0, ["def f():", "    return 1"]) == Mending(
        1, 1, ('    """', "    ```", "    f()", "    ```", '    """')
    )
    assert mend("- Here:\n  ```\n  b\n  ```", 0, ["  a"]) == Mending(0, 1, ("  b",))
