"""Owns what the characters of a text say alone: whether a person wrote it, a program, or nobody."""

import math
import re
from collections import Counter
from itertools import pairwise

MAX_JUDGED = 400
"""So many characters of a text decide what it is: a text of names alone would be judged once for each of them."""
BRACKETS = re.compile(r"[(){}\[\]<>|]")
_CLOSED = {")": "(", "]": "[", "}": "{", ">": "<"}
_GLUED = re.compile(r"[)\]}]\w")
_BEHIND_CALL = re.compile(r"[)\]}>:;,.\w(\[]*")
_ARROWS = re.compile(r"[-=]>")
_OF_OBJECT = re.compile(r"(?:self|this|cls|os|process|env|config|settings|args|options|request|ctx)[.>]")
_PAIRED = re.compile(r"[(){}\[\]<>]")
_FIELD = r"(?:[a-z_.]*|[A-Z_]*|[a-z]+(?:[A-Z][a-z]+)+)\d?"
_TEMPLATE = re.compile(rf"\{{{{1,2}} ?{_FIELD} ?\}}{{1,2}}|%\({_FIELD}\)[sd]|<{_FIELD}>")
_VERSION = re.compile(r"[<>=~!]=\d[\d.]{0,20}\Z")
"""Of a package that is asked for."""
_PATTERN = re.compile(r"\[\^?\w-\w|\\[dswDSW]|\(\?|\{\d+,?\d*\}")
"""Of a regular expression."""
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_WORDS = re.compile(r"[A-Za-z]+\d{0,3}|\d{1,8}")
RESULT = re.compile(
    r"\d{1,6} (?:failed|passed|skipped|tests?|errors?|warnings?|deselected|xfailed|xpassed)\b|\d{4}-\d\d-\d\d[ T]\d\d:"
    r"|HTTP/\d\.?\d? \d{3}\b"
)
"""What a line begins with that says what happened, and never goes on from a secret."""
_NUMBERS = re.compile(r"\d+")


def looks_random(text: str, least: int, uuid: bool = True) -> bool:
    """Whether no person wrote it: letters and digits mixed all over, or a UUID."""
    if len(text) < least or not (any(map(str.isdigit, text)) and any(map(str.isalpha, text))):
        return False
    if _UUID.fullmatch(text):
        return uuid
    parts = [part for part in re.split(r"[-_./:=+]", text) if part]
    if all(_WORDS.fullmatch(part) for part in parts):
        return False
    classes = ["d" if char.isdigit() else "u" if char.isupper() else "l" if char.islower() else "o" for char in text]
    turns = sum(one != other for one, other in pairwise(classes))
    return (turns / len(text) >= 0.25 or len(_NUMBERS.findall(text)) > 2) and _entropy(text) >= 2.8


def is_no_word(text: str) -> bool:
    """Whether it can hardly be a name, or what is made of names: a call, a template, a pattern."""
    text = _VERSION.sub("", _TEMPLATE.sub("", text))
    return has_both(text) and not (" " in text or _PATTERN.search(text) or _is_of_words(text))


def is_code(text: str, last: bool = True, cut: bool = True) -> bool:
    """Whether it is an expression: its brackets pair.

    `last`: nothing follows it on its line; otherwise only the beginning of the expression may be there. `cut`: its line
    may end inside brackets, or a call around it on its line.
    """
    if _OF_OBJECT.match(text) or _TEMPLATE.search(text):
        return True
    if not BRACKETS.search(text):
        return False
    return not last or _is_nested(_ARROWS.sub(".", text), cut) or (not _PAIRED.search(text) and _is_of_words(text))


def _is_nested(text: str, cut: bool) -> bool:
    if _GLUED.search(text):
        return False
    opened = ""
    for at, char in enumerate(text):
        if char in "([{<":
            opened += char
        elif char in _CLOSED and not opened:
            return cut and _BEHIND_CALL.fullmatch(text, at) is not None
        elif char in _CLOSED:
            if opened[-1] != _CLOSED[char]:
                return False
            opened = opened[:-1]
    return cut and text[-1:] in "([{<" if opened else any(char in _CLOSED for char in text)


def _is_of_words(text: str) -> bool:
    return all(map(_WORDS.fullmatch, filter(None, re.split(r"[-_./:,(){}\[\]<>|]+", text))))


def has_both(text: str) -> bool:
    return any(map(str.isdigit, text)) and any(map(str.isalpha, text))


def is_mixed(text: str) -> bool:
    """Whether capitals stand about as they do in no name: base64 may be without a digit."""
    if len(text) < 20 or not 0.25 <= sum(map(str.isupper, text)) / len(text) <= 0.75:
        return False
    return sum(one.isupper() != other.isupper() for one, other in pairwise(text)) / len(text) >= 0.3


def _entropy(text: str) -> float:
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts)
