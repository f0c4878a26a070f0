"""Owns secrets that show by their form alone: tokens of known services, credentials in addresses and headers.

The forms are those of detect-secrets' detectors, whose compiled patterns are used as they are: its own scanning reads
files, keeps global settings and yields only parts of a match, so it cannot redact. Beside them are forms that it lacks.
Its detectors that go by a name (keyword, IBM, Softlayer, Cloudant) and by entropy are replaced by `assigned`: they flag
every quoted hash.
"""

import re
from collections.abc import Iterator

import re2
from attrs import frozen
from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
from detect_secrets.plugins.base import RegexBasedDetector
from detect_secrets.plugins.basic_auth import BasicAuthDetector
from detect_secrets.plugins.discord import DiscordBotTokenDetector
from detect_secrets.plugins.github_token import GitHubTokenDetector
from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
from detect_secrets.plugins.jwt import JwtTokenDetector
from detect_secrets.plugins.mailchimp import MailchimpDetector
from detect_secrets.plugins.openai import OpenAIDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector
from detect_secrets.plugins.telegram_token import TelegramBotTokenDetector
from detect_secrets.plugins.twilio import TwilioKeyDetector

from intentd.plan.privacy.looks import MAX_JUDGED, RESULT, looks_random
from intentd.plan.privacy.views import View

DETECTORS: tuple[type[RegexBasedDetector], ...] = (
    AWSKeyDetector,
    AzureStorageKeyDetector,
    BasicAuthDetector,
    DiscordBotTokenDetector,
    GitHubTokenDetector,
    GitLabTokenDetector,
    JwtTokenDetector,
    MailchimpDetector,
    OpenAIDetector,
    PypiTokenDetector,
    SendGridDetector,
    SlackDetector,
    SquareOAuthDetector,
    StripeDetector,
    TelegramBotTokenDetector,
    TwilioKeyDetector,
)


@frozen
class Form:
    """How one secret looks: its pattern and the group that is secret.

    `hint` is a text without which it cannot be there, in lower case. `split`: it is so particular that it is looked for
    across line breaks too. `random`: only with capitals and digits, or as a hash. `apart`: only where it does not go on
    from a word, and random all over.

    A search holds the interpreter's lock, so each has to take time in proportion to the text, whatever that is: what
    has to follow a part of any length is found by an automaton (`re2`), or that part has a bound.
    """

    kind: str
    pattern: re.Pattern[str]
    hint: str = ""
    group: int = 0
    split: bool = True
    random: bool = False
    apart: bool = False


# The part of a detector's match that is secret, where it is not the whole; what cannot be there without a hint.
_GROUPED = (AWSKeyDetector, BasicAuthDetector)
_HINTS: dict[type[RegexBasedDetector], str] = {
    BasicAuthDetector: "://",
    JwtTokenDetector: "eyj",
    MailchimpDetector: "-us",
    OpenAIDetector: "t3blbkfj",
}
_UNBOUNDED = (JwtTokenDetector, OpenAIDetector)


def _borrowed() -> Iterator[Form]:
    for detector in DETECTORS:
        for pattern in detector().denylist:
            yield Form(
                kind=str(detector.secret_type),
                pattern=re2.compile(pattern.pattern) if detector in _UNBOUNDED else pattern,
                hint=_HINTS.get(detector, ""),
                group=pattern.groups if detector in _GROUPED else 0,
                split=detector is not TelegramBotTokenDetector,
                apart=detector is TwilioKeyDetector,
            )


def _own(kind: str, hint: str, pattern: str, group: int = 0, *, split: bool = True, random: bool = False) -> Form:
    return Form(kind, re.compile(pattern, re.ASCII), hint, group, split, random)


