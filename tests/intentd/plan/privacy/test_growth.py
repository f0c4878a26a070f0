"""I3 costs time in proportion to the text: no pattern, and not their sum, may be slow where a text is odd.

A search holds the interpreter's lock, so one that takes a minute stops the whole daemon for that long, and no bound on
time ends it. What is measured is how the time grows with the text, never the time itself.
"""

import re
import sys
from collections.abc import Callable, Iterator
from re import _parser  # type: ignore[attr-defined]  # the one way to see what a pattern is made of
from time import thread_time
from typing import Any

import pytest
import re2

from intentd.plan.privacy import assigned, expressions, keyblocks, known, layouts, looks, names, scrub, values, views
from intentd.plan.privacy.known import FORMS

TIMES = 4
MOST = 2 * TIMES
"""A text so many times as long may take so many times as long; it is sixteen times where time grows by the square."""
NOTHING_S = 0.005
CANDIDATES = "a1A-= \n\"'/:.!"


SEARCHED = (
    "HEAD", "_BEGIN", "FLAG", "ELEMENT", "PAIR", "BEFORE", "_DATA_IN_LINE", "_SECRET_IN_LINE",
    "_END", "_RUN", "_DER", "_LINES", "_PUBLIC", "_COLOUR", "_WRAPPED",
    "_NEXT_LINE", "_TWO_LITERALS",
)  # fmt: skip
"""What goes over a whole text; the others are tried at one place, or look back a little."""


def patterns() -> dict[str, Any]:
    """By their names."""
    own = {
        value: f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in (assigned, expressions, keyblocks, known, layouts, looks, names, values, views)
        for name, value in vars(module).items()
        if isinstance(value, (re.Pattern, type(re2.compile(""))))
    }
    return {name: value for value, name in own.items()} | {
        f"form {number}: {form.kind}": form.pattern for number, form in enumerate(FORMS)
    }


def uses(name: str) -> tuple[str, ...]:
    return ("finditer",) if name.startswith("form") or name.endswith(SEARCHED) else ("match", "fullmatch")


def sample(parts: Any, again: int) -> str:
    """A text that fits, or nearly: each class by one of its characters, what repeats at least `again` times."""
    return "".join(_one(str(kind), value, again) for kind, value in parts)


def _one(kind: str, value: Any, again: int) -> str:
    if kind == "LITERAL":
        return chr(int(value))
    if kind in ("IN", "ANY", "NOT_LITERAL"):
        fits = [char for char in CANDIDATES if kind != "IN" or _is_in(char, value)]
        return fits[0] if fits else _first(value)
    if kind.endswith("REPEAT"):
        return sample(value[2], again) * max(int(value[0]), min(again, int(value[1])))
    if kind == "BRANCH":
        return sample(value[1][0], again)
    if kind == "SUBPATTERN":
        return sample(value[3], again)
    if kind == "ATOMIC_GROUP":
        return sample(value, again)
    return ""  # what looks around, or back


def _is_in(char: str, members: Any) -> bool:
    negated = str(members[0][0]) == "NEGATE"
    return negated != any(_has(char, str(kind), value) for kind, value in members)


def _has(char: str, kind: str, value: Any) -> bool:
    if kind == "CATEGORY":
        said = str(value).removeprefix("CATEGORY_").removeprefix("NOT_")
        sign = {"WORD": r"\w", "DIGIT": r"\d", "SPACE": r"\s"}[said]
        return (re.match(sign, char) is None) == ("NOT" in str(value))
    return value == ord(char) if kind == "LITERAL" else kind == "RANGE" and value[0] <= ord(char) <= value[1]


def _first(members: Any) -> str:
    kind, value = members[0]
    return chr(int(value if str(kind) == "LITERAL" else value[0]))


def grows(work: Callable[[str], object], make: Callable[[int], str], size: int) -> float:
    """How many times as long it takes for TIMES as much, the best of several; 0 where it takes nothing."""
    long, short = make(TIMES * size), make(size)
    if _timed(work, long) < NOTHING_S:
        return 0
    growth = float("inf")
    for _ in range(4):
        if growth > MOST:  # A busy machine makes one of them slow.
            best = min(_timed(work, long) for _ in range(2))
            growth = min(growth, best / max(min(_timed(work, short) for _ in range(2)), NOTHING_S / MOST))
    return growth


def _timed(work: Callable[[str], object], text: str) -> float:
    begun = thread_time()
    work(text)
    return thread_time() - begun


