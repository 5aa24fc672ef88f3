"""The HTTP port of the push server: IndexNow, reports, callbacks of hubs, and sets of providers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

from twisted.internet.address import IPv4Address

from lcc.domain.push.websub import sign
from lcc.protocols.uns_qm import Ping
from lcc.roles.push.gateway import IDLE_SECONDS
from tests.fuzz.target import HOSTILE, Target, check
from tests.fuzz.targets_users import HTTP_TOKENS
from tests.support.databases import Backend
from tests.support.roles.push import KEY, SITE, TOPIC, HubWorld
from tests.support.roles.push_sets import PREFIX, SetWorld, basic, pages
from tests.support.transports import Line

_HOST = "Host: push.example\r\n"
_HOUR = 3600.0
IDENT = "00000000000000010000000000000002"
"""Of the subscription that there is; random in a real one."""
_SECRET = "00000000000000030000000000000004"


def post(path: str, body: bytes, *headers: str) -> bytes:
    """A request."""
    lines = "".join(f"{each}\r\n" for each in (*headers, f"Content-Length: {len(body)}"))
    return f"POST {path} HTTP/1.1\r\n{_HOST}{lines}\r\n".encode() + body


def get(path: str, *headers: str) -> bytes:
    """The same without a body."""
    lines = "".join(f"{each}\r\n" for each in headers)
    return f"GET {path} HTTP/1.1\r\n{_HOST}{lines}\r\n".encode()


def _list(*names: str, key: str = KEY) -> bytes:
    urls = ", ".join(f'"{SITE}{name}"' for name in names)
    return f'{{"host": "www.example.org", "key": "{key}", "urlList": [{urls}]}}'.encode()


class PushRequests(Target):
    """What sites and hubs say at the push server."""

    name = "push: at the HTTP port"
    share = 6
    streams = 60
    patience_seconds = 200.0
    tokens = (
        *HTTP_TOKENS,
        b"&url=",
        b"&key=",
        b"%ff%00",
        b'"urlList": [',
        b"hub.mode=unsubscribe",
        b"X-Hub-Signature: sha256=00\r\n",
        f"/websub/{IDENT}".encode(),
    )

    @classmethod
    def seeds(cls) -> list[bytes]:
        json = "Content-Type: application/json"
        question = {"mode": "subscribe", "topic": TOPIC, "challenge": "x", "lease_seconds": "86400"}
        asked = urlencode({f"hub.{name}": value for name, value in question.items()})
        news = b"<feed xmlns='http://www.w3.org/2005/Atom'><title>news</title></feed>"
        signature = f"X-Hub-Signature: {sign(_SECRET, news)}"
        one = urlencode({"url": f"{SITE}a", "key": KEY})
        return [
            post("/indexnow", _list("a", "b", "c"), json) + get(f"/indexnow?{one}"),
            get(f"/indexnow?{one}") * 3,
            get(f"/indexnow/report?host=www.example.org&key={KEY}") + get("/indexnow") + get("/"),
            post("/indexnow", _list("a", key="unknown-key-0"), json) + post("/indexnow", b"[1]"),
            get(f"/websub/{IDENT}?{asked}") + post(f"/websub/{IDENT}", news, signature),
            post(f"/websub/{IDENT}", news, "X-Hub-Signature: sha1=0") + post("/websub/0", news),
            f"POST /indexnow HTTP/1.1\r\n{_HOST}Transfer-Encoding: chunked\r\n\r\n".encode()
            + b"%x\r\n%s\r\n0\r\n\r\n" % (len(_list("a")), _list("a")),
        ]

    def __init__(self, home: Path) -> None:
        self.world = HubWorld(Backend("sqlite", "sqlite:lcc.db", home), unknown_sites="register", requests_max=50)
        self.clock = self.world.clock
        self.world.sites.files[f"{SITE}{KEY}.txt"] = KEY.encode()
        self.world.subscribed()
        self._site = self.world.site()
        self._number = 0

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        protocol = self._site.buildProtocol(IPv4Address("TCP", HOSTILE, 1))
        return Line(protocol, self.settle, room=room, late=late, host=HOSTILE)

    def rest(self) -> None:
        # What it has said is told, and key files that it has named were fetched.
        for _ in range(3):
            self.clock.advance(1)
            self.world.uns.answer()
        del self.world.sites.asked[:], self.world.hub.asked[:]

    def honest(self) -> None:
        """A push is told; a hub pushes, and the feed is polled."""
        world = self.world
        self.clock.advance(world.settings.throttle_window)
        self.rest()
        del world.uns.told[:]
        self._number += 1
        status, body = world.push(f"honest-{self._number}")
        check(status in (200, 202), f"a push is answered {status}: {body}")
        world.pass_time(3)
        told = [url for _, urls in world.uns.urls for url in urls]
        check(told == [f"{SITE}honest-{self._number}"], f"{told} were told")
        self.rest()
        check((world.server.untold, world.server.unproven) == (0, 0), "pushes wait")
        world.polls()
        for hub in world.all:
            check(hub.id == IDENT and hub.active_time, f"a subscription {hub}")
            status, body = world.hear()
            check(status == 200, f"a hub that pushes is answered {status}: {body}")
            world.pass_time(12)
            # What an earlier push has found nothing by is looked at once more, and that may be just now.
            check(world.polls() in (1, 2), "the feed is not polled")
        check(world.all, "the subscription is gone")

    def close(self) -> None:
        self.world.close()
        self.clock.advance(_HOUR)


class PushedSets(Target):
    """What providers say there, whose sets go on to a UNS."""

    name = "push: sets by HTTP"
    share = 6
    streams = 60
    engine_timers = 6  # at the UNS the end of a set that was refused may be waited for
    patience_seconds = 200.0
    tokens = (
        *HTTP_TOKENS,
        b'{"c": "x", "m": "text/html"}\n',
        b'{"c": "y", "op": "delete"}\n',
        b"<url c='z' m='text/html'/>",
        b"kind=full",
        b"&deletions=yes",
        b"&urlprefix=",
        b"Idempotency-Key: k\r\n",
        b"{",
        b'"\\ud800"',
    )

    @classmethod
    def seeds(cls) -> list[bytes]:
        elements = b'<url c="a" m="text/html"/>\n<url c="b" m="text/html" op="delete"/>\n'
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in (pages("a"), pages("b", "c")))
        chunked = f"POST /sets?{PREFIX} HTTP/1.1\r\n{_HOST}{basic()}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        path = f"/sets?{PREFIX}"
        return [
            post(path, pages("a", "b", "c"), basic()) + get("/status", basic()),
            post(f"{path}&kind=full&deletions=yes", pages(*map(str, range(40))), basic(), "Idempotency-Key: k1"),
            post(path, elements, basic()) * 2,
            chunked + chunks + b"0\r\n\r\n",
            chunked + chunks,
            post(path, pages("a"), basic(password="wrong")) + post(path, pages("a"), "Authorization: Bearer lcc_7_x"),
            post(f"/sets?kind=none&urlprefix={quote('http://other.example/')}", b'{"c": 1}\nnonsense\n', basic()),
            post(path, pages("a"), basic(), "Expect: 100-continue") + get("/openapi.json"),
        ]

    def __init__(self, home: Path) -> None:
        self.world = SetWorld(home, Backend("sqlite", "sqlite:lcc.db", home), requests_max=1_000_000)
        self.clock = self.world.clock
        self._number = 0

    def settle(self) -> None:
        self.world.settle()

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        protocol: Any = self.world.site.buildProtocol(IPv4Address("TCP", HOSTILE, 1))
        return Line(protocol, self.settle, room=room, late=late, host=HOSTILE)

    def talk(self, random: Random, line: Line, pieces: Sequence[bytes]) -> None:
        line.say(pieces)
        for _ in range(random.randrange(3)):
            self.clock.advance(0.5)
            self.settle()
            line.turn()

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds / IDLE_SECONDS)):
            self.rest()

    def rest(self) -> None:
        # A conversation with the UNS is kept for some seconds.
        self.world.qm.say(Ping())
        for _ in range(int(IDLE_SECONDS) + 2):
            self.clock.advance(1)
            self.settle()

    def honest(self) -> None:
        """A set comes to the queue manager, as a whole."""
        world = self.world
        for _ in range(5):  # wrong passwords are forgotten
            self.rest()
        self._number += 1
        before = len(world.taken)
        answer = world.post(pages(f"honest-{self._number}", "b"), PREFIX, basic(8), peer="192.0.2.1")
        world.lines.pop().lose()
        self.rest()
        check(answer.status == 200 and answer.verdict["accepted"], f"it was answered {answer}")
        taken = world.told[before:]
        check(taken == [[f"honest-{self._number}", "b"]], f"the queue manager has {taken}")
        check(world.uns.incoming_files() == [], "files of sets that were cut off are left")
        world.qm.sets.clear()

    def close(self) -> None:
        world = self.world
        world.sets.stop()
        world.server.stop()
        self.settle()
        world.uns.lose_qm()
        world.uns.uns.close()
        self.settle()
        world.tables.blocking.close()
        world.main.blocking.close()
