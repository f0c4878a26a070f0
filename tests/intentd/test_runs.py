"""Outputs count in the order in which their commands ended, however long each takes to be read."""

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from intentd.intake import Intake
from intentd.messages import CommandFinished, CommandQuiet, CommandStarted
from intentd.plan.events import CommandEnded
from intentd.plan.offers import OfferBook
from intentd.plan.tools import catalogue
from intentd.plan.triggers import Failure
from intentd.planner import Planner
from intentd.runs import MAX_WAITING, Runs
from intentd.shelf import TemplateShelf
from intentd.workers import MAX_LOST_AT
from modelwire.testing import PATIENCE_S
from tests.intentd.conftest import RECORDED

FAILING = (RECORDED / "plain.txt").read_bytes()
PASSING = b"1 passed in 0.1s\n"


class SlowAtFirst(Intake):
    """Holds back the first output until the gate opens."""

    def __init__(self) -> None:
        super().__init__(catalogue())
        self.gate = threading.Event()
        self._first = True
        self._begun = threading.Semaphore(0)

    def failures(self, event: CommandEnded, **options: Any) -> tuple[Failure, ...] | None:
        first, self._first = self._first, False
        self._begun.release()
        if first:
            assert self.gate.wait(PATIENCE_S)
        return super().failures(event, **options)

    async def begins(self) -> None:
        """Returns when one more is being read."""
        assert await asyncio.to_thread(self._begun.acquire, timeout=PATIENCE_S)


def ended(run: str, output: bytes, exit: int) -> CommandFinished:
    return CommandFinished(run=run, exit=exit, signal=None, output=output, total=len(output))


async def test_an_older_output_that_takes_longer_to_read_does_not_replace_a_newer_one(tmp_path: Path) -> None:
    offers, intake = OfferBook(), SlowAtFirst()
    runs = Runs(offers, intake, Planner(TemplateShelf(tmp_path)))
    for run in "ab":
        runs.start("c", run, CommandStarted(run=run, argv=("pytest",), cwd=str(tmp_path)))
    first = asyncio.create_task(runs.finish("c", ended("a", FAILING, 1)))
    await intake.begins()
    second = asyncio.create_task(runs.finish("c", ended("b", PASSING, 0)))
    await intake.begins()
    await asyncio.wait([second], timeout=0.05)
    intake.gate.set()
    await asyncio.gather(first, second)
    assert not offers.all()


async def test_another_workspace_does_not_wait(tmp_path: Path) -> None:
    offers, intake = OfferBook(), SlowAtFirst()
    runs = Runs(offers, intake, Planner(TemplateShelf(tmp_path)))
    for run in "ab":
        (tmp_path / run / ".git").mkdir(parents=True)
        runs.start("c", run, CommandStarted(run=run, argv=("pytest",), cwd=str(tmp_path / run)))
    first = asyncio.create_task(runs.finish("c", ended("a", FAILING, 1)))
    await intake.begins()
    async with asyncio.timeout(PATIENCE_S):
        await runs.finish("c", ended("b", FAILING, 1))
    assert {offering.workspace for offering in offers.all()} == {str(tmp_path / "b")}
    intake.gate.set()
    await first


async def test_a_workspace_that_does_not_answer_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offers, there, answers = OfferBook(), threading.Event(), threading.Event()

    def standing(cwd: str) -> tuple[str, bool]:
        if cwd == str(tmp_path / "mute"):
            there.set()
            answers.wait(PATIENCE_S)
        return cwd, False

    monkeypatch.setattr("intentd.runs.standing", standing)
    runs = Runs(offers, Intake(catalogue()), Planner(TemplateShelf(tmp_path)))
    for run in ("mute", "b"):
        (tmp_path / run).mkdir()
        runs.start("c", run, CommandStarted(run=run, argv=("pytest",), cwd=str(tmp_path / run)))
    first = asyncio.create_task(runs.finish("c", ended("mute", FAILING, 1)))
    await asyncio.to_thread(there.wait, PATIENCE_S)
    async with asyncio.timeout(PATIENCE_S / 2):  # the look at the other one has PATIENCE_S
        await runs.taken_in(str(tmp_path / "b"), PATIENCE_S)
        await runs.finish("c", ended("b", FAILING, 1))
    assert {offering.workspace for offering in offers.all()} == {str(tmp_path / "b")}
    answers.set()
    await first


