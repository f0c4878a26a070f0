"""Owns secrets that show by the name that they are given to: `password=…`, `"api_key": "…"`, `--token …`, `<secret>…`.

A name alone decides nothing: most values of such names are variables, calls, types or labels. So a value is judged, the
more strictly the less its name says.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

import re2
from attrs import evolve, frozen

from intentd.plan.privacy.views import View

Weight = Literal["password", "secret", "token", "key"]

_NAMES: dict[Weight, str] = {
    "password": r"pass_?words?|passwd|passwort|pwd|pass_?(?:phrase|code)|pass|pw|contraseña|contrasena|mot_?de_?passe",
    "secret": (
        r"secrets?|(?:api|access|private|secret|service|account|auth|client|db|database|encryption|signing|master|root"
        r"|shared|admin|deploy|license|ssh|aws|hmac|jwt|consumer|storage)[_-]?keys?|connection[_-]?string"
    ),
    "token": (
        r"(?:(?:access|auth|refresh|bearer|api|id|session)[_-]?)?tokens?|auth|credentials?|cookie|session(?:[_-]?id)?"
        r"|bearer|dsn|webhook(?:[_-]?url)?"
    ),
    "key": r"keys?|salt|seed|iv|pin",
}
_SUFFIX = (
    r"(?i:[_-]?(?:\d{1,3}|id|prod|production|dev|test|staging|live|old|new|backup|value|val|string|text|raw|plain"
    r"|b64|base64|hex|main|default|hash|env|here))?"
)
_MORE = r"(?P<more>(?:[_-][A-Za-z0-9]{1,20}|(?<=[a-z0-9])[A-Z][a-z0-9]{0,20}){0,4})"
"""Further words, as in SECRET_KEY_BASE and passwordProdDb."""
# A further word that makes it a name for something about the secret.
_ABOUT = re.compile(
    r"(?i)files?|encoder|path|dir|folder|len|length|size|min|max|count|counts|limit|num|number|names?|types?|kind|format|urls?|uri"
    r"|hosts?|endpoint|fields?|inputs?|label|hint|placeholder|title|message|msg|errors?|prompt|regex|pattern|policy|rules?"
    r"|validators?|validation|strength|reset|changed?|confirm|required|enabled|disabled|expire[sd]?|expiry|expiration|ttl"
    r"|timeout|seconds|minutes|hours|days|age|at|time|date|created|updated|versions?|rotation|algorithms?|alg|method|func"
    r"|function|fn|callback|handler|hashers?|provider|manager|service|store|storage|backend|class|cls|module|template"
    r"|view|page|form|column|prefix|suffix|separator|encoding|charset|index|position|offset|start|end|refs?|reference|arn"
    r"|ids|list|map|dict|set|group|usage|used|budget|per|is|has|for|from|to|in|not|command|cmd|helper|vars?|variable"
    r"|example|iterations|rounds|attempts|retries|headers?|scopes?|domain|issuer|audience|region|source|status|state"
    r"|visible|mode|level|params?|request|response|exception|info|config|settings|options|schema|model|table|test[s]?"
    r"|fingerprint|signature|digest|checksum"
)
_IN_USE = re.compile(r"(?i)live|prod|production|staging")
# Where a name can begin, found by an automaton: a name of many alternatives is slow to look for otherwise.
_BEGIN = re2.compile("(?i)" + "|".join(_NAMES.values()))
_TYPE = r"[A-Za-z_][\w.]{0,40}(?:\[[\w., |]{0,40}\])?(?: ?\| ?[\w.]{1,20}){0,3}"
_HEAD = re.compile(
    "(?i:" + "|".join(f"(?P<{weight}>{names})" for weight, names in _NAMES.items()) + rf"){_SUFFIX}{_MORE}"
    rf"(?:\\?[\"'`][ \t]{{0,20}}(?P<listed>,[ \t]{{0,20}}(?:default ?= ?)?)(?=[fbruFBRU]{{0,2}}\\?[\"'`])"
    r"|(?:\\?[\"'`])?\]?[ \t]{0,20}"
    rf"(?::[ \t]{{0,8}}{_TYPE} ?=(?!=)|=>|:=|[=!]==?|=|:)[ \t]{{0,20}})",
)
_DEFAULT = re.compile(r"(?i:getenv|environ\.get|env\.fetch|env|config)\([ \t]{0,8}\\?[\"'`][\w.-]*\Z")
"""What may stand before a name, so that its value is what the variable holds else."""
_TIGHT = re.compile(r"\w=\Z")
_FIELD_BEFORE = re.compile(r"[\w.-]=[^\s=,(){};&]*(?: {1,4}|[;&])[\w.-]*\Z")
_FIELD_BEHIND = re.compile(r"(?: {1,4}|[;&])[\w.-]{1,40}=(?=[^\s=])")
_GLUED = re.compile(
    r"(?:[A-Z0-9]+_)*(?!(?:BY|COM|ENCOM|TRES|SUR|OVER|UNDER|MULTI|LAST|RENDER)PASS|OLDPWD)[A-Z0-9]+(?:PASS|PWD|PW)"
)
"""As in DBPASS: the names of variables, but not the words and the passes of a compiler."""
_PLACE_OR_NUMBER = re.compile(r"(?:~|\.{1,2})?(?:/[\w.@-]*)+|\d+")
"""What MYPWD and MAXPASS hold."""
_SPOKEN_OF = re.compile(r"(?:\([\"'`]|[\"'`]/[^\s\"'`]*\?)\Z")
"""Where a field stands alone in a test's title, or in the address of a page."""
_KEY = re.compile(r"[\"'`][ \t]*:[ \t]*\Z")
_ANNOTATED = re.compile(r":[^=]+=")
_OF_ACCOUNT = re.compile(
    r"(?i)db|database|sql|mysql|postgres|pg|redis|mongo|smtp|imap|e?mail|ftp|ssh|ldap|vpn|wifi|users?|admin|root|login"
    r"|account|auth|app"
)
"""With one of these words, `pass` and `pw` with further words are a password, and no step of a compiler's."""
_FLAG = re.compile(
    r"(?:(?<=^[+-])|(?<![\w-]))--?(?:[a-z0-9]{1,20}-){0,4}(?:(?P<password>password|passwd|pass|passphrase)"
    r"|(?P<secret>secret|api-?key|access-?key|secret-?key|private-?key)|(?P<token>token|auth|credentials))[ \t]{1,4}",
    re.MULTILINE,
)
_ELEMENT = re.compile(
    r"<[\w:.-]{0,40}?(?:(?P<password>password|passwd|pwd|passphrase)|(?P<secret>secret|api-?key|access-?key)"
    r"|(?P<token>token))>[ \t]{0,8}(?=[^<>\s]{3,400}</)",
    re.IGNORECASE,
)
_PAIR = re.compile(
    r"(?:\b(?i:name|key)[\"']?\s{0,4}[:=]\s{0,4}[\"']?|[\"'])(?P<name>[\w.-]{0,40}?"
    r"(?i:(?P<password>passw(?:or)?d|passphrase)|(?P<secret>secrets?|api_?key)|(?P<token>tokens?))"
    rf"{_SUFFIX}{_MORE})[\"']?(?:,|\s?[:=]\s?\{{)?\s{{0,40}}[\"']?\b(?i:value)[\"']?\s{{0,4}}[:=]\s{{0,4}}"
)
"""As in `{"name": "DB_PASSWORD", "value": "…"}`."""
_QUOTED = re.compile(r"[fbruFBRU]{0,2}(\\?[\"'`])((?:[^\"'`\\\n]++|\\[^\"'`\n]|(?!\1)[\"'`])*+)(\1)?")
_BARE = re.compile(r"[^\s\"'`,;<>]+(?:[,;][^\s\"'`,;<>]+)*")
_QUERY = re.compile(r"[?&][\w.-]*\Z")
_REST = re.compile(r"[^\s\"'`<>]*")
_MARKS = r"[ \t]*+\n[ \t]*+(?:[+\->|│#*]|E(?=[ \t]))?+[ \t]*+"
_NEXT = re.compile(_MARKS)
_BLOCK = re.compile(rf"[|>][+-]?\d?[+-]?{_MARKS}(\S[^\n]*)")
"""Of YAML: its text begins on the next line."""
_LINE_GAP = re.compile(rf"[\"'`]?[ \t]{{0,8}}[+.\\]?{_MARKS}")
_LITERALS = re.compile(rf"\\?[\"'`][ \t]{{0,8}}[+.]?(?:[ \t]{{0,8}}|{_MARKS})(?=[fbrFBR]?[\"'`])")
_PIECE = re.compile(r"[fbrFBR]?[\"'`]?([^\s\"'`:=(){}\[\],;<>]+=*)([\"'`]?)(?=[\s,;)\]}]|$)")
_OPTION = re.compile(r"(?<![\w-])--[a-z0-9-]*\Z")
_ALONE = re.compile(r"[\"'`,;)\]}]*[ \t]*(?:\n|$)")
MAX_GOES_ON = 4_000
MAX_BARE = 1_000
MAX_JUDGED = 400
"""So many characters of a value decide what it is: a text of names alone would be judged once for each of them."""

