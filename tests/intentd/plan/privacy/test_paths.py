"""I3: an ignored file, and a file whose name says that it holds secrets, never enters a prompt."""

import pytest

from intentd.plan.privacy import IgnoreFile, PathRules


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        ".env.local",
        "deploy/prod.env",
        "a/.netrc",
        "certs/server.pem",
        "certs/SERVER.KEY",
        "home/.ssh/config",
        ".aws/config",
        ".kube/config",
        "id_rsa",
        "keys/id_ed25519",
        "credentials",
        "credentials.json",
        "gcp/service-account-1.json",
        "terraform.tfvars",
        "secrets.yaml",
        "docs/secrets.md.txt",
        ".git/config",
        ".docker/config.json",
        "home/.config/gh/hosts.yml",
        ".bash_history",
        "vault.kdbx",
        ".npmrc",
        ".pypirc",
        ".env.js",
        "credentials/prod.yaml",
        ".ssh/agent.py",
        "zsh_history",
        ".python_history",
    ],
)
def test_files_that_hold_secrets_are_refused(path: str) -> None:
    assert PathRules().refusal(path) == "files of this name hold secrets"


@pytest.mark.parametrize(
    "path",
    [
        "src/environment.py",
        "key.py",
        "src/secrets.py",
        "keys/__init__.py",
        "monkey.c",
        "app/order_history/models.py",
        "app/order_history/list.html",
        "src/credentials/store.py",
        "src/credentials.py",
        "src/secret.tsx",
        "src/Secrets.java",
        "tests/secrets.test.ts",
        "app/id_rsa_test.py",
        "src/kubeconfig/load.go",
    ],
)
def test_files_of_similar_names_may_enter(path: str) -> None:
    assert PathRules().refusal(path) is None


@pytest.mark.parametrize("path", ["/etc/passwd", "../other/file.py", "a/../../b", ""])
def test_paths_outside_the_workspace_are_refused(path: str) -> None:
    assert PathRules().refusal(path) == "it is outside the workspace"


def test_gitignore_files_count_as_git_reads_them() -> None:
    rules = PathRules(
        ignored=[
            IgnoreFile("", "build/\n*.log\n!keep.log\n/local.py\n"),
            IgnoreFile("web", "dist\n!debug.log\n*.gen.ts\n"),
        ]
    )
    assert rules.refusal("build/a/b.py") == "git ignores it"
    assert rules.refusal("a/x.log") == "git ignores it"
    assert rules.refusal("a/keep.log") is None
    assert rules.refusal("local.py") == "git ignores it"
    assert rules.refusal("a/local.py") is None
    assert rules.refusal("web/dist/x.js") == "git ignores it"
    assert rules.refusal("dist/x.js") is None
    assert rules.refusal("web/debug.log") is None
    assert rules.refusal("web/a/b.gen.ts") == "git ignores it"


def test_nothing_in_an_ignored_folder_comes_back() -> None:
    rules = PathRules(ignored=[IgnoreFile("", "private/\n"), IgnoreFile("private", "!notes.py\n")])
    assert rules.refusal("private/notes.py") == "git ignores it"


def test_our_own_ignore_file_only_adds() -> None:
    rules = PathRules(
        ignored=[IgnoreFile("", "*.log\n")], own=[IgnoreFile("", "drafts/\n!x.log\n!.env\n"), IgnoreFile("a", "*.py\n")]
    )
    assert rules.refusal("drafts/x.py") == ".guessaheadignore names it"
    assert rules.refusal("a/b/c.py") == ".guessaheadignore names it"
    assert rules.refusal("b/c.py") is None
    assert rules.refusal("x.log") == "git ignores it"
    assert rules.refusal(".env") == "files of this name hold secrets"


@pytest.mark.parametrize("line", ["!", "bin\\", "\\", "[z-a]", "[[:none:]]", "a["])
def test_of_an_ignore_file_only_a_line_that_git_passes_over_is_left_out(line: str) -> None:
    rules = PathRules(ignored=[IgnoreFile("", f"before.py\n{line}\nbehind.py\n")])
    assert rules.refusal("before.py") == rules.refusal("behind.py") == "git ignores it"
    assert rules.refusal("a.py") is None


def test_classes_of_characters_count_as_git_reads_them() -> None:
    rules = PathRules(ignored=[IgnoreFile("", "*.[[:digit:]]\n[![:alpha:]_]x.py\n")])
    assert rules.refusal("a.7") == rules.refusal("9x.py") == "git ignores it"
    assert rules.refusal("a.b") is rules.refusal("ax.py") is rules.refusal("_x.py") is None


@pytest.mark.parametrize("line", ["gen_{:05}.o", "*_{:05}.tmp", "????????????????????{:05}", "*a*{:05}*b*"])
@pytest.mark.parametrize("folds", [False, True])
def test_an_ignore_file_of_thousands_of_lines_counts_as_every_other(line: str, folds: bool) -> None:
    many = [line.format(number) for number in range(2500)]
    text = "\n".join(["hidden/", "*.log", *many[:1250], "!kept.log", "!hidden/a.py", *many[1250:]])
    rules = PathRules([IgnoreFile("", text)], folds=folds)
    assert rules.refusal("hidden/a.py") == rules.refusal("a/b.log") == "git ignores it"
    assert rules.refusal("kept.log") is rules.refusal("src/a.py") is None
    assert rules.refusal(f"src/{line.replace('?', 'x').replace('*', 'a').format(7)}") == "git ignores it"
