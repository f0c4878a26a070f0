"""What is spoken at intentd's door: what a message that cannot be read may cost, and what one without a field says."""

import tracemalloc
from typing import Any

import msgpack
import pytest

from intentd.messages import INTENTD, Offer, Offers, Shown
from intentd.shown import Diagnostic, View
from modelwire.codec import DecodeFault

MANY, SOME = 20_000, 9_000
VIEW = {"workspace": "/w", "path": "/w/a", "version": 1, "text": ""}


@pytest.mark.parametrize(
    ("kind", "fields", "path"),
    [
        ("command_started", {"run": "1", "cwd": "/", "argv": [0] * MANY}, "command_started.argv[0]"),
        ("shown", {"view": {**VIEW, "diagnostics": [0] * MANY}}, "shown.view.diagnostics[0]"),
        ("shown_prompt", {"offer": "1", "messages": [["user"]] * SOME}, "shown_prompt.messages[0]"),
    ],
)
def test_of_a_long_list_the_first_item_that_does_not_fit_is_told_and_the_others_cost_nothing(
    kind: str, fields: dict[str, Any], path: str
) -> None:
    data = msgpack.packb({"v": 1, "op": "1", "kind": kind, **fields})
    tracemalloc.start()
    try:
        with pytest.raises(DecodeFault) as fault:
            INTENTD.codec().decode(data)
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()
    assert fault.value.message.endswith(f"@ {path}")
    assert ";" not in fault.value.message


def test_thousands_of_diagnostics_and_offers_fit_into_a_message() -> None:
    codec = INTENTD.codec()
    said = Diagnostic(line=1, last=2, message="m", severity=2, source="s", code="c")
    shown = Shown(view=View(workspace="/w", path="/w/a", version=1, text="", diagnostics=(said,) * 9_000))
    assert codec.decode(codec.encode("1", shown)).message == shown
    offer = Offer(id="1", number=1, trigger="crash", title="t", workspace="/w", warm=True)
    offers = Offers(offers=(offer,) * 8_000)
    assert codec.decode(codec.encode("1", offers)).message == offers


def test_of_a_document_that_nobody_has_used_that_is_said() -> None:
    """Fields with their defaults are left out, as a language server from before an upgrade leaves out what it knows
    nothing of."""
    codec = INTENTD.codec()
    view = View(workspace="/w", path="/w/a", version=1, text="")
    assert codec.decode(codec.encode("1", Shown(view=view, used=0.0))).message.used == 0.0
    assert codec.decode(msgpack.packb({"v": 1, "op": "1", "kind": "shown", "view": VIEW})).message.used is None