_EMPTY = re.compile(
    r"(?i:[\"'\s]*|%[({].*|%[sdr]|%\w+%|\{\{.*|\{\w*\}.*|<.*|\(.*|([*xX.#_\-•?0])\1*|\[redacted\].*|@\w+[({].*"
    r"|none|null|nil|true|false|yes|no|on|off|undefined|string|str|bytes|int|integer|boolean|bool|text|any|object|char"
    r"|required|optional|secret|password|passwd|token|key|value|your[\w .-]*|my-?(?:password|secret|token|key)"
    r"|(?:u?int|float|utf-?|sha-?|md|base|uuid|bcrypt|argon|varchar|str|ed|aes-?|rsa-?)_?\d+)"
    r"|\$(?:[{(].*|[A-Z_][A-Z0-9_]*|[a-z_][A-Za-z_]*)"
)
_REFERENCE = re.compile(r"[!&*]+[A-Za-z_][A-Za-z_.]*")
"""As C and YAML write it; a shell does not."""
_CODE = re.compile(r".*[(){}\[\]|].*|(?:self|this|cls|os|process|env|config|settings|args|options|request|ctx)[.>].*")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->|::|\?\.)[A-Za-z_]\w*)+")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_]*\d{0,3}")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_HASH = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_TOKEN = re.compile(r"[A-Za-z0-9+/=_\-.~%:$!]+")
_PATH = re.compile(
    r"(?:[a-zA-Z]+:)?/{1,2}[\w.-]*/.*|(?:\.{1,2}|~|[\w.-]+)?(?:/[\w.@-]+)+/?|[\w.-]+@[\w.-]+\.\w+|[\d.:,]+"
)
_WORDS = re.compile(r"[A-Za-z]+\d{0,3}|\d{1,8}")
_NUMBERS = re.compile(r"\d+")

