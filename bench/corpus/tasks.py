"""Owns the prompts of the decode bench on the real model: what is asked, and how far its answer has begun.

Nothing is downloaded: the code is Python's own standard library, as it stands where the bench runs. The packaged model
is far too small to carry out an edit that it is told. So every task is what an editor sends to continue an answer: the
request, and the answer's beginning with the edit already made there. The model goes on from it, mostly by copying.
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

from attrs import frozen

BEGUN = 0.4
"""The share of the lines of an answer that the prompt holds already."""
Edit = Callable[[str], str]


@frozen
class Task:
    """`prompt` is text in which the special tokens of ChatML count; the answer goes on where it ends."""

    group: str
    name: str
    prompt: str


def tasks() -> list[Task]:
    """All of them, groups together."""
    return [*copies(), *json_tasks(), *boilerplate(), *novel()]


def chat(question: str, begun: str = "") -> str:
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n{begun}"


# --- edits of real files --------------------------------------------------------------------------------


def excerpt(module: str, first: str, characters: int = 2_000) -> str:
    """Whole top-level definitions of a module of the standard library, from `first` on; at least one."""
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
    return "".join(lines[start - 1 : end])


def file_of(module: str) -> str:
    spec = importlib.util.find_spec(module)
    assert spec
    assert spec.origin
    return Path(spec.origin).read_text(encoding="utf-8")


def edit(kind: str, module: str, first: str, request: str, before: str, after: str) -> Task:
    """Begins the edited code and leaves off behind a line."""
    question = f"{request} Answer with the whole code.\n```python\n{before}```"
    return Task(f"copy-{kind}", f"{module}.{first}", chat(question, f"```python\n{cut(after, BEGUN)}"))


def copies() -> list[Task]:
    """Two of every kind."""
    return [
        rename("filecmp", "cmp", "f1", "left"),
        rename("heapq", "nsmallest", "key", "rank"),
        parameter("colorsys", "rgb_to_hls", "precision=None"),
        parameter("calendar", "isleap", "strict=False"),
        docstrings("bisect", "insort_right", 3_200),
        docstrings("base64", "standard_b64encode", 2_600),
        fix("difflib", "get_close_matches", "cutoff=0.6", "cutoff=6.0"),
        fix("quopri", "decode", "partial = 0; n = n-1", "partial = 0; n = n+1"),
        reformat("copy", "copy", "two spaces of indentation", two_spaces),
        reformat("tempfile", "_candidate_tempdir_list", "double quotes", double_quotes, 3_000),
    ]


def rename(module: str, first: str, old: str, new: str) -> Task:
    before = excerpt(module, first)
    after = re.sub(rf"\b{old}\b", new, before)
    return edit("rename", module, first, f"Rename the variable `{old}` to `{new}` in this code.", before, after)


def parameter(module: str, first: str, added: str) -> Task:
    before = excerpt(module, first)
    after = re.sub(r"^(def \w+\([^()]*)\):", rf"\1, {added}):", before, flags=re.MULTILINE)
    return edit("parameter", module, first, f"Add the parameter `{added}` to every function.", before, after)


def docstrings(module: str, first: str, characters: int) -> Task:
    after = excerpt(module, first, characters)
    return edit("docstrings", module, first, "Add docstrings to this code.", without_docstrings(after), after)


def without_docstrings(code: str) -> str:
    lines = code.splitlines(keepends=True)
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            said = node.body[0]
            lines[said.lineno - 1 : said.end_lineno] = [""] * ((said.end_lineno or said.lineno) - said.lineno + 1)
    return "".join(lines)


def fix(module: str, first: str, right: str, wrong: str) -> Task:
    after = excerpt(module, first)
    before = after.replace(right, wrong, 1)
    return edit("line", module, first, f"`{wrong}` is wrong in this code: fix that line.", before, after)


def reformat(module: str, first: str, style: str, formatted: Edit, characters: int = 2_000) -> Task:
    before = excerpt(module, first, characters)
    return edit("reformat", module, first, f"Format this code with {style}.", before, formatted(before))


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


def novel() -> list[Task]:
    """Answers that have little to do with the text before them."""
    questions = {
        "heapq": "Tell me a story about a girl who finds an old lighthouse.",
        "pdb": "What is photosynthesis, and why does it matter?",
        "unittest": "Write a letter to a friend who has moved to another city.",
    }
    return [
        Task("novel", module, chat(f"{prose_of(module)[:2_400]}\n\nNow something else. {question}"))
        for module, question in questions.items()
    ]


def prose_of(module: str) -> str:
    """What a module of the standard library says of itself."""
    said = importlib.import_module(module)
    return f"{said.__doc__}\n{getattr(said, '__about__', '')}"


def cut(text: str, share: float) -> str:
    """The beginning of a text, up to the end of a line."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[: round(len(lines) * share)])
