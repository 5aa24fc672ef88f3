"""What content users read, cut after any byte: the HTTP interface, the XML interface, and the content ports behind.

The conversation: a copy of the cache is made from nothing, rows and content; the cache has some pages and a page that
was deleted.  The HTTP user is :class:`lcc.client.cache.CacheClient`; content comes through the content port of the
central BOT-M from the one of the machine, read by :class:`lcc.client.content.ContentClient`.  Over XML asks a small
program, which keeps nothing of an answer but its whole rows, and the token only of one that has ended.

What holds, wherever it is cut: what was read whole is right, and an answer that was cut is never taken for a whole
one; who asks again, from the last token that came, ends with exactly the cache; and nothing hangs: no question, no
connection and no timer is left.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from lxml import etree
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import UNIXClientEndpoint
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from lcc.client.blocking import CacheError, CutOff
from lcc.client.cache import CacheClient
from lcc.protocols.xmlfeed import NAMESPACE
from tests.support.net import HOWS, SILENT_EVERY, Cut, How
from tests.support.roles.chain import ROOT, World

PAGES = {f"{ROOT}{name}": name.encode() * size for name, size in (("a", 10), ("bc", 200), ("d", 1))}
GONE = f"{ROOT}gone"
TRIES = 10
REST_EVERY = 25
KEPT_SECONDS = 31
"""So long the connections to content ports are kept for the next question; the next copy begins with new ones."""
_ROW = re.compile(rb"<url [^>]*/>|<url [^>]*[^/]>.*?</url>", re.DOTALL)
"""In an answer that may have been cut."""


@attrs.define
class Copy:
    """A user's copy of the cache.

    :ivar token: up to which it is complete.
    """

    pages: dict[str, bytes] = attrs.Factory(dict)
    token: str = "0"

    def apply(self, row: dict[str, Any], data: bytes | None) -> None:
        if row["state"] == "deleted":
            self.pages.pop(row["curl"], None)
        else:
            assert data is not None
            assert len(data) == int(row["len"])
            self.pages[row["curl"]] = data


class _XmlUser(Protocol):
    """Asks one question and gathers the answer.

    :ivar over: fires when the answer is whole, or the connection is over.
    """

    TIMEOUT_SECONDS = 100.0

    def __init__(self, clock: Any, since: str) -> None:
        self._clock = clock
        self._since = since
        self.heard = b""
        self.over: Deferred[None] = Deferred()

    def connectionMade(self) -> None:
        self._call = self._clock.callLater(self.TIMEOUT_SECONDS, self._give_up)
        question = f'<q:query xmlns:q="{NAMESPACE}" since="{self._since}" content="yes"/>\n'
        self.transport.write(question.encode())  # type: ignore[union-attr]

    def dataReceived(self, data: bytes) -> None:
        self.heard += data
        if self.heard.endswith(b"</q:answer>\n"):
            self.transport.loseConnection()  # type: ignore[union-attr]

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._call.active():
            self._call.cancel()
        self.over.callback(None)

    def _give_up(self) -> None:
        self.transport.abortConnection()  # type: ignore[union-attr]


class Reading:
    """The conversation, over HTTP or XML; reading changes nothing, so it can be had again and again.

    :param folder: for the LCC.
    :param prepared: see :class:`~tests.support.roles.chain.World`.
    """

    def __init__(self, folder: Path, prepared: Path, xml: bool) -> None:
        self._xml = xml
        self._own = "cu-xml" if xml else "cu"
        world = self._world = World(folder, prepared, users=True)
        world.origin.pages = {**PAGES, GONE: b"gone"}
        urls = [{"c": url.removeprefix(ROOT), "m": "text/html"} for url in world.origin.pages]
        world.publish(urls)
        world.drain()
        world.publish([{"c": "gone", "op": "delete"}])
        world.drain()
        world.check_content(PAGES)
        self._rows = self._right_rows()
        self._indices = self._numbers()
        self.rounds = 0
        self._read(1)
        self._said = {wire: dict(world.net.traffic[wire, number].given) for wire, number in self._indices.items()}
        self._rest()

    def cuts(self, hows: tuple[How, ...] = HOWS) -> Iterator[Cut]:
        """All cuts there are; silence less often."""
        for wire in self._indices:
            for up in (True, False):
                for after in range(self._said[wire][up] + 1):
                    for how in hows:
                        if how != "silence" or after % SILENT_EVERY == 0:
                            yield Cut(wire, up, after, how)

    def run(self, cut: Cut) -> None:
        """Copy the cache, while the next connection of that kind is cut.

        :raises AssertionError: a promise is broken.
        """
        net = self._world.net
        self.rounds += 1
        net.to_cut, net.was_cut = attrs.evolve(cut, index=self._numbers()[cut.wire]), False
        self._read(TRIES)
        assert net.was_cut, "it was not cut: nothing is tested"
        net.to_cut = None
        if self.rounds % REST_EVERY == 0:
            self._rest()
        net.traffic = dict(list(net.traffic.items())[-8:])

    def end(self) -> None:
        """Stop everything; nothing may be left."""
        self._rest()
        self._world.check_at_rest(silent=True)
        self._world.stop()

    def _numbers(self) -> dict[str, int]:
        """The next connection to each address."""
        return {wire: self._world.net.next_index(wire) for wire in (self._own, "central-content", "content")}

    def _rest(self) -> None:
        self._world.check_at_rest(silent=True)

    def _right_rows(self) -> dict[str, str]:
        return {row.curl: row.md5 for row in self._world.cached().values()}

    def _read(self, tries: int) -> None:
        """Until the copy is complete."""
        copy = Copy()
        for _ in range(tries):
            work = self._read_xml(copy) if self._xml else self._read_http(copy)
            try:
                self._world.result_of(Deferred.fromCoroutine(work))
            except CacheError:
                continue
            finally:
                self._world.net.skip(KEPT_SECONDS)
            assert copy.pages == PAGES, copy
            return
        raise AssertionError("the copy is never complete")

    async def _read_http(self, copy: Copy) -> None:
        client = CacheClient(self._world.net, f"unix:{self._world.address('cu')}")
        try:
            changes = await client.changes(since=copy.token)
            rows = [row async for row in changes]
            for row in rows:
                self._check_row(row)
                if row["state"] == "deleted":
                    copy.apply(row, None)
                    continue
                data = await (await client.content(row)).read(10_000)
                assert data == PAGES[row["curl"]], "wrong content was taken for whole"
                copy.apply(row, data)
            assert changes.token is not None
            copy.token = changes.token
        finally:
            await client.close()

    async def _read_xml(self, copy: Copy) -> None:
        net = self._world.net
        factory = Factory.forProtocol(lambda: _XmlUser(net, copy.token))
        try:
            user = await UNIXClientEndpoint(net, self._world.address("cu-xml")).connect(factory)
        except ConnectionDone as error:
            raise CutOff("not connected") from error
        await user.over
        missing = False
        for text in _ROW.findall(user.heard):
            row, data = self._understand(text)
            if data is None and row["state"] == "cached":
                missing = True
                continue
            copy.apply(row, data)
        try:
            answer = etree.fromstring(user.heard)
        except etree.XMLSyntaxError:
            raise CutOff("the answer is not whole") from None
        end = answer.find("end")
        if end is None or missing:
            raise CutOff("the answer was not completed")
        copy.token = end.get("next")

    def _understand(self, text: bytes) -> tuple[dict[str, Any], bytes | None]:
        element = etree.fromstring(text)
        row = dict(element.attrib)
        self._check_row(row)
        content = element.find("content")
        if content is None or "missing" in content.attrib:
            return row, None
        data = b64decode(content.text or "")
        assert len(data) == int(content.get("length")), "content was cut in an element that has ended"
        assert data == PAGES[row["curl"]], "wrong content was taken for whole"
        return row, data

    def _check_row(self, row: dict[str, Any]) -> None:
        if row["state"] == "deleted":
            assert row["curl"] == GONE
        else:
            assert row["md5"] == self._rows[row["curl"]], "a row was read that is not in the cache"
