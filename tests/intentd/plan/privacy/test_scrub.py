"""I3: no secret enters a prompt, split or whole; and what is harmless stays as it is."""

import random
import re
from collections import Counter

import pytest
from detect_secrets.plugins.base import RegexBasedDetector
from hypothesis import given
from hypothesis import strategies as st

from intentd.plan.plain import plain
from intentd.plan.privacy import REDACTED, scrub, scrub_long
from intentd.plan.privacy.known import DETECTORS
from intentd.plan.privacy.scrub import MAX_CHARACTERS, OVERLAP
from tests.intentd.plan.privacy.corpus import KINDS, SEED, harmless, planted

PLANTED = list(planted())


def test_the_corpus_is_as_wide_as_it_says() -> None:
    assert len(PLANTED) >= 200
    assert len({plant.kind for plant in PLANTED}) >= 20
    places = Counter(plant.place for plant in PLANTED)
    assert places.keys() == {"file", "diff", "terminal", "colours", "codes", "wrapped", "diff lines", "literals"}
    assert min(places.values()) >= 15
    assert all(plant.pieces for plant in PLANTED)


@pytest.mark.parametrize("seed", [SEED, 1, 2])
def test_no_planted_secret_is_left(seed: int) -> None:
    """I3: in files, diffs and terminal output, some split by colours, line breaks or literals."""
    left = [
        (plant.kind, plant.place)
        for plant in planted(seed)
        if any(piece in scrub(plant.text).text for piece in plant.pieces)
    ]
    assert left == []


def test_no_planted_secret_is_left_when_the_whole_screen_is_wrapped() -> None:
    """I3: a narrow terminal breaks every line, also inside names and prefixes."""
    rng = random.Random(SEED)
    for kind, (make, forms) in KINDS.items():
        for form in forms:
            for width in (33, 40, 61, 80):
                secret = make(rng)
                rows = f"$ ./deploy\n{form.format(secret)}\ndone here\n".split("\n")
                screen = "\n".join(row[at : at + width] for row in rows for at in range(0, max(1, len(row)), width))
                flat = scrub(screen).text.replace("\n", "")
                body = "".join(row for row in secret.replace("\\n", "\n").split("\n") if "-----" not in row)
                assert not [at for at in range(len(body) - 7) if body[at : at + 8] in flat], (kind, width)


def test_harmless_texts_stay_as_they_are() -> None:
    """At most 2 % of 2,000 texts with hashes, UUIDs, long names, images, lock files and minified code are changed."""
    changed = [maker for maker, text in harmless(2000) if scrub(text).text != plain(text)]
    assert len(changed) <= 40, Counter(changed)


def test_the_detectors_find_nothing_in_what_is_left() -> None:
    """I3: a text in which detect-secrets' detectors find something never enters a prompt."""
    detectors: list[RegexBasedDetector] = [detector() for detector in DETECTORS]
    for plant in PLANTED:
        left = scrub(plant.text).text
        for line in left.splitlines():
            assert [d.secret_type for d in detectors if list(d.analyze_string(line))] == [], (plant.kind, plant.place)


def test_scrubbing_again_changes_nothing_and_lines_stay() -> None:
    for plant in PLANTED:
        once = scrub(plant.text)
        assert scrub(once.text).text == once.text, (plant.kind, plant.place)
        assert once.text.count("\n") == plain(plant.text).count("\n")
        assert once.found


