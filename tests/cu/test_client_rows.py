"""The rows of an answer whose connection breaks off, before and after its end mark."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from lcc.client.blocking import CutOff
from lcc.client.cache import RowStream
from lcc.transport.http.client import HttpFailed

ROW = b'{"key": "00", "state": "cached"}\n'
END = b'{"next": "token"}\n'


class BrokenAnswer:
    """Gives these bytes, then the connection is lost."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def pipe_to(self, consumer: Any) -> Deferred[int]:
        consumer.write(self._data)
        body: Deferred[int] = Deferred()
        body.errback(Failure(HttpFailed("lost")))
        return body


async def rows(data: bytes) -> tuple[list[dict[str, Any]], str | None]:
    answer: Any = BrokenAnswer(data)
    stream = RowStream(answer)
    return [row async for row in stream], stream.token


def outcome(data: bytes) -> list[Any]:
    found: list[Any] = []
    Deferred.fromCoroutine(rows(data)).addBoth(found.append)
    return found


def test_what_was_told_completely_is_complete() -> None:
    ((found, token),) = outcome(ROW + END)
    assert len(found) == 1 and token == "token"


@pytest.mark.parametrize("data", [b"", ROW, ROW + END[:-3]])
def test_what_was_not_is_cut_off(data: bytes) -> None:
    (failure,) = outcome(data)
    assert failure.check(CutOff)
