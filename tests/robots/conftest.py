"""What the tests of the robots share."""

from collections.abc import Iterator
from typing import Any

import pytest
from twisted.logger import globalLogPublisher


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    """The failures that are logged during the test."""
    failures: list[Any] = []

    def observe(event: Any) -> None:
        if "log_failure" in event:
            failures.append(event)

    globalLogPublisher.addObserver(observe)
    yield failures
    globalLogPublisher.removeObserver(observe)
