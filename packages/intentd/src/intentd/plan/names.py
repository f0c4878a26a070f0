"""Owns finding the code that a Python block names: what it takes from other files of the workspace. It reads no files.

A failed assertion raises in the test itself, so its traceback does not lead to the function that gave the wrong value.
What the test calls does: its imports say in which module that is, and the module's name in which file.
"""

import ast
import posixpath
from collections.abc import Iterator, Sequence

from attrs import frozen

MAX_NAMES = 8
"""Of one block; a test that uses more is about something else than any of them."""
_TRIES = 5


@frozen
class Import:
    """`from module import name` (`name` empty: `import module`); `level` dots come before the module."""

    module: str
    name: str = ""
    level: int = 0

    def member(self, name: str) -> "Import":
        """What `x.name` is, where x is this."""
        module = ".".join(filter(None, (self.module, self.name)))
        return Import(module, name, self.level)


def named(lines: Sequence[str], line: int) -> list[Import]:
    """What the innermost function or class around `line` (from 1) uses of the file's imports, in the order of its use.

    Nothing where the file is not Python.
    """
    tree = _parsed(lines)
    if tree is None:
        return []
    known = _imports(tree)
    found = dict.fromkeys(use for use in _uses(_innermost(tree, line), known) if use.name)
    return list(found)[:MAX_NAMES]


def imported(lines: Sequence[str], name: str) -> Import | None:
    """Where a file that does not define `name` itself has it from."""
    tree = _parsed(lines)
    return _imports(tree).get(name) if tree else None


def places(wanted: Import, path: str, workspace: str) -> Iterator[str]:
    """Files that `wanted` may be in, where the file `path` imports it; the likeliest first."""
    inside = posixpath.join(*wanted.module.split(".")) if wanted.module else ""
    for folder in _folders(wanted.level, posixpath.dirname(path), workspace):
        module = posixpath.normpath(posixpath.join(folder, inside))
        if inside:
            yield f"{module}.py"
        yield f"{module}/__init__.py"


def _folders(level: int, folder: str, workspace: str) -> Iterator[str]:
    """From which folders a module's name may count: the workspace and its `src`, then those of the file."""
    if level:
        for _ in range(level - 1):
            folder = posixpath.dirname(folder)
        yield folder
        return
    yield workspace
    yield posixpath.join(workspace, "src")
    while folder.startswith(f"{workspace}/"):
        yield folder
        folder = posixpath.dirname(folder)


def _parsed(lines: Sequence[str]) -> ast.Module | None:
    for _ in range(_TRIES):
        try:
            return ast.parse("\n".join(lines))
        except SystemError:  # Another thread's parser was under way, with which it shares a counter (3.11).
            continue
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    return None


def _imports(tree: ast.Module) -> dict[str, Import]:
    """By the name that each has in the file."""
    found: dict[str, Import] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found[alias.asname or alias.name] = Import(node.module or "", alias.name, node.level)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name] = Import(alias.name)
    return found


def _innermost(tree: ast.Module, line: int) -> ast.AST:
    blocks = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return max(blocks, key=lambda node: node.lineno, default=tree)


def _uses(block: ast.AST, known: dict[str, Import]) -> Iterator[Import]:
    """`x`, `x.y` and `x.y.z` where x, or x.y, was imported."""
    nodes = (node for node in ast.walk(block) if isinstance(node, ast.Name | ast.Attribute))
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset, -(node.end_col_offset or 0))):
        if isinstance(node, ast.Name) and node.id in known:
            yield known[node.id]
        elif isinstance(node, ast.Attribute) and (owner := known.get(_dotted(node.value))):
            yield owner.member(node.attr)


def _dotted(node: ast.expr) -> str:
    """`x.y`; empty for anything but names. By hand: `ast.unparse` cannot go as deep as a long chain of calls."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(names))) if isinstance(node, ast.Name) else ""
