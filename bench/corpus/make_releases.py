"""Owns how `releases.json.xz` is made: whole files before and after a release of small libraries, with their licences.

The recorded part of the decode bench replays these pairs. The file is committed, so the bench needs no download; this
script makes it again with `pip download` (wheels of the releases named in `RELEASES`, no dependencies).
"""

import argparse
import difflib
import json
import lzma
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from attrs import asdict, frozen

HERE = Path(__file__).parent
CORPUS = HERE / "releases.json.xz"
PER_PROJECT = 12
CHARACTERS = range(1_200, 12_000)  # both files and a prompt fit a context of 8k tokens
CHANGED = (0.002, 0.10)  # share of lines that differ: a small edit, and an edit at all


@frozen
class Release:
    """Two releases of one project: what changed between them is what is replayed."""

    project: str
    before: str
    after: str


RELEASES = (
    Release("flask", "2.3.3", "3.0.3"),
    Release("httpx", "0.26.0", "0.27.0"),
    Release("jinja2", "3.1.2", "3.1.6"),
    Release("packaging", "23.2", "24.1"),
    Release("requests", "2.31.0", "2.32.3"),
    Release("rich", "13.6.0", "13.8.0"),
    Release("starlette", "0.36.3", "0.37.2"),
    Release("werkzeug", "3.0.1", "3.0.3"),
)


@frozen
class Pair:
    """One file of a project, before and after."""

    project: str
    path: str
    before: str
    after: str


def load() -> list[Pair]:
    """The committed pairs."""
    return [Pair(**pair) for pair in json.loads(lzma.decompress(CORPUS.read_bytes()))["pairs"]]


def load_licences() -> dict[str, str]:
    """The licences under which the pairs are copied here; also the bench's prose."""
    licences: dict[str, str] = json.loads(lzma.decompress(CORPUS.read_bytes()))["licences"]
    return licences


def download(project: str, version: str, folder: Path) -> zipfile.ZipFile:
    """The wheel of one release."""
    target = folder / f"{project}-{version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*command, "--dest", str(target), f"{project}=={version}"], check=True, timeout=300)
    return zipfile.ZipFile(next(target.glob("*.whl")))


def changed(before: str, after: str) -> float:
    """The share of lines that differ."""
    lines = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    return 1.0 - lines.ratio()


def pairs_of(release: Release, before: zipfile.ZipFile, after: zipfile.ZipFile) -> list[Pair]:
    """Files with a small change, at most `PER_PROJECT`, spread evenly over the names."""
    found = []
    for path in sorted(set(before.namelist()) & set(after.namelist())):
        if not path.endswith((".py", ".pyi")):
            continue
        pair = Pair(release.project, path, before.read(path).decode(), after.read(path).decode())
        small = len(pair.before) in CHARACTERS and len(pair.after) in CHARACTERS
        if small and CHANGED[0] <= changed(pair.before, pair.after) <= CHANGED[1]:
            found.append(pair)
    step = max(1.0, len(found) / PER_PROJECT)
    return [found[int(index * step)] for index in range(min(PER_PROJECT, len(found)))]


def licences_of(wheel: zipfile.ZipFile) -> dict[str, str]:
    """Licence files of a wheel, by path."""
    names = [name for name in wheel.namelist() if ".dist-info/" in name and "LICEN" in name.upper()]
    return {name: wheel.read(name).decode() for name in names}


def make(folder: Path) -> dict[str, object]:
    """The whole corpus as plain data."""
    pairs: list[Pair] = []
    licences: dict[str, str] = {}
    for release in RELEASES:
        before, after = (download(release.project, version, folder) for version in (release.before, release.after))
        pairs += pairs_of(release, before, after)
        licences |= licences_of(after)
    return {
        "releases": [asdict(release) for release in RELEASES],
        "licences": licences,
        "pairs": [asdict(pair) for pair in pairs],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the recorded edits of the decode bench again.")
    parser.add_argument("--output", type=Path, default=CORPUS)
    output: Path = parser.parse_args().output
    with tempfile.TemporaryDirectory() as folder:
        corpus = make(Path(folder))
    output.write_bytes(lzma.compress(json.dumps(corpus, indent=0, sort_keys=True).encode(), preset=9))


if __name__ == "__main__":
    main()