@pytest.mark.parametrize(
    "line",
    [
        "password: str",
        "def login(password: str = '') -> None:",
        "login(password=password, token=self.token)",
        "password = getpass.getpass()",
        'api_key = os.environ["API_KEY"]',
        "PASSWORD=$DB_PASSWORD",
        "password: ${{ secrets.DEPLOY }}",
        "secret: <your secret>",
        "PASSWORD=********",
        "max_tokens: 1024",
        "token = tokens[index]",
        "password = &buffer",
        '{"password": "", "token": null, "key": "name"}',
        "monkey: 12345678abcdefgh",
        "compass = 4f5e6d7c8b9a",
        'cache_key = "d41d8cd98f00b204e9800998ecf8427e"',
        'public_key = "AAAAC3NzaC1lZDI1NTE5AAAAIB5x1y2z3"',
        "secret_name: /var/run/secrets/database",
        "http://localhost:8080/a@b",
        "if 'BEGIN RSA PRIVATE KEY' in text:",
        "usage: tool [--password PASSWORD] [--token TOKEN]",
        "The password: it must have 12 characters.",
        "commit 9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c",
        'fields = ("username", "password1", "password2")',
        '["DB_PASSWORD", "DB_USER_2", "DB_HOST"]',
        '{"password", "pass-phrase-2", "user.token.3"}',
        '_("Password", "Enter 8 characters")',
        'values.get("password", "")',
        "login(password=password2 if again else password1)",
        "login(user=user1, password=password2, again=False)",
        "self.password=value; self.user=user",
        'execute("UPDATE users SET name=? password=?")',
        "BYPASS=always",
        "NO_COMPASS=always",
        "OLDPWD=/srv/shop",
        "MYPWD=/srv/shop/src",
        "MYPWD=~/src/../lib",
        'export MYPWD="./src"',
        "MAXPASS=10000",
        'it("password=wrong", () => {})',
        'redirect("/login?password=expired")',
        "LASTPASS = compile(source)",
        'RENDERPASS = "shadow"',
        "password: |\n  {{ password }}",
        "token: |\n  see below",
        'password_field: "x"',
        'secret_name: "x"',
        "PASSWORD_FILE=/run/secrets/db",
        "PASSWORD_MIN_LENGTH=12",
        "TOKEN_LENGTH = 32",
        "TOKEN_REFRESH_INTERVAL=3600",
        'KEY_PRIMARY = "id"',
        "PASS_RATE=98.5",
        'password_template: "reset.html"',
        'secret_version = "projects/shop/secrets/db/versions/3"',
        'passwordInput = document.getElementById("password1")',
        "set_password(password1)",
        "pw_hash = bcrypt.hashpw(pw, salt)",
        "mysql -u root -p shop",
        "docker run -p 8080:80 shop",
        "sk-estimator-id-12 sk-toggleable__label",
        "userPasswordRequest\nport = 8080\ndef main():",
        'PASS_RATE = "95pct"',
        'first_pass_result = "stage1_ok"',
        'passThrough: "proxy_v2"',
        'pass_shader = "blur_v2"',
        'pass_pipeline = "convert-arith-to-llvm2"',
        'pw_channel = "chrome-beta2"',
        '{"name": "password", "value": "required"}',
        '{"key": "secretName", "value": "my-config"}',
        'name: "token_type", value: "bearer"',
        'Field(name="token_count", value=12345)',
        "docker compose run login -p 8080:8080",
        "docker compose run login -p '127.0.0.1:80:8080/tcp' shop",
        'client.set_password("bob", "x")',
        "password = hash(tokens[index])",
        "password: Optional[List<Secret>]",
        "password: Map<String,Key2>",
        'api_key: "{{ vault.key_1 }}"',
        'secret: "projects/{project}/secrets/{name}"',
        'secret = "[a-z0-9]{32}"',
        'password = os.environ["DB_PASSWORD"] or getpass("Password: ")',
        'password = config.get("password1", None) or ask("Enter 8 characters: ")',
        'token = load("tokens/service1.json") or "default"',
        'password = request.POST["password1"]',
        "API_KEY=load(settings)",
        'name: db\nsecret: (\n  "see page 7"\n)',
        'case "password": return "missing1"',
        'auth: ["basic", "digest"]',
        'def open(self, mode="r", pwd=None):',
        "def login(password=None)->str:",
        "WPA-PSK=yes",
        "/callback?code=HTTP2_PROTOCOL_ERROR_2",
        "main.c:1234:5:error:unused2",
        '{"value": "required", "name": "password"}',
        '[{"name": "a", "value": "b1234"}, {"name": "password"}]',
        'password = "_".join(["user", "name"])',
        "kind: ConfigMap\ndata:\n  mode: fast\n",
        "kind: Secret\ndata:\n  pw: {{ .Values.pw }}\n",
        "| option | password |\n|---|---|\n| field | required |\n",
        "'JWT_SECRET='.$this->laravel['config']['jwt.secret'],",
        "f.write('DB_PASSWORD='+conf[0]['pw'])",
        "$password = $request->input('password');",
        "password = user->pass;",
        "config.secret_key = '#{SecureRandom.hex(64)}'",
        "password = s.decode('cp1252', 'replace')",
        "PASSWORD=${PASSWORD:?must be set1}",
        "PASSWORD=${PASSWORD:-$OTHER}",
        '[ -z "${PASSWORD:-}" ]',
        "password=${password:0:8}",
        "if (password) { 'use strict1' }",
        "test 'a user has no password' do\n  user = create\n  user.save 'x'",
        "| name | type |\n|---|---|\n| password | varchar(64) |\n",
        "| token | kind |\n|---|---|\n| identifier1 | name |\n",
        '    except ValueError:\n        pass\n    code = "not_found"',
        "pass\nword = 'stop'",
        'account = self.account\nkey = "billing-plan"',
        '        self.password = password\n        text = "Welcome"',
        '        self.secret = secret\n        value = "long-enough-text"',
        "return secret\nkey = 'user_profile'",
        '  type: service\n  key: payments-api-v2\n  type: password\n  id: "login-form"',
        "key = from_private_key(stream, passphrase=passphrase)",
        "gpg.decrypt(data, passphrase=self._passphrase)",
        "    load(\n        passphrase=passphrase_bytes,\n        passphrase=self.passphrase\n    )",
        'auth = ["pyjwt>=2.8", "bcrypt>=4"]',
        'auth = ["dep:oauth2", "dep:jsonwebtoken"]',
        'auth: ["apiKey", "oauth2"]',
        "const auth = ['v1/login', 'v1/logout']",
        'REQUIRES_AUTH = ("create", "update", "delete")',
        "const label = password === '' ? 'empty' : 'weak'",
        'print("set" if password != "" else "missing")',
        'if password != confirm or "admin" in roles:',
        'const STORAGE_KEY = "theme-preference"',
        "const STORAGE_KEY = 'todos-v2'",
        'SERVICE_KEY = "payments-api"',
        'client_key = "customer_id"',
        "PWD=/my/work/project",
        '"PWD": "/srv/app",',
        "PASS: test-strerror\nPASS: check_utf8_2\nPASS: t-skipping.sh\nPASS: test1",
        "Running pass: Float2IntPass on foo (5 instructions)",
        "Render pass: main-pass_1",
        "proxy_pass: http://backend:8080",
        "fastcgi_pass: unix:/run/php/php8.1-fpm.sock",
        'const STORAGE_KEY = "favorites"',
        "const STORAGE_KEY='todo-app'",
        "accountKey: 'selectedAccount'",
        'rootKey: "dashboard"',
        'shared_key = "customer_id"',
        'license_key = "license-key-input"',
        'requires_auth = ("create", "update", "delete")',
        'oauth = ("google", "github", "facebook")',
        'skip_auth = ("/health", "/docs")',
        'paths_without_auth = ("/health", "/metrics", "/login")',
        "Authorization: Basic\n    authentication is used",
        "PWD=/Users",
        "Pwd: /srv/app",
        "PWD=/srv/c++",
        '"PWD": "C:\\\\src\\\\shop"',
        'errors.password = "is too short (minimum is 8)"',
        '"password": "Your password can\'t be one of the last 5"',
        '"password": "Le mot de passe doit contenir au moins 8 caractères"',
        '"password": "Das Passwort hat mindestens 8 Zeichen"',
        "password: '密码长度不能少于 8 个字符'",
        "password: '密码不能为空'",
        '"password": "Пароль"',
        "login(password=password2)",
        "f(password=count+1)",
        "f(pass=user1&user2)",
        "fn({password:a1,key:b2,secret:c3});",
        'PASSWORD="Enter your password"',
        'client_password="see the manual"',
        "set-cookie: lang=fr; Domain=shop.example.test; Path=/",
        "gcc -I/usr/include/mysql -pthread a.c",
        "gcc -I/usr/include/mysql -pedantic a.c",
        "docker run --name mysql -p3306:3306 mysql",
        "data = [{ name: 'Pass', value: 1200 }, { name: 'Fail', value: 3 }]",
        '{"name": "compass", "value": "north-east2"}',
        '{"name": "client_key", "value": "customer"}',
        '#define ERR_PASSWORD "wrong_password"',
        '#define RENDER_PASS "shadow"',
        "    --- PASS: TestLogin/bad_password#01 (0.00s)",
        "PASS: tests/basic.sh",
        "Pass: 10/12 Fail: 2",
        "pass: 98.5%",
        "errors.password = 'Password must be at least 8 characters';",
        "'password' => 'required|string|min:8',",
        "'password' => 'hashed',",
        'await resetPassword("bob@example.com")',
        "authorization: token\npermissions: read",
        "authorization: token\n  permissions: read",
        "AUTH = ['dep:oauth2', 'reqwest/json2']",
        "PWD=/app",
        "cd $PWD; PWD=/srv/work; make",
        "errors = 'Password cannot be longer than 72 bytes'",
        "# Reads the --password option.",
        "find /var/lib/mysql -type f -print0",
        "glib-2.78.4-h783c2da_0.conda",
        "The default login and password page",
        "PASSWORD=`openssl rand -base64 32`",
        'cookie: (req)=>req.cookies.session||"",',
        "ssh_key: ssh-ed25519 AAAA",
        'label :password "Passwort"',
        '{:password "is too short"}',
        "<password>Passwort</password>",
        '"d": "9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c9f8e"',
        "MAC\nd41d8cd98f00b204e9800998ecf8427e",
    ],
)
def test_what_only_speaks_of_secrets_stays(line: str) -> None:
    for text in (line, marked("+", line), marked("-", line), marked(" ", line)):
        assert scrub(text).text == text


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ('password = "hunter2"', 'password = "[redacted]"'),
        ("password: hunter2", "password: [redacted]"),
        ("  dbPassword: 'correct horse 7',", "  dbPassword: '[redacted]',"),
        ("export DB_PASSWORD=correcthorse", "export DB_PASSWORD=[redacted]"),
        ("mysql --password=correcthorse shop", "mysql --password=[redacted] shop"),
        ("tool --password hunter2x run", "tool --password [redacted] run"),
        ("<password>hunter22</password>", "<password>[redacted]</password>"),
        ("curl -u admin:hunter2 https://a.test", "curl -u admin:[redacted] https://a.test"),
        ("docker login -u bob -p S3cretpw1", "docker login -u bob -p [redacted]"),
        ("mysql -u root -pS3cretpw shop", "mysql -u root -p[redacted] shop"),
        ("machine a.test login me password hunter2", "machine a.test login me password [redacted]"),
        (r"{\"password\": \"hunter2\"}", r"{\"password\": \"[redacted]\"}"),
        ("postgres://shop:hunter2@db.test/shop", "postgres://shop:[redacted]@db.test/shop"),
        ("assert password == 'hunter2'", "assert password == '[redacted]'"),
        ('password: str = "hunter2"', 'password: str = "[redacted]"'),
        ("DB_PASSWORD=&hunter", "DB_PASSWORD=[redacted]"),
        ("host=db user=app password=hunter2 dbname=x", "host=db user=app password=[redacted] dbname=x"),
        ("host=db password=correcthorse dbname=x", "host=db password=[redacted] dbname=x"),
        ("Server=db;Database=shop;Password=hunter2;", "Server=db;Database=shop;Password=[redacted];"),
        ("User Id=shop;Pwd=correcthorse;", "User Id=shop;Pwd=[redacted];"),
        ('post("?username=bob&password=hunter2")', 'post("?username=bob&password=[redacted]")'),
        ("login password=hunter2 failed", "login password=[redacted] failed"),
        ('log("login password=hunter2 failed")', 'log("login password=[redacted] failed")'),
        ("password: |\n  hunter2!\nuser: bob", "password: |\n  [redacted]\nuser: bob"),
        ("password: >-\n  Tr0ub4dor&3", "password: >-\n  [redacted]"),
        ("+  db_password: |2\n+    hunter2!\n", "+  db_password: |2\n+    [redacted]\n"),
        ('os.environ.get("SECRET_KEY", "django-4k3j5h6g7f8d9")', 'os.environ.get("SECRET_KEY", "[redacted]")'),
        ('os.getenv("DB_PASSWORD", "hunter2!x")', 'os.getenv("DB_PASSWORD", "[redacted]")'),
        ('os.getenv("DB_PASSWORD", default="postgres")', 'os.getenv("DB_PASSWORD", default="[redacted]")'),
        ("ENV.fetch('DB_PASSWORD', 'hunter2')", "ENV.fetch('DB_PASSWORD', '[redacted]')"),
        ('("password", "hunter2!x")', '("password", "[redacted]")'),
        ("DBPASS=hunter22", "DBPASS=[redacted]"),
        ("PASSWORD_PROD_DB=correcthorse", "PASSWORD_PROD_DB=[redacted]"),
        ("PASSWORD_PROD_DB: hunter22", "PASSWORD_PROD_DB: [redacted]"),
        ('passwordProdDb: "hunter22"', 'passwordProdDb: "[redacted]"'),
        ("token_file_password=hunter2 x=1", "token_file_password=[redacted] x=1"),
        ("DBPASS=hunter/22", "DBPASS=[redacted]"),
        ('connect("password=hunter2")', 'connect("password=[redacted]")'),
        ('connect("jdbc:db://h/shop?password=correcthorse")', 'connect("jdbc:db://h/shop?password=[redacted]")'),
        ('redirect("/login?user=bob&password=expired")', 'redirect("/login?user=bob&password=[redacted]")'),
        ("export SMTP_DBPASS=correcthorse", "export SMTP_DBPASS=[redacted]"),
        ('{"DBPASS": "hunter22!"}', '{"DBPASS": "[redacted]"}'),
        ("SECRET_KEY = 'a(7k$x)#9q^w[z'", "SECRET_KEY = '[redacted]'"),
        ('secret_key = "(7k$x9q^wz"', 'secret_key = "[redacted]"'),
        ("auth_token = 'kD{agK7AQh3>_KSwmc1#'", "auth_token = '[redacted]'"),
        ("DB_PASSWORD=aUdsC<Wn$+wq52V@#Se", "DB_PASSWORD=[redacted]"),
        ("DB_PASSWORD=<Wn$+wq52V'x", "DB_PASSWORD=[redacted]"),
        ("<b>DB_PASSWORD=hunter22</b>", "<b>DB_PASSWORD=[redacted]</b>"),
        ("password: aUds7<Wn$+wq", "password: [redacted]"),
        ("password: nIh#P)n[^*F!320&FtSf", "password: [redacted]"),
        ("password: DeErplJgyesmqambRbYohUsJ", "password: [redacted]"),
        ("password: process.env.DB_PW || 'hunter2',", "password: process.env.DB_PW || '[redacted]',"),
        ("password = process.env['PW'] ?? 'hunter2'", "password = process.env['PW'] ?? '[redacted]'"),
        ("password = os.getenv('X') or 'hunter2'", "password = os.getenv('X') or '[redacted]'"),
        ("password =\n  process.env.PW\n  || 'hunter2'", "password =\n  process.env.PW\n  || '[redacted]'"),
        ("password = '' if dev else 'hunter2'", "password = '' if dev else '[redacted]'"),
        ("password = dev ? 'hunter2' : 'hunter3'", "password = dev ? '[redacted]' : '[redacted]'"),
        ("API_KEY = (\n    'a1B2c3d4e5'\n)", "API_KEY = (\n    '[redacted]'\n)"),
        ("+API_KEY = (\n+    'a1B2c3d4e5'\n+)", "+API_KEY = (\n+    '[redacted]'\n+)"),
        ("pw: SecretStr = SecretStr('hunter2')", "pw: SecretStr = SecretStr('[redacted]')"),
        ("password: str = Field(default='hunter2')", "password: str = Field(default='[redacted]')"),
        ('jwtSecret = []byte("correcthorse")', 'jwtSecret = []byte("[redacted]")'),
        ("password = decode('x7Kq2mZp9t')", "password = decode('[redacted]')"),
        ("password = 'a1(b\nc2)d='\nx('y')", "password = '[redacted]\n[redacted]'\nx('y')"),
        ("wpa_psk=correcthorse", "wpa_psk=[redacted]"),
        ("  psk=hunter22\n", "  psk=[redacted]\n"),
        ("/back?state=x&code=4/0AX4XfWh7k2Qm9Zr1Tb5", "/back?state=x&code=[redacted]"),
        ("db.test:5432:shop:bob:hunter2", "db.test:5432:shop:bob:[redacted]"),
        ("*:*:*:postgres:hunter2\n", "*:*:*:postgres:[redacted]\n"),
        ('{"value": "hunter2", "name": "DB_PASSWORD"}', '{"value": "[redacted]", "name": "DB_PASSWORD"}'),
        ("- value: hunter2\n  name: userPassword\n", "- value: [redacted]\n  name: userPassword\n"),
        ('token = "".join(["a1B2c3d4", "e5F6g7H8"])', 'token = "".join(["[redacted]", "[redacted]"])'),
        ("secret = ['a1B2c3d4', 'e5F6g7'].join('')", "secret = ['[redacted]', '[redacted]'].join('')"),
        (
            "kind: Secret\nstringData:\n  mail: correcthorse\n  key: |\n    one two\ntype: Opaque\n",
            "kind: Secret\nstringData:\n  mail: [redacted]\n  key: |\n    [redacted]\ntype: Opaque\n",
        ),
        (
            "+data:\n+  mail: Y29ycmVjdA==\n+kind: Secret\n---\ndata:\n  a: b\n",
            "+data:\n+  mail: [redacted]\n+kind: Secret\n---\ndata:\n  a: b\n",
        ),
        (
            '{\n  "data": {\n    "mail": "Y29ycmVjdA=="\n  },\n  "kind": "Secret"\n}',
            '{\n  "data": {\n    "mail": "[redacted]"\n  },\n  "kind": "Secret"\n}',
        ),
        (
            "| user | password |\n|---|---|\n| bob | hunter2 |\n| eve | `x!y z` |\n",
            "| user | password |\n|---|---|\n| bob | [redacted] |\n| eve | `x!y z` |\n",
        ),
        (
            " id | api_key\n----+---------\n  1 | a1B2c3d4\n(1 row)\n",
            " id | api_key\n----+---------\n  1 | [redacted]\n(1 row)\n",
        ),
        (r'{"password": "aBc9\"hunter22"}', '{"password": "[redacted]"}'),
        (r"password='aBc9\'hunter22'", "password='[redacted]'"),
        (r'password = "a\"hunter22"', 'password = "[redacted]"'),
        (r"{\"password\": \"aBc9\\\"hunter22\", \"x\": \"y\"}", r"{\"password\": \"[redacted]\", \"x\": \"y\"}"),
        ("password = 'Hunter22' if a else 'Other99!'", "password = '[redacted]' if a else '[redacted]'"),
        ('~ password = "old1!x" -> "new1!x"', '~ password = "[redacted]" -> "[redacted]"'),
        ("POSTGRES_PASSWORD: ${PG_X:-Hunter22!x}", "POSTGRES_PASSWORD: ${PG_X:-[redacted]}"),
        ("DB_PASSWORD=${A:-${B:-hunter22}}", "DB_PASSWORD=${A:-${B:-[redacted]}}"),
        ('DB_PASSWORD="${DB_PASSWORD:-postgres}"', 'DB_PASSWORD="${DB_PASSWORD:-[redacted]}"'),
        (": ${DB_PASSWORD:=hunter22}", ": ${DB_PASSWORD:=[redacted]}"),
        ('@Value("${db.password:hunter22}")', '@Value("${db.password:[redacted]}")'),
        ('$Password = ConvertTo-SecureString "hunter22!"', '$Password = ConvertTo-SecureString "[redacted]"'),
        ('password=lambda: "abc123"', 'password=lambda: "[redacted]"'),
        ('static API_KEY: &\'static str = "a1b2c3d4e5";', 'static API_KEY: &\'static str = "[redacted]";'),
        ('let secret: &[u8] = b"g7Kq2mZp9tX";', 'let secret: &[u8] = b"[redacted]";'),
        (
            "pw: Annotated[str, Field(min_length=8)] = 'hunter2'",
            "pw: Annotated[str, Field(min_length=8)] = '[redacted]'",
        ),
        ("password?: string = 'hunter2'", "password?: string = '[redacted]'"),
        ('string Password { get; set; } = "hunter2";', 'string Password { get; set; } = "[redacted]";'),
        ("password ||= 'hunter2'", "password ||= '[redacted]'"),
        ("options[:password] || 'hunter2'", "options[:password] || '[redacted]'"),
        ("ENV.fetch('DB_PASSWORD') { 'hunter2' }", "ENV.fetch('DB_PASSWORD') { '[redacted]' }"),
        (
            'env::var("DB_PASSWORD").unwrap_or("hunter2".into())',
            'env::var("DB_PASSWORD").unwrap_or("[redacted]".into())',
        ),
        ('GetVariable("DB_PASSWORD") ?? "hunter2"', 'GetVariable("DB_PASSWORD") ?? "[redacted]"'),
        ("'DB_PASSWORD=' + 'hunter2'", "'DB_PASSWORD=' + '[redacted]'"),
        ('$dbpass = "hunter2";', '$dbpass = "[redacted]";'),
        (
            'variable "db_password" {\n  type = string\n  default = "hunter2"\n}',
            'variable "db_password" {\n  type = string\n  default = "[redacted]"\n}',
        ),
        ('<property name="db.password">hunter2x</property>', '<property name="db.password">[redacted]</property>'),
        (
            '<setting name="ApiKey" x="y"><value>a1B2c3d4e5</value></setting>',
            '<setting name="ApiKey" x="y"><value>[redacted]</value></setting>',
        ),
        (
            'kind: Secret # a\nstringData: # b\n  c: |\n    A=1\n\n    bob "hunter2" ssl\n# c\n  late: hunter2\n',
            "kind: Secret # a\nstringData: # b\n  c: |\n    [redacted]\n\n    [redacted]\n# c\n  late: [redacted]\n",
        ),
        ("data: {mail: abc}\nkind: Secret\n", "data: [redacted]\nkind: Secret\n"),
        (
            "items:\n- kind: Secret\n  data:\n    a: b\n- kind: ConfigMap\n  data:\n    mode: fast\n",
            "items:\n- kind: Secret\n  data:\n    a: [redacted]\n- kind: ConfigMap\n  data:\n    mode: fast\n",
        ),
        ("-kind: Secret\n-data:\n-  a: b\n-  c: d\n", "-kind: Secret\n-data:\n-  a: [redacted]\n-  c: [redacted]\n"),
        ('{"kind":"Secret","data":{"a":"b","c":"d}e"}}', '{"kind":"Secret","data":{[redacted]}}'),
        (
            r'"last": "{\"data\":{\"a\":\"YQ==\"},\"kind\":\"Secret\"}"',
            r'"last": "{\"data\":{[redacted]},\"kind\":\"Secret\"}"',
        ),
        (
            "| Setting | Value |\n|---|---|\n| DB_PASSWORD | Hunter22! |\n| port | 8080a! |\n",
            "| Setting | Value |\n|---|---|\n| DB_PASSWORD | [redacted] |\n| port | 8080a! |\n",
        ),
        (
            "│ user │ password │\n├──────┼──────────┤\n│ bob  │ hunter2 │\n",
            "│ user │ password │\n├──────┼──────────┤\n│ bob  │ [redacted] │\n",
        ),
        (r"'bad \x1b[31mghp_a1B2c3a1B2c3a1B2c3a1B2c3a1B2c3a1B2c3\x1b[0m'", r"'bad \x1b[31m[redacted]\x1b[0m'"),
    ],
)
def test_only_the_value_is_taken_out(line: str, left: str) -> None:
    assert scrub(line).text == left
    assert scrub(left).text == left


