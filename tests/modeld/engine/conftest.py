"""A supervisor over scripted children."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from modeld.engine.config import EngineConfig
from modeld.engine.patience import Patience
from modeld.engine.supervisor import Supervisor
from tests.modeld.engine.scripted import Nursery, Start


@pytest.fixture
def nursery() -> Nursery:
    return Nursery()


@pytest.fixture
async def start(nursery: Nursery) -> AsyncIterator[Start]:
    made = []

    async def begin(**bounds: Any) -> Supervisor:
        supervisor = Supervisor(
            EngineConfig(backend="fake"),
            nursery.listen,
            patience=Patience(**{"pause": 0.0, **bounds}),
            start_child=nursery.start,
        )
        made.append(supervisor)
        await supervisor.start()
        return supervisor

    yield begin
    for supervisor in made:
        await supervisor.close()
    assert all(child.buried for child in nursery.children)
