"""When an operation's own work on the model began, for S2: the wait for a guess ends there."""

from collections.abc import Callable
from typing import Any

import pytest

from modelwire.messages import DecodeConfig

ONE = DecodeConfig(max_tokens=1)
SIXTY_FOUR = "0123456789abcdef" * 4


def test_s2_the_first_pass_is_when_the_first_of_several_chunks_began(bench: Callable[..., Any]) -> None:
    here = bench(chunk=32, token_ms=10)
    here.time = 5.0
    assert here.run(SIXTY_FOUR, decode=ONE).ended.first_pass_at == 5.0
    assert here.time > 5.0


def test_an_operation_that_reuses_everything_has_no_first_pass(bench: Callable[..., Any]) -> None:
    here = bench(token_ms=10)
    here.run(SIXTY_FOUR, guess=True)
    ended = here.run(SIXTY_FOUR, decode=DecodeConfig(max_tokens=3)).ended
    assert (ended.usage.forward_passes, ended.first_pass_at) == (0, None)


@pytest.mark.parametrize("reads", [0, 1])
def test_one_that_was_stopped_before_its_first_chunk_has_none(bench: Callable[..., Any], reads: int) -> None:
    here = bench()
    here.flag.after = reads
    assert (here.run(SIXTY_FOUR).ended.first_pass_at is None) == (reads == 0)