# Names that end in "key" or "token" and are open to everybody.
_OPEN = re.compile(
    r"(?i)public|pub|cache|primary|foreign|sort|partition|row|dict|map|object|idempotency|translation|i18n|group|index"
    r"|unique|lookup|query|hash|routing|dedup|content|lock|page|next|continuation|pad|eos|bos|unk|mask|sep|cls|special"
    r"|column|field|hot|arrow|shortcut|tab|enter|modifier|registry|react|ordering|json|yaml|max|min|num|total|prompt"
    r"|completion|stop"
)
_NAME = re.compile(r"[\w.-]*\Z")
_PARTS = re.compile(r"[_\-.]|(?<=[a-z])(?=[A-Z])")


@frozen
class _Value:
    """A value as it stands: between quotes or bare; `last` on its line or followed by more."""

    text: str
    start: int
    quoted: bool
    last: bool


def assigned(view: View, across: bool) -> Iterator[tuple[str, int, int]]:
    """The kinds and places in the view of values that are secret by their name; `across`: only split names."""
    for pattern in (_HEAD,) if across else (_HEAD, _FLAG, _ELEMENT, _PAIR):
        done = 0
        for head in _heads(view.text) if pattern is _HEAD else pattern.finditer(view.text):
            if head.end() < done:  # It stands in a value that is taken out.
                continue
            if across and (not view.joins(head.start(), head.end() + 1) or _ANNOTATED.search(head[0])):
                continue
            if across and "_" not in head["more"] and view.joins(*head.span("more")):  # The next line's word.
                continue
            weight = _weight(view.text, head)
            for kind, start, end in _judged(view.text, head, weight, pattern is not _HEAD) if weight else ():
                yield kind, start, end
                done = end


