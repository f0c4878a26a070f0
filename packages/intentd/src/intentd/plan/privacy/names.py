"""Owns the names that secrets are given to, where they stand, and how much each says; not what stands behind them."""

import re
from collections.abc import Iterator
from typing import Literal

import re2

Weight = Literal["password", "secret", "token", "key"]
_NAMES: dict[Weight, str] = {
    "password": r"pass_?words?|passwd|passwort|pwd|pass_?(?:phrase|code)|pass|pw|contraseña|contrasena|mot_?de_?passe"
    r"|psk|pre_?shared_?key",
    "secret": (
        r"(?:api|access|private|secret|service|account|auth|client|db|database|encryption|signing|master|root"
        r"|shared|admin|deploy|license|ssh|aws|hmac|jwt|consumer|storage)[_-]?keys?|connection[_-]?string|secrets?"
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
_TYPE = (
    r"(?:&(?:'\w{1,20} )?)?\[?[A-Za-z_][\w.<>]{0,40}(?:; ?\w{1,20})?\]?(?:\[[\w., |()=\[\]]{0,60}\])?"
    r"(?: ?\| ?[\w.]{1,20}){0,3}"
)
HEAD = re.compile(
    "(?i:" + "|".join(f"(?P<{weight}>{names})" for weight, names in _NAMES.items()) + rf"){_SUFFIX}{_MORE}"
    rf"(?:\\?[\"'`][ \t]{{0,20}}(?P<listed>,[ \t]{{0,20}}(?:default ?= ?)?)(?=[fbruFBRU]{{0,2}}\\?[\"'`])"
    r"|(?:[\"'`][\])][ \t]?(?:\{|\.unwrap_or\()|(?:[\"'`]?[\])])?[ \t]{0,4}(?:\bor|\|\||\?[?:]))[ \t]{0,4}(?=[\"'`])"
    r"|(?:\\?[\"'`])?\]?[ \t]{0,20}"
    rf"(?:[?!]?:[ \t]{{0,8}}{_TYPE} ?=(?!=)|\{{[ \w;]{{3,40}}\}} ?=|=>|:=|[=!]==?|(?:\|\||\?\??)?=|:)[ \t]{{0,20}})",
)
FLAG = re.compile(
    r"(?:(?<=^[+-])|(?<![\w-]))--?(?:[a-z0-9]{1,20}-){0,4}(?:(?P<password>password|passwd|pass|passphrase)"
    r"|(?P<secret>secret|api-?key|access-?key|secret-?key|private-?key)|(?P<token>token|auth|credentials))[ \t]{1,4}",
    re.MULTILINE,
)
ELEMENT = re.compile(
    r"<(?:(?:property|setting|entry|param|string) (?:name|key)=[\"'])?[\w:.-]{0,40}?(?:(?P<password>password|passwd|pwd"
    r"|passphrase)|(?P<secret>secret|api-?key|access-?key)|(?P<token>token))(?:[\"'][^<>\n]{0,60})?>\s{0,8}"
    r"(?:<value>)?(?=[^<>\s]{3,400}</)",
    re.IGNORECASE,
)
_BEGUN = "(?i:" + "|".join(f"(?P<{weight}>{names})" for weight, names in _NAMES.items()) + ")"
_NAMED = rf"(?P<name>[\w./-]{{0,60}}?{_BEGUN}{_SUFFIX}{_MORE})[\"']?"
_MARK = r"(?:[+\->|│#*]|E(?=[ \t]))"
_APART = (
    rf"(?:\n{_MARK}?[ \t]{{0,40}}(?:#|[\"']?(?i:scope|type|description|sensitive)[\"']?\s?:)"
    rf"[^\n]{{0,100}}){{0,2}}?(?:\s|\n{_MARK}){{0,40}}"
)
"""Between the two, also where a diff or a quotation puts marks before each line, and where it is said what they are."""
_KEY_OF_PAIR = r"\b(?:Parameter)?(?i:name|key)[\"']?\s{0,4}[:=]\s{0,4}[\"']?"
_VALUE_OF_PAIR = r"\b(?:Parameter)?(?i:value)[\"']?\s{0,4}[:=]"
_THEN_VALUE = (
    rf"(?:(?:,|\s?[:=]\s?\{{)?{_APART}[\"']?{_VALUE_OF_PAIR}|\s?\{{[^{{}}]{{0,200}}?\bdefault\s{{0,4}}=)\s{{0,4}}"
)
BEFORE = re.compile(
    rf"{_VALUE_OF_PAIR}\s{{0,4}}[\"']?(?P<value>[^\s\"',{{}}]{{3,200}})[\"']?,?{_APART}[\"']?"
    rf"{_KEY_OF_PAIR}{_NAMED}(?![\w./-])"
)
"""As in `{"value": "…", "name": "DB_PASSWORD"}`."""
PAIR = re.compile(rf"(?:{_KEY_OF_PAIR}|[\"'])(?=[\w./-]{{1,160}}[\"']?{_THEN_VALUE}){_NAMED}{_THEN_VALUE}")
"""As in `{"name": "DB_PASSWORD", "value": "…"}`, and a variable of Terraform."""
TIGHT = re.compile(r"\w=\Z")
_KEY = re.compile(r"[\"'`][ \t]*:[ \t]*\Z")
_GLUED = re.compile(
    r"(?:[A-Z0-9]+_)*(?!(?:BY|COM|ENCOM|TRES|SUR|OVER|UNDER|MULTI|LAST|RENDER)PASS|OLDPWD)[A-Z0-9]+(?:PASS|PWD|PW)"
)
"""As in DBPASS (and dbpass): the names of variables, but not the words and the passes of a compiler."""
_PLACE_OR_NUMBER = re.compile(r"[\"'`]?(?:(?:~|\.{1,2})?(?:/[\w.@-]*+)++|\d++)(?![^\s\"'`,;<>])")
"""What MYPWD and MAXPASS hold."""
_FOLDER = re.compile(
    r"[\"'`]?(?:~|\.{1,2})?(?:(?:/[\w.@+-]++){2,}+/?|/[A-Z]?[a-z]*+/?|[A-Z]:(?:\\{1,2}[\w.@-]++)++)(?![^\s\"'`,;<>]|;\S)"
)
"""What PWD holds: more than one word, or a word of small letters."""
_OF_ACCOUNT = re.compile(
    r"(?i)db|database|sql|mysql|postgres|pg|redis|mongo|smtp|imap|e?mail|ftp|ssh|ldap|vpn|wifi|users?|admin|root|login"
    r"|account|auth|app"
)
"""With one of these words, `pass` and `pw` with further words are a password, and no step of a compiler's."""
# Names that end in "key" or "token" and are open to everybody.
_OPEN = re.compile(
    r"(?i)public|pub|cache|primary|foreign|sort|partition|row|dict|map|object|idempotency|translation|i18n|group|index"
    r"|unique|lookup|query|hash|routing|dedup|content|lock|page|next|continuation|pad|eos|bos|unk|mask|sep|cls|special"
    r"|column|field|hot|arrow|shortcut|tab|enter|modifier|registry|react|ordering|json|yaml|max|min|num|total|prompt"
    r"|completion|stop"
)
_NAME = re.compile(r"[\w.-]*\Z")
_PARTS = re.compile(r"[_\-.]|(?<=[a-z])(?=[A-Z])")
_OPTION = re.compile(r"(?<![\w-])--(?:[a-z0-9-]*|[a-z0-9-]+[= ][\w.-]*)\Z")


def heads(text: str) -> Iterator[re.Match[str]]:
    done = 0
    for begin in _BEGIN.finditer(text):
        head = HEAD.match(text, begin.start()) if begin.start() >= done else None
        if head:
            done = head.start("more") if head["more"] else head.end()  # A further word may begin a better name.
            yield head


def weight_of(text: str, head: re.Match[str]) -> Weight | None:
    """How much the name says; None where it is part of another word, or of a name that is open."""
    weight = next(weight for weight in _NAMES if weight in head.groupdict() and head[weight])
    word = head.start(weight)
    name = _NAME.search(text, max(0, word - 40), word)
    before = name[0] if name else ""
    glued = before[-1:].isalpha() and not (text[word].isupper() and before[-1].islower())
    if glued and (weight in ("token", "key") or head[weight].lower() in ("pass", "pwd", "pw", "psk")):
        variable = (_GLUED.fullmatch(before + head[weight]) and (TIGHT.search(head[0]) or _KEY.search(head[0]))) or (
            weight == "password" and _OF_ACCOUNT.fullmatch(_PARTS.split(before)[-1])
        )
        return weight if variable and not _PLACE_OR_NUMBER.match(text, head.end()) else None
    if (
        (head[weight] in ("pwd", "PWD") or head[0].startswith("Pwd:"))
        and not before.lstrip("-")
        and text[word - 1 : word] != ";"
        and _FOLDER.match(text, head.end())
    ):
        return None
    more = further(head)
    parts = [*_PARTS.split(before + head[weight]), *more] if weight in ("token", "key") else []
    if any(map(_OPEN.fullmatch, parts)) or any(map(_ABOUT.fullmatch, more)):
        return None
    apart = head.re in (PAIR, BEFORE)
    if head[weight].lower() in ("pass", "pw") and (more or apart) and not in_environment(head):
        return weight if any(map(_OF_ACCOUNT.fullmatch, [*_PARTS.split(before), *more])) else None
    in_use = weight == "key" and _IN_USE.search(head[0])
    return "token" if in_use else weight


def further(head: re.Match[str]) -> list[str]:
    """The words behind those that make it a secret's name."""
    return list(filter(None, _PARTS.split(head.groupdict().get("more") or "")))


def in_environment(head: re.Match[str]) -> bool:
    """Whether it is written as a shell and its files do: NAME=value or --name=value, without a space.

    Or as a container's environment is listed: NAME and value apart.
    """
    if head.re in (PAIR, BEFORE):
        return head["name"].isupper() and "/" not in head["name"]
    if head[0].rstrip().endswith("?="):  # of Make
        return head[0].isupper()
    if not head[0].endswith("=") or head[0].endswith("=="):
        return False
    return head[0].isupper() or _OPTION.search(head.string, max(0, head.start() - 40), head.start()) is not None