async def test_outputs_of_one_workspace_that_cannot_be_read_hold_up_no_other(tmp_path: Path) -> None:
    """As where they have reports on a drive that does not answer."""
    begun, answers, mute = threading.Semaphore(0), threading.Event(), str(tmp_path / "mute")

    class Hanging(Intake):
        def failures(self, event: CommandEnded, **options: Any) -> tuple[Failure, ...] | None:
            if event.workspace == mute:
                begun.release()
                answers.wait(PATIENCE_S)
            return super().failures(event, **options)

    offers = OfferBook()
    runs = Runs(offers, Hanging(catalogue()), Planner(TemplateShelf(tmp_path)))
    for name in ("mute", "b"):
        (tmp_path / name / ".git").mkdir(parents=True)
    for run, name in (("1", "mute"), ("2", "mute"), ("3", "mute"), ("4", "b")):
        runs.start("c", run, CommandStarted(run=run, argv=("pytest",), cwd=str(tmp_path / name)))
    hanging = [asyncio.create_task(runs.finish("c", ended(run, FAILING, 1))) for run in "123"]
    for _ in range(MAX_LOST_AT):
        await asyncio.to_thread(begun.acquire)
    async with asyncio.timeout(PATIENCE_S / 2):  # the outputs have PATIENCE_S
        await runs.finish("c", ended("4", FAILING, 1))
    assert {offering.workspace for offering in offers.all()} == {str(tmp_path / "b")}
    answers.set()
    await asyncio.gather(*hanging)


async def test_a_question_waits_for_the_output_of_its_workspace_as_long_as_it_is_told_to(tmp_path: Path) -> None:
    offers, intake = OfferBook(), SlowAtFirst()
    runs = Runs(offers, intake, Planner(TemplateShelf(tmp_path)))
    runs.start("c", "a", CommandStarted(run="a", argv=("pytest",), cwd=str(tmp_path)))
    first = asyncio.create_task(runs.finish("c", ended("a", FAILING, 1)))
    await intake.begins()
    await runs.taken_in(str(tmp_path), 0.01)
    assert not offers.all()
    waiting = asyncio.create_task(runs.taken_in(str(tmp_path), PATIENCE_S))
    await asyncio.sleep(0)
    intake.gate.set()
    await waiting
    assert offers.all()
    await first


async def test_a_cycle_that_is_read_late_does_not_say_that_the_next_one_waits(tmp_path: Path) -> None:
    intake = SlowAtFirst()
    runs = Runs(OfferBook(), intake, Planner(TemplateShelf(tmp_path)))
    runs.start("c", "w", CommandStarted(run="w", argv=("ptw",), cwd=str(tmp_path)))
    cycle = CommandQuiet(run="w", quiet=True, output=PASSING, total=len(PASSING))
    read = asyncio.create_task(runs.quiet("c", cycle))
    await intake.begins()
    assert await runs.quiet("c", CommandQuiet(run="w", quiet=False))
    intake.gate.set()
    assert await read
    assert runs.running == 1


async def test_a_run_that_a_signal_ended_speaks_for_what_it_names_alone(tmp_path: Path) -> None:
    offers = OfferBook()
    runs = Runs(offers, Intake(catalogue()), Planner(TemplateShelf(tmp_path)))
    for run, output, signal in (("a", FAILING, None), ("b", b"tests/test_a.py::test_x FAILED [ 20%]\n", 15)):
        runs.start("c", run, CommandStarted(run=run, argv=("pytest", "-v"), cwd=str(tmp_path)))
        exit = 1 if signal is None else None
        await runs.finish("c", CommandFinished(run=run, exit=exit, signal=signal, output=output, total=len(output)))
    assert [offer.failure.name for offer in offers.all()][:1] == ["tests/test_a.py::test_x"]
    assert len(offers.all()) == 5


async def test_opting_out_is_not_lost_with_the_directory(tmp_path: Path) -> None:
    offers, clone = OfferBook(), tmp_path / "clone"
    runs = Runs(offers, Intake(catalogue()), Planner(TemplateShelf(tmp_path)))
    (tmp_path / ".git").mkdir()
    (clone / ".git").mkdir(parents=True)
    (clone / ".noguessahead").touch()
    runs.start("c", "a", CommandStarted(run="a", argv=("pytest",), cwd=str(clone)))
    shutil.rmtree(clone)
    await runs.finish("c", ended("a", FAILING, 1))
    assert not offers.all()


async def test_of_outputs_that_wait_to_be_read_the_oldest_goes(tmp_path: Path) -> None:
    offers, intake = OfferBook(), SlowAtFirst()
    runs = Runs(offers, intake, Planner(TemplateShelf(tmp_path)))
    names = [str(number) for number in range(MAX_WAITING + 2)]
    for run in names:
        runs.start("c", run, CommandStarted(run=run, argv=("pytest",), cwd=str(tmp_path)))
    first = asyncio.create_task(runs.finish("c", ended(names[0], PASSING, 0)))
    await intake.begins()
    rest = [asyncio.create_task(runs.finish("c", ended(run, FAILING, 1))) for run in names[1:]]
    async with asyncio.timeout(PATIENCE_S / 2):  # the first one is held for PATIENCE_S
        assert await first is not None
        assert await rest[0] is not None
    intake.gate.set()
    await asyncio.gather(*rest)
    assert offers.all()