def _heads(text: str) -> Iterator[re.Match[str]]:
    done = 0
    for begin in _BEGIN.finditer(text):
        head = _HEAD.match(text, begin.start()) if begin.start() >= done else None
        if head:
            done = head.start("more") if head["more"] else head.end()  # A further word may begin a better name.
            yield head


def _weight(text: str, head: re.Match[str]) -> Weight | None:
    """How much the name says; None where it is part of another word, or of a name that is open."""
    weight = next(weight for weight in _NAMES if weight in head.groupdict() and head[weight])
    word = head.start(weight)
    name = _NAME.search(text, max(0, word - 40), word)
    before = name[0] if name else ""
    glued = before[-1:].isalpha() and not (text[word].isupper() and before[-1].islower())
    if glued and (weight in ("token", "key") or head[weight].lower() in ("pass", "pwd", "pw")):
        variable = _GLUED.fullmatch(before + head[weight]) and (_TIGHT.search(head[0]) or _KEY.search(head[0]))
        value = _value(text, head) if variable else None
        return weight if value and not _PLACE_OR_NUMBER.fullmatch(value.text) else None
    more = _further(head)
    parts = [*_PARTS.split(before + head[weight]), *more] if weight in ("token", "key") else []
    if any(map(_OPEN.fullmatch, parts)) or any(map(_ABOUT.fullmatch, more)):
        return None
    if head[weight].lower() in ("pass", "pw") and more and not _in_environment(head):
        return weight if any(map(_OF_ACCOUNT.fullmatch, [*_PARTS.split(before), *more])) else None
    in_use = weight == "key" and _IN_USE.search(head[0])
    return "token" if in_use else weight


def _further(head: re.Match[str]) -> list[str]:
    """The words behind those that make it a secret's name."""
    return list(filter(None, _PARTS.split(head.groupdict().get("more") or "")))


def _judged(text: str, head: re.Match[str], weight: Weight, flag: bool) -> Iterator[tuple[str, int, int]]:
    value = _value(text, head)
    if value is None:
        return
    kind = f"{weight} by name"
    alone = _is_secret(value, weight, head, flag)
    if alone and len(value.text) == MAX_BARE:
        rest = _REST.match(text, value.start + MAX_BARE)
        end = rest.end() if rest else value.start + MAX_BARE
        value = evolve(value, text=text[value.start : end], last=_ends_line(text, end))
    more = _continuation(text, value, alone)
    if more is not None and not alone:
        alone = _is_secret(evolve(value, text=value.text + more[0]), weight, head, flag)
    if alone:
        yield kind, value.start, value.start + len(value.text)
        if more is not None:
            yield kind, more[1], more[2]


