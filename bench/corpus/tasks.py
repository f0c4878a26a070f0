"""Owns the prompts of the decode bench on the real model: what is asked, and how far its answer has begun.

Nothing is downloaded: the code is Python's own standard library, as it stands where the bench runs. The packaged model
is far too small to carry out an edit that it is told. So a task holds what is asked and the beginning of its answer,
with the edit made already, and the model goes on from there. Of many definitions those were taken with which it mostly
copies (`copied` in the result, of the answer without drafts); with others it soon writes something else.
"""

import ast
import importlib
import importlib.util
import json
import os
import re
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

from attrs import evolve, frozen


@frozen
class Task:
    """`prompt` is text in which the special tokens of ChatML count; the answer goes on where it ends.

    `penalty`: of repetition. Left alone, a small model soon says the same again and again, which is easy to draft.
    """

    group: str
    name: str
    prompt: str
    penalty: float = 1.0


def tasks() -> list[Task]:
    """All of them, groups together."""
    return [*copies(), *json_tasks(), *boilerplate(), *novel()]


def chat(question: str, begun: str = "") -> str:
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n{begun}"


# --- edits of real files --------------------------------------------------------------------------------


@frozen
class Excerpt:
    """Whole top-level definitions of a module of the standard library."""

    module: str
    first: str
    code: str


def excerpt(module: str, first: str, characters: int) -> Excerpt:
    """From the definition `first` on as many as fit; at least one."""
    source = file_of(module)
    lines = source.splitlines(keepends=True)
    nodes = ast.parse(source).body
    names = [getattr(node, "name", "") for node in nodes]
    start = end = 0
    for node in nodes[names.index(first) :]:
        start = start or min([node.lineno, *(line.lineno for line in getattr(node, "decorator_list", ()))])
        if end and len("".join(lines[start - 1 : node.end_lineno])) > characters:
            break
        end = node.end_lineno or node.lineno
    return Excerpt(module, first, "".join(lines[start - 1 : end]))


def file_of(module: str) -> str:
    spec = importlib.util.find_spec(module)
    assert spec
    assert spec.origin
    return Path(spec.origin).read_text(encoding="utf-8")


def copies() -> list[Task]:
    """Two of every kind. The last figure is the share of the edited code that is written already."""
    return [
        rename(excerpt("filecmp", "cmp", 1_800), "f1", "left", 0.75),
        rename(excerpt("bisect", "insort_right", 2_000), "lo", "low", 0.80),
        parameter(excerpt("calendar", "isleap", 1_500), "strict=False", 0.55),
        parameter(excerpt("linecache", "clearcache", 1_700), "strict=False", 0.60),
        docstrings(excerpt("copy", "deepcopy", 2_400), 0.60),
        docstrings(excerpt("gzip", "compress", 2_400), 0.60),
        fix(excerpt("filecmp", "cmp", 1_800), "s1[0] != stat.S_IFREG", "s1[0] == stat.S_IFREG", 0.75),
        fix(excerpt("bisect", "insort_right", 2_200), "hi = len(a)", "hi = len(x)", 0.80),
        reformat(excerpt("copy", "deepcopy", 2_400), "two spaces of indentation", two_spaces, 0.60),
        reformat(excerpt("difflib", "diff_bytes", 2_400), "double quotes", double_quotes, 0.60),
    ]


def edit(kind: str, request: str, before: Excerpt, after: str, begun: float) -> Task:
    """A document: the code, the request, and the edited code as far as it is written."""
    old = f"# Before: {before.module}.py\n```python\n{before.code}```\n"
    new = f"# {request}\n# After: {before.module}.py\n```python\n{cut(after, begun)}"
    return Task(f"copy-{kind}", f"{before.module}.{before.first}", f"{old}\n{new}")


def rename(before: Excerpt, old: str, new: str, begun: float) -> Task:
    return edit("rename", f"Rename `{old}` to `{new}`.", before, re.sub(rf"\b{old}\b", new, before.code), begun)


def parameter(before: Excerpt, added: str, begun: float) -> Task:
    after = re.sub(r"^(def \w+\([^()]*)\):", rf"\1, {added}):", before.code, flags=re.MULTILINE)
    return edit("parameter", f"Add the parameter `{added}` to every function.", before, after, begun)


