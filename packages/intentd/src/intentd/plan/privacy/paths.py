"""Owns which files may enter a prompt, by their path alone (I3). It opens none: ignore files come in as text."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from attrs import frozen
from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

OWN_IGNORE_FILE = ".guessaheadignore"
"""Like .gitignore, for files that may be in git and still not in a prompt."""

# Never in a prompt, whatever an ignore file says. In .gitignore's form, compared in lower case.
DENIED = """
.env
.env.*
*.env
.envrc
.netrc
_netrc
.npmrc
.pypirc
.yarnrc.yml
.git-credentials
.htpasswd
.htdigest
.pgpass
.my.cnf
.s3cfg
.boto
.dockercfg
.dockerconfigjson
.vault-token
.terraformrc
.*_history
fish_history
zsh_history
*.pem
*.key
*.p8
*.p12
*.pfx
*.jks
*.keystore
*.kdb
*.kdbx
*.ppk
*.asc
*.gpg
*.age
*.ovpn
*.mobileprovision
*.tfstate
*.tfstate.*
*.tfvars
*.tfvars.json
*.secret
*.secrets
id_rsa*
id_dsa*
id_ecdsa*
id_ed25519*
identity.key
credentials
credentials.*
*credentials*.json
client_secret*.json
service[-_]account*.json
application_default_credentials.json
secret.*
secrets.*
kubeconfig
*.kubeconfig
.git/
.hg/
.svn/
.ssh/
.aws/
.azure/
.gnupg/
.kube/
.docker/
.password-store/
**/.config/gcloud/
**/.config/gh/
.direnv/
.terraform/
"""

_SOURCE = re.compile(
    r"[^.].*\.(?:pyi?|go|rs|[cm]?[jt]s|[jt]sx|vue|svelte|java|kt|scala|cs|fs|c|h|cc|hh|cpp|hpp|cxx|hxx|m|mm|swift|rb|php|lua"
    r"|ex|exs|erl|clj|hs|ml|dart|zig|nim|jl)"
)
"""Programs that deal with secrets are called like files that hold them. They are looked through as all texts are."""

# What git knows inside of brackets and the library does not.
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \t",
    "digit": "0-9",
    "lower": "a-z",
    "space": " \t",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_CLASS = re.compile(rf"\[:({'|'.join(_CLASSES)}):\]")


@frozen
class IgnoreFile:
    """One ignore file: the folder that it stands in, relative to the workspace ("" is its root), and its text."""

    folder: str
    text: str


@frozen
class _Rules:
    folder: PurePosixPath
    spec: GitIgnoreSpec

    def verdict(self, path: PurePosixPath, is_folder: bool) -> bool | None:
        """Whether the path is ignored; None where the file says nothing of it."""
        if not path.is_relative_to(self.folder):
            return None
        name = f"{path.relative_to(self.folder)}{'/' if is_folder else ''}"
        # what is no UTF-8 reads as it does in the file's text
        return self.spec.check_file(name.encode(errors="surrogateescape").decode(errors="replace")).include


class PathRules:
    """Which paths of one workspace may enter a prompt.

    `ignored` are the workspace's .gitignore files, `own` its .guessaheadignore files. Each of them and the list above
    can refuse a path, and none can allow what another refuses. A caller that follows links asks for both paths.
    `folds`: their letters match in either case, as `core.ignoreCase` has it.
    """

    def __init__(
        self, ignored: Iterable[IgnoreFile] = (), own: Iterable[IgnoreFile] = (), *, folds: bool = False
    ) -> None:
        self._ignored, self._own = (
            tuple(_rules(file, folds=folds) for file in sorted(files, key=_depth)) for files in (ignored, own)
        )

    def refusal(self, path: str) -> str | None:
        """Why the file at `path`, relative to the workspace, may not enter a prompt; None if it may."""
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or not pure.parts:
            return "it is outside the workspace"
        if _is_denied(PurePosixPath(path.lower())):
            return "files of this name hold secrets"
        if _refuses(self._ignored, pure):
            return "git ignores it"
        if _refuses(self._own, pure):
            return f"{OWN_IGNORE_FILE} names it"
        return None


def in_denied_folder(path: str) -> bool:
    """Whether an absolute path lies in a folder of secrets, wherever a workspace begins: that may be the folder."""
    return _DENIED_FOLDERS.verdict(PurePosixPath(path.lower().lstrip("/")), False) is True


def _is_denied(path: PurePosixPath) -> bool:
    if _refuses((_DENIED_FOLDERS,), path):
        return True
    return _SOURCE.fullmatch(path.name) is None and _refuses((_DENIED_FILES,), path)


def _refuses(rules: tuple[_Rules, ...], path: PurePosixPath) -> bool:
    """As git does: the deepest file that says something counts, and nothing in an ignored folder comes back."""
    folders = [parent for parent in reversed(path.parents) if parent.parts]
    return any(_ignores(rules, folder, True) for folder in folders) or _ignores(rules, path, False)


def _ignores(rules: tuple[_Rules, ...], path: PurePosixPath, is_folder: bool) -> bool:
    verdicts = [verdict for rule in rules if (verdict := rule.verdict(path, is_folder)) is not None]
    return bool(verdicts and verdicts[-1])


def _rules(file: IgnoreFile, *, folds: bool = False) -> _Rules:
    lines = (_CLASS.sub(lambda hit: _CLASSES[hit[1]], line) for line in file.text.splitlines())
    pattern, rules = _folding if folds else GitIgnoreSpecPattern, [*filter(_is_rule, lines)]
    try:
        spec = GitIgnoreSpec.from_lines(rules, pattern)
    except Exception:  # of its engine, for which they are too many together; a slower one takes them one by one
        spec = GitIgnoreSpec.from_lines(rules, pattern, backend="simple")
    return _Rules(PurePosixPath(file.folder), spec)


def _folding(line: str) -> GitIgnoreSpecPattern:
    """Git folds ASCII alone, the engines more: so no exception is folded that has other letters."""
    rule = GitIgnoreSpecPattern(line)
    if rule.regex is None or not (rule.include or line.isascii()):
        return rule
    return GitIgnoreSpecPattern(re.compile(f"(?i){rule.regex.pattern}"), rule.include)


def _is_rule(line: str) -> bool:
    """Git passes over a line that is none, as `bin\\` or `[z-a]`; the others count."""
    try:
        GitIgnoreSpec.from_lines([line])
    except Exception:  # of whichever engine it uses
        return False
    return True


def _depth(file: IgnoreFile) -> int:
    return len(PurePosixPath(file.folder).parts)


_DENIED_FOLDERS = _rules(IgnoreFile("", "\n".join(line for line in DENIED.splitlines() if line.endswith("/"))))
_DENIED_FILES = _rules(IgnoreFile("", "\n".join(line for line in DENIED.splitlines() if not line.endswith("/"))))