# How the tokens of further services begin.
_SERVICES = (
    r"gsk_|xai-|r8_|pplx-|sbp_|ntn_|secret_|lin_(?:api|oauth)_|fm[12]_|fo1_|dp\.(?:pt|st|ct|sa|scim|audit)\.|sntry[su]_"
    r"|glsa_|glc_|NRAK-|NRII-|HRKU-|fig[dou]_|pul-|tskey-[a-z]{2,12}-|lsv2_(?:pt|sk)_|pcsk_|rubygems_|dckr_[po]at_|sq0[a-z]{3}-"
    r"|PMAK-|ops_|nf[cpu]_|bk[up]a_|vercel_|vc[pciarkp]_|pscale_[a-z]{2,6}_|sk\.eyJ|ph[cx]_|tvly-|fc-|nvapi-|jina_"
    r"|tgp_v1_|csk-|e2b_|sl\.|shippo_(?:live|test)_|dt0c01\.|sgp_|fw_|hf_|api_org_|CFPAT-|gl(?:pat|dt|rtr?|cbt|ptt|ft|imt|agent|soat|ffct|wt|oas)-"
    r"|rpa_|rk-|xkeysib-|xsmtpsib-|sha256~|ctp_|cfut_|wandb_v1_|AC[TG]-"
)


def _service(pattern: str, hint: str = "") -> Form:
    return Form("Service Token", re2.compile(pattern), hint, apart=True)


# Between the arguments of a call, also where a diff or a failed assertion puts marks before each line.
_GAP = r"(?:\s|(?<=\n)[+\->|E]){0,40}"
_TEXT = rf"{_GAP}[\"'][^\"'\n]{{1,100}}[\"'],"
_PORTS = r"[\d.:-]{1,40}:[\d-]{1,11}(?:/[a-z]{3})?(?:[\s\"']|$)"
_WORDS = r"[A-Za-z]{1,40}\d{0,3}(?:[/:-][A-Za-z]{1,40}\d{0,3}){1,9}"
_NO_SECRET = rf"o?auth|[\w.\[\],-]{{1,80}}[<>=~!]=|(?:\w{{1,20}}:[\w-]{{1,40}}|{_WORDS})[\"']"
"""A way to sign in, a package, or the path of a page, as lists of them hold."""
_NO_PAGE = rf"(?!{_GAP}[\"']/)"
_NAME_AND_SECRET = rf"{_TEXT}{_GAP}[\"']([^\"'\n]{{3,200}})\n?[\"']"