SALT = "x7 Kq|2m!Zp9t+Xw4;a1B2#c3d4 %u8(Yv5$R" + "&e6)Tg3^Nf1[Wb9]Lc2~Hs7@k"
BASIC = "ZGVwbG95" + "Omh1bnRlcjJ4eXo="


@pytest.mark.parametrize(
    ("line", "left"),
    [
        (f"('Authorization', b'Basic {BASIC}')", "('Authorization', b'Basic [redacted]')"),
        (f"map[Authorization:[Basic {BASIC}] X:[y]]", "map[Authorization:[Basic [redacted]] X:[y]]"),
        ("credentials(HTTP_AUTHORIZATION=f'Token a1b2c3d4e5')", "credentials(HTTP_AUTHORIZATION=f'Token [redacted]')"),
        ("{'auth': ('bob', 'hunter2')}", "{'auth': ('bob', '[redacted]')}"),
        ("{'auth': ['bob', 'hunter2']}", "{'auth': ['bob', '[redacted]']}"),
        ("smtp.login('me@x.test', 'hunter2')", "smtp.login('me@x.test', '[redacted]')"),
        ("Authorization: NqVwYS81VP7Hb1DX8pPd5khx", "Authorization: [redacted]"),
        ("next=https%3A%2F%2Fbob%3Ahunter2xQ%40db.test", "next=https%3A%2F%2Fbob%3A[redacted]%40db.test"),
        ("user%3Dbob%26password%3Dhunter2xQ%26x", "user%3Dbob%26password%3D[redacted]%26x"),
        ("postgres://bob:hun/ter2@db/x", "postgres://bob:[redacted]@db/x"),
        ("curl -b 'sid=jUStEkUdfMI7' https://a.test", "curl -b '[redacted]' https://a.test"),
        ('{"name": "DB_PASSWORD", "value": "hunter2xQ"}', '{"name": "DB_PASSWORD", "value": "[redacted]"}'),
        ("- name: DB_PASSWORD\n  value: hunter2xQ\n", "- name: DB_PASSWORD\n  value: [redacted]\n"),
        ('<add key="Password" value="hunter2xQ"/>', '<add key="Password" value="[redacted]"/>'),
        ('"db_password": {\n  "value": "hunter2xQ"', '"db_password": {\n  "value": "[redacted]"'),
        ('{"name": "api_key", "value": "aB1cD2eF3g"}', '{"name": "api_key", "value": "[redacted]"}'),
        ("{Name: userPassword, Value: hunter2xQ}", "{Name: userPassword, Value: [redacted]}"),
        ("- name: userPassword\n  value: correcthorse\n", "- name: userPassword\n  value: [redacted]\n"),
        ("- name: DB_PASSWORD_RO\n  value: correcthorse\n", "- name: DB_PASSWORD_RO\n  value: [redacted]\n"),
        ("- name: APP_SECRET_BASE\n  value: correcthorse\n", "- name: APP_SECRET_BASE\n  value: [redacted]\n"),
        ('set_password("bob", "hunter2")', 'set_password("bob", "[redacted]")'),
        ('set_password("hunter2", salt)', 'set_password("[redacted]", salt)'),
        ('change_password("hunter2", "hunter3")', 'change_password("[redacted]", "[redacted]")'),
        ('pass_db_main = "hunter22"', 'pass_db_main = "[redacted]"'),
        ('adminPwDeployBox: "hunter22"', 'adminPwDeployBox: "[redacted]"'),
        ("PASS_STAGE_BOX=hunter22", "PASS_STAGE_BOX=[redacted]"),
        ("docker login -p 12345678", "docker login -p [redacted]"),
        ("default login bob password hunter2", "default login bob password [redacted]"),
        ("bob:$apr1$4fWP36RO$fcFG4EnCtjBrNCKeRHp4s1", "bob:[redacted]"),
        ("redis-cli -a hunter2xQ ping", "redis-cli -a [redacted] ping"),
        ("ldapsearch -D cn=x -w hunter2xQ", "ldapsearch -D cn=x -w [redacted]"),
        ("GET /x?access_token=p9NFa1SVaL8uHzwurOn21Y&y=1", "GET /x?access_token=[redacted]&y=1"),
        ("GET /x?key=mo6aKtfopnyQPLns1UinW6khMLNT1U&y", "GET /x?key=[redacted]&y"),
        ("ALTER USER bob WITH PASSWORD 'hunter2xQ'", "ALTER USER bob WITH PASSWORD '[redacted]'"),
        ("CREATE USER bob IDENTIFIED BY 'hunter2xQ'", "CREATE USER bob IDENTIFIED BY '[redacted]'"),
        ("assert 'hunter2xQ' == user.password", "assert '[redacted]' == user.password"),
        ("CREATE ROLE bob LOGIN PASSWORD 'hunter2xQ'", "CREATE ROLE bob LOGIN PASSWORD '[redacted]'"),
        ("IDENTIFIED WITH mysql_native BY 'hunter2xQ'", "IDENTIFIED WITH mysql_native BY '[redacted]'"),
        ("new PDO('mysql:host=x', 'bob', 'hunter2xQ')", "new PDO('mysql:host=x', 'bob', '[redacted]')"),
        ('setx DB_PASSWORD "hunter2xQ"', 'setx DB_PASSWORD "[redacted]"'),
        ("redis-server --requirepass hunter2xQ", "redis-server --requirepass [redacted]"),
        ("ENV DB_PASSWORD hunter2xQ", "ENV DB_PASSWORD [redacted]"),
        ("setenv DB_PASSWORD hunter2xQ", "setenv DB_PASSWORD [redacted]"),
        ("eyJhbGciOiJSU0EifQ" + ".aB1cD2eF3g" * 4, "[redacted]"),
        ("define('DB_PASSWORD', 'correcthorse');", "define('DB_PASSWORD', '[redacted]');"),
        (f"define('AUTH_KEY', '{SALT}');", "define('AUTH_KEY', '[redacted]');"),
        (f"define( 'NONCE_SALT', '{SALT}' );", "define( 'NONCE_SALT', '[redacted]' );"),
        ('props.setProperty("password", "hunter22");', 'props.setProperty("password", "[redacted]");'),
        ('environ.setdefault("DB_PASSWORD", "hunter22")', 'environ.setdefault("DB_PASSWORD", "[redacted]")'),
        ("page.fill('#password', 'hunter22')", "page.fill('#password', '[redacted]')"),
        ("    storePassword 'hunter22'\n    keyAlias 'x'", "    storePassword '[redacted]'\n    keyAlias 'x'"),
        ('{:user "bob" :password "hunter22"}', '{:user "bob" :password "[redacted]"}'),
        ('[{user, "bob"}, {password, "hunter22"}]', '[{user, "bob"}, {password, "[redacted]"}]'),
        (f'set_header Authorization "Basic {BASIC}";', 'set_header Authorization "Basic [redacted]";'),
        ("<key>Password</key>\n\t<string>hunter22</string>", "<key>Password</key>\n\t<string>[redacted]</string>"),
        ("RUN echo 'root:hunter22' | chpasswd", "RUN echo 'root:[redacted]' | chpasswd"),
        ("masterauth hunter22", "masterauth [redacted]"),
        ("keytool -storepass hunter22 -keypass hunter22", "keytool -storepass [redacted] -keypass [redacted]"),
        ("<password>correcthorse</password>", "<password>[redacted]</password>"),
        ("tool --from-literal=password=correcthorse", "tool --from-literal=password=[redacted]"),
        ("tool --set db.password=correcthorse", "tool --set db.password=[redacted]"),
        ("spring.datasource.password=correcthorse\n", "spring.datasource.password=[redacted]\n"),
        ('mnemonic: "' + "candy maple " * 5 + 'cake sugar"', 'mnemonic: "[redacted]"'),
        ('WIFI_PASSWORD="the blue horse 42 runs"', 'WIFI_PASSWORD="[redacted]"'),
        ('"password": "Winter is coming 2024!"', '"password": "[redacted]"'),
        ('ADMIN_KEY="opensesame-please"', 'ADMIN_KEY="[redacted]"'),
        ("DB_KEY='tr@ub&dor'", "DB_KEY='[redacted]'"),
        ('AUTH_KEY = "Summer24"', 'AUTH_KEY = "[redacted]"'),
        ("hostapd_1  | wpa_passphrase=correcthorsebattery", "hostapd_1  | wpa_passphrase=[redacted]"),
        ("conf:12:wpa_passphrase=correcthorsebattery", "conf:12:wpa_passphrase=[redacted]"),
        ("psk=correcthorse # home", "psk=[redacted] # home"),
        (
            'if password == (os.environ.get("X") or "correcthorse"):',
            'if password == (os.environ.get("X") or "[redacted]"):',
        ),
        ('x = password == "" ? "hunter22x" : y', 'x = password == "" ? "[redacted]" : y'),
        ('auth=("bob", "hunter22x", realm)', 'auth=("bob", "[redacted]", realm)'),
        ('auth=("bob", "correcthorse".encode())', 'auth=("bob", "[redacted]".encode())'),
        ('auth=("bob", "hunter22x" if a else b)', 'auth=("bob", "[redacted]" if a else b)'),
        ('auth: ["bob", "s3cr3t/Pa55w"]', 'auth: ["bob", "[redacted]"]'),
        ("DB_PASSWORD=${A:-${B:-${C:-${D:-${E:-hunter22x}}}}}", "DB_PASSWORD=${A:-${B:-${C:-${D:-${E:-[redacted]}}}}}"),
        ("MYSQL_PWD=/aB9xQ2z", "MYSQL_PWD=[redacted]"),
        ("Server=x;Pwd=/aB9xQ2;", "Server=x;Pwd=[redacted];"),
        ("Authorization: Basic\n  xK9#mPqL2vR8w", "Authorization: Basic\n  [redacted]"),
        ("E   default login bob password hunter22", "E   default login bob password [redacted]"),
        ('user.set_password("P@ssw0rd.com")', 'user.set_password("[redacted]")'),
        ('password = "ssh-hunter22"', 'password = "[redacted]"'),
        ('password: "string:hunter22"', 'password: "[redacted]"'),
        ("Set-Cookie: sid[x]=abcdefghijklmnop1234", "Set-Cookie: [redacted]"),
        ('x = ("DB_PASS"\n     "WORD=hunter22")', 'x = ("DB_PASS"\n     "WORD=[redacted]")'),
        ("mysql -u root -printer99x shop", "mysql -u root -p[redacted] shop"),
        ("smtp_pass: Summer24", "smtp_pass: [redacted]"),
        ("pass: s3cr3t/Pa55w", "pass: [redacted]"),
        ("db_pass: tr@ub&dor", "db_pass: [redacted]"),
        ("db: {host: x, user: bob, pass: Tr0ub4dor3x, port: 3}", "db: {host: x, user: bob, pass: [redacted], port: 3}"),
        ("login user: bob pass: Tr0ub4dor&3 from 10.0.0.1", "login user: bob pass: [redacted] from 10.0.0.1"),
        ("as user bob, Pass: hunter22", "as user bob, Pass: [redacted]"),
        ("db: {user: bob, password: Tr0ub4dor&3}", "db: {user: bob, password: [redacted]}"),
        ("{User:bob Password:Tr0ub4dor&3}", "{User:bob Password:[redacted]}"),
        ("User[name=bob, password=Tr0ub4dor&3]", "User[name=bob, password=[redacted]]"),
        ("login(password=Tr0ub4dor&3)", "login(password=[redacted])"),
        ("{token: 9f8e7d6c5b4a39281706f5e4d3c2b1a0}", "{token: [redacted]}"),
        ("{client_secret=9f8e7d6c5b4a3928}", "{client_secret=[redacted]}"),
        ("{api_key: aB3dE5fG7hJ9kL1mN2pQ}", "{api_key: [redacted]}"),
        ('DB_PASSWORD="correct horse battery staple"', 'DB_PASSWORD="[redacted]"'),
        ('- name: DB_PASSWORD\n  value: "correct horse"', '- name: DB_PASSWORD\n  value: "[redacted]"'),
        ('EMAIL_HOST_PASSWORD = "abcd efgh ijkl mnop"', 'EMAIL_HOST_PASSWORD = "[redacted]"'),
        ("SMTP_PASSWORD=abcd efgh ijkl mnop\n", "SMTP_PASSWORD=[redacted]\n"),
        ("- name: SMTP_PASS\n  value: Tr0ub4dor3x", "- name: SMTP_PASS\n  value: [redacted]"),
        ('- name: DB_PWD\n  value: "hunter22"', '- name: DB_PWD\n  value: "[redacted]"'),
        (f"- name: STRIPE_KEY\n  value: {'xK9mPqL2vR8w' * 3}", "- name: STRIPE_KEY\n  value: [redacted]"),
        ("- name: DB_PASSWORD\n  # ours\n  value: hunter22", "- name: DB_PASSWORD\n  # ours\n  value: [redacted]"),
        (
            "- key: DB_PASSWORD\n  scope: RUN_TIME\n  type: SECRET\n  value: hunter22",
            "- key: DB_PASSWORD\n  scope: RUN_TIME\n  type: SECRET\n  value: [redacted]",
        ),
        (
            "# - name: A_PASSWORD\n#   value: hunter22\n# - name: X\n#   value: y",
            "# - name: A_PASSWORD\n#   value: [redacted]\n# - name: X\n#   value: y",
        ),
        (
            '"Name": "/shop/db/password",\n"Type": "SecureString",\n"Value": "hunter22"',
            '"Name": "/shop/db/password",\n"Type": "SecureString",\n"Value": "[redacted]"',
        ),
        (
            '{"ParameterKey": "DBPassword", "ParameterValue": "hunter22"}',
            '{"ParameterKey": "DBPassword", "ParameterValue": "[redacted]"}',
        ),
        ('variable "db_pass" {\n  default = "hunter22"\n}', 'variable "db_pass" {\n  default = "[redacted]"\n}'),
        ('auth=(\n    "bob",\n    "hunter22x",\n),', 'auth=(\n    "bob",\n    "[redacted]",\n),'),
        ('HTTPBasicAuth(\n    "bob",\n    "hunter22x",\n)', 'HTTPBasicAuth(\n    "bob",\n    "[redacted]",\n)'),
        ('http_auth=("bob", "hunter22x", realm)', 'http_auth=("bob", "[redacted]", realm)'),
        ("Cookie: lang=fr; sid=s%3AaB3dE5fG7hJ9kL1mN2", "Cookie: lang=fr; [redacted]"),
        ("Authorization: Basic\n    correcthorse", "Authorization: Basic\n    [redacted]"),
        ("root:hunter22@tcp(db.test:3306)/shop", "root:[redacted]@tcp(db.test:3306)/shop"),
        ('static char wifi_password[32] = "hunter22";', 'static char wifi_password[32] = "[redacted]";'),
        ('#define DB_PASSWORD "correcthorse"', '#define DB_PASSWORD "[redacted]"'),
        ('#define WIFI_PASS "hunter22"', '#define WIFI_PASS "[redacted]"'),
        ("DB_PASSWORD ?= correcthorse", "DB_PASSWORD ?= [redacted]"),
        ('user, password = "bob", "hunter22"', 'user, password = "[redacted]", "[redacted]"'),
        ("curl --proxy-user bob:hunter22 https://a.test", "curl --proxy-user bob:[redacted] https://a.test"),
        ('DB_PASSWORD="Пароль"', 'DB_PASSWORD="[redacted]"'),
        ('license_key = "ABCD-EFGH-IJKL"', 'license_key = "[redacted]"'),
        ("proxy_pass: Tr0ub4dor3x", "proxy_pass: [redacted]"),
        ("PASS: hunter22", "PASS: [redacted]"),
        ('+- name: DB_PASSWORD\n+  value: "Tr0ub4dor3x"', '+- name: DB_PASSWORD\n+  value: "[redacted]"'),
        ('E   - name: DB_PASSWORD\nE     value: "hunter22"', 'E   - name: DB_PASSWORD\nE     value: "[redacted]"'),
        ('> "value": "hunter22",\n> "name": "DB_PASSWORD"', '> "value": "[redacted]",\n> "name": "DB_PASSWORD"'),
    ],
)
def test_what_is_secret_is_taken_out_wherever_it_is_written(line: str, left: str) -> None:
    assert scrub(line).text == left
    if not re.match(r"[+>-]|E ", line):
        for mark in "+- ":
            assert scrub(marked(mark, line)).text == marked(mark, left)


