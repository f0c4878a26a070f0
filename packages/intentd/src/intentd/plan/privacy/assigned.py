"""Owns secrets that show by the name that they are given to: `password=…`, `"api_key": "…"`, `--token …`, `<secret>…`.

A name alone decides nothing: most values of such names are variables, calls, types or labels. So a value is judged, the
more strictly the less its name says.
"""

import re
from collections.abc import Iterator

from attrs import evolve

from intentd.plan.privacy.expressions import MAX_EXPRESSION, literals
from intentd.plan.privacy.looks import BRACKETS, MAX_JUDGED, has_both, is_code, is_mixed, is_no_word, looks_random
from intentd.plan.privacy.names import (
    BEFORE,
    ELEMENT,
    FLAG,
    HEAD,
    PAIR,
    TIGHT,
    Weight,
    further,
    heads,
    in_environment,
    weight_of,
)
from intentd.plan.privacy.values import APP_PASSWORD, JUDGED_PIECES, Value, continuation, value_of, whole
from intentd.plan.privacy.views import View

_DEFAULT = re.compile(
    r"(?i:getenv|environ\.get|env\.fetch|env|config|define|[gs]et_?property|(?:set_?|get_?or_?)default|fill)"
    r"\([ \t]{0,8}\\?[\"'`][\w.#-]*\Z"
)
"""What may stand before a name, so that what is behind it is its value, or what it holds else."""
_FIELD_BEFORE = re.compile(r"[\w.-]=[^\s=,(){};&]*(?: {1,4}|[;&])[\w.-]*\Z")
_FIELD_BEHIND = re.compile(r"(?: {1,4}|[;&])[\w.-]{1,40}=(?=[^\s=])")
_SPOKEN_OF = re.compile(r"(?:\([\"'`]|[\"'`]/[^\s\"'`]*\?)\Z")
"""Where a field stands alone in a test's title, or in the address of a page."""
_JOIN = re.compile(r"\bjoin\(")
_OPERATOR = re.compile(r"[+*%&|^]+")
_COMPARED = re.compile(r"[=!]==?[ \t]*\Z")
_MADE = re.compile(r"[\w.]{0,80}\(")
"""Behind a comparison: what it is made with, and no condition's branch."""
_ANNOTATED = re.compile(r":[^=]+=")
_EMPTY = re.compile(
    r"(?i:[\"'\s]*|%[({].*|%[sdr]|%\w+%|#\{.*|\{\{.*|\{\w*\}.*|<[\w .:/-]*>?|<.*>|\([\w .,:/|?-]*\)|@\w+[({].*[})]"
    r"|([*xX.#_\-•?0])\1*|\[redacted\].*"
    r"|none|null|nil|true|false|yes|no|on|off|undefined|string|str|bytes|int|integer|boolean|bool|text|any|object|char"
    r"|required|optional|hashed|(?:required|nullable|sometimes|string|confirmed|bail)\|.*|(?:option|flag|argument)s?[.,:]?|ssh-(?:rsa|dss|ed25519)"
    r"|secret|password|passwd|token|key|value|your[\w .-]*|my-?(?:password|secret|token|key)"
    r"|(?:u?int|float|utf-?|cp|sha-?|md|base|uuid|bcrypt|argon|varchar|str|ed|aes-?|rsa-?)_?\d+)"
    r"|\$(?:[{(].*|[A-Z_][A-Z0-9_]*|[a-z_][A-Za-z_]*)"
)
_PROPERTY = re.compile(r"[+-]?[ \t]*(?!self\.|this\.|cls\.)[a-z][\w-]*(?:\.[\w-]+){2,8}=")
_RESULT = re.compile(r"(?i:pass):[ \t]*")
"""As a test's; it may be an account's, too."""
_TEST = re.compile(r"[A-Za-z]+\d?|[\w.-]*[_.-][\w.-]*")
"""The name of one, where others' results stand around it."""
_OTHERS = re.compile(r"\b(?:PASS|FAIL|SKIP|XPASS|XFAIL|ERROR): ")
_NEAR = 400
_PROXIED = re.compile(r"\b(?:proxy|fastcgi|uwsgi|grpc|scgi)_pass[ \t]{0,9}[:=]?[ \t]{0,9}[\"']?\Z")
_ADDRESS = re.compile(r"https?://[\w.-]+(?::\d{1,5})?/?|unix:[\w./-]+")
"""Where a web server passes requests on to."""
_LINE = re.compile(r"(?:[+ -]|.*(?:Z|\|) )?\Z")
"""What stands before the first word of a line: nothing, a diff's mark, a time, or a container's name."""
_PASSES = re.compile(r"(?i)\b(?:running|skipping|render|shader|compute|depth|shadow) \Z")
"""Of a compiler, or of what draws."""
_COUNTED = re.compile(r"[\d.,/%]+")
_REFERENCE = re.compile(r"[!&*]+[A-Za-z_][A-Za-z_.]*")
"""As C and YAML write it; a shell does not."""
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->|::|\?\.)[A-Za-z_]\w*)+")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_]*\d{0,3}")
_MESSAGE = re.compile(
    r"(?i)(?=(?:[^ ]* ){3}).*?\b(?:must|should|at least|at most|characters?|cannot|can['’]t"
    r"|too (?:short|long|weak|common)|letters|Zeichen|caractères|caracteres|символ\w*)\b|.*(?:字符|文字|글자)"
)
"""What says a rule; a passphrase is a sentence, too."""
_FOREIGN = re.compile(r"[^A-Za-z0-9]*?[\u0370-\u1dff\u2e80-\ud7ff\uf900-\ufaff][^A-Za-z0-9]*")
"""A label in letters of another script."""
_SPEAKS = re.compile(r"(?i)\b(?:pass\w*|enter|please|your|invalid|wrong|missing|not set|change)\b|[$%`{]")
"""What is no passphrase: a user is told it, or a shell puts it together."""
_TEXTS = re.compile(r"(?:\b|_)(?:MSG|LANG|TXT|TEXT|LABEL|LBL|PROMPT|HELP|HINT|ERR|ERROR)_")
"""In a name: what it holds is shown to people."""
_HASH = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_OF_ANYTHING = re.compile(r"(?i)(?:service|account|client|database|db|storage|root|shared|license)[_-]?key")
"""What is found by such a key is as often called so: words say nothing then."""
_WORDS = re.compile(r"[\w.]+(?:[-_/:.][\w.]+)*")
_DECLARED = re.compile(r"\b(?:const|let|var) \w*\Z")
_TOKEN = re.compile(r"[A-Za-z0-9+/=_\-.~%:$!]+")
_PATH = re.compile(
    r"(?:[a-zA-Z]+:)?/{1,2}[\w.-]*/.*|(?:\.{1,2}|~|[\w.-]+)?(?:/[\w.@-]+)+/?|[\w.-]+@[\w.-]+\.\w+|[\d.:,]+"
)

