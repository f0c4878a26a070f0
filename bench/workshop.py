"""Owns the project of the scripted day: files that can be broken and mended, and the commands that fail on them."""

import shutil
import subprocess
import sys
from pathlib import Path

from attrs import frozen

PROJECT = Path(__file__).parent / "demo" / "project"
COMMAND_S = 120.0

CODE = '''"""Sums of a day, over the stockroom's own amounts."""

from stockroom.money import Money


def total(cents: list[int]) -> Money:
    """The sum of all amounts, in the order in which they came in."""
    amount = Money(0)
    for one in cents:
        amount = amount + Money(one)
    return amount + Money({extra})


def share(cents: int, people: int) -> int:
    """What each pays, in whole cents."""
    whole, rest = divmod(cents, people)
    return whole + {extra}


def label(name: str, cents: int) -> str:
    """How a line of the day's list begins."""
    shown = name.strip().title()
    return f"{{shown:<12}}{{cents + {extra}:>8}}"


def unrelated() -> str:
    return "nothing"
'''

TESTS = """from stockroom.day import label, share, total
from stockroom.money import Money


def test_the_total_of_day_{day}() -> None:
    assert total([{day}00, 250, 125]) == Money({day}00 + 375)


def test_the_share_of_day_{day}() -> None:
    assert share({day}00, 4) == {day}00 // 4


def test_the_label_of_day_{day}() -> None:
    assert label(" tea ", {day}00) == "Tea                {day}00"[:12] + f"{{{day}00:>8}}"
"""

SCRIPT = """from stockroom.day import share

print(share({day}00, 0))
"""


@frozen
class Workshop:
    """The project in `folder`. Days differ in their numbers, so that no prompt is that of an earlier day."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "Workshop":
        shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns("__pycache__", "tests"))
        (folder / "tests").mkdir()
        shop = cls(folder)
        shop.mend(0)
        shop._commit()
        return shop

    def _commit(self) -> None:
        """So that there is something to compare with, as in every project."""
        who = ("-c", "user.name=bench", "-c", "user.email=bench@guessahead.test", "-c", "commit.gpgsign=false")
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "the first day")):
            subprocess.run(["git", *who, *words], cwd=self.folder, capture_output=True, timeout=COMMAND_S, check=True)

    def break_it(self, day: int) -> None:
        self._write(day, extra=day)

    def mend(self, day: int) -> None:
        self._write(day, extra=0)

    def edit_elsewhere(self) -> None:
        """A change in the file that failed, in code that the prompt does not show."""
        code = self.folder / "stockroom" / "day.py"
        code.write_text(code.read_text().replace('"nothing"', '"nothing at all"'))

    def edit_the_failing_code(self) -> None:
        code = self.folder / "stockroom" / "day.py"
        code.write_text(code.read_text().replace("amount = Money(0)", "amount = Money(0)  # to begin with"))

    def test(self, *words: str) -> None:
        """Runs the tests; `words` select some of them."""
        self.run("-m", "pytest", "-q", "-p", "no:cacheprovider", *words)

    def crash(self) -> None:
        self.run("day.py")

    def run(self, *words: str) -> None:
        command = [sys.executable, "-m", "intentd", "run", "--", sys.executable, *words]
        subprocess.run(command, cwd=self.folder, capture_output=True, timeout=COMMAND_S, check=False)

    def _write(self, day: int, extra: int) -> None:
        (self.folder / "stockroom" / "day.py").write_text(CODE.format(extra=extra))
        (self.folder / "tests" / "test_day.py").write_text(TESTS.format(day=day))
        (self.folder / "day.py").write_text(SCRIPT.format(day=day))
