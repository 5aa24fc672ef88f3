"""Content for somebody who leaves while it is being opened."""

from __future__ import annotations

from typing import Any

import pytest_twisted
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.web.server import Request
from twisted.web.test.requesthelper import DummyChannel

from lcc.insight.records import CACHED
from lcc.roles.cu.web.contents import Contents


class Row:
    """Stands for a cached row."""

    key, pid, state, fetched_machineid, fetched_fileid = b"k" * 20, 1, CACHED, 1, 1
    length, md5, mtime, mimetype, charset = 3, "0" * 32, None, "text/html", ""


class Reader:
    """Stands for the cache, its database and for who may read it."""

    def home(self, pid: int) -> Any:
        return succeed(self)

    content = True

    def select(self, *_: Any) -> Deferred[Any]:
        return succeed(Row())

    def sees(self, pid: int) -> bool:
        return True


class Opening:
    """Stands for the client of content ports; its content comes when the test says so."""

    size_bytes = 3
    dropped = False

    def __init__(self) -> None:
        self.opened: Deferred[Any] = Deferred()

    def open(self, *_: Any) -> Deferred[Any]:
        return self.opened

    def drop(self) -> None:
        self.dropped = True


@pytest_twisted.ensureDeferred
async def test_content_for_who_has_gone_is_dropped() -> None:
    opening, reader = Opening(), Reader()
    contents = Contents(reader, reader, opening, Clock(), 300.0)  # type: ignore[arg-type]
    request: Any = Request(DummyChannel(), False)
    request.method, request.postpath, request.args = b"GET", [b"6b" * 20], {}
    answered = Deferred.fromCoroutine(contents.answer(request, reader))  # type: ignore[arg-type]
    request.connectionLost(Failure(ConnectionDone()))

    opening.opened.callback(opening)

    await answered
    assert opening.dropped
