"""The daemon from its door to a scripted modeld: what is guessed, what is asked, and what happens when things break."""

import asyncio
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from intentd import planner, speculator, texts
from intentd.intake import Intake
from intentd.messages import (
    Ask,
    CommandFinished,
    CommandQuiet,
    CommandStarted,
    GetOffers,
    GetPrompt,
    Offer,
    Offers,
    Pause,
    ShownPrompt,
)
from intentd.plan.privacy import Scrubbed
from intentd.sources import files
from intentd.workspace import OPT_OUT_FILE
from modelwire.errors import WireError
from modelwire.messages import (
    Accepted,
    Cancel,
    ChatMessage,
    Done,
    Error,
    Outcome,
    Progress,
    Reason,
    Started,
    Tokens,
    Turn,
    Usage,
)
from modelwire.testing import PATIENCE_S
from tests.intentd.conftest import RECORDED

House = Any


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done every second is done every few milliseconds."""
    monkeypatch.setattr(speculator, "CHECK_S", 0.02)
    monkeypatch.setattr(speculator, "FIRST_RETRY_S", 0.01)
    monkeypatch.setattr(speculator, "LAST_RETRY_S", 0.02)
    monkeypatch.setattr(files, "LOOK_S", 0.02)


def turns(house: House, *, speculative: bool) -> list[Turn]:
    return [turn for turn in house.modeld.received(Turn) if turn.speculative is speculative]


def prompt_of(turn: Turn) -> str:
    return "".join(part.content for part in (*turn.prefix, *turn.suffix) if isinstance(part, ChatMessage))


def asked_text(house: House) -> str:
    (question,) = turns(house, speculative=False)
    (message,) = question.suffix
    assert isinstance(message, ChatMessage)
    return message.content


def warm(status: Any) -> bool:
    return bool(status.offers) and status.offers[0].warm


async def ask(house: House, door: Any, **fields: Any) -> tuple[str, Done]:
    text, done = "", None
    async with door.start(Ask(cwd=str(house.workspace), **fields)) as replies:
        async for reply in replies:
            text += reply.text if isinstance(reply, Tokens) else ""
            done = reply
    assert isinstance(done, Done)
    return text, done


async def test_a_guessed_turn_and_the_asked_turn_are_the_same_bytes(house: House) -> None:
    """S10"""
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        text, done = await ask(house, door)
        (guess, *_), (question,) = turns(house, speculative=True), turns(house, speculative=False)
        assert (guess.session, guess.prefix, guess.suffix, guess.decode) == (
            question.session,
            question.prefix,
            question.suffix,
            question.decode,
        )
        assert text == "Hello, world"
        assert done.usage.outcome is Outcome.HIT
        status = await house.until(door, lambda status: status.reason == "every offer is warm")
        assert status.reason == "every offer is warm"
        assert status.figures == {
            **{"guesses_sent": 4, "guesses_finished": 4, "answers": 1, "answers_hit": 1},
            **{"commands_running": 0, "editors": 0},
        }
        assert status.triggers["test_failed"]["hits"] == 1


async def test_nothing_is_guessed_while_a_wrapped_command_runs(house: House) -> None:
    async with house.connect() as door:
        running = door.start(CommandStarted(run="long", argv=("make",), cwd=str(house.workspace)))
        await house.command(door, "plain")
        status = await house.until(door, lambda status: "command is running" in status.reason)
        assert status.figures["commands_running"] == 1
        assert not turns(house, speculative=True)
        await door.ask(CommandFinished(run="long", exit=0, signal=None, output=b"", total=0))
        assert (await running.done()).reason is Reason.END
        await house.until(door, warm)


async def test_a_wrapper_that_leaves_without_a_word_is_not_waited_for(house: House) -> None:
    async with house.connect() as door:
        async with house.connect() as other:
            stream = other.start(CommandStarted(run="killed", argv=("make",), cwd="/"))
            await anext(stream)
            other.detach(stream.id)  # no beats from here on
            await house.command(door, "plain")
            house.app.door._gone(next(iter(house.app.runs._runs.values())).client)
        await house.until(door, warm)


async def test_paused_means_no_guess_and_answers_all_the_same(house: House) -> None:
    async with house.connect() as door:
        assert (await door.ask(Pause(paused=True))).found
        assert not (await door.ask(Pause(paused=True))).found
        await house.command(door, "plain")
        assert (await house.until(door, lambda status: status.reason == "paused")).state == "paused"
        assert (await ask(house, door))[1].usage.outcome is Outcome.COLD
        assert not turns(house, speculative=True)
        await door.ask(Pause(paused=False))


async def test_a_newer_offer_replaces_the_guess_in_flight(house: House) -> None:
    house.modeld.script.held = True
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.modeld.wait_for(Turn, 1)
        await house.command(door, "collection")
        await house.modeld.wait_until(lambda: len(turns(house, speculative=True)) == 2)
        house.modeld.release()
        await house.until(door, warm)
        first, second, *_ = turns(house, speculative=True)  # what else there is to guess may have followed
        assert first.suffix != second.suffix


async def test_a_question_does_not_wait_for_the_guess(house: House) -> None:
    house.modeld.script.held = True
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.modeld.wait_for(Turn, 1)
        asking = asyncio.create_task(ask(house, door))
        await house.modeld.wait_until(lambda: len(turns(house, speculative=False)) == 1)
        house.modeld.release()
        assert (await asking)[0] == "Hello, world"


async def test_a_failed_guess_is_counted_and_never_shown(house: House) -> None:
    """S12"""
    answers = house.modeld.script.answers
    answers[Turn] = lambda turn: (
        [Error(code="engine_failed", message="no")] if turn.speculative else [Done(reason=Reason.END)]
    )
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, lambda status: "failed" in status.reason)
        assert (await ask(house, door))[1].reason is Reason.END
        await house.until(door, lambda status: status.state == "idle")
        assert len(turns(house, speculative=True)) == speculator.MAX_PREPARED + 1  # and the fix of the first


async def test_a_file_that_changes_is_guessed_again_and_asked_as_it_is(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        source = house.workspace / "tests" / "test_prices.py"
        source.write_text(source.read_text().replace("== 120", "== 121"))
        await house.modeld.wait_until(lambda: "== 121" in str(turns(house, speculative=True)[-1].suffix))
        source.write_text(source.read_text().replace("== 121", "== 122"))
        await ask(house, door)
        assert "== 122" in asked_text(house)


async def test_without_modeld_the_answer_says_how_to_start_it(house: House) -> None:
    await house.modeld.die()
    async with house.connect() as door:
        await house.command(door, "plain")
        status = await house.until(door, lambda status: not status.modeld_reachable and bool(status.offers))
        assert status.reason == "modeld does not answer"
        with pytest.raises(WireError, match=r"no modeld answers at ipc://.*: start it with 'modeld serve'"):
            await ask(house, door)


async def test_a_modeld_that_comes_back_is_given_the_guess_again(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        await house.modeld.die()
        assert not warm(await house.until(door, lambda status: not status.modeld_reachable))
        await house.modeld.start()
        await house.until(door, warm)
        first = turns(house, speculative=True)[0]
        assert sum(turn.suffix == first.suffix for turn in turns(house, speculative=True)) == 2


async def test_a_modeld_that_is_lost_in_an_answer_is_said(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        house.modeld.script.die_after = 3
        with pytest.raises(WireError) as caught:
            await ask(house, door)
        assert caught.value.retry


@pytest.mark.parametrize("leave", [False, True])
async def test_whoever_stops_asking_stops_the_model(house: House, leave: bool) -> None:
    """S9: by a cancel, and by leaving."""
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        house.modeld.script.held = True
        async with house.connect() as other:
            stream = other.start(Ask(cwd=str(house.workspace)))
            await house.modeld.wait_until(lambda: len(turns(house, speculative=False)) == 1)
            if leave:
                house.app.door._gone(next(iter(house.app.door._answers))[0])
            else:
                assert await stream.cancel()
                assert house.modeld.received(Cancel)
                assert (await stream.done()).reason is Reason.CANCELLED
        await house.until(door, lambda status: status.state != "answering")
        await house.modeld.wait_until(
            lambda: not house.modeld._held or all(h.message.speculative for h in house.modeld._held)
        )


async def test_offers_belong_to_their_workspace(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        below: Offers = await door.ask(GetOffers(cwd=str(house.workspace / "tests")))
        elsewhere: Offers = await door.ask(GetOffers(cwd="/"))
        assert len(below.offers) == 4
        assert below.offers[0].title == "explain why tests/test_prices.py::test_gross_adds_tax fails"
        assert elsewhere.offers == ()
        await ask(house, door, offer=below.offers[2].id)
        assert "TestBasket::test_two_items" in asked_text(house)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"cwd": "/"}, "no failure is known in /: run the command with 'intentd run"),
        ({"offer": "nothing"}, "there is no offer 'nothing' in"),
        ({"intent": "moon"}, "nobody can 'moon'; there are explain, fix"),
    ],
)
async def test_what_cannot_be_answered_is_said(house: House, change: dict[str, Any], word: str) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        with pytest.raises(WireError, match=word):
            await door.start(Ask(**{"cwd": str(house.workspace), **change})).done()


async def offers(house: House, door: Any) -> tuple[Offer, ...]:
    answer: Offers = await door.ask(GetOffers(cwd=str(house.workspace)))
    return answer.offers


async def test_the_others_follow_one_after_another(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        status = await house.until(door, lambda status: status.reason == "every offer is warm")
        assert [offer.warm for offer in status.offers] == [True, True, True, False]
        first, second, third, fix = turns(house, speculative=True)
        assert "test_gross_adds_tax fails" in str(first.suffix)
        assert "odd - kind] fails" in str(second.suffix)
        assert "test_two_items fails" in str(third.suffix)
        assert prompt_of(fix).rpartition("\n")[0] == prompt_of(first).rpartition("\n")[0]


async def test_a_fix_of_the_first_is_prepared_too_and_has_an_account_of_its_own(house: House) -> None:
    """S10: and the guess to explain has served when only the fix was asked for."""
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, lambda status: status.reason == "every offer is warm")
        assert (await ask(house, door, intent="fix"))[1].usage.outcome is Outcome.HIT
        assert turns(house, speculative=True)[-1].suffix == turns(house, speculative=False)[0].suffix
        await house.printed(door, b"5 passed in 0.1s\n", exit=0)
        status = await house.until(door, lambda status: not status.offers and status.state == "idle")
        assert (status.triggers["fix"]["asks"], status.triggers["fix"]["hits"]) == (1, 1)
        assert status.triggers["test_failed"]["wasted"] == status.triggers["fix"]["wasted"] == 0
        assert status.triggers["others"]["wasted"] == status.triggers["others"]["prefilled"]


async def test_a_question_that_an_earlier_one_has_warmed_is_no_miss(house: House) -> None:
    """The ledger: what a question has left in modeld is not a guess's merit, and its absence not a guess's fault."""
    async with house.connect() as door:
        await door.ask(Pause(paused=True))
        await house.command(door, "plain")
        house.modeld.script.answers[Turn] = lambda _: (
            Accepted(),
            Done(reason=Reason.END, usage=Usage(prompt=9, reused=8, outcome=Outcome.WARM)),
        )
        await ask(house, door, intent="fix")
        account = (await house.status(door)).triggers["fix"]
        assert {name: account[name] for name in ("asks", "hits", "partials", "warm", "misses")} == {
            **{"asks": 1, "hits": 0, "partials": 0, "warm": 1, "misses": 0}
        }


async def test_a_guess_that_a_question_stops_is_kept_in_mind_and_lost_only_with_its_offer(house: House) -> None:
    """What a stopped guess has prefilled counts as wasted once nobody can ask for it."""
    house.modeld.script.answers[Turn] = lambda turn: (
        Accepted(),
        Started(queue_ms=0.0),
        Progress(reused=0, done=40, total=90),
        *([] if turn.speculative else [Done(reason=Reason.END)]),
    )
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.modeld.wait_for(Turn, 1)
        await house.until(door, lambda status: status.state == "guessing")
        await house.printed(door, b"5 passed in 0.1s\n", exit=0)
        status = await house.until(
            door, lambda status: status.state == "idle" and status.triggers.get("test_failed", {}).get("wasted")
        )
        assert status.triggers["test_failed"]["wasted"] == status.triggers["test_failed"]["prefilled"] == 40


async def test_no_secret_of_a_file_or_of_what_was_printed_reaches_modeld(house: House) -> None:
    """I3"""
    token = "ghp_" + "a1B2c3" * 6
    source = house.workspace / "shop" / "prices.py"
    source.write_text(source.read_text().replace("def rate(kind):", f"def rate(kind):\n    key = '{token}'"))
    (house.workspace / ".gitignore").write_text("test_prices.py\n")
    output = (RECORDED / "plain.txt").read_bytes().replace(b"raise LookupError", f"# {token}\n raise".encode())
    async with house.connect() as door:
        await house.printed(door, output)
        await house.until(door, lambda status: status.reason == "every offer is warm")
        await ask(house, door, offer="2")
        sent = "".join(map(prompt_of, house.modeld.received(Turn)))
    assert "key = '[redacted]" in sent
    assert "# [redacted]" in sent
    assert token[4:12] not in sent
    assert "tests/test_prices.py:\n```" not in sent  # git ignores it; what pytest itself has printed may show


def commit(workspace: Path) -> None:
    who = ("-c", "user.name=n", "-c", "user.email=e@test.test", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "-Af"), ("commit", "-qm", "m")):
        subprocess.run(["git", *who, *words], cwd=workspace, check=True, capture_output=True)


async def test_what_was_changed_since_the_last_commit_stands_last_and_holds_no_secret(house: House) -> None:
    """I3: neither a secret that was taken out, nor a file that is ignored or holds secrets by its name."""
    token = "ghp_" + "a1B2c3" * 6
    source = house.workspace / "shop" / "prices.py"
    whole = source.read_text()
    source.write_text(f"key = '{token}'\n{whole}")
    for name in (".env", "drafts.py"):
        (house.workspace / name).write_text("before = 'hidden'\n")
    commit(house.workspace)
    (house.workspace / ".gitignore").write_text("drafts.py\n")
    for name in (".env", "drafts.py"):
        (house.workspace / name).write_text("now = 'hidden'\n")
    source.write_text(whole.replace("LookupError", "KeyError"))
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        shown: ShownPrompt = await door.ask(GetPrompt(cwd=str(house.workspace)))
        told = shown.messages[-1][1].partition("last commit:\n")[2]
        assert told.startswith('```\n--- shop/prices.py\n@@\n-key = \'[redacted]\'\n """Prices of a shop')
        assert "+        raise KeyError" in told
        source.write_text(whole)
        await house.modeld.wait_until(lambda: "KeyError" not in str(turns(house, speculative=True)[-1].suffix))
        sent = "".join(map(prompt_of, house.modeld.received(Turn)))
    assert token[4:12] not in sent
    assert "hidden" not in sent


