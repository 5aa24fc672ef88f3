"""The interfaces of content users, the content port, and what the API hears from a content port."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure

from lcc.client.content import ContentClient
from lcc.config import CuConfig
from lcc.protocols.xmlfeed import NAMESPACE
from lcc.roles.botm.content_port import ContentPort, content_factory
from lcc.roles.cu.cache import OneLcc
from lcc.roles.cu.packages.production import Where, Workshop
from lcc.roles.cu.questions import Questions
from lcc.roles.cu.web.site import build_site
from lcc.storage.database.migrations import TASKS
from lcc.testing.inline_database import InlineDatabase
from lcc.transport.http.client import HttpClient, HttpFailed
from tests.fuzz.mutation import TOKENS
from tests.fuzz.target import HOSTILE, Target, check
from tests.support.contents import Contents
from tests.support.roles.xml_users import World, query
from tests.support.transports import Line

_PAGE = b"<p>" + b"x" * 20_000 + b"</p>"

HTTP_TOKENS = (
    *TOKENS,
    b"\r\n\r\n",
    b"\r\n\t folded",
    b"\n",
    b"\r",
    b"Content-Length: 5\r\n",
    b"Content-Length: -1\r\n",
    b"Content-Length: 18446744073709551616\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: chunked, gzip\r\n",
    b"Transfer-Encoding: identity\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"Expect: 100-continue\r\n",
    b"Upgrade: h2c\r\n",
    b"Host: \r\n",
    b"Range: bytes=0-1,2-3,-5\r\n",
    b"Range: bytes=99999999999999999999-\r\n",
    b"If-None-Match: *\r\n",
    b"If-Range: x\r\n",
    b"Via: 1.1 x\r\n",
    b"0\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b"5;x=y\r\nhello\r\n",
    b" HTTP/1.1\r\n",
    b" HTTP/1.0\r\n",
    b" HTTP/9.9\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"HEAD ",
    b"POST ",
    b"CONNECT x:1 ",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"Content-Encoding: gzip\r\n",
    b"Content-Encoding: br, gzip, deflate\r\n",
    b"Location: http://127.0.0.1/page\r\n",
    b"X: " + b"y" * 3000 + b"\r\n",
    b"X: y\r\n" * 300,
)


class XmlQuestions(Target):
    """What content users say at the XML socket."""

    name = "cu: at the XML socket"
    share = 6
    engine_timers = 1  # the next look for changes
    patience_seconds = 400.0

    @classmethod
    def seeds(cls) -> list[bytes]:
        rows = query(provider=1, mimetype="text/*", limit=2)
        content = query(since="0", content="yes")
        return [
            rows + content,
            query("", provider=1, prefix="http://site.example/") + query(since="0", limit=1) + rows,
            content,
            query().replace(b"/>", b' token="' + b"x" * 20 + b'"/>'),
            b'<?xml version="1.0"?>' + query(since="0", wait=5) * 3,
            f'<query xmlns="{NAMESPACE}" deleted="yes" provider="1" status="404"/>'.encode(),
        ]

    def __init__(self, home: Path) -> None:
        self.world = World(home)
        self.clock = self.world.clock
        for number in range(5):
            self.world.put(f"http://site.example/{number}", _PAGE)

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        return Line(self.world.users.buildProtocol(None), self.settle, room=room, late=late)

    def honest(self) -> None:
        line = self.connect()
        line.say([query(since="0", content="yes")])
        for _ in range(30):
            line.turn()
        check(b"<end" in line.heard and b"</lococa:answer>" in line.heard, f"it heard {line.heard[-500:]!r}")
        line.lose()
        check(not self.world.users.sessions, "somebody is left")

    def close(self) -> None:
        self.world.watcher.stop()
        self.world.close()


class HttpTarget(Target):
    """A server over HTTP."""

    share = 6
    engine_timers = 1
    patience_seconds = 400.0
    tokens = HTTP_TOKENS
    factory: Any

    @classmethod
    def seeds(cls) -> list[bytes]:
        raise NotImplementedError

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        return Line(_built(self.factory), self.settle, room=room, late=late, host=HOSTILE)

    def get(self, path: str) -> bytes:
        """An honest request; the whole answer."""
        line = self.connect()
        line.say([f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()])
        for _ in range(60):
            line.turn()
        line.lose()
        return line.heard


def _built(factory: Any) -> Any:
    protocol = factory.buildProtocol(None)
    assert protocol is not None
    return protocol


class ContentPorts(HttpTarget):
    """What is asked of a content port."""

    name = "content port"

    @classmethod
    def seeds(cls) -> list[bytes]:
        end = "Host: a\r\n\r\n"
        texts = [
            f"GET /1/FILE HTTP/1.1\r\n{end}" * 2,
            f'GET /1/FILE HTTP/1.1\r\nRange: bytes=10-99\r\nIf-None-Match: "x"\r\n{end}',
            f"HEAD /1/FILE HTTP/1.1\r\n{end}GET /status HTTP/1.1\r\n{end}",
            f"GET /1/FILE,1,5 HTTP/1.1\r\n{end}GET /1/5,FILE?relay=yes HTTP/1.1\r\n{end}",
            "GET /2/5 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            "POST /1/FILE HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
            "POST /1/FILE HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        ]
        return [text.replace("FILE", "1").encode() for text in texts]

    def __init__(self, home: Path) -> None:
        self.clock = reactor = MemoryReactorClock()  # type: ignore[assignment]
        contents = Contents(home)
        self._file = contents.add(_PAGE * 10)
        http = HttpClient(reactor, 5, 5.0)
        port = ContentPort(contents.folder, _Machine(), lambda machine: "", http, reactor, 30.0)
        self.factory = content_factory(port, reactor, 1000, 30.0)

    def honest(self) -> None:
        answer = self.get(f"/1/{self._file}")
        check(answer.endswith(_PAGE), f"it heard {answer[:300]!r}")


class _Machine:
    """In place of the BOT-M of this machine."""

    machine = 1

    def is_suspect(self, file_id: int) -> bool:
        return False

    def is_damaged(self, file_id: int) -> bool:
        return False

    def status(self) -> dict[str, Any]:
        return {}


class HttpQuestions(HttpTarget):
    """What content users ask over HTTP."""

    name = "cu: at the HTTP port"

    @classmethod
    def seeds(cls) -> list[bytes]:
        end = " HTTP/1.1\r\nHost: a\r\nAccept: application/json, text/csv;q=0.5\r\n\r\n"
        texts = [
            f"GET /urls?provider=1&mimetype=text/*&limit=2{end}" * 2,
            f"GET /changes?since=0&limit=3{end}GET /openapi.json{end}",
            f"GET /changes?since=0&wait=2&format=xml{end}",
            f"GET /content?provider=1&curl=http://site.example/1{end}",
            f"GET /package?format=tar.gz&provider=1{end}",
            "GET /urls?curl=%00%ff HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer abcdef\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
            *(
                f"POST /{path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(lines)}\r\n\r\n{lines}"
                for path, lines in (
                    ("states?notifier=spider/a&epoch=e", '{"provider":1,"curl":"http://site.example/1","set":3}\n'),
                    ("states", f'{{"key":"{"0" * 40}"}}\n{{"provider":1,"curl":"no URL"}}\n'),
                    ("robots", '{"origin":"http://site.example/"}\n'),
                )
            ),
        ]
        return [text.encode() for text in texts]

    def __init__(self, home: Path) -> None:
        self.world = World(home)
        reactor: Any = MemoryReactorClock()
        self.clock = self.world.clock = reactor
        self.world.watcher._clock = reactor
        for number in range(5):
            self.world.put(f"http://site.example/{number}", _PAGE)
        self.content = ContentClient(reactor, f"unix:{home}/nobody.sock")
        questions = Questions(self.world.database, 10_000)
        tasks = Questions(InlineDatabase(home, Random(1), "sqlite:tasks.sqlite", TASKS), 10_000)
        workshop = Workshop(reactor, Where(home / "content", 1, f"unix:{home}/nobody.sock", home), 0, reactor.seconds)
        self.factory = build_site(
            OneLcc(questions, self.world.watcher, tasks),
            self.content,
            workshop,
            CuConfig(),
            "content",
            reactor,
            None,
        )

    def settle(self) -> None:
        self.clock.advance(0)
        refuse_connections(self.clock)

    def honest(self) -> None:
        answer = self.get("/urls?provider=1")
        check(
            answer.startswith(b"HTTP/1.1 200 ") and b"http://site.example/4" in answer, f"it heard {answer[:300]!r}"
        )
        check(not self.factory.protocols, "somebody is left")

    def close(self) -> None:
        self.world.watcher.stop()
        self.content.close()
        self.settle()
        self.world.close()


def refuse_connections(reactor: Any) -> None:
    """Nobody listens at any UNIX socket.

    :param reactor: a ``MemoryReactorClock``.
    """
    for _path, factory, _timeout, _check in reactor.unixClients:
        factory.clientConnectionFailed(None, Failure(ConnectionRefusedError()))
    reactor.unixClients.clear()


class ContentAnswers(Target):
    """What a content port answers the content user API."""

    name = "content port: at the API"
    share = 3
    tokens = HTTP_TOKENS

    @classmethod
    def seeds(cls) -> list[bytes]:
        texts = [
            'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: "1-1"\r\n\r\nhello',
            "HTTP/1.1 206 Partial\r\nContent-Length: 2\r\nContent-Range: bytes 0-1/5\r\n\r\nhe",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            "HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\ngone",
            "HTTP/1.1 307 There\r\nLocation: http://127.0.0.1:9/1/1\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 503 Later\r\nRetry-After: 5\r\n\r\nlater",
        ]
        return [text.encode() for text in texts]

    def __init__(self, home: Path) -> None:
        self.clock = MemoryReactorClock()  # type: ignore[assignment]
        self.http = HttpClient(self.clock, 5, 5.0)

    def _ask(self) -> list[Any]:
        results: list[Any] = []

        async def ask() -> bytes:
            answer = await self.http.get("unix:/nowhere", "/1/1")
            return await answer.read(100_000)

        Deferred.fromCoroutine(ask()).addBoth(results.append)
        return results

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        reactor: Any = self.clock
        self.results = self._ask()
        _path, factory, _timeout, _check = reactor.unixClients.pop()
        return Line(factory.buildProtocol(None), self.settle, room=room, late=late)

    def play(self, random: Random, pieces: Any) -> Line | None:
        line = super().play(random, pieces)
        (result,) = self.results
        if not isinstance(result, bytes):
            result.trap(HttpFailed)
        return line

    def honest(self) -> None:
        line = self.connect()
        line.say(self.seeds()[:1])
        check(self.results == [b"hello"], f"it got {self.results}")
        line.lose()

    def rest(self) -> None:
        # Of a connection that is kept the client hears nothing; it is forgotten after its time.
        self.clock.advance(6)

    def close(self) -> None:
        self.http.close()
