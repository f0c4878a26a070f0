"""What only looks like a secret, or stands beside one, stays as it is."""

import random

import pytest

from intentd.plan.privacy import REDACTED, scrub
from tests.intentd.plan.privacy.corpus import KINDS, SEED, marked


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
        "PWD=/my/place/project",
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


def test_a_public_key_and_a_certificate_stay() -> None:
    rng = random.Random(SEED)
    for public in ("PUBLIC KEY", "CERTIFICATE"):
        private = "PRIV" + "ATE KEY"
        text = KINDS["pem rsa"][0](rng).replace(f"RSA {private}", public)
        assert scrub(text).text == text


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