async def test_a_text_that_is_slow_to_look_through_keeps_nobody_waiting(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, go_on = threading.Event(), threading.Event()

    def slow(text: str) -> Scrubbed:
        looking.set()
        go_on.wait(PATIENCE_S)
        return Scrubbed(text)

    monkeypatch.setattr(texts, "scrub", slow)
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, lambda _: looking.is_set())
        assert not warm(await house.status(door))
        assert not turns(house, speculative=True)
        go_on.set()
        await house.until(door, warm)


async def test_the_prompt_that_is_shown_is_the_prompt_that_is_sent(house: House) -> None:
    """S10"""
    async with house.connect() as door:
        await house.command(door, "plain")
        cwd = str(house.workspace)
        for intent in ("explain", "fix"):
            shown: ShownPrompt = await door.ask(GetPrompt(cwd=cwd, intent=intent, offer="3"))
            await ask(house, door, intent=intent, offer="3")
            sent = turns(house, speculative=False)[-1]
            assert "".join(content for _, content in shown.messages) == prompt_of(sent)


async def test_a_guess_to_explain_serves_a_fix_up_to_the_last_sentence(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        await ask(house, door, intent="fix")
        (guess, *_), (question,) = turns(house, speculative=True), turns(house, speculative=False)
        assert prompt_of(guess) != prompt_of(question)
        assert prompt_of(guess).rpartition("\n")[0] == prompt_of(question).rpartition("\n")[0]


async def test_an_offer_is_withdrawn_when_its_test_leaves_its_file(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        source = house.workspace / "tests" / "test_prices.py"
        source.write_text(source.read_text().replace("test_gross_adds_tax", "test_other"))
        status = await house.until(door, lambda status: len(status.offers) == 3)
        assert "test_gross" not in str(status.offers)


async def test_a_file_that_is_being_written_withdraws_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        source = house.workspace / "tests" / "test_prices.py"
        whole = source.read_text()
        monkeypatch.setattr(texts, "SETTLED_NS", 10**18)
        source.write_text(whole[: len(whole) // 4])
        await house.until(door, lambda status: not status.offers[0].warm)
        source.write_text("")
        source.write_text(whole)
        await house.until(door, warm)
        assert len(await offers(house, door)) == 4


async def test_a_guess_for_what_passes_is_stopped(house: House) -> None:
    house.modeld.script.held = True
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.modeld.wait_for(Turn, 1)
        await house.printed(door, b"5 passed in 0.1s\n", exit=0)
        await house.modeld.wait_for(Cancel, 1)
        assert await offers(house, door) == ()


async def test_other_tools_have_offers_too(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        output = (
            b"shop/prices.py:8: error: Missing return  [return]\nFound 1 error in 1 file (checked 3 source files)\n"
        )
        await house.printed(door, output, argv=("mypy", "."))
        first, *others = await offers(house, door)
        assert (first.trigger, first.title) == ("diagnostic", "explain shop/prices.py: return")
        assert len(others) == 4
        await ask(house, door)
        assert "def rate(kind)" in asked_text(house)
        assert "What mypy reported:" in asked_text(house)


async def test_what_came_through_a_pipe_is_judged_by_what_it_says(house: House) -> None:
    async with house.connect() as door:
        await house.printed(door, (RECORDED / "plain.txt").read_bytes(), argv=(), exit=None)
        assert len(await offers(house, door)) == 4
        await house.printed(door, b"Terminated\n", argv=(), exit=None)
        assert len(await offers(house, door)) == 4
        await house.printed(door, b"5 passed in 0.1s\n", argv=(), exit=None)
        assert await offers(house, door) == ()


async def test_a_command_that_watches_files_is_read_cycle_by_cycle(house: House) -> None:
    """And while it waits, it is no reason to guess nothing."""
    failing, said = (RECORDED / "plain.txt").read_bytes(), b"5 passed in 0.1s\n"
    async with house.connect() as door:
        running = door.start(CommandStarted(run="watch", argv=("ptw",), cwd=str(house.workspace)))

        async def cycle(output: bytes, *, quiet: bool = True) -> None:
            told = CommandQuiet(run="watch", quiet=quiet, output=output, total=len(output))
            assert (await door.ask(told)).found

        await cycle(failing)
        assert len(await offers(house, door)) == 4
        await house.until(door, warm)
        await cycle(b"", quiet=False)
        assert "command is running" in (await house.status(door)).reason
        await cycle(b"collecting ...\n")
        assert (await house.status(door)).figures["commands_running"] == 1
        await cycle(said)
        assert await offers(house, door) == ()
        await cycle(failing)
        await door.ask(CommandFinished(run="watch", exit=None, signal=2, output=b"", total=0))
        assert (await running.done()).reason is Reason.END
        assert len(await offers(house, door)) == 4
        assert not (await door.ask(CommandQuiet(run="watch", quiet=True))).found


async def test_a_workspace_that_opts_out_is_left_alone(house: House) -> None:
    """I3"""
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        (house.workspace / OPT_OUT_FILE).touch()
        with pytest.raises(WireError, match=r"has opted out: remove \.noguessahead"):
            await ask(house, door)
        await house.command(door, "plain")
        assert await offers(house, door) == ()
    assert not turns(house, speculative=False)


async def test_a_prompt_that_cannot_be_made_stops_nothing_and_tells_no_contents(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Faults of ours: in a parser, a template, a reader of files."""
    contents = "words of a prompt"

    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError(contents)

    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        monkeypatch.setattr(planner, "build", fail)
        with monkeypatch.context() as broken:
            broken.setattr(Intake, "failures", fail)
            await house.command(door, "collection")
        await house.command(door, "short")
        status = await house.until(door, lambda status: "failed at making its prompt" in status.reason)
        assert status.offers
        with pytest.raises(WireError, match="failed at making its prompt; its log says where"):
            await ask(house, door)
    assert "RuntimeError" in caplog.text
    assert contents not in caplog.text


async def test_a_template_with_a_fault_shows_in_status(house: House) -> None:
    house.config.templates.mkdir()
    (house.config.templates / "test_failed.toml").write_text('title = "x"\nsystem = 5\n')
    async with house.connect() as door:
        await house.command(door, "plain")
        status = await house.until(door, warm)
        (problem,) = status.problems
        assert "test_failed.toml:2: 'system' must be a text; the built-in" in problem


async def test_a_machine_that_lacks_something_is_left_alone(house: House) -> None:
    house.modeld.script.held = True
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.modeld.wait_for(Turn, 1)
        house.app.speculator.press("the battery is low: 9 %")
        await house.modeld.wait_for(Cancel, 1)
        status = await house.until(door, lambda status: status.state == "idle")
        assert status.reason == "the battery is low: 9 %"
        house.modeld.script.held = False
        assert (await ask(house, door))[1].reason is Reason.END
        house.app.speculator.press(None)
        await house.until(door, warm)


async def test_guesses_that_nobody_asks_for_are_counted_and_end(house: House) -> None:
    async with house.connect() as door:
        while True:
            await house.command(door, "plain")
            status = await house.until(door, lambda status: status.reason not in ("", "an offer is being prefilled"))
            if status.reason == "guesses for test_failed are switched off: too few are asked for":
                break
            await house.printed(door, b"5 passed in 0.1s\n", exit=0)
            await house.until(door, lambda status: not status.offers)
        account = status.triggers["test_failed"]
        assert account["off"] == status.triggers["others"]["off"] == 1
        assert account["wasted"] == account["prefilled"] > 0
        assert (await ask(house, door))[1].reason is Reason.END
        house.app.speculator.ledger.check()


async def test_a_question_right_behind_a_command_is_about_that_command(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, go_on = threading.Event(), threading.Event()
    failures = Intake.failures

    def slow(*values: Any, **options: Any) -> Any:
        reading.set()
        go_on.wait(PATIENCE_S)
        return failures(*values, **options)

    monkeypatch.setattr(Intake, "failures", slow)
    async with house.connect() as door:
        command = asyncio.create_task(house.command(door, "plain"))
        await house.until(door, lambda _: reading.is_set())
        question = asyncio.create_task(ask(house, door))
        assert not (await house.status(door)).offers
        go_on.set()
        assert (await question)[0] == "Hello, world"
        await command


async def test_an_end_without_a_start_is_refused(house: House) -> None:
    async with house.connect() as door:
        with pytest.raises(WireError, match="never announced"):
            await door.ask(CommandFinished(run="x", exit=0, signal=None, output=b"", total=0))


async def test_no_prompt_reaches_the_log(house: House, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        await ask(house, door)
    assert "guess" in caplog.text
    for word in ("gross", "odd - kind", "prices", "Hello"):
        assert word not in caplog.text


async def test_a_daemon_that_stops_ends_what_it_was_answering(house: House) -> None:
    """S8"""
    async with house.connect() as door:
        await house.command(door, "plain")
        house.modeld.script.held = True
        stream = door.start(Ask(cwd=str(house.workspace)))
        await house.modeld.wait_until(lambda: len(turns(house, speculative=False)) == 1)
        await house.app.door.close()
        with pytest.raises(WireError, match="intentd is stopping"):
            async with asyncio.timeout(PATIENCE_S):
                await stream.done()
