"""The wires of a front end: providers at its proxy, content users at its HTTP and XML interfaces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock

from lcc.client.content import ContentClient
from lcc.config import CuConfig
from lcc.model.frontend.places import AtHome
from lcc.protocols.cp_uns_client import init
from lcc.roles.access import access_token
from lcc.roles.cu.packages.production import Where, Workshop
from lcc.roles.cu.web.site import build_site
from lcc.roles.cu.xml.session import XmlUsers
from lcc.storage.providers.content_users import ContentUser, add_content_user
from lcc.storage.providers.passwords import hash_password
from tests.fuzz.mutation import TOKENS
from tests.fuzz.target import HOSTILE, Target, check, joined
from tests.fuzz.targets_users import HTTP_TOKENS, HttpTarget, refuse_connections
from tests.support.roles.front import Proxy
from tests.support.roles.front import Server as Uns
from tests.support.roles.front_worlds import PIDS, Worlds
from tests.support.roles.uns import PASSWORD, partial
from tests.support.roles.xml_users import Folders, query
from tests.support.transports import Line

_PAGE = b"<p>" + b"x" * 5000 + b"</p>"
_HOSTILE_PID, _MOVING_PID, _HONEST_PID = 7, 8, 9
_SECRET = "0123456789abcdef0123456789abcdef"
BEARER = access_token(1, _SECRET)
"""The token of the only content user."""
CHANGE_TOKENS = (
    b"fe1~0~1.epoch1.1.0",
    b"fe2~0~0~1.epoch1.2.0~2.epoch2.1.0~3.epoch3.1.0",
    b"fe2~0~0~3.epoch3.0.9~1.epoch1.1.0.f2.i9.b1.k1." + b"0a" * 20,
    b"fe2~a0~9~9.epoch9.1.0",
    b"epoch1.1.0",
    b"~2.epoch2.9223372036854775807.0",
    b".i9223372036854775807",
)


class ProvidersAtFront(Target):
    """What providers say to ``lcc-fe-uns``, and that the sub-LCC's UNS hears just that."""

    name = "cp-uns: at the front end"
    share = 8
    tokens = (*TOKENS, b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 9000\r\n", b"PROXY UNKNOWN\r\n", b'id="8"', b'id="9"')

    @classmethod
    def seeds(cls) -> list[bytes]:
        login = init(_HOSTILE_PID, PASSWORD)
        bare = f'<init xmlns="http://www.lococa.org/1.0"><provider id="7" passwd="{PASSWORD}"/></init>'
        texts = (
            login + partial("a", "b") + partial("c"),
            '<?xml version="1.0" encoding="UTF-8"?>\n<!-- x -->\n' + login,
            bare + "<set set='full'/>",
            init(_MOVING_PID, PASSWORD) + partial("a"),
            init(99_000_000, PASSWORD),
            "PROXY TCP4 192.0.2.7 192.0.2.1 4711 9000\r\n" + login,
            login + "x" * 3000,
        )
        return [text.encode() for text in texts]

    def __init__(self, home: Path) -> None:
        self.proxy = Proxy(failed_logins=1000)
        self.clock = self.proxy.clock
        self.proxy.place(_MOVING_PID, 1, AtHome.FROZEN)

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        self.proxy.servers.clear()
        protocol = self.proxy.port.buildProtocol(IPv4Address("TCP", HOSTILE, 4711))
        return Line(protocol, self.settle, room=room, late=late, host=HOSTILE)

    def talk(self, random: Random, line: Line, pieces: Sequence[bytes]) -> None:
        line.say(pieces)
        data = joined(pieces)
        for uns in self.proxy.servers:
            heard = bytes(uns.transport.out)
            if not heard:
                continue
            header, end, said = heard.partition(b"\r\n")
            check(header.startswith(b"PROXY TCP4 " + HOSTILE.encode()) and end, f"the UNS hears {heard[:200]!r}")
            check(data.startswith(said), f"of {data[:200]!r} the UNS hears {said[:200]!r}")
            self._answer(random, line, uns)

    def _answer(self, random: Random, line: Line, uns: Uns) -> None:
        """What the UNS says arrives as it is."""
        said = b""
        for _ in range(random.randrange(4)):
            if uns.transport.closed or uns.transport.paused:
                break
            said += (piece := random.randbytes(random.choice((1, 100, 20_000))))
            uns.say(piece)
            line.turn()
        if said and not (line.gone or line._room is not None):
            check(line.heard.endswith(said[-60_000:]), "the provider does not hear what the UNS says")

    def play(self, random: Random, pieces: Sequence[bytes]) -> Line | None:
        line = super().play(random, pieces)
        for uns in self.proxy.servers:
            check(uns.transport.closed or uns.transport.write_closed, "the UNS's connection is left")
            uns.transport.lose(ConnectionError("the UNS closes"))
        self.settle()
        check(not self.proxy.uns.connections, f"{self.proxy.uns.connections} connections are left")
        return line

    def honest(self) -> None:
        self.clock.advance(61)
        self.proxy.servers.clear()
        client = self.proxy.connect("192.0.2.1")
        said = init(_HONEST_PID, PASSWORD)
        client.send(said, 10)
        self.settle()
        (uns,) = self.proxy.servers
        check(uns.heard.partition(b"\r\n")[2] == said.encode(), f"the UNS hears {uns.heard!r}")
        uns.say(b"<welcome/>")
        check(self.proxy.answer(client) == "<welcome/>", f"the provider hears {client.text!r}")
        client.lose()
        uns.transport.lose(ConnectionError("the UNS closes"))
        self.settle()

    def close(self) -> None:
        self.proxy.uns.close()


class _Caches:
    """Three sub-LCCs with pages behind a front end that has a content user."""

    def __init__(self, home: Path, clock: Clock) -> None:
        self.worlds = Worlds(home, lambda name: f"sqlite:{home}/{name}.db", clock)
        self.contents = Folders(home)
        for pid in PIDS:
            for name in ("a", "b"):
                self.worlds.put(pid, name, fetched_fileid=self.contents.add(_PAGE), len=len(_PAGE))
            self.worlds.put(pid, "gone")
            self.worlds.delete(pid, "gone")
        user = ContentUser(0, "ann", hash_password(_SECRET, generated=True))
        self.worlds.front.now(add_content_user, user)

    def close(self) -> None:
        self.worlds.subs.stop()
        self.worlds.close()


class QuestionsAtFront(HttpTarget):
    """What content users ask ``lcc-fe-cu`` over HTTP, with tokens."""

    name = "fe-cu: at the HTTP port"
    streams = 40
    engine_timers = 2  # the next looks for changes, and for sub-LCCs
    tokens = (*HTTP_TOKENS, *CHANGE_TOKENS, f"Authorization: Bearer {BEARER}\r\n".encode(), b"&missing=1")

    @classmethod
    def seeds(cls) -> list[bytes]:
        end = f" HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {BEARER}\r\n\r\n"
        front, other = CHANGE_TOKENS[1].decode(), CHANGE_TOKENS[2].decode()
        states = '{"provider":105,"curl":"http://p105.example/a"}\n{"provider":1,"curl":"no URL"}\n'
        texts = (
            f"GET /changes?since={front}&limit=3{end}" + f"GET /changes?since=0&content=yes{end}",
            f"GET /changes?since={other}&wait=2&format=xml{end}",
            f"GET /urls?provider=105&limit=1{end}" + f"GET /urls?limit=5&after=0{end}",
            f"GET /content?provider=201&curl=http://p201.example/a{end}",
            f"GET /items?since={front}{end}" + f"GET /package?kind=tar&provider=1{end}",
            f"POST /states HTTP/1.1\r\nHost: a\r\nContent-Length: {len(states)}\r\n\r\n{states}",
            "GET /changes?since=epoch1.1.0 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer 1-00\r\n\r\n",
            f"GET /.well-known/resourcesync{end}GET /atom?prefix=http://p1.example/{end}",
        )
        return [text.encode() for text in texts]

    def __init__(self, home: Path) -> None:
        self.clock = reactor = MemoryReactorClock()  # type: ignore[assignment]
        self.caches = _Caches(home, reactor)
        nobody = f"unix:{home}/nobody.sock"
        self.content = ContentClient(reactor, nobody)
        workshop = Workshop(reactor, Where(home / "content", 0, lambda machine: nobody, home), 0, reactor.seconds)
        worlds = self.caches.worlds
        self.factory = build_site(
            worlds.several, self.content, workshop, CuConfig(), "rows", reactor, reactor.seconds
        )

    def settle(self) -> None:
        self.clock.advance(0)
        refuse_connections(self.clock)

    def honest(self) -> None:
        answer = self.get("/changes?since=0&limit=1000")
        rows = answer.count(b'"curl"')
        check(answer.startswith(b"HTTP/1.1 200 ") and rows >= 2 * len(PIDS), f"{rows} rows: {answer[:300]!r}")
        check(b'"next": "fe2~' in answer.replace(b'":"', b'": "'), f"no token: {answer[-300:]!r}")
        check(not self.factory.protocols, "somebody is left")

    def close(self) -> None:
        self.content.close()
        self.settle()
        self.caches.close()


class XmlAtFront(Target):
    """What they say at its XML interface."""

    name = "fe-cu: at the XML socket"
    share = 5
    streams = 40
    engine_timers = 2
    patience_seconds = 400.0
    tokens = (*TOKENS, *CHANGE_TOKENS, f' token="{BEARER}"'.encode(), b' content="yes"', b' wait="2"')

    @classmethod
    def seeds(cls) -> list[bytes]:
        front, other = CHANGE_TOKENS[1].decode(), CHANGE_TOKENS[2].decode()
        mine = f' token="{BEARER}"/>'.encode()
        content = query(since="0", content="yes").replace(b"/>", mine)
        return [
            content + query(provider=105, mimetype="text/*", limit=2),
            query(since=front, limit=1) + query(since=other, content="yes").replace(b"/>", mine),
            query("", prefix="http://p201.example/") + query(since="0", wait=5) * 2,
            query(since="epoch2.1.0").replace(b"/>", b' token="1-00"/>'),
            query(provider=205),
        ]

    def __init__(self, home: Path) -> None:
        self.clock = Clock()
        self.caches = _Caches(home, self.clock)
        several: Any = self.caches.worlds.several
        self._users = XmlUsers(several, self.caches.contents, CuConfig(), "rows", self.clock)

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        return Line(self._users.buildProtocol(None), self.settle, room=room, late=late)

    def honest(self) -> None:
        line = self.connect()
        line.say([query(since="0", content="yes").replace(b"/>", f' token="{BEARER}"/>'.encode())])
        for _ in range(60):
            line.turn()
        check(b'<end next="fe2~' in line.heard, f"it heard {line.heard[-500:]!r}")
        line.lose()
        check(not self._users.sessions, "somebody is left")

    def close(self) -> None:
        self.caches.close()
