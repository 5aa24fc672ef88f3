from __future__ import annotations

from typing import Any

import pytest

from tests.qm.fake_hub import FakeHub, SlowStore


@pytest.fixture
def hub() -> FakeHub:
    return FakeHub()


@pytest.fixture
def store() -> Any:
    """A SlowStore; it stands for an IQueueStore."""
    return SlowStore()
