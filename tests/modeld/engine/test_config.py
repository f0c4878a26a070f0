"""What an engine is started with."""

import pytest

from modeld.engine.config import EngineConfig


def test_a_config_survives_the_way_to_the_child() -> None:
    config = EngineConfig(backend="fake", model="/models/ä.gguf", context=300, fake='{"token_ms": 1}')
    assert EngineConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    "options",
    [{"backend": "gpt"}, {"profile": "loose"}, {"context": 1}, {"threads": 0}, {"sequences": 1}, {"extra_cells": -1}],
)
def test_what_makes_no_sense_is_refused_where_it_is_made(options: dict[str, str | int]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        EngineConfig(**options)  # type: ignore[arg-type]