def _value(text: str, head: re.Match[str]) -> _Value | None:
    """The value after a separator, on the same line or alone on the next."""
    at = head.end()
    block = _BLOCK.match(text, at) if head[0].rstrip().endswith(":") else None
    if block:
        return _Value(block[1].rstrip(), block.start(1), True, True)
    broken = _NEXT.match(text, at)
    if broken:
        piece = _PIECE.match(text, broken.end())
        if piece is None or not (piece[2] or looks_random(piece[1], 16)):
            return None
        return _Value(piece[1], piece.start(1), True, True)
    quoted = _QUOTED.match(text, at)
    if quoted:
        return _Value(quoted[2], quoted.start(2), True, quoted[3] is None)
    bare = _BARE.match(text, at, at + MAX_BARE)
    if bare is None:
        return None
    field = _QUERY.search(text, max(0, head.start() - 40), head.start())
    behind = "&" if field else "}" if head.re is _PAIR else ""
    end = at + len(bare[0].partition(behind)[0]) if behind else bare.end()
    if end == at:
        return None
    return _Value(text[at:end], at, False, _ends_line(text, end))


def _ends_line(text: str, end: int) -> bool:
    rest = text[end : end + 3].lstrip(" \t")
    return not rest or rest[0] in "\n#"


def _continuation(text: str, value: _Value, sure: bool) -> tuple[str, int, int] | None:
    """What goes on of a value that a line break or a literal's end cut; `sure`: what is there is secret already."""
    first = end = value.start + len(value.text)
    whole = ""
    while len(whole) < MAX_GOES_ON:
        piece = _next_literal(text, end) if value.quoted and not value.last else None
        piece = piece or _next_line(text, end, value, sure)
        if piece is None:
            break
        first = first if whole else piece.start
        whole, end = whole + piece.text, piece.start + len(piece.text)
    return (whole, first, end) if whole else None


def _next_literal(text: str, end: int) -> _Value | None:
    """The literal that code puts behind this one."""
    gap = _LITERALS.match(text, end)
    literal = _QUOTED.match(text, gap.end()) if gap else None
    if literal is None or not literal[2] or " " in literal[2]:
        return None
    return _Value(literal[2], literal.start(2), True, False)


def _next_line(text: str, end: int, value: _Value, sure: bool) -> _Value | None:
    """The token at the beginning of the next line, if it looks like more of the value above it."""
    gap = _LINE_GAP.match(text, end)
    piece = _PIECE.match(text, gap.end()) if gap and value.last else None
    if piece is None:
        return None
    token = piece[1]
    mixed = any(map(str.isdigit, token)) and any(map(str.isalpha, token))
    closes = value.quoted and bool(piece[2])
    alone = _ALONE.match(text, piece.end()) is not None
    padded = len(token) > 3 and token.endswith("=")
    if not (closes or (sure and (padded or (alone and (mixed or not value.quoted)))) or looks_random(token, 12)):
        return None
    return _Value(token, piece.start(1), value.quoted, value.last)


def _is_secret(value: _Value, weight: Weight, head: re.Match[str], flag: bool) -> bool:
    text = value.text[:MAX_JUDGED].rstrip("\\")
    if weight == "key" and _HASH.fullmatch(text):
        return False
    if _REFERENCE.fullmatch(text) and not _in_environment(head):
        return False
    if _is_in_list(head) and not _is_no_word(text):
        return False
    if _EMPTY.fullmatch(text) or (weight != "password" and _PATH.fullmatch(text) and not looks_random(text, 20)):
        return False
    sure = _in_environment(head) and not head[0].startswith("PASS_")
    if _further(head) and not (
        sure or _is_no_word(text) or (weight == "password" and len(text) > 5 and _has_both(text))
    ):
        return False
    if weight == "password":
        return _is_password(text, value, head, flag)
    if weight == "secret":
        return _is_plain_secret(text, value, head)
    if _TOKEN.fullmatch(text) is None:
        return False
    return looks_random(text, 16 if weight == "token" else 20, uuid=weight == "token") or _is_mixed(text)