def shapes(unit: str) -> Iterator[Callable[[int], str]]:
    """Its beginning again and again, its end again and again, first the one and then the other, and what fits none."""
    yield lambda size: unit * (size // len(unit))
    yield lambda size: unit + unit[-1] * (size - len(unit))
    yield lambda size: unit * (size // 2 // len(unit)) + unit[-1] * (size // 2)
    yield lambda size: unit + unit[-1] * (size - len(unit) - 1) + "!"


def units(pattern: Any) -> set[str]:
    """Where an attempt may get to, and no further."""
    flags = pattern.flags if isinstance(pattern, re.Pattern) else 0
    tree = _parser.parse(pattern.pattern, flags & ~re.ASCII & ~re.UNICODE)
    texts = {sample(tree, again) for again in (0, 1, 3)}
    return {text[:end] for text in texts for end in (*range(1, min(len(text), 24)), *range(24, len(text) + 1, 16))}


def everything(pattern: Any, use: str) -> Callable[[str], object]:
    """As the code uses it: at one place, or all over a text."""
    return (lambda text: list(pattern.finditer(text))) if use == "finditer" else getattr(pattern, use)


@pytest.mark.parametrize("name", patterns())
def test_a_pattern_takes_time_in_proportion_to_the_text(name: str) -> None:
    pattern = patterns()[name]
    slow = {
        unit: growth
        for use in uses(name)
        for unit in units(pattern)
        for make in shapes(unit)
        if (growth := grows(everything(pattern, use), make, 2_000)) > MOST
    }
    assert slow == {}


ODD = (
    "sk-", "task-00001", "pass=", "token=", "key:", 'password="', "password=a,", "DB_PASS=a;", '"password", ',
    'password=\\"', "secret='a\" + \"", "token: a1B2c3\n", "secret: |\n", "AccountKey=", "--password a1 ",
    "<password>a", "pass=(", "pass=a1)}];", "auth=(\n", "cookie: a=b; ", "- name: a\n  # b",
    "password = x or 'a' ", "password: ('a', ", "DB_PASS=a<", "token='a(", "secret: [(",
    "auth: ['a', ", "kind: Secret\ndata:\n  a: b\n", "kind: Secret\ndata:\n", "  data:\n    a: b\n  kind: Secret\n",
    '{"kind":"Secret","data":{"a":"', "DB_PASS=${A:-", "${PW=", "kind: Secret\ndata:\n  a: b,",
    "a1b2c3\\d4e5f6@key=\n", "a1b2c3d4e5f6key=\n", "'key=' + ", '"key:" ',
    "| password |\n|---|\n| a1!b |\n", "|password", "value: a name: ",
    '"a" ', '"+"', '"\n"', "\\x1b[0m", "A1", "a_", "://", "://a:", "eyJa", "cookie: a=", "machine a login b ",
    "-----BEGIN PRIVATE KEY-----\n", "BEGIN PRIVATE KEY\n" + "A" * 16 + "\n",
    "-----END PRIVATE KEY-----\n", "A" * 64 + "\n",
)  # fmt: skip


def lines(unit: str, size: int) -> str:
    """Long lines that a view puts together again."""
    line = (unit * (3_990 // len(unit)))[:3_990]
    return "\n".join([line] * (size // 3_990 + 1))[:size]


@pytest.mark.parametrize("unit", ODD)
def test_a_text_is_looked_through_in_time_in_proportion_to_it(unit: str) -> None:
    """A file of names that begin like keys (`task-00001`) once took minutes."""
    assert grows(scrub, lambda size: (unit + "\n") * (size // (len(unit) + 1)), 3_000) <= MOST
    assert grows(scrub, lambda size: lines(unit, size), 4_000) <= MOST


@pytest.mark.parametrize("unit", ODD)
def test_a_line_is_looked_through_in_time_in_proportion_to_it(unit: str) -> None:
    """Short of MAX_LINE it may cost no more for each character the longer it is."""
    assert [at for at, make in enumerate(shapes(unit)) if grows(scrub, make, 900) > MOST] == []


@pytest.mark.parametrize(
    "unit",
    [
        f"got gs{'k_'}aB3dE5fG7hJ9kL1mN2pQ4rS6\nretry: 3\n",
        f"auth ok for bob with ey{'J'}hbGciOiJIUzI1NiJ9.ey{'J'}zdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P\n",
    ],
)
def test_a_log_with_a_token_at_the_end_of_each_line_takes_time_in_proportion_to_it(unit: str) -> None:
    """A service's log once took a core for seconds: the whole of it was encoded again for each token."""
    assert grows(scrub, lambda size: unit * (size // len(unit)), 32_000) <= MOST


def test_many_secrets_are_looked_for_everywhere_in_time_in_proportion_to_the_text() -> None:
    def make(size: int) -> str:
        rows = (
            f"DB_PASSWORD=correcthorsebattery{number:06}\ncorrecthorsebatter{number}\n" for number in range(size // 60)
        )
        return "".join(rows)

    assert grows(scrub, make, 32_000) <= MOST


@pytest.mark.parametrize("unit", ["\"a\nauth=('a', 'b'`=>", "  a: b\n\nauth=('a', 'b'", "secret=('ab', f('b') or "])
def test_no_literal_is_judged_for_each_of_many_names_before_it(unit: str) -> None:
    """Where names stand as densely as they can, a window once took half a minute."""
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    text = unit * (8_000 // len(unit))
    sys.setprofile(count)
    try:
        scrub(text)
    finally:
        sys.setprofile(None)
    assert calls <= 20 * len(text)