def marked(mark: str, text: str) -> str:
    """As a diff shows it."""
    return "\n".join(mark + line for line in text.split("\n"))


@pytest.mark.parametrize(
    "behind",
    ["EOF\n", "make\n", "fi\n", "---\nkind: x\n", "- DEBUG\n- CI\n", "PASSED\n", "[db2x-main]\n", "foo\n"],
)
def test_the_line_behind_a_secret_stays_unless_a_terminal_broke_the_row(behind: str) -> None:
    """I3: what goes on of a secret in the next row is taken out; what begins in the next line is not."""
    assert scrub(f"- DB_PASSWORD=hunter22\n{behind}").text == f"- DB_PASSWORD=[redacted]\n{behind}"
    row = "export SHOP_DATABASE_PASSWORD=correct"
    assert scrub(f"{row}\nhorse\nls\n").text == "export SHOP_DATABASE_PASSWORD=[redacted]\n[redacted]\nls\n"
    wide = "日本語の設定ファイルを読み込んでいます DB_PASSWORD="
    rest = "thorsebatterystaplethorsebatterystaplexxxxxxxx"
    assert scrub(f"{wide}correc\n{rest}").text == f"{wide}[redacted]\n[redacted]"


@pytest.mark.parametrize(
    "behind",
    [
        *(
            "--- FAIL: TestY (0.00s)\n",
            "FAILED tests/a.py::t\n",
            "DEBUG=1\n",
            "  make test\n",
            "ok  \tshop/cart 0.1s\n",
        ),
        *(
            "2 failed, 3 passed in 0.1s\n",
            "12 passed\n",
            "3 tests ok\n",
            "2024-05-01 10:00:00 next\n",
            "HTTP/1.1 200 OK\n",
        ),
    ],
)
def test_the_line_behind_a_token_stays_unless_it_goes_on_there(behind: str) -> None:
    """I3: a reader of the output finds its lines; the rest of a token in the next line is taken out."""
    key, word = "sk-" + "proj-abcdEF12gh34IJ56kl78MN90", "gh" + "p_aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY1zA2"
    for token in (key, word):
        assert scrub(f"a_test.go:9: got {token}\n{behind}").text == f"a_test.go:9: got {REDACTED}\n{behind}"
    if behind[0].isdigit():
        assert scrub(f"GET /?api_key=aB3dE5fG7hJ9kL1mN2pQ\n{behind}").text == f"GET /?api_key={REDACTED}\n{behind}"
    assert (
        scrub(f"a_test.go:9: got {key}\n    opQR3456789AB\n").text == f"a_test.go:9: got {REDACTED}\n    {REDACTED}\n"
    )


