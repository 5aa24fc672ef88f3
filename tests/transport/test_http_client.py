"""Asking over HTTP: what becomes of a request that nobody wants any longer."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import CancelledError
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure

from lcc.transport.http.client import HttpClient


@pytest.mark.parametrize("address", ["http://127.0.0.1:80", "unix:/nowhere/socket"])
def test_a_request_that_is_cancelled_while_it_connects_was_cancelled(address: str) -> None:
    """Not "cannot be reached": who is told that would ask somebody else."""
    client = HttpClient(MemoryReactorClock(), 5, 30.0)
    outcome: list[Any] = []
    asked = client.get(address, "/").addBoth(outcome.append)
    assert outcome == []
    asked.cancel()
    assert isinstance(outcome[0], Failure) and outcome[0].check(CancelledError)
