"""Owns the texts that the privacy rules are measured with: planted secrets, and harmless texts that look like some.

Everything is made from a seed, and every secret from parts at run time, so this repository holds none. Run it to see
what is found and what is wrongly taken out:

    python tests/intentd/plan/privacy/corpus.py
"""

import base64
import hashlib
import json
import random
import re
import string
import textwrap
import uuid
from collections.abc import Callable, Iterator
from itertools import pairwise

from attrs import frozen

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
BASE62 = LOWER + UPPER + DIGITS
BRACKETS = "()[]{}<>|!#%&*"
SEED = 20240607


@frozen
class Planted:
    """A text with one secret in it. No piece of it may be left: `pieces` are the parts between breaks and colours."""

    kind: str
    place: str
    text: str
    pieces: tuple[str, ...]


def draw(rng: random.Random, alphabet: str, length: int) -> str:
    """Random characters with at least one digit and one letter, as real tokens have."""
    while True:
        text = "".join(rng.choice(alphabet) for _ in range(length))
        if any(map(str.isdigit, text)) and any(map(str.isalpha, text)):
            return text


def base64_of(rng: random.Random, length: int) -> str:
    return base64.b64encode(rng.randbytes(length)).decode()


def url64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def jwt(rng: random.Random) -> str:
    head = url64(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    body = url64(json.dumps({"sub": draw(rng, DIGITS + "a", 10), "iat": rng.randrange(10**9)}).encode())
    return f"{head}.{body}.{url64(rng.randbytes(32))}"


def armour(rng: random.Random, name: str, width: int, size: int) -> str:
    body = textwrap.wrap(base64_of(rng, size), width)
    return "\n".join(["-----BEGIN " + name + " KEY-----", *body, "-----END " + name + " KEY-----"])


def many_numbers(rng: random.Random, length: int) -> str:
    """As nearly all of that length are."""
    while len(re.findall(r"\d+", text := draw(rng, BASE62, length))) < 5:
        pass
    return text


def mixed_letters(rng: random.Random, length: int) -> str:
    """As nearly all random letters of that length are: capitals as often as not, and never in long runs."""
    while True:
        text = "".join(rng.choice(LOWER + UPPER) for _ in range(length))
        if length / 3 < sum(map(str.isupper, text)) < length * 2 / 3 and not re.search("[A-Z]{5}|[a-z]{5}", text):
            return text


SERVICES = (
    *("gs" + "k_", "xa" + "i-", "r" + "8_", "pp" + "lx-", "nt" + "n_", "lin_" + "api_", "fm" + "2_", "dp." + "pt."),
    *("sntr" + "ys_", "gls" + "a_", "HR" + "KU-", "fig" + "d_", "tskey" + "-auth-", "pc" + "sk_", "dckr" + "_pat_"),
    *("sq0" + "atp-", "nf" + "p_", "EA" + "AA", "bk" + "ua_", "secr" + "et_", "pscale" + "_tkn_", "nv" + "api-"),
)


# kind: (the secret, the assignment around it with {} for the secret)
Make = Callable[[random.Random], str]
KINDS: dict[str, tuple[Make, tuple[str, ...]]] = {
    "aws access key": (
        lambda r: "AK" + "IA" + draw(r, UPPER + DIGITS, 16),
        ("aws_access_key_id = {}", "client = connect('{}')"),
    ),
    "aws secret key": (
        lambda r: draw(r, BASE62 + "/+", 40),
        ("aws_secret_access_key = {}", 'AWS_SECRET_ACCESS_KEY="{}"', '"SecretAccessKey": "{}",'),
    ),
    "github": (lambda r: "gh" + r.choice("pousr") + "_" + draw(r, BASE62, 36), ("token: {}", "git clone with {} now")),
    "github fine": (lambda r: "github" + "_pat_" + draw(r, BASE62, 22) + "_" + draw(r, BASE62, 59), ("use {}",)),
    "gitlab": (lambda r: "gl" + "pat-" + draw(r, BASE62, 20), ("PRIVATE-TOKEN: {}", "x = '{}'")),
    "slack": (
        lambda r: f"xo{'x'}b-{r.randrange(10**11, 10**12)}-{r.randrange(10**12)}-" + draw(r, BASE62, 24),
        ("slack = {}", "posting with {}"),
    ),
    "slack hook": (
        lambda r: (
            "hooks.slack"
            + ".com/services/T"
            + draw(r, UPPER + DIGITS, 8)
            + "/B"
            + draw(r, UPPER + DIGITS, 10)
            + "/"
            + draw(r, BASE62, 24)
        ),
        ("url = 'https://{}'",),
    ),
    "stripe": (
        lambda r: r.choice("sr") + "k_li" + "ve_" + draw(r, BASE62, 24),
        ("stripe.api_key = '{}'", "key {} used"),
    ),
    "google api": (lambda r: "AI" + "za" + draw(r, BASE62 + "-_", 35), ("https://maps.test/api?key={}", "g = '{}'")),
    "gcp json": (
        lambda r: (
            "-----BEGIN PRIV"
            + "ATE KEY-----\\n"
            + "\\n".join(textwrap.wrap(base64_of(r, 300), 64))
            + "\\n-----END PRIV"
            + "ATE KEY-----\\n"
        ),
        ('{{"type": "service_account", "private_key": "{}"}}',),
    ),
    "azure": (
        lambda r: base64_of(r, 64),
        ("DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={};EndpointSuffix=core.test",),
    ),
    "azure sas": (
        lambda r: base64_of(r, 32).replace("+", "%2B").replace("/", "%2F"),
        ("https://s.test/c?sv=2020&sig={}",),
    ),
    "jwt": (jwt, ("Authorization: Bearer {}", "session {} expired", '"jwt": "{}"')),
    "pem rsa": (lambda r: armour(r, "RSA PRIV" + "ATE", 64, 600), ("{}",)),
    "pem ec": (lambda r: armour(r, "EC PRIV" + "ATE", 64, 120), ("{}",)),
    "openssh": (
        lambda r: armour(r, "OPENSSH PRIV" + "ATE", 70, 330),
        ("{}",),
    ),
    "basic auth": (lambda r: draw(r, BASE62, r.randrange(8, 20)), ("https://deploy:{}@git.test/shop.git",)),
    "database": (
        lambda r: draw(r, BASE62 + "!$*", 14),
        (
            "DATABASE_URL=postgres://shop:{}@db.test:5432/shop",
            "mongodb+srv://root:{}@cluster.test/x",
            "redis://:{}@r.test/0",
        ),
    ),
    "npm": (lambda r: "np" + "m_" + draw(r, BASE62, 36), ("//registry.test/:_authToken={}", "npm login {}")),
    "pypi": (lambda r: "py" + "pi-AgEIcHlwaS5vcmc" + draw(r, BASE62 + "-_", 100), ("password = {}", "twine {}")),
    "twilio": (lambda r: "S" + "K" + draw(r, "abcdef" + DIGITS, 32), ("twilio({})", "sid: {}")),
    "sendgrid": (
        lambda r: "S" + "G." + draw(r, BASE62 + "-_", 22) + "." + draw(r, BASE62 + "-_", 43),
        ("SENDGRID = '{}'", "send {}"),
    ),
    "openai": (
        lambda r: "s" + "k-" + draw(r, BASE62, 20) + "T3Blbk" + "FJ" + draw(r, BASE62, 20),
        ("openai {}", "k='{}'"),
    ),
    "password": (
        lambda r: draw(r, BASE62 + "!#%&*", r.randrange(8, 18)),
        ('password = "{}"', "DB_PASSWORD={}", '"password": "{}",', "login(user, password='{}')", 'passwd: "{}"'),
    ),
    "word password": (
        lambda r: r.choice(["correct", "horse", "battery", "staple"]) + r.choice(["Pony", "River", "Stone"]),
        ('password: "{}"', "export ADMIN_PASSWORD={}", 'db.password = "{}"'),
    ),
    "api key": (
        lambda r: draw(r, LOWER + DIGITS, r.randrange(20, 40)),
        ("api_key: {}", 'apiKey = "{}"', "X-Api-Key: {}", '"api-key": "{}"', "curl 'https://a.test/x?api_key={}'"),
    ),
    "hex secret": (
        lambda r: r.randbytes(r.choice([16, 20, 32])).hex(),
        ("SECRET_KEY = '{}'", "client_secret={}", '"secret": "{}"', "auth_token: {}", "--token {}"),
    ),
    "base64 secret": (
        lambda r: base64_of(r, r.choice([24, 32, 48])),
        ("ENCRYPTION_KEY={}", 'signing_key: "{}"', '"refresh_token": "{}"', "secret = '{}'", "session_token = {}"),
    ),
    "further words": (
        lambda r: r.randbytes(r.choice([16, 24, 32])).hex(),
        (
            "SECRET_KEY_BASE={}",
            "secret_key_base: {}",
            "ENCRYPTION_KEY_PRIMARY={}",
            'STRIPE_KEY_LIVE="{}"',
            "API_KEY_V2={}",
            '"secretKeyBase": "{}"',
        ),
    ),
    "further password": (
        lambda r: draw(r, BASE62 + "!%&*", r.randrange(9, 18)),
        ("PASSWORD_PROD_DB={}", "DB_PASSWORD_RO={}", 'pw = "{}"', "auth=('bob', '{}')", 'user.set_password("{}")'),
    ),
    "hex service": (
        lambda r: r.choice(["s" + "k-or-v1-", "s" + "k-", "sb" + "p_", "ruby" + "gems_"]) + r.randbytes(32).hex(),
        ('OpenAI("https://openrouter.test/api/v1", "{}")', "Incorrect API key provided: {}", "llm keys set {}"),
    ),
    "service": (
        lambda r: r.choice(SERVICES) + draw(r, BASE62, 44),
        ("connecting with {} now", 'client = Client("{}")', "x = '{}'"),
    ),
    "unknown service": (
        lambda r: "shop" + "kit_" + many_numbers(r, 44),
        ("connecting with {} now", 'client = Client("{}")'),
    ),
    "dotted service": (
        lambda r: r.choice(
            [
                f"{draw(r, BASE62, 14)}.atlas" + f"v1.{draw(r, BASE62, 67)}",
                f"p{'at'}{draw(r, BASE62, 14)}.{r.randbytes(32).hex()}",
            ]
        ),
        ("connecting with {} now", 'client = Client("{}")'),
    ),
    "webhook": (lambda r: draw(r, BASE62 + "-_", 68), ("https://discord.com/api/webhooks/123456789012345678/{}",)),
    "dsn": (
        lambda r: r.randbytes(16).hex(),
        ("SENTRY_DSN=https://{}@o1.sentry.test/1", "init('https://{}@o1.test/1')"),
    ),
    "django": (
        lambda r: "django" + "-insecure-" + draw(r, LOWER + DIGITS + "!@#$%^&*(-_=+)", 50),
        (
            "SECRET_KEY = '{}'",
            'SECRET_KEY = env("SECRET_KEY", default="{}")',
            "SECRET_KEY = os.environ.get('SECRET_KEY', '{}')",
            "app.config['SECRET_KEY'] = '{}'",
            "SECRET_KEY={}",
        ),
    ),
    "brackets": (
        lambda r: draw(r, BASE62, 2) + draw(r, BASE62 + BRACKETS, r.randrange(10, 22)),
        ('password = "{}"', "DB_PASSWORD={}", '"client_secret": "{}",', "jwt_secret = '{}'", 'API_KEY = "{}"'),
    ),
    "brackets in a token": (lambda r: draw(r, BASE62 + "()[]#&", 40), ("auth_token = '{}'", '"refresh_token": "{}"')),
    "letters": (lambda r: mixed_letters(r, 24), ("password: {}", "db_password: {}", 'secret_key = "{}"')),
    "fallback": (
        lambda r: draw(r, BASE62 + "!#%&*", r.randrange(10, 18)),
        (
            "  password: process.env.DB_PW || '{}',",
            "const password = process.env.PW ?? '{}'",
            "password = os.getenv('X') or '{}'",
            "API_KEY = os.environ['X'] or \"{}\"",
            "secret = value if value else '{}'",
            "$password = getenv('PW') ?: '{}';",
        ),
    ),
    "wrapped value": (
        lambda r: draw(r, BASE62, 32),
        ("API_KEY = (\n    '{}'\n)", 'password=(\n    "{}"\n)', "token = (\n    os.getenv('X')\n    or '{}'\n)"),
    ),
    "in a call": (
        lambda r: draw(r, BASE62, r.randrange(12, 24)),
        (
            "db_password: SecretStr = SecretStr('{}')",
            "password: str = Field(default='{}')",
            "password = Column(String, default='{}')",
            'jwtSecret := []byte("{}")',
            'let password = String::from("{}");',
            "secret: Buffer.from('{}', 'base64'),",
            "kwargs = {{'auth': ('bob', '{}')}}",
            "{{'auth': ['bob', '{}']}}",
            "smtp.login('me@x.test', '{}')",
        ),
    ),
    "header in a call": (
        lambda r: r.randbytes(20).hex(),
        ("client.credentials(HTTP_AUTHORIZATION=f'Token {}')",),
    ),
    "told to a call": (
        lambda r: draw(r, BASE62 + "!#%&*", r.randrange(9, 18)),
        (
            "define('DB_PASSWORD', '{}');",
            'props.setProperty("password", "{}");',
            'os.environ.setdefault("DB_PASSWORD", "{}")',
            "page.fill('#password', '{}')",
        ),
    ),
    "header of a server": (
        lambda r: base64_of(r, 21),
        ('proxy_set_header Authorization "Basic {}";', 'RequestHeader set Authorization "Basic {}"'),
    ),
    "json web key": (
        lambda r: url64(b"\xfb" + r.randbytes(64)),
        ('{{"kty": "RSA", "d": "{}"}}',),
    ),
    "wallet": (lambda r: "0x" + r.randbytes(32).hex(), ('accounts: ["{}"],',)),
    "option of a command": (
        lambda r: r.choice(["correct", "horse", "battery"]) + r.choice(["pony", "river", "stone"]),
        ("helm install --set db.password={}",),
    ),
    "entry of a container": (
        lambda r: draw(r, BASE62 + "!#%&*", r.randrange(9, 18)),
        ('- name: DB_PASSWORD\n  value: "{}"', '{{\n  "name": "DB_PASSWORD",\n  "value": "{}"\n}},'),
    ),
    "uuid key": (lambda r: str(uuid.UUID(bytes=r.randbytes(16), version=4)), ('api_key = "{}"', "HEROKU_API_KEY={}")),
}

BEFORE = [
    "import os",
    "",
    "# settings of the shop",
    "name: shop",
    "port = 8080",
    "def main():",
    "    return total(items)",
]


def file_text(rng: random.Random, line: str) -> str:
    return "\n".join([*rng.sample(BEFORE, 3), line, *rng.sample(BEFORE, 3)]) + "\n"


def diff_text(rng: random.Random, line: str) -> str:
    sign = rng.choice("+-+")
    marked = "\n".join(sign + row for row in line.split("\n"))
    context = [f" {row}" for row in rng.sample(BEFORE, 4)]
    return "\n".join(["diff --git a/settings b/settings", "@@ -1,4 +1,5 @@", *context[:2], marked, *context[2:]]) + "\n"


def terminal_text(rng: random.Random, line: str) -> str:
    shown = line.replace("\n", "\r\n")
    return f"\x1b[32m$\x1b[0m ./deploy.sh\r\nloading\r\x1b[Kready\r\n{shown}\r\n\x1b[1mdone\x1b[0m\r\n"


PLACES: dict[str, Callable[[random.Random, str], str]] = {
    "file": file_text,
    "diff": diff_text,
    "terminal": terminal_text,
}


def cut(rng: random.Random, secret: str, count: int) -> list[str]:
    """The secret in pieces of at least four characters, so that a piece that is left can be recognised."""
    room = range(4, max(5, len(secret) - 3))
    points = sorted(rng.sample(room, min(count, len(room))))
    ends = [0, *(point for last, point in pairwise([0, *points]) if point - last >= 4), len(secret)]
    return [secret[start:end] for start, end in pairwise(ends)]


def planted(seed: int = SEED) -> Iterator[Planted]:
    """Every kind in every place, whole and split: more than 300 texts."""
    rng = random.Random(seed)
    for kind, (make, forms) in KINDS.items():
        for form in forms:
            for place, lay in PLACES.items():
                secret = make(rng)
                yield Planted(kind, place, lay(rng, form.format(secret)), pieces_of([secret]))
                yield from _split(rng, kind, form, place, make(rng))


ROW = "2024-05-01T10:00:00 deploy[231]: "
"""So that a row is full where a terminal breaks it: nobody's has fewer columns."""


def _split(rng: random.Random, kind: str, form: str, place: str, secret: str) -> Iterator[Planted]:
    lay = PLACES[place]
    if place == "terminal":
        coloured = cut(rng, secret, rng.randrange(1, 4))
        painted = "\x1b[0m\x1b[33m".join(coloured)
        yield Planted(kind, "colours", lay(rng, form.format(painted)), pieces_of([secret]))
        yield Planted(kind, "wrapped", *_broken(rng, lay, ROW + form, secret, "\n"))
        if "\n" not in secret:
            yield Planted(kind, "codes", *_broken(rng, lay, form, secret, r"\x1b[0m\x1b[33m"))
    elif place == "diff" and ("'{}'" in form or '"{}"' in form) and "\n" not in secret:
        yield Planted(kind, "diff lines", *_broken(rng, lay, form, secret, '"\n    "' if '"' in form else "'\n    '"))
    elif "'{}'" in form or '"{}"' in form:
        yield Planted(kind, "literals", *_broken(rng, lay, form, secret, '" + "' if '"{}"' in form else "'\n    '"))


def _broken(
    rng: random.Random, lay: Callable[[random.Random, str], str], form: str, secret: str, gap: str
) -> tuple[str, tuple[str, ...]]:
    parts = cut(rng, secret, 1)
    return lay(rng, form.format(gap.join(parts))), pieces_of(parts)


def pieces_of(parts: list[str]) -> tuple[str, ...]:
    """What may not be left of a secret: each part, and of a block each line but its frame."""
    rows = [row for part in parts for row in part.replace("\\n", "\n").split("\n")]
    return tuple(row for row in rows if len(row) >= 4 and "-----" not in row and "KEY" not in row)


# fmt: off
WORDS = [
    "total", "price", "basket", "item", "order", "cache", "session", "token", "key", "author", "secretary", "password",
    "user", "index", "parser", "stream", "buffer", "handler", "request", "response", "config", "option", "value",
    "result", "message", "account", "client", "server", "public", "private",
]
# fmt: on


def name(rng: random.Random, count: int = 3) -> str:
    words = rng.sample(WORDS, count)
    return rng.choice(["_".join(words), words[0] + "".join(map(str.title, words[1:])), "-".join(words)])


def image(rng: random.Random) -> str:
    return f'<img src="data:image/png;base64,{base64_of(rng, rng.randrange(100, 1500))}">'


def lock(rng: random.Random) -> str:
    rows = []
    for _ in range(6):
        digest = base64.b64encode(hashlib.sha512(rng.randbytes(8)).digest()).decode()
        rows.append(
            f'    "node_modules/{name(rng, 2)}": {{\n      "version": "{rng.randrange(9)}.{rng.randrange(20)}.1",'
        )
        rows.append(f'      "integrity": "sha512-{digest}",\n      "license": "MIT"\n    }},')
    return "\n".join(rows)


def poetry(rng: random.Random) -> str:
    digests = [hashlib.sha256(rng.randbytes(8)).hexdigest() for _ in range(4)]
    return (
        "files = [\n" + "\n".join(f'  {{file = "{name(rng)}-1.0.whl", hash = "sha256:{d}"}},' for d in digests) + "\n]"
    )


def minified(rng: random.Random) -> str:
    parts = []
    for _ in range(60):
        a, b, c = (rng.choice(BASE62[:52]) + rng.choice(BASE62) for _ in range(3))
        parts.append(
            rng.choice(
                [
                    f"function {a}({b}){{return {b}.{name(rng, 1)}?{c}({b}.key,{b}.token):null}}",
                    f"var {a}={b}.token,{c}={{password:{b},key:{c},secret:!0}};",
                    f'{a}.{name(rng, 1)}=({b},{c})=>{b}["{name(rng, 2)}"]||{c}.key==="{name(rng, 1)}";',
                ]
            )
        )
    return "".join(parts)


def log(rng: random.Random) -> str:
    ids = [str(uuid.UUID(bytes=rng.randbytes(16), version=4)) for _ in range(4)]
    return "\n".join(
        f"2024-05-{n + 1:02} 10:00:0{n} INFO request {i} took {rng.randrange(999)} ms" for n, i in enumerate(ids)
    )


def git_log(rng: random.Random) -> str:
    return "\n".join(
        f"commit {rng.randbytes(20).hex()}\nAuthor: A. Person <a@shop.test>\n\n    {name(rng)}" for _ in range(4)
    )


def code(rng: random.Random) -> str:
    one, two = name(rng).replace("-", "_"), name(rng).replace("-", "_")
    return rng.choice(
        [
            f"def {one}(password: str, token: str | None = None) -> {two.title().replace('_', '')}:\n"
            f"    self.password = password\n    self.{one} = {two}(password=password, token=token)\n",
            f'{one} = os.environ["API_KEY"]\npassword = getpass.getpass("Password: ")\nsecret = settings.SECRET_KEY\n',
            f"if token == tokens.eos_token:\n    key = lambda {two}: {two}.key\n    tokens = {rng.randrange(9999)}\n",
            "const { password, apiKey } = req.body;\nauth.login({ password: password, key: apiKey });\n",
            f'parser.add_argument("--password", help="the password of {one}")\nmax_tokens = {rng.randrange(9999)}\n',
            "password: ${DB_PASSWORD}\napi_key: {{ vault.api_key }}\nsecret: <your secret>\ntoken: $TOKEN\n",
            f'cache_key = f"{one}:{two}:{{user.id}}"\nprimary_key = "{one}"\npublic_key = load("{two}.pub")\n',
            f'    except KeyError:\n        pass\n    code = "{two}"\n',
            f"account = self.account\n    key = '{one}'\n",
            f"self.password = password\n        text = 'Welcome to {one}'\n    return secret\n    key = \"{two}\"\n",
            f'    type: service\n    key: {two}\n    type: password\n    id: "{one}"\n',
            f"key = load(data, passphrase=passphrase)\nkey.export(passphrase=self._{one})\n",
            f'auth = ["{one}>=2.8", "{two}>=4"]\nauth: ["oauth2", "{two}"]\n',
            f'REQUIRES_AUTH = ("read", "{one}", "write")\n',
            f"const label = password === '' ? '{one}' : '{two}'\n",
            f'if password != confirm or "{one}" in roles:\n    pass\n',
            f'const STORAGE_KEY = "{one}"\nservice_key = "{two}"\nDB_KEY = "{two}"\n',
            f'PWD=/my/place/{one}\n"PWD": "/my/{two}",\n',
            f"errors.password = 'Password must be at least {rng.randrange(6, 20)} characters';\n"
            f"'password' => 'required|string|min:{rng.randrange(6, 20)}',\n'password' => 'hashed',\n",
            f'await resetPassword("{one}@shop.test")\npassword = `openssl rand -base64 32`\n',
            f"token = self._advance()\nif token.kind is TokenKind.{one.upper()}:\n    keys = list({two}.keys())\n",
        ]
    )


def hashes(rng: random.Random) -> str:
    digest = hashlib.new(rng.choice(["md5", "sha1", "sha256", "sha512"]), rng.randbytes(9)).hexdigest()
    return rng.choice(
        [
            f"{digest}  {name(rng)}.tar.gz\n{digest[::-1]}  {name(rng)}.zip",
            f'checksum = "{digest}"\netag: "{digest}"\nrevision={digest}',
            f"index {digest[:7]}..{digest[7:14]} 100644\nSubproject commit {digest[:40]}",
            f'{{"sha": "{digest}", "id": "{uuid.UUID(bytes=rng.randbytes(16), version=4)}"}}',
            f"docker pull shop@sha256:{hashlib.sha256(digest.encode()).hexdigest()}",
            f"assert digest(data) == '{digest}'",
        ]
    )


def prose(rng: random.Random) -> str:
    return rng.choice(
        [
            f"The password must be longer than {rng.randrange(6, 20)} characters. Your token: see page {name(rng)}.",
            "Forgotten password? Enter the key: it is printed on the card. Secret: none of it is stored.",
            f"FAILED tests/test_{name(rng, 2)}.py::test_{name(rng)}[{rng.randrange(99)}] - KeyError: 'token'",
            f"error TS2322: Type '{name(rng)}' is not assignable to type 'password: string'.",
            f"https://docs.shop.test/api/{name(rng)}?page={rng.randrange(99)}&sort=key#authentication",
            f"PASS: tests/{name(rng)}.sh\nPass: 10/{rng.randrange(99)}",
            f"--- PASS: Test{name(rng, 1).title()}/{name(rng)}#01 (0.00s)",
            f"# Reads the --password option, and the default login and password page of {name(rng)}.",
            f"find /var/lib/mysql/{name(rng)} -type f -print0\nglib-2.78.4-h{rng.randbytes(3).hex()}c2da_0.conda",
            f"authorization: token\npermissions: read\nconnection: {name(rng)}",
            f"E       AssertionError: assert 'password' in {{'token': None, 'key': {rng.randrange(99)}}}",
        ]
    )


def certificate(rng: random.Random) -> str:
    return armour(rng, "PUBLIC", 64, 270) + "\nssh-ed25519 " + base64_of(rng, 51) + " a@shop"


def settings(rng: random.Random) -> str:
    return (
        f"[tool.{name(rng, 1)}]\nkey = '{name(rng)}'\ntimeout = {rng.randrange(90)}\nid = '{rng.randbytes(8).hex()}'\n"
        f"path = '/opt/{name(rng)}/v{rng.randrange(9)}'\nversion = '{rng.randrange(9)}.{rng.randrange(99)}.0'\n"
        f"auth: true\ntoken_url: https://auth.shop.test/oauth2/{name(rng)}\npassword_min_length: 12\n"
    )


def long_names(rng: random.Random) -> str:
    return "\n".join(
        f"{name(rng, 5)}{rng.randrange(99)} = {name(rng, 6)}.{name(rng, 4)}({rng.randrange(10**12)})" for _ in range(5)
    )


def source_map(rng: random.Random) -> str:
    body = base64.b64encode(json.dumps({"version": 3, "sources": [name(rng) for _ in range(20)]}).encode()).decode()
    return f"//# sourceMappingURL=data:application/json;charset=utf-8;base64,{body}"


MAKERS: tuple[Callable[[random.Random], str], ...] = (
    image, lock, poetry, minified, log, git_log, code, hashes, prose, certificate, settings, long_names, source_map,
)  # fmt: skip


def harmless(count: int = 2000, seed: int = SEED + 1) -> Iterator[tuple[str, str]]:
    """Texts with nothing secret in them, by the name of what makes them."""
    rng = random.Random(seed)
    for number in range(count):
        maker = MAKERS[number % len(MAKERS)]
        text = maker(rng)
        yield maker.__name__, rng.choice([text, file_text(rng, text), diff_text(rng, text), terminal_text(rng, text)])


def marked(mark: str, text: str) -> str:
    """As a diff shows it."""
    return "\n".join(mark + line for line in text.split("\n"))


def main() -> None:
    """Print what is left of planted secrets and what is taken out of harmless texts."""
    from intentd.plan.privacy import scrub

    texts = list(planted())
    left = [plant for plant in texts if any(piece in scrub(plant.text).text for piece in plant.pieces)]
    for plant in left:
        print(plant.kind, "|", plant.place, "|", repr(scrub(plant.text).text))
    print(f"{len(left)} of {len(texts)} secrets of {len({plant.kind for plant in texts})} kinds left")
    wrong = [(maker, found) for maker, text in harmless() if (found := scrub(text).found)]
    print(f"{len(wrong)} of 2000 harmless texts changed", {(maker, *sorted(found)) for maker, found in wrong})


if __name__ == "__main__":
    main()