def test_what_pytest_shows_of_a_secret_without_its_middle_is_taken_out() -> None:
    """I3: where it stands whole elsewhere in the text, or begins as a token does; not what only has three dots."""
    key = "sk-" + "proj-abcdEF12gh34IJ56kl78MN90opQR3456789ABCDEF"
    told = f"E       AssertionError: assert '{key[:12]}...{key[-13:]}' == 'x'\nE         - x\nE         + {key}\n"
    left = f"E       AssertionError: assert '{REDACTED}' == 'x'\nE         - x\nE         + {REDACTED}\n"
    assert scrub(told).text == left
    assert scrub("assert 'corr...tery' == 'x'\nDB_PASSWORD=correcthorsebattery\n").text == (
        f"assert '{REDACTED}' == 'x'\nDB_PASSWORD={REDACTED}\n"
    )
    assert scrub("assert 'gh" + "p_aB3dE5fG7...W0xY1zA2' == 'x'").text == f"assert '{REDACTED}' == 'x'"
    shown = "loading...\nassert 'correct or ...or battery' == 'x'\nask-me-Later...Then1 sk-learn...\n"
    assert scrub(f"{shown}DB_PASSWORD=correcthorsebattery\n").text == f"{shown}DB_PASSWORD={REDACTED}\n"
    assert scrub("assert 'AUTH=correctho...' == ''\nDB_PASSWORD=correcthorsebattery\n").text == (
        f"assert 'AUTH={REDACTED}' == ''\nDB_PASSWORD={REDACTED}\n"
    )
    assert scrub("DB_PASSWORD=postgres_dev_pw\ncan't wait for postgres...\n").text == (
        f"DB_PASSWORD={REDACTED}\ncan't wait for postgres...\n"
    )


