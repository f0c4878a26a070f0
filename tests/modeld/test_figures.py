"""What is counted, and which guesses have paid."""

import re
from pathlib import Path

from attrs import evolve

from modeld.engine.messages import DraftFigures, ShelfFigures
from modeld.figures import Figures
from modeld.testing import as_ids
from modelwire.messages import Outcome, Reason, Usage

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"


def guess(figures: Figures, content: str, seconds: float, client: str = "ann") -> None:
    figures.guess_ended(client, as_ids(content), seconds, Usage(prefilled=len(content)), Reason.PREFILLED)


def reuse(figures: Figures, content: str, client: str = "ann") -> None:
    figures.real_ended(client, as_ids(content), Usage(guessed=3, outcome=Outcome.PARTIAL))


def test_a_guess_pays_when_it_is_reused_and_so_do_those_it_grew_from() -> None:
    figures = Figures()
    guess(figures, "abc", 1.0)
    guess(figures, "abcdef", 2.0)
    guess(figures, "abcxyz", 4.0)
    reuse(figures, "abcdefg")
    assert figures.wasted_s == 4.0
    assert figures.guesses_adopted == 1


def test_a_guess_that_was_reused_in_part_has_paid() -> None:
    figures = Figures()
    guess(figures, "abcxyz", 4.0)
    reuse(figures, "abcd")
    assert figures.wasted_s == 0.0


def test_a_guess_pays_once() -> None:
    figures = Figures()
    guess(figures, "abc", 1.0)
    reuse(figures, "abc")
    reuse(figures, "abc")
    assert (figures.wasted_s, figures.guesses_adopted) == (0.0, 1)


def test_a_guess_pays_only_for_its_own_client() -> None:
    """S11."""
    figures = Figures()
    guess(figures, "abc", 1.0)
    reuse(figures, "abc", "bob")
    assert figures.wasted_s == 1.0


def test_what_a_lost_engine_held_stays_wasted() -> None:
    figures = Figures()
    guess(figures, "abc", 1.0)
    figures.engine_lost()
    reuse(figures, "abc")
    assert figures.wasted_s == 1.0


def test_old_guesses_are_forgotten_and_stay_wasted() -> None:
    figures = Figures()
    for number in range(100):
        guess(figures, f"{number:03}", 1.0)
    reuse(figures, "000")
    assert figures.wasted_s == 99.0
    reuse(figures, "000abc")
    assert len(figures._unpaid) <= 64


def test_the_protocols_page_names_every_figure_and_no_other() -> None:
    section = PAGE.read_text().partition("## Figures\n")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `(\w+)`", section, re.MULTILINE)
    figures = Figures().as_mapping(sessions=0, clients=0, queue=0, snapshots=0)
    assert sorted(named) == sorted([*figures, "acceptance_N"])


def test_what_the_shelf_reports_is_told() -> None:
    shelf = ShelfFigures(tapes=1, guesses=2, cells_used=3, evicted=4, relocated=5, parked=6, parked_bytes=7, restored=8)
    told = Figures(shelf=shelf).as_mapping(sessions=0, clients=0, queue=0, snapshots=0)
    names = ["tapes", "tapes_guessed", "cells_used", "evicted", "relocated", "parked", "parked_bytes", "restored"]
    assert [told[name] for name in names] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_what_drafting_did_adds_up_over_answers_and_engines() -> None:
    figures = Figures()
    copy = DraftFigures(
        drafted=8,
        accepted=6,
        passes=3,
        tokens=9,
        seconds_saved=2.0,
        seconds_lost=0.5,
        on=True,
        by_length=((1, 2, 0), (8, 6, 6), (16, 0, 0)),
    )
    figures.drafted(copy)
    figures.engine_lost()
    figures.drafted(evolve(copy, on=False, by_length=((1, 2, 1),)))
    told = figures.as_mapping(sessions=0, clients=0, queue=0, snapshots=0)
    assert (told["tokens_drafted"], told["tokens_accepted"], told["tokens_per_pass"]) == (16, 12, 3.0)
    assert (told["draft_saved_s"], told["draft_lost_s"], told["drafting"]) == (4.0, 1.0, 0.0)
    assert {name: value for name, value in told.items() if name.startswith("acceptance")} == {
        "acceptance_1": 0.25,
        "acceptance_8": 1.0,
    }