def _is_password(text: str, value: _Value, head: re.Match[str], flag: bool) -> bool:
    odd = any(not char.isalnum() and char not in "_ " for char in text)
    digit = any(map(str.isdigit, text))
    if value.quoted:
        phrase = " " in text
        return len(text) >= 3 and not text.endswith((":", "?")) and (not phrase or "phrase" in head[0].lower() or digit)
    in_environment = _in_environment(head) or _is_field(value, head)
    if (_CODE.fullmatch(text) and not (value.last and in_environment)) or _DOTTED.fullmatch(text):
        return False
    if flag:
        return len(text) >= 4 and not text.isupper() and text[0] != "-" and (value.last or odd or digit)
    if in_environment:
        return len(text) >= 4
    if _IDENTIFIER.fullmatch(text):
        return (value.last or _is_told(value, head)) and digit and len(text) >= 5
    return len(text) >= 5 and (digit or odd) and not text.isdigit()


def _in_environment(head: re.Match[str]) -> bool:
    """Whether it is written as a shell and its files do: NAME=value or --name=value, without a space.

    Or as a container's environment is listed: NAME and value apart.
    """
    if head.re is _PAIR:
        return head["name"].isupper()
    if not head[0].endswith("=") or head[0].endswith("=="):
        return False
    return head[0].isupper() or _OPTION.search(head.string, max(0, head.start() - 40), head.start()) is not None


def _is_field(value: _Value, head: re.Match[str]) -> bool:
    """Whether it is one of several as in a connection string, or the last thing in a literal."""
    text, end = head.string, value.start + len(value.text)
    if not _TIGHT.search(head[0]) or not value.text[0].isalnum():
        return False
    before = _before(head)
    if _FIELD_BEFORE.search(before) or _FIELD_BEHIND.match(text, end):
        return True
    word = value.text.isalpha() and value.text.islower()
    return text[end : end + 1] in ('"', "'", "`") and not (word and _SPOKEN_OF.search(before))


def _is_told(value: _Value, head: re.Match[str]) -> bool:
    """Whether it stands in a sentence, as in a log, and not among a call's arguments."""
    text, end = head.string, value.start + len(value.text)
    before = _before(head)
    call = before.rfind("(") > max(before.rfind('"'), before.rfind("'"))
    return bool(_TIGHT.search(head[0])) and text[end : end + 1] in (" ", ";") and not call


def _before(head: re.Match[str]) -> str:
    """What stands before it on its line."""
    return head.string[max(0, head.start() - 200) : head.start()].rpartition("\n")[2]


def _is_in_list(head: re.Match[str]) -> bool:
    """Whether a comma stands between name and value, which need not belong together then."""
    if not head.groupdict().get("listed"):
        return False
    return _DEFAULT.search(head.string, max(0, head.start() - 80), head.start()) is None


def _is_no_word(text: str) -> bool:
    """Whether it can hardly be the next name in a list."""
    return _has_both(text) and not (
        " " in text or _CODE.fullmatch(text) or all(map(_WORDS.fullmatch, re.split(r"[-_./:]+", text)))
    )


def _has_both(text: str) -> bool:
    return any(map(str.isdigit, text)) and any(map(str.isalpha, text))


def _is_plain_secret(text: str, value: _Value, head: re.Match[str]) -> bool:
    if len(text) < 8 or _CODE.fullmatch(text):
        return False
    if value.quoted:
        return " " not in text
    if _in_environment(head) or _is_field(value, head):
        return True
    if _DOTTED.fullmatch(text) or (_IDENTIFIER.fullmatch(text) and not (value.last and _is_mixed(text))):
        return False
    return (any(map(str.isdigit, text)) and any(map(str.isalpha, text))) or _is_mixed(text)


def _is_mixed(text: str) -> bool:
    """Whether capitals stand about as they do in no name: base64 may be without a digit."""
    if len(text) < 20 or not 0.3 <= sum(map(str.isupper, text)) / len(text) <= 0.7:
        return False
    return sum(one.isupper() != other.isupper() for one, other in pairwise(text)) / len(text) >= 0.3


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


def _entropy(text: str) -> float:
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts)