def test_what_is_secret_by_its_name_is_taken_out_where_it_stands_alone() -> None:
    """I3: a failed assertion shows it without its name; a word that is secret somewhere may be a word elsewhere."""
    for secret in ("Tr0ub4dor3x99", "correcthorsebattery"):
        shown = (
            "E       AssertionError: assert '{0}' == 'x'\nE         + {0}\nat bob:{0}@db\n>       password = '{0}'\n"
        )
        assert scrub(shown.format(secret)).text == shown.format(REDACTED)
    assert scrub("DB_PASSWORD=postgres\nstarting postgres\n").text == f"DB_PASSWORD={REDACTED}\nstarting postgres\n"
    longer = "DB_PASSWORD=correcthorsebattery\nADMIN_PASSWORD=correcthorsebatterystaple\n"
    assert "horse" not in scrub(f"{longer}correcthorsebatterystaple, correcthorsebattery\n").text


def test_a_secret_of_any_length_is_taken_out_whole() -> None:
    """I3: also what is longer than what it takes to judge it."""
    secret = "a1B2c3D4" * 400
    assert scrub(f"DB_SECRET={secret}\ntoken: {secret}\n").text == f"DB_SECRET={REDACTED}\ntoken: {REDACTED}\n"


def test_a_key_that_was_cut_is_taken_out_without_its_first_or_last_line() -> None:
    rng = random.Random(SEED)
    rows = KINDS["pem rsa"][0](rng).split("\n")
    for part in (rows[:-1], rows[1:], rows[:4], rows[2:-2]):
        left = scrub("before\n" + "\n".join(part) + "\nafter").text
        assert not [row for row in rows[1:-1] if row in left]
        assert left.startswith("before\n")
        assert left.endswith("\nafter")