Found = tuple[str, int, int]
"""A kind, and a place in the view."""


def assigned(view: View, across: bool) -> Iterator[Found]:
    """The values that are secret by their name; `across`: only split names."""
    for pattern in (HEAD,) if across else (HEAD, FLAG, ELEMENT, PAIR, BEFORE):
        begin = done = 0
        looked = dict[tuple[Weight, bool, bool, bool], tuple[int, int]]()
        for head in heads(view.text) if pattern is HEAD else pattern.finditer(view.text):
            if begin <= head.end() < done:  # It stands in a value that is taken out.
                continue
            if across and (not view.joins(head.start(), head.end() + 1) or _ANNOTATED.search(head[0])):
                continue
            if across and not view.is_whole(head.start(), head.end("more") + 1):  # Two lines' words.
                continue
            weight = weight_of(view.text, head)
            value = value_of(view.text, head) if weight else None
            found = [*_taken(view.text, head, value, weight, pattern is not HEAD)] if weight and value else []
            begin, done = (found[0][1], found[-1][2]) if found else (begin, done)
            if weight and weight != "key" and pattern is HEAD and not head["listed"]:
                at = value.start + len(value.text) + 1 if value and value.quoted else head.end()
                plain = bool(found) or (value is not None and value.text.startswith("[redacted]"))
                chosen = bool(_COMPARED.search(head[0])) and not _MADE.match(view.text, head.end())
                said = weight, bool(further(head)), plain, chosen
                last, known = looked.get(said, (0, 0))
                if not last <= at < known:  # A name before it has had the same expression.
                    more, known = _behind(view.text, head, at, weight, plain, chosen)
                    looked[said] = at, known
                    found += more
            yield from found


