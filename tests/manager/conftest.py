from __future__ import annotations

from collections.abc import Iterator

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred

from .kit import Make, Rig


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes managers, which are stopped at the end."""
    made: list[Rig] = []

    def rig(*arguments: str) -> Rig:
        made.append(Rig(*arguments))
        return made[-1]

    yield rig
    for each in made:
        pytest_twisted.blockon(Deferred.fromCoroutine(each.close()))


@pytest.fixture
def rig(make: Make) -> Rig:
    return make()