def test_a_public_key_and_a_certificate_stay() -> None:
    rng = random.Random(SEED)
    for public in ("PUBLIC KEY", "CERTIFICATE"):
        private = "PRIV" + "ATE KEY"
        text = KINDS["pem rsa"][0](rng).replace(f"RSA {private}", public)
        assert scrub(text).text == text


def test_a_text_that_is_too_long_to_check_is_withheld() -> None:
    assert scrub("x" * (MAX_CHARACTERS + 1)).text == ""
    assert scrub("x" * (MAX_CHARACTERS + 1)).found


def test_what_was_found_is_told_by_kind_and_never_by_content() -> None:
    for plant in PLANTED:
        told = " ".join(scrub(plant.text).found)
        assert told
        assert not [piece for piece in plant.pieces if piece in told]


CODE = (
    *(
        "password",
        "secret_key",
        "DB_PASSWORD",
        "token",
        "auth",
        " = ",
        ": ",
        "=",
        '": ',
        " or ",
        " || ",
        " ?? ",
        " if x else ",
    ),
    *(
        "'hunter2x'",
        "'h4nt3r9'",
        '"g7Kq2mZp9tXw4"',
        r"'a\'b1c2'",
        '"x"',
        "g7Kq2mZp9tXw4",
        "f(",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
    ),
    *(", ", "\n", "\n  ", "${X:-", "->", " + ", " ? ", " : ", "| ", "kind: Secret\n", "data:\n  "),
)