def _behind(
    text: str, head: re.Match[str], at: int, weight: Weight, plain: bool, chosen: bool
) -> tuple[list[Found], int]:
    """What is secret in the rest of the expression, and to where that is known.

    `plain`: it has a value before it. `chosen`: by a comparison, so that a word is no value.
    """
    parts, known = literals(text, at)
    found = list[Found]()
    for literal, is_value in parts:
        if (is_value and not chosen) or ((is_value or not plain) and is_no_word(literal.text[:MAX_JUDGED])):
            found += _taken(text, head, literal, weight, False)
    joined = "".join(literal.text for literal, _ in parts)
    if (looks_random(joined, 10) or is_mixed(joined)) and _JOIN.search(text, head.end(), at + MAX_EXPRESSION):
        spans = ((literal.start, literal.start + len(literal.text)) for literal, _ in parts if literal.text)
        found += [(f"{weight} by name", *span) for span in spans]
    return found, known


def _taken(text: str, head: re.Match[str], value: Value, weight: Weight, flag: bool) -> Iterator[Found]:
    """The value if it is secret, and what goes on of it."""
    kind = f"{weight} by name"
    alone = _is_secret(value, weight, head, flag)
    value = whole(text, value) if alone else value
    more = continuation(text, value, True) if alone else continuation(text, value, False, JUDGED_PIECES)
    if more is not None and not alone:
        alone = _is_secret(evolve(value, text=value.text + more[0]), weight, head, flag)
        more = continuation(text, value, False) if alone else None
    if alone:
        yield kind, value.start, value.start + len(value.text)
        if more is not None:
            yield kind, more[1], more[2]


def _is_secret(value: Value, weight: Weight, head: re.Match[str], flag: bool) -> bool:
    text = value.text[:MAX_JUDGED].rstrip("\\")
    if weight == "key" and _HASH.fullmatch(text):
        return False
    if _REFERENCE.fullmatch(text) and not in_environment(head):
        return False
    if _is_in_list(head) and not is_no_word(text):
        return False
    if value.quoted and _is_salt(text):
        return True
    if value.quoted and _FOREIGN.fullmatch(text) and not in_environment(head):
        return False
    if value.enclosed and not is_no_word(_OPERATOR.sub("-", text)) and not _is_field(value, head):
        return False
    if _ADDRESS.fullmatch(text) and _PROXIED.search(_before(head) + head[0]):
        return False
    if _EMPTY.fullmatch(text) or (weight != "password" and _PATH.fullmatch(text) and not looks_random(text, 20)):
        return False
    sure = in_environment(head) and not head[0].startswith("PASS_")
    if further(head) and not (sure or is_no_word(text) or (weight == "password" and len(text) > 5 and has_both(text))):
        return False
    if weight == "password":
        return _is_password(text, value, head, flag)
    if weight == "secret":
        return _is_plain_secret(text, value, head)
    if _TOKEN.fullmatch(text) is None and not (value.quoted and is_no_word(text) and not is_code(text, cut=False)):
        return False
    return looks_random(text, 16 if weight == "token" else 20, uuid=weight == "token") or is_mixed(text)


def _is_password(text: str, value: Value, head: re.Match[str], flag: bool) -> bool:
    odd = any(not char.isalnum() and char not in "_ (){}[]<>|" for char in text)
    digit = any(map(str.isdigit, text))
    if value.quoted:
        if len(text) < 3 or text.endswith((":", "?")):
            return False
        message = _MESSAGE.match(text) and not in_environment(head)
        told = message or head.string[value.start - 1] == "`"  # A shell runs what stands in backticks.
        words = in_environment(head) and not (_SPEAKS.search(text) or _TEXTS.search(_before(head) + head[0]))
        phrase = "phrase" in head[0].lower() or APP_PASSWORD.fullmatch(text)
        return " " not in text or bool(phrase) or (not told and (digit or words))
    if _is_result(text, head):
        return False
    exact = in_environment(head) or _is_field(value, head) or _is_property(value, head)
    if _is_code(text, value, exact) or _DOTTED.fullmatch(text):
        return False
    if head.re is ELEMENT and '"' not in head[0] and text.islower() and text.isalpha():
        return len(text) >= 6
    if flag:
        return len(text) >= 4 and not text.isupper() and text[0] != "-" and (value.last or odd or digit)
    if exact:
        return len(text) >= 4
    if _IDENTIFIER.fullmatch(text):
        return len(text) >= 5 and ((digit and (value.last or _is_told(value, head))) or (value.last and is_mixed(text)))
    return len(text) >= 5 and (digit or odd) and not text.isdigit()


