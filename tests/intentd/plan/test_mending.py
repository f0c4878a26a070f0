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


@pytest.mark.parametrize(
    "answer", ["no code", "```\nx = 1", "```\n\n```", "```\na\nc\n```", "```\nkey = [redacted]\n```"]
)
def test_without_code_that_changes_something_there_is_no_edit(answer: str) -> None:
    assert mend(answer, 5, ["a", "c"]) is None


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
