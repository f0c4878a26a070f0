"""The prompts of the decode bench: what is asked, and how far the answer has begun."""

import ast

import pytest

from bench.corpus.tasks import Task, chat, cut, double_quotes, excerpt, tasks, two_spaces, without_docstrings

TASKS = tasks()
COPIES = [task for task in TASKS if task.group.startswith("copy")]


def test_every_kind_of_task_is_there_with_names_of_its_own() -> None:
    groups = {task.group for task in TASKS}
    assert {f"copy-{kind}" for kind in ("rename", "parameter", "docstrings", "line", "reformat")} < groups
    assert {"json", "boilerplate", "novel"} < groups
    assert len({(task.group, task.name) for task in TASKS}) == len(TASKS)
    assert tasks() == TASKS


def code_of(task: Task) -> tuple[str, str]:
    """The code before, and the beginning of the code after."""
    _, before, begun = task.prompt.split("```python\n")
    return before.partition("```")[0], begun


@pytest.mark.parametrize("task", COPIES, ids=lambda task: f"{task.group} {task.name}")
def test_the_answer_of_an_edit_has_begun_with_the_edit_and_goes_on_with_a_new_line(task: Task) -> None:
    before, begun = code_of(task)
    assert begun.endswith("\n")
    assert not before.startswith(begun), "nothing is edited where the answer has begun"
    if task.group != "copy-docstrings":  # what is added there makes the code longer
        assert len(before) - len(begun) > 400, "hardly anything is left to write"


@pytest.mark.parametrize("task", COPIES, ids=lambda task: f"{task.group} {task.name}")
def test_the_code_of_an_edit_is_whole(task: Task) -> None:
    ast.parse(code_of(task)[0])


def test_other_answers_begin_within_their_text_or_not_at_all() -> None:
    for task in TASKS:
        if task.group in ("json", "boilerplate"):
            assert task.prompt.endswith("\n")
        if task.group == "novel":
            assert task.prompt.endswith("<|im_start|>assistant\n")


def test_an_excerpt_is_whole_definitions_from_one_on() -> None:
    first, both = (excerpt("bisect", "insort_right", characters).code for characters in (10, 2_000))
    assert first.startswith("def insort_right(")
    assert both.startswith(first)
    assert "def bisect_right(" in both


def test_edits_change_what_they_say_and_nothing_else() -> None:
    code = 'def one(a):\n    """Say."""\n    if a:\n        return \'x\'\n'
    assert without_docstrings(code) == "def one(a):\n    if a:\n        return 'x'\n"
    assert two_spaces(code) == 'def one(a):\n  """Say."""\n  if a:\n    return \'x\'\n'
    assert double_quotes(code).endswith('return "x"\n')
    assert ast.dump(ast.parse(two_spaces(code))) == ast.dump(ast.parse(code))


def test_a_text_is_cut_behind_a_line() -> None:
    assert cut("a\nb\nc\nd\n", 0.5) == "a\nb\n"
    assert chat("Why?", "So") == "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\nSo"
