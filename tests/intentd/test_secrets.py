"""I3 from end to end: planted secrets in files, in what was changed, printed or reported are not sent to modeld."""

import hashlib
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from intentd import planner
from intentd.intake import Intake
from intentd.plan.events import Changed, CommandEnded
from intentd.plan.offers import OfferBook
from intentd.plan.privacy import REDACTED, Scrubbed
from intentd.plan.tools import catalogue
from intentd.planner import Planner
from intentd.shelf import TemplateShelf
from modelwire.messages import Turn
from modelwire.protocol import MODELD
from modelwire.testing import PATIENCE_S
from tests.intentd.plan.privacy.corpus import Planted, planted

INTAKE = Intake(catalogue())
CLEAN = "import os\n\n\ndef main():\n    return os\n"
OUTPUT = """=================================== FAILURES ===================================
____________________________________ test_x ____________________________________

    def test_x():
>       assert 1 == 2
E       assert 1 == 2

module.py:4: AssertionError
----------------------------- Captured stdout call -----------------------------
{0}
=========================== short test summary info ============================
FAILED module.py::test_x - assert 1 == 2
"""
JUNIT = """<testsuites><testsuite><testcase classname="module" name="test_x"><failure message="assert 1 == 2">
module.py:4: AssertionError
E   assert 1 == 2
{0}</failure></testcase></testsuite></testsuites>"""
CODEC = MODELD.codec()


class Desk:
    """A workspace with one module, and the daemon's own way from what happens there to the bytes for modeld."""

    def __init__(self, root: Path) -> None:
        self.root, self.module = root, root / "module.py"
        self.planner = Planner(TemplateShelf(root / "none"))
        self.committed = ""

    async def sent(self, printed: str = "quiet", *, now: str = CLEAN, before: str = CLEAN, report: str = "") -> bytes:
        """The turn about a test that failed, as it goes over the wire."""
        self.module.write_text(now)
        self.committed = before
        argv = ("pytest", "--junitxml=r.xml") if report else ("pytest",)
        if report:  # pytest writes control characters so
            (self.root / "r.xml").write_text(JUNIT.format(escape(report).replace("\x1b", "#x1B")))
        event = CommandEnded(
            workspace=str(self.root),
            cwd=str(self.root),
            exit=1,
            output=OUTPUT.format(printed),
            argv=argv,
            changed=(Changed(str(self.module), hashlib.sha256(before.encode()).hexdigest()),),
        )
        book = OfferBook()
        book.take(event, INTAKE.failures(event, cut=False, started_ns=0))
        (offering,) = book.all()
        turn = await self.planner.turn(offering, "explain", 32768)
        return CODEC.encode("1", Turn(session="s", prefix=turn.prefix, suffix=turn.suffix, decode=turn.decode))

    async def every(self, plant: Planted) -> list[bytes]:
        """Where a secret is in the file, was in it, has come into it, was printed, and was reported."""
        return [
            await self.sent(now=plant.text, before=plant.text),
            await self.sent(before=plant.text),
            await self.sent(now=plant.text),
            await self.sent(plant.text),
            await self.sent(report=plant.text),
        ]

    async def left(self, plants: list[Planted]) -> list[tuple[str, str, int]]:
        """(kind, place, which of the turns) of the secrets of which a piece is sent."""
        return [
            (plant.kind, plant.place, number)
            for plant in plants
            for number, turn in enumerate(await self.every(plant))
            if any(piece.encode() in turn for piece in plant.pieces)
        ]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    desk = Desk(tmp_path)
    monkeypatch.setattr(planner, "content", lambda *_: desk.committed.encode())
    monkeypatch.setattr(planner, "BUILD_S", PATIENCE_S)
    return desk


async def test_no_planted_secret_is_sent(desk: Desk) -> None:
    """I3: at least 200 of 20 kinds, whole and split, each in a file, on either side of a diff, printed and reported."""
    plants = list(planted())
    assert len(plants) >= 200
    assert len({plant.kind for plant in plants}) >= 20
    assert await desk.left(plants) == []


async def test_what_stood_around_a_secret_is_sent(desk: Desk) -> None:
    """Else the test above would pass for an empty prompt."""
    for plant in [plant for plant in planted() if plant.place == "file"][::10]:
        assert all(REDACTED.encode() in turn for turn in await desk.every(plant))


@pytest.mark.parametrize("broken", ["intentd.texts.scrub", "intentd.intake.scrub_long"])
async def test_without_the_scanner_the_secrets_are_there(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """The measurement itself: it sees what a broken scanner lets through, wherever it comes from."""
    monkeypatch.setattr(broken, lambda text, **_: Scrubbed(text))
    plants = [plant for plant in planted() if plant.place == "file" and "\n" not in plant.pieces][::10]
    seen = {number for _, _, number in await desk.left(plants)}
    assert seen == ({0, 1, 2} if "texts" in broken else {3, 4})
