"""I3 and the daemon: what reaches neither modeld nor a log."""

import pytest

from intentd.messages import GetPrompt, ShownPrompt
from intentd.workspace import OPT_OUT_FILE
from modelwire.errors import WireError
from modelwire.messages import Turn
from tests.intentd.conftest import RECORDED
from tests.intentd.daemon.talk import House, ask, commit, offers, prompt_of, turns, warm


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
    assert "tests/test_prices.py:\n```" not in sent  # git ignores it


@pytest.mark.parametrize("style", ["plain", "short", "native"])
async def test_a_file_that_is_ignored_is_not_quoted_from_what_was_printed(house: House, style: str) -> None:
    """I3, also of a file that is ignored after it was printed."""
    output = (RECORDED / f"{style}.txt").read_bytes().replace(b"/project/", f"{house.workspace}/".encode())
    async with house.connect() as door:
        await house.printed(door, output)
        before: ShownPrompt = await door.ask(GetPrompt(cwd=str(house.workspace), offer="2"))
        (house.workspace / ".guessaheadignore").write_text("prices.py\n")
        after: ShownPrompt = await door.ask(GetPrompt(cwd=str(house.workspace), offer="2"))
    told = [shown.messages[-1][1] for shown in (before, after)]
    assert ["raise LookupError(" in text for text in told] == [True, False]
    assert ["prices.py" in text and "LookupError: no rate for odd" in text for text in told] == [True, True]
    assert "gross(1, kind)" in told[1]


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


@pytest.mark.parametrize("listed", [True, False])
async def test_a_workspace_that_opts_out_is_left_alone(house: House, listed: bool) -> None:
    """I3"""
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        (house.workspace / OPT_OUT_FILE).touch()
        if listed:
            assert await offers(house, door) == ()
        else:
            assert not (await house.status(door)).offers
        with pytest.raises(WireError, match=r"has opted out: remove \.noguessahead"):
            await ask(house, door)
        await house.command(door, "plain")
        assert await offers(house, door) == ()
    assert not turns(house, speculative=False)


async def test_no_prompt_reaches_the_log(house: House, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        await ask(house, door)
    assert "guess" in caplog.text
    for word in ("gross", "odd - kind", "prices", "Hello"):
        assert word not in caplog.text
