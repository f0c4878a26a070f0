"""The fake backend holds to the contract in each of its shapes."""

from collections.abc import Callable

import pytest

from modeld.backends.contract import CONTRACT, Subject
from modeld.backends.fake import FakeBackend, FakeScript

SCRIPTS = {
    "cells": FakeScript(cells=4096, sequences=4),
    "cells, keeping a beginning": FakeScript(cells=4096, sequences=4, ubatch=32),
    "cells, stopping after the step": FakeScript(cells=4096, sequences=4, stop="step"),
    "cells, small": FakeScript(context=64, cells=96, sequences=3, chunk=16),
    "content": FakeScript(cells=4096, sequences=4, fork="content"),
}


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
@pytest.mark.parametrize("shape", SCRIPTS)
def test_the_fake_holds_to_the_contract(shape: str, check: Callable[[Subject], None]) -> None:
    check(Subject(make=lambda flag: FakeBackend(SCRIPTS[shape], flag)))