@given(st.lists(st.sampled_from(CODE), max_size=12))
def test_scrubbing_code_again_changes_nothing(parts: list[str]) -> None:
    once = scrub("".join(parts)).text
    assert scrub(once).text == once


@given(st.text(alphabet="ab1=:\"'\n+-/\\ \x1b[m{$(password.keyBEGIN"))
def test_any_text_is_scrubbed_without_an_error_and_keeps_its_lines(text: str) -> None:
    done = scrub(text)
    assert done.text.count("\n") == text.count("\n")
    assert done.found or done.text == plain(text)
    assert REDACTED in done.text or not done.found


@pytest.mark.parametrize("at", [0, 1000, MAX_CHARACTERS - 300, MAX_CHARACTERS - 20, 2 * MAX_CHARACTERS - 2 * OVERLAP])
def test_a_long_text_is_scrubbed_at_every_place_and_keeps_its_lines(at: int) -> None:
    """I3: also where one window ends and the next begins."""
    key = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n" * 12 + "-----END PRIVATE KEY-----"
    before = "a quiet line\n" * (at // 13)
    text = f"{before}{key}\ntoken = ghp_{'a1B2c3' * 6}\n" + "a quiet line\n" * 25_000
    scrubbed = scrub_long(text)
    assert "MIIE" not in scrubbed.text
    assert "a1B2" not in scrubbed.text
    assert scrubbed.text.count("\n") == text.count("\n")
    assert scrubbed.text.startswith(before)


def test_a_long_text_is_scrubbed_by_what_stands_behind_a_secret_too() -> None:
    """I3: kubectl prints the data of a Secret before it says that it is one; a window ends between them."""
    data = "---\napiVersion: v1\ndata:\n  mail: Y29ycmVjdGhvcnNl\n"
    room = MAX_CHARACTERS - len(data)
    before = "a quiet line\n" * (room // 13) + "x" * (room % 13 - 1) + "\n"
    text = before + data + "kind: Secret\n" + "a quiet line\n" * 100
    scrubbed = scrub_long(text)
    assert "Y29y" not in scrubbed.text
    assert scrubbed.text.count("\n") == text.count("\n")


def test_the_beginning_of_a_cut_text_only_serves_to_judge_the_rest() -> None:
    """I3"""
    scrubbed = scrub_long("half a secret\n" + "line\n" * OVERLAP, cut=True)
    assert "half" not in scrubbed.text
    assert scrubbed.text.endswith("line\n")
    assert scrub_long("short\n", cut=True).text.strip() == ""


def test_a_long_text_without_secrets_stays_as_it_is() -> None:
    text = "".join(f"line {number} of many\n" for number in range(40_000))
    assert scrub_long(text).text == text


def test_half_a_character_loses_nothing_else() -> None:
    """JSON can hold one; UTF-8 cannot."""
    for fit in (scrub, scrub_long):
        assert fit("bad \ud83d, password: hunter2").text == "bad ?, password: [redacted]"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('"a/eslint-visitor-keys": {\n-"eslint-visitor-keys": "^5.0.0"\n+"', '"a/eslint-visitor-keys": {'),
        ("privateKey = jwtTestRSAPrivateKey\nx = 1\ncall(jwtTestRSAPrivateKey)", "call(jwtTestRSAPrivateKey)"),
        ("password = 'django.contrib.auth.hashers'\nfrom django.contrib.auth.hashers import x", "hashers import x"),
        ("self.password = 'test_password_field_user'\ndef test_password_field_user(self): ...", "d_user(self)"),
        ('password="12345678901234567"\n12345678901234567890', "\n12345678901234567890"),
        (
            "stringData:\n  a.yaml: |\n    server_name: shop.test.x\n---\ndata:\n  server_name: shop.test.x",
            "shop.test.x",
        ),
    ],
)
def test_a_name_that_stands_where_a_secret_could_stays_elsewhere(text: str, left: str) -> None:
    assert left in scrub(text).text


def test_what_is_taken_out_never_makes_a_text_much_longer() -> None:
    for secret in ("=" * 26, "a1" * 13, "ab1-" * 7):
        rows = f'password: "{secret}"\n' + f"{secret * 3}\n" * 200
        assert len(scrub(rows).text) <= len(rows) + 40


@pytest.mark.parametrize(
    "line",
    [
        'es_auth=("bob","hunter22x", timeout)',
        "running pass: hunter22x",
        "PASS: letmein1",
        "token=https://aB3dE5fG7hJ9kL1mN2pQ",
        "DB_PASSWORD=unix:hunter22",
        "mysql -uroot -pthread-x9 shop",
    ],
)
def test_what_looks_like_an_exception_and_is_none_goes(line: str) -> None:
    """I3."""
    assert "[redacted]" in scrub(line).text


@pytest.mark.parametrize(
    "line",
    [
        '#define RENDER_PASS "gbuffer2"',
        '#define OPT_API_KEY "X-Api-Header-2"',
        '#define MSG_BAD_PASSWORD "wrong"',
        'char prompt_password[] = "Enter-it-here:";',
        "auth = (\n    'read',\n    'write',\n)",
        'MSG_PASSWORD="too many tries today"',
        "DSN is username:password@tcp(127.0.0.1:3306)/test",
        "PASS: letmein1\nPASS: letmein2",
    ],
)
def test_everyday_code_beside_the_new_forms_stays(line: str) -> None:
    assert scrub(line).text == line