_OWN = (
    _service(rf"(?:{_SERVICES})[A-Za-z0-9_.=+/-]{{20,}}"),
    _own("Service Token", "", r"(?<![\w+/-])(?:cio|EAAA|EZ[AT]K|ATCTT3)[A-Za-z0-9_-]{30,}", random=True),
    _own(
        "Token without its middle",  # as pytest shortens it
        "...",
        rf"(?<![\w-])(?:sk-|gh[opusr]_|github_pat_|xox[a-z]-|AKIA|{_SERVICES})[\w-]{{4,60}}\.\.\.[\w+/=-]{{4,60}}",
        split=False,
        random=True,
    ),
    _service(r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}", ".atlasv1."),
    _service(r"pat[A-Za-z0-9]{14}\.[0-9a-f]{40,}", "pat"),
    Form("Webhook", re2.compile(r"discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d{5,30}/([\w-]{20,})"), "/webhooks/", 1),
    Form("Webhook", re2.compile(r"webhook\.office\.com/webhookb2/([\w@/-]{20,})"), "/webhookb2/", 1),
    _own(
        "Token",
        "",  # any short word before letters of both cases and three numbers
        r"(?<![\w+/=.-])[a-z]{2,12}[_-](?=[a-z0-9]*[A-Z])(?=[A-Z0-9]*[a-z])(?=[0-9]{0,9}(?:[A-Za-z]{1,40}[0-9]{1,9}){3})"
        r"[A-Za-z0-9]{32,}",
    ),
    _own("Token in an address", "://", r"://([\w~-]{20,200})@", 1, random=True),
    _own(
        "Credentials in a call",
        "auth",
        rf"(?<![A-Za-z])(?<!requires_)(?<!require_)(?<!without_)(?<!needs_)(?<!skip_)(?<!no_)"
        rf"auth[\"']?\s?[=:]\s?\({_NO_PAGE}(?![ \t]*\n){_NAME_AND_SECRET}",
        1,
    ),
    _own(
        "Credentials in a call",
        "auth",
        rf"(?i)auth[\"']?\s?[=:]\s?"
        rf"(?:\({_NO_PAGE}(?![ \t]*\n)"
        rf"|[\[(](?={_TEXT}{_GAP}[\"'](?!{_NO_SECRET})[^\"'\n]{{0,200}}?\d))"
        rf"{_NAME_AND_SECRET}{_GAP},?{_GAP}[)\]]",
        1,
    ),
    _own(
        "Credentials in a call",
        "basicauth(",
        rf"(?i)basicauth\({_NAME_AND_SECRET}",
        1,
    ),
    _own("Secret in a call", "secret", r"\bSecret(?:Str|Bytes)\(\s?[\"']([^\"'\n]{3,200})[\"']", 1),
    _own("Credentials in a call", "(", rf"(?i)\b(?:login\(|(?:mysqli(?:_connect)?|pdo)\({_TEXT}){_NAME_AND_SECRET}", 1),
    _own(
        "Password in a call",
        "password(",
        r"(?i)(?:(?:check|change|make|verify|hash|with)_?password\(\s?"
        r"|(?:(?<!re)set|reset(?!_?password\(\s?[\"'][\w.+-]{1,60}@[\w.-]{1,60}\.[a-z]{2,9}[\"'])|update)_?password\(\s?"
        r"(?![\"'][^\"'\n]{1,200}[\"'],\s{0,4}[\"']))[\"'](?!password\b)([^\"'\n]{3,200})[\"']",
        1,
    ),
    _own(
        "Password in a call",  # behind the user's name, or the old one
        "password(",
        r"(?i)(?:set|check|change|verify|reset|update)_?password\(\s?[\"'][^\"'\n]{1,200}[\"'],\s{0,4}"
        r"[\"']([^\"'\n]{3,200})[\"']",
        1,
    ),
    _own(
        "docker login",
        "login",
        r"\b(?:docker|podman|helm)\b[^\n]{0,40}\slogin\b[^\n]{0,200}?\s-p[ =]?[\"']?"
        rf"(?!{_PORTS})([^\s\"']+)",
        1,
        split=False,
    ),
    _own(
        "mysql",
        "mysql",
        rf"\bmysql\w*\b[^\n]{{0,200}}?\s-p(?!rint[0f]?\b|ath\b|erm\b|rune\b|thread(?![^\s\"'])|edantic(?:-errors)?(?![^\s\"'])|{_PORTS})[\"']?([^\s\"']{{4,}})",
        1,
        split=False,
    ),
    _own("GitHub Token", "gith", r"github_pat_[A-Za-z0-9_]{22,255}"),
    _own("GitHub Token", "gh", r"gh[opusr]_[A-Za-z0-9]{36,255}"),
    _own("GitLab Token", "glpat", r"glpat-[A-Za-z0-9_-]{20,}"),
    _own("Google API Key", "aiza", r"AIza[0-9A-Za-z_-]{35}"),
    _own("Google OAuth", "ya29.", r"ya29\.[0-9A-Za-z_-]{20,}"),
    _own("Google OAuth", "gocspx", r"GOCSPX-[0-9A-Za-z_-]{20,}"),
    _own("Azure Key", "accountkey", r"AccountKey=([A-Za-z0-9+/=]{40,})", 1),
    _own("Azure Key", "sharedaccesskey", r"SharedAccess(?:Key|Signature)=([^\s;\"']{20,})", 1),
    _own(
        "WPA",
        "p",
        r"(?m)^[^\n(,=]{0,80}?(?:(?<![\w.-])|(?<=^-))(?:wpa_)?(?:psk|passphrase)=[\"']?"
        r"(?![\w.]{0,60}(?:psk|passphrase))([^\s\"',()]{8,64})[\"']?[ \t]{0,40}(?:$|[ \t]#)",
        1,
        split=False,
    ),
    Form("Authorization Code", re.compile(r"[?&#]code=([\w.~%/+-]{20,})"), "code=", 1, apart=True),
    _own(
        "pgpass",
        ":",
        r"(?m)^[+ -]?[ \t]{0,8}[\w.*-]{1,100}:(?:\*|\d{4,5}):(?!\d{1,9}:)[\w.*-]{1,100}:[\w.*-]{1,100}"
        r":([^\s:]{4,200})[ \t]{0,8}$",
        1,
        split=False,
    ),
    _own("Azure Signature", "sig=", r"[?&;]sig=([A-Za-z0-9%+/=_-]{20,})", 1),
    _own("Azure Client Secret", "q~", r"(?<![\w~.-])[\w~.-]{3}\dQ~[\w~.-]{31,34}"),
    _own("Slack Token", "xox", r"xox[abceoprs]-[A-Za-z0-9-]{10,}"),
    _own("Slack Token", "xapp-", r"xapp-\d-[A-Za-z0-9-]{10,}"),
    _own("Stripe Key", "k_", r"(?:sk|rk)_(?:live|test)_[0-9a-zA-Z]{16,}"),
    _own("Stripe Key", "whsec_", r"whsec_[0-9a-zA-Z+/=]{24,}"),
    _own("SendGrid API Key", "sg.", r"SG\.[\w-]{16,}\.[\w-]{16,}"),
    _own("npm Token", "_authtoken", r"_authToken[\"']?\s{0,4}[=:]\s{0,4}[\"']?([^\s\"'$]{8,})", 1),
    _own("npm Token", "npm_", r"npm_[A-Za-z0-9]{36,}"),
    _own("PyPI Token", "pypi-ag", r"pypi-Ag[A-Za-z0-9_-]{50,}"),
    _own("OpenAI Token", "sk-", r"(?<![\w-])sk-[A-Za-z0-9_-]{20,}", random=True),
    Form("JSON Web Token", re2.compile(r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?"), "eyj"),
    _own("Credentials in an address", "%40", r"(?i)%3A%2F%2F[^\s%]{0,100}%3A(\S{1,200}?)%40", 1),
    _own(
        "Credentials in an address",
        "://",
        r"(?:postgres\w{0,10}|mysql|mariadb|mssql|mongodb|mongodb\+srv|rediss?|amqps?)://[^\s/:@]{0,100}:([^\s\"'`<>@]{1,200})@",
        1,
    ),
    _own("Encoded field", "%3d", r"(?i)(?:passw(?:or)?d|pwd|secret|token|api_?key)%3D([^\s&%\"']{6,200})", 1),
    _own("Password Hash", "$", r"\$(?:2[abxy]|1|5|6|7|y|apr1|argon2\w{1,2})\$[./A-Za-z0-9$=,+-]{20,200}"),
    _own(
        "Password in SQL",
        "'",
        r"(?i)\b(?:identified\s{1,4}(?:with\s{1,4}\S{1,40}\s{1,4})?by|(?:create|alter)\s{1,4}(?:role|user)\s[^\n';]{1,100}?\spassword"
        r"|with\s{1,4}(?:encrypted\s{1,4})?password|set\s{1,4}password(?:\s{1,4}for\s{1,4}\S{1,60})?\s?=)"
        r"\s{0,4}'([^'\n]{3,200})'",
        1,
    ),
    _own(
        "Environment",
        "",
        r"\b(?:ENV|setenv|setx)[ \t]{1,8}\w{0,40}(?:PASS|PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|SECRET_?KEY)"
        r"(?:_\w{1,20})?[ \t]{1,8}[\"']?([^\s=\"']{4,})",
        1,
        split=False,
    ),
    _own(
        "Compared Password", "==", r"[\"']([^\"'\n]{3,100})[\"'] ?== ?[\w.]{0,40}(?:password|passwd)\b", 1, split=False
    ),
    _own(
        "redis", "", r"(?m)(?:^[+ -]?|--|SET )(?:requirepass|masterauth)[ \t]{1,4}[\"']?([^\s\"']{3,})", 1, split=False
    ),
    _own(
        "chpasswd",
        "chpasswd",
        r"[\s\"'][\w.-]{1,40}:([^\s\"'|:]{3,100})[\"']?\s{0,4}\|[^\n|]{0,20}\bchpasswd\b",
        1,
        split=False,
    ),
    _own("keytool", "pass", r"(?<![\w-])-(?:src|dest)?(?:store|key)pass[ \t]{1,4}[\"']?([^\s\"']{3,})", 1, split=False),
    _own(
        "Password in a block",  # of Gradle, Clojure or Erlang
        "password",
        r"(?im)(?:^[+-]?[ \t]{0,40}(?=[^\n]{0,300}[\"'][ \t,;})]{0,4}$):?[\w-]{0,30}password[ \t]{1,4}"
        r"|(?:[{\s]:[\w-]{0,30}password[ \t]{1,4}|\{[\w-]{0,30}password,[ \t]{0,4})"
        r"(?=\"[^\"\s\d!@#$%^&*?]{0,99}[\d!@#$%^&*?][^\"\s]{0,99}\"))"
        r"[\"'](?!password\b)([^\"'\n]{3,200})[\"']",
        1,
        split=False,
    ),
    _own(
        "Property list",
        "</key>",
        rf"(?i)<key>[\w.-]{{0,40}}?(?:password|secret|api_?key)</key>{_GAP}<string>([^<>\s]{{3,400}})</string>",
        1,
        split=False,
    ),
    _own("JSON Web Key", '": ', r"\"(?:d|[dpq]p?|dq|qi|k)\": \"(?=[\w-]{0,40}[G-Z])([\w-]{40,1000})\"", 1, random=True),
    _own("Mnemonic", "mnemonic", r"(?i)mnemonic[\"']?\s?[:=]\s?[\"'`]((?:[a-z]{3,8} ){11,23}[a-z]{3,8})[\"'`]", 1),
    _own("Wallet Key", "accounts", r"accounts[\"']?:\s?\[\s{0,20}[\"']((?:0x)?[0-9a-fA-F]{64})[\"']", 1),
    _own("redis-cli", "redis-cli", r"\bredis-cli\b[^\n]{0,200}?\s-a\s{1,4}[\"']?([^\s\"']+)", 1, split=False),
    _own("ldap", "ldap", r"\bldap[a-z]{2,20}\b[^\n]{0,200}?\s-w\s{1,4}[\"']?([^\s\"']+)", 1, split=False),
    _own(
        "curl",
        "curl",
        r"curl\b[^\n]{0,300}?\s(?:-b|--cookie)[ =]?[\"']?([^\s\"'=]{1,60}=[^\n\"']{8,})",
        1,
        split=False,
    ),
    _own("Hugging Face Token", "hf_", r"(?<!\w)hf_[A-Za-z0-9]{30,}"),
    _own("DigitalOcean Token", "_v1_", r"do[opr]_v1_[0-9a-f]{64}"),
    _own("Shopify Token", "shp", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    _own("Vault Token", "hv", r"(?<!\w)hv[sbr]\.[\w-]{24,}"),
    _own("Databricks Token", "dapi", r"(?<!\w)dapi[0-9a-f]{32}"),
    _own("Mailgun Key", "key-", r"(?<![\w-])key-[0-9a-f]{32}(?!\w)"),
    _own("Atlassian Token", "atatt3", r"ATATT3[\w=-]{50,}"),
    _own("Age Key", "age-secret", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    _own("Credentials in an address", "://", r"://[^\s/:@\"'`<>]{0,100}:([^\s/\"'`<>]{1,200})@", 1),
    _own(
        "Authorization",
        "auth",
        r"(?i)authorization[\"']?\s{0,4}(?:[:=,]\s{0,4}|(?<=\s)(?=[\"']))"
        r"[\[bfr]?[\"']?\n?(?:bearer|basic|token|digest|apikey)"
        r"(?:[ \t]+\n?|[ \t]*\n[+-]?[ \t]{1,40}(?![\w-]{1,40}:\s|[A-Za-z][a-z_-]{0,40}[ \t]{1,4}[a-z]))"
        r"([^\s\"',;\]]{8,})",
        1,
    ),
    _own("Authorization", "authorization", r"(?i)authorization[\"']?\s?[:=]\s?[\"']?([\w.+/=~-]{16,})", 1, random=True),
    _own("Bearer", "bearer", r"(?i)\bbearer\s+([\w.~+/-]{16,}=*)", 1, random=True),
    _own(
        "Cookie",
        "cookie",
        r"(?i)\b(?:set-)?cookie[\"']?\s?:\s?[\"']?(?:[^\s=;\"'(){}\[\],<>]{1,100}=[^\s;\"']{0,15};\s?){0,20}"
        r"(?!(?:domain|path|expires)=|[^\s=;]{1,40}=/)([^\s=;\"'(){}\[\],<>]{1,100}(?:\[[\w.-]{0,40}\])?=(?!>)[^\s;\"']{16,}[^\n\"']*)",
        1,
        split=False,
    ),
    _own(
        "netrc",
        "login",
        r"(?i)\b(?:machine\s+\S+|default(?=\s+login\s+(?!(?:and|or|name)\b)))\s+login\s+\S+\s+password\s+(\S+)",
        1,
        split=False,
    ),
    _own(
        "curl",
        "curl",
        r"curl[^\n]{0,300}?\s(?:-[uU]|--(?:proxy-)?user)[ =]?[\"']?[^\s:\"']{1,100}:([^\s\"']+)",
        1,
        split=False,
    ),
    _own(
        "mysql",
        "@",
        r"(?<![\w.-])[\w.-]{1,60}:(?!(?:pass|password|passwd|pwd)@)([^\s\"'`@]{3,100})@(?:tcp|unix)\(",
        1,
        split=False,
    ),  # as Go writes it
    _own(
        "Password in C",
        '"',
        r"(?i)(?:\bchar[ \t]{1,4}\w{0,30}(?:password|passwd|passphrase)\w{0,20}\[\w{0,20}\][ \t]?="
        r"|#[ \t]?define[ \t]{1,4}(?!\w{0,40}(?:MSG|ERR|FIELD|ATTR|OPT|BAD|STR|PROMPT|RENDER|SHADER|DEFAULT|DEPTH)_)"
        r"\w{0,40}(?:password|passwd|passphrase|_(?:pass|pwd|psk)(?=[ \t]{1,40}\"[^\"\s]{0,99}?\d)"
        r"|_(?:secret|token|api_?key)(?=[ \t]{1,40}\"[^\"\s]{16})))"
        r"[ \t]{1,40}\"(?![^\"\n]{0,200}(?:pass|secret|token|key))([^\"\s]{3,200}(?<![:?]))\"",
        1,
        split=False,
    ),
    _own(
        "Password behind a name",
        ", ",
        r"(?i)\w,[ ]\w{0,30}(?:password|passwd|pwd)[ ]?=[ ]?[\"'][^\"'\n]{1,100}[\"'],[ ][\"']"
        r"(?!-{0,2}(?:password|passwd|pwd)[\"'])([^\"'\n]{3,200})[\"']",
        1,
    ),
    _own("sshpass", "sshpass", r"sshpass\s+-p\s*[\"']?([^\s\"']+)", 1, split=False),
)
FORMS: tuple[Form, ...] = (*_borrowed(), *_OWN)

_PLACEHOLDER = re.compile(r"\$(?:[{(]|[A-Z_][A-Z0-9_]*$|[a-z_][A-Za-z_]*$)|[{<]|%\(|\[redacted")
_WORD = re.compile(r"[\w-]")
_MAILBOX = re.compile(r"[a-z][a-z._-]*@")
_NEXT_WORD = re.compile(
    r"\d{1,4}(?:[-.]\d{1,2})*+(?:T\d\d)?+|[-=.+]*+(?:(?:[A-Z]?[a-z]++|[A-Z]++)(?:[_./-](?:[A-Z]?[a-z]++|[A-Z]++))*+)?+[-=.]*+"
)
"""What a line begins with that is no more of a token: a number, a date, a word, or a rule."""
_NEXT_RESULT = re.compile(r"[-=]{2,}|ok|FAIL|PASS|[A-Z]{5,}")
"""The same behind a row that a terminal may have broken there: as test runners and settings write it."""
_MORE = re.compile(r"[A-Za-z0-9_\-+/=]*(?:\.[A-Za-z0-9_\-+/=]{8,})*")


def known(view: View, across: bool) -> Iterator[tuple[str, int, int]]:
    """The kinds and places in the view of what looks like a known secret; `across`: only those over a closed gap."""
    lowered = view.text.lower()
    for form in FORMS:
        if (form.hint and form.hint not in lowered) or (across and not form.split):
            continue
        for hit in form.pattern.finditer(view.text):
            start, end = hit.span(form.group)
            if start == end or not _counts(form, view.text[start:end]) or (form.apart and _goes_on(view, start)):
                continue
            if across and not (_spans(view, hit, start) and _is_one(form, view, hit)):
                continue
            # A token of fixed length may be longer by now; in a closed view, what follows is another line's.
            more = _MORE.match(view.text, end) if not across and form.group == 0 else None
            yield form.kind, start, more.end() if more else end


def _counts(form: Form, text: str) -> bool:
    """Whether it is no placeholder, and no words where words would match."""
    mixed = any(map(str.isdigit, text)) and any(map(str.isupper, text))
    if (form.random and not (mixed or looks_random(text, 32))) or (
        form.apart and not looks_random(text[:MAX_JUDGED], 20)
    ):
        return False
    return not (_PLACEHOLDER.match(text) or set(text) <= {"*", "x", "X", "."})


def _goes_on(view: View, start: int) -> bool:
    """Whether a word stands right before it, on the same line."""
    return _WORD.fullmatch(view.text, start - 1, start) is not None and not view.joins(start - 1, start + 1)


def _spans(view: View, hit: re.Match[str], start: int) -> bool:
    """Whether the match goes over a closed gap, and is not a port at a line's end and a mail address at the next."""
    joins = view.joins(*hit.span())
    inside = [join for join in joins if join > start]
    port = bool(inside) and view.text[start : inside[0]].isdigit() and inside[0] - start <= 5
    return bool(joins) and not (port and _MAILBOX.match(view.text, inside[0]))


def _is_one(form: Form, view: View, hit: re.Match[str]) -> bool:
    """Whether it is more than a token at a line's end and the first word of the next line."""
    start, end = hit.span(form.group)
    first, *others = [join for join in view.joins(start, end) if join > start] or [end]
    word = _NEXT_RESULT if view.is_whole(start, first + 1) else _NEXT_WORD
    one = form.pattern.fullmatch(view.text[hit.start() : first])  # An automaton given a place reads the whole text.
    fits = one is not None and _counts(form, one[form.group])
    ends = word.fullmatch(view.text, first, (*others, end)[0]) or RESULT.match(view.text, first)
    return first == end or not fits or ends is None
