"""Owns what never enters a prompt (I3): files by place and name, text that looks like a secret. It reads nothing."""

import re
from fnmatch import fnmatchcase

_DIRECTORIES = {
    *(".git", ".hg", ".svn", ".venv", "venv", "env", "node_modules", "site-packages", "__pycache__", ".tox", ".nox"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".ssh", ".aws", ".gnupg", ".kube", ".docker", ".direnv"),
}
_FILES = (
    *(".env", ".env.*", "*.env", ".envrc", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".pgpass"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.asc", "*.gpg"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "credentials", "credentials.*", "secrets.*", "*.secret"),
    *("*.tfstate", "*.tfvars"),
)
REPLACEMENT = "[secret removed]"
_TEXT = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^-]*-----END [A-Z ]*PRIVATE KEY-----)?"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|\bgh[pousr]_[A-Za-z0-9]{30,}\b|\bgithub_pat_[A-Za-z0-9_]{30,}\b|\bglpat-[A-Za-z0-9_-]{20,}"
    r"|\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bsk-[A-Za-z0-9_-]{20,}|\bAIza[A-Za-z0-9_-]{35}"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"
    r"|(?<=://)[^\s/:@]{1,64}:[^\s/:@]{1,128}(?=@)"
)


def is_refused(relative: str) -> bool:
    """Whether a file, by its path from the workspace root, must not be read."""
    *directories, name = relative.split("/")
    if any(directory in _DIRECTORIES for directory in directories):
        return True
    return any(fnmatchcase(name.lower(), pattern) for pattern in _FILES)


def without_secrets(text: str) -> str:
    return _TEXT.sub(REPLACEMENT, text)
