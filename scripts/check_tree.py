"""Owns the check of the files as text: no machine's paths, no registry's address, no dead link in a document.

It looks at every file that is tracked or about to be. Run it from the root of the repository.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# The odd brackets keep this file from finding itself.
FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.~])/(?:home|Users|root|work|opt|mnt)/[\w.-]|[C-D]:\\\\?Users"),
    "the address of a package registry": re.compile(
        r"py[p]i\.org|python[h]osted\.org|registry\.np[m]js|index-ur[l]|find-link[s]|trusted-hos[t]"
    ),
}
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+\s+(.+?)\s*#*$", re.MULTILINE)


def main() -> int:
    files = listed()
    faults = [fault for path in files for fault in (*forbidden(path), *dead_links(path, files))]
    print("\n".join(faults) or f"check_tree: {len(files)} files are clean")
    return 1 if faults else 0


def listed() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.decode().split("\0")
    return sorted(path for name in set(names) if name and (path := Path(name)).is_file())


def forbidden(path: Path) -> Iterator[str]:
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        return
    for number, line in enumerate(text.splitlines(), 1):
        for what, pattern in FORBIDDEN.items():
            if found := pattern.search(line):
                yield f"{path}:{number}: {what}: {found[0]!r}; take it out"


def dead_links(path: Path, files: list[Path]) -> Iterator[str]:
    if path.suffix != ".md":
        return
    for target in LINK.findall(FENCE.sub("", path.read_text())):
        if not re.match(r"[a-z]+:", target) and not resolves(path, target, files):
            yield f"{path}: the link to {target} leads nowhere; correct it or add the file"


def resolves(path: Path, target: str, files: list[Path]) -> bool:
    """Whether a relative link leads to a file or folder of the repository, and to a heading where it names one."""
    name, _, anchor = target.partition("#")
    page = Path(*(path.parent / name).resolve().relative_to(Path.cwd()).parts) if name else path
    if page not in files and not any(page in file.parents for file in files):
        return False
    return not anchor or page.suffix != ".md" or anchor in anchors(page)


def anchors(page: Path) -> set[str]:
    headings = HEADING.findall(FENCE.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


if __name__ == "__main__":
    sys.exit(main())
