"""I3: what never enters a prompt."""

import pytest

from intentd.plan.secrets import is_refused, without_secrets


@pytest.mark.parametrize(
    "path",
    [
        *(".env", "app/.env.local", "prod.env", "key.pem", "a/server.KEY", "id_ed25519", "secrets.yaml"),
        *("credentials.json", ".netrc", "terraform.tfvars", ".git/config", "x/.ssh/known_hosts", ".venv/x.py"),
        "node_modules/a/index.js",
    ],
)
def test_files_that_hold_secrets_or_are_not_the_persons_are_refused(path: str) -> None:
    """I3"""
    assert is_refused(path)


@pytest.mark.parametrize("path", ["src/app.py", "environment.py", "keys.py", "tests/test_env.py", "secrets_test/a.py"])
def test_ordinary_files_are_not(path: str) -> None:
    assert not is_refused(path)


@pytest.mark.parametrize(
    "secret",
    [
        "AKIA" + "A" * 16,
        "ghp_" + "a" * 36,
        "xoxb-1234567890-abc",
        "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
        "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abcdefghijkl",
    ],
)
def test_texts_that_look_like_secrets_are_replaced(secret: str) -> None:
    """I3"""
    assert without_secrets(f"before {secret} after") == "before [secret removed] after"


def test_passwords_in_addresses_are_replaced() -> None:
    """I3"""
    assert without_secrets("postgres://me:hunter2@host/db") == "postgres://[secret removed]@host/db"


def test_ordinary_text_is_left_alone() -> None:
    text = "def key(): return 'sk-short' # https://host/a:b@c"
    assert without_secrets(text) == text