def _is_result(text: str, head: re.Match[str]) -> bool:
    """Whether it is what a test came to: numbers, or behind a capital the path of a test; or a compiler's step."""
    before = _before(head)
    if not _RESULT.fullmatch(head[0]) or re.search(r"[\w.-](?<!^-)\Z", before):
        return False
    words = not is_no_word(text)
    test = head[0] == "PASS: " and words and _LINE.match(before) and _TEST.fullmatch(text)
    if (test and _has_others(head)) or ((words or text.endswith("Pass")) and _PASSES.search(before)):
        return True
    return bool(_COUNTED.fullmatch(text)) or (
        head[0][0].isupper() and (("/" in text and words) or before.endswith("--- "))
    )


def _has_others(head: re.Match[str]) -> bool:
    around = head.string[max(0, head.start() - _NEAR) : head.end() + _NEAR]
    return len(_OTHERS.findall(around)) > 1


def _is_code(text: str, value: Value, exact: bool) -> bool:
    """Whether a bare value is an expression; `exact`: nothing but a value can stand there."""
    return not (exact and value.last) and is_code(text, value.last or value.enclosed)


def _is_field(value: Value, head: re.Match[str]) -> bool:
    """Whether it is one of several as in a connection string, or the last thing in a literal."""
    text, end = head.string, value.start + len(value.text)
    if not TIGHT.search(head[0]) or not value.text[0].isalnum():
        return False
    before = _before(head)
    if _FIELD_BEFORE.search(before) or _FIELD_BEHIND.match(text, end):
        return True
    word = value.text.isalpha() and value.text.islower()
    return text[end : end + 1] in ('"', "'", "`") and not (word and _SPOKEN_OF.search(before))


def _is_property(value: Value, head: re.Match[str]) -> bool:
    """Whether it is a word in a file of properties: behind a long name, and alone on its line."""
    name = _PROPERTY.fullmatch(_before(head) + head[0])
    return name is not None and value.last and value.text.islower() and value.text.isalpha() and len(value.text) >= 8


def _is_salt(text: str) -> bool:
    """Whether it is of any characters that can be typed."""
    return looks_random(text, 32) and sum(not char.isalnum() and char not in " ,.:;/_-=+|'" for char in text) >= 6


def _is_told(value: Value, head: re.Match[str]) -> bool:
    """Whether it stands in a sentence, as in a log, and not among a call's arguments."""
    text, end = head.string, value.start + len(value.text)
    before = _before(head)
    call = before.rfind("(") > max(before.rfind('"'), before.rfind("'"))
    return bool(TIGHT.search(head[0])) and text[end : end + 1] in (" ", ";") and not call


def _before(head: re.Match[str]) -> str:
    """What stands before it on its line."""
    return head.string[max(0, head.start() - 200) : head.start()].rpartition("\n")[2]


def _is_in_list(head: re.Match[str]) -> bool:
    """Whether a comma stands between name and value, which need not belong together then."""
    if not head.groupdict().get("listed"):
        return False
    return _DEFAULT.search(head.string, max(0, head.start() - 80), head.start()) is None


def _is_plain_secret(text: str, value: Value, head: re.Match[str]) -> bool:
    if len(text) < 8:
        return False
    if value.quoted:
        if is_no_word(text) or is_mixed(text):
            return True
        code = not in_environment(head) or _DECLARED.search(_before(head))
        name = _OF_ANYTHING.match(head["secret"]) and code and _WORDS.fullmatch(text) and not text.isupper()
        return " " not in text and not is_code(text, cut=False) and not name
    exact = in_environment(head) or _is_field(value, head)
    if _is_code(text, value, exact and (is_no_word(text) or not BRACKETS.search(text))):
        return False
    if exact:
        return True
    if _DOTTED.fullmatch(text) or (_IDENTIFIER.fullmatch(text) and not (value.last and is_mixed(text))):
        return False
    return (any(map(str.isdigit, text)) and any(map(str.isalpha, text))) or is_mixed(text)