def docstrings(after: Excerpt, begun: float) -> Task:
    return edit("docstrings", "Add docstrings.", evolve(after, code=without_docstrings(after.code)), after.code, begun)


def without_docstrings(code: str) -> str:
    lines = code.splitlines(keepends=True)
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            said = node.body[0]
            lines[said.lineno - 1 : said.end_lineno] = [""] * ((said.end_lineno or said.lineno) - said.lineno + 1)
    return "".join(lines)


def fix(after: Excerpt, right: str, wrong: str, begun: float) -> Task:
    before = evolve(after, code=after.code.replace(right, wrong, 1))
    return edit("line", f"Fix the line with `{wrong}`.", before, after.code, begun)


def reformat(before: Excerpt, style: str, formatted: Callable[[str], str], begun: float) -> Task:
    return edit("reformat", f"Format with {style}.", before, formatted(before.code), begun)


def two_spaces(code: str) -> str:
    return re.sub(r"^( +)", lambda found: found[1][: len(found[1]) // 2], code, flags=re.MULTILINE)


def double_quotes(code: str) -> str:
    return re.sub(r"'([^'\"\n]*)'", r'"\1"', code)


# --- JSON, boilerplate, new text ------------------------------------------------------------------------


def statuses() -> list[HTTPStatus]:
    return [status for status in HTTPStatus if status.description]


def json_tasks() -> list[Task]:
    """A table that becomes JSON, and JSON that gets a field more."""
    table = "".join(f"{status.value} {status.phrase}: {status.description}\n" for status in statuses())
    written = json.dumps([as_record(status) for status in statuses()], indent=2)
    marked = json.dumps([{**as_record(status), "cached": False} for status in statuses()[:14]], indent=2)
    return [
        Task("json", "table", chat(f"Write this table as JSON.\n\n{table}", cut(written, 0.22))),
        Task("json", "field", chat(f"Add `cached` to each.\n\n{written[: len(marked) - 400]}", cut(marked, 0.4))),
    ]


def as_record(status: HTTPStatus) -> dict[str, object]:
    return {"code": status.value, "phrase": status.phrase, "description": status.description}


def boilerplate() -> list[Task]:
    """Classes and properties of which one is much like the other. What comes next is in no prompt."""
    classes = "".join(ERROR.format(status=status, name=status.phrase.title().replace(" ", "")) for status in statuses())
    fields = [name for name in dir(os.stat_result) if name.startswith("st_")]
    properties = "class Stat:\n" + "".join(PROPERTY.format(name=name, what=name[3:]) for name in fields)
    return [
        Task("boilerplate", "errors", chat("Write an exception class for every HTTP status.", cut(classes, 0.5))),
        Task("boilerplate", "properties", chat("Write a class with a property for every field.", cut(properties, 0.6))),
    ]


ERROR = '''class {name}(HTTPError):
    """{status.description}."""

    status = {status.value}
    phrase = "{status.phrase}"


'''
PROPERTY = '''
    @property
    def {name}(self):
        """The value of `{what}` for this file, as the system gave it when it was asked."""
        return self._values["{name}"]
'''


PENALTY = 1.3


def novel() -> list[Task]:
    """Answers that have little to do with the text before them."""
    questions = {
        "heapq": "Tell me a story about a girl who finds an old lighthouse.",
        "pdb": "What is photosynthesis, and why does it matter?",
        "unittest": "Write a letter to a friend who has moved to another city.",
    }
    return [
        Task("novel", module, chat(f"{prose_of(module)[:2_400]}\n\nNow something else. {question}"), PENALTY)
        for module, question in questions.items()
    ]


def prose_of(module: str) -> str:
    """What a module of the standard library says of itself."""
    said = importlib.import_module(module)
    return f"{said.__doc__}\n{getattr(said, '__about__', '')}"


def cut(text: str, share: float) -> str:
    """The beginning of a text, up to the last word of a line: a break that stands alone is another token."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[: round(len(lines) * share)]).rstrip()
