"""The sites that people look at, over HTTP: the search and the web monitor, with logins, forms and all pages."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import attrs
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, execute, succeed
from twisted.internet.testing import MemoryReactorClock

from lcc.client.cache import CacheClient
from lcc.config import SearchConfig, parse_config
from lcc.roles.access import access_token
from lcc.roles.search.engine import SearchServer
from lcc.roles.search.index import SearchIndex
from lcc.roles.search.pages.site import build_site as build_search
from lcc.roles.search.readers import Readers
from lcc.roles.web.discovery import NotDiscovered
from lcc.search.values import IndexedPage
from lcc.services import web
from lcc.services.process.environment import Environment, real_environment
from lcc.storage.database.migrations import MAIN, SPIDER, TASKS
from lcc.storage.providers.content_users import ContentUser, add_content_user
from lcc.storage.providers.passwords import hash_password
from lcc.storage.providers.web_users import WebUser, set_web_user
from lcc.storage.queue.maintenance.saved_state import save_state
from lcc.transport.links import PortService
from tests.fuzz.target import HOSTILE, check
from tests.fuzz.targets_users import HTTP_TOKENS, HttpTarget, refuse_connections
from tests.support.databases import DirectDatabase
from tests.support.frontier import Spider
from tests.support.qm_state import STATE
from tests.support.queue import Queue, notice
from tests.support.tasks import NOW, Tasks
from tests.support.transports import Line

CANARY = b"<script>canary</script>"
"""Must not come out as markup."""
_SESSION, _FORM, _SEAL = b"5e5510" * 5 + b"55", b"f0f0f0" * 5 + b"ff", b"5ea15ea1" * 8
"""Stand for the cookies of session and form, and for what forms hold, in what is sent."""
_NAME, _PASSWORD = "ann", "correct horse"
_SECRET = "0123456789abcdef0123456789abcdef"
_BEARER = access_token(1, _SECRET)
PAGE_TOKENS = (
    *HTTP_TOKENS,
    _SESSION,
    _FORM,
    _SEAL,
    CANARY,
    quote(CANARY).encode(),
    b"Host: localhost\r\n",
    b"Host: evil.example\r\n",
    b"Sec-Fetch-Site: cross-site\r\n",
    b"X-Forwarded-For: 192.0.2.9, x\r\n",
    f"Authorization: Bearer {_BEARER}\r\n".encode(),
    b"Authorization: Bearer 1-00\r\n",
    b"Cookie: lcc-form=\r\n",
    b"Content-Type: multipart/form-data; boundary=x\r\n",
    b"Content-Type: application/x-www-form-urlencoded\r\n",
    *(
        b"%2e%2e/",
        b"%00",
        b"%ff",
        b"%f0%9f%92%a9",
        b"%ed%a0%80",
        b"?",
        b"&",
        b"&&=",
        b"=&q=",
        b"#",
        b";x=",
        b"//",
        b"/../",
    ),
    *(b"-1", b"0-0", b"9223372036854775808", b"1" * 400, b"1e999", b"nan", b"\xd9\xa3", b"%d9%a3"),
)


class _Reactor(MemoryReactorClock):
    """One whose threads are none, and that starts no process."""

    def getThreadPool(self) -> Any:
        return self

    def callInThreadWithCallback(self, on_result: Any, function: Any, *args: Any) -> None:
        def done(value: Any) -> None:
            on_result(True, value)

        execute(function, *args).addCallbacks(done, lambda failure: on_result(False, failure))

    def callFromThread(self, function: Any, *args: Any) -> None:  # type: ignore[override]
        self.callLater(0, function, *args)


class _Tables(DirectDatabase):
    """A role starts and stops its databases."""

    def start(self) -> None:
        """Nothing is needed."""

    def stop(self) -> Deferred[None]:
        self.blocking.close()
        return succeed(None)


def _environment(reactor: Any, opened: dict[str, _Tables]) -> Environment:
    """
    :param opened: gets its databases, by their series.
    """
    numbers = count(1)

    def database(url: str, home: Path, *_: Any, series: str = MAIN, **__: Any) -> _Tables:
        opened[series] = _Tables(url, home, series)
        return opened[series]

    return attrs.evolve(
        real_environment(reactor),
        token=lambda: f"{next(numbers):016x}",
        now=lambda: NOW + reactor.seconds(),
        database=database,
    )


def _get(path: str, *headers: str) -> bytes:
    lines = "".join(f"{each}\r\n" for each in headers)
    cookies = f"Cookie: lcc-session={_SESSION.decode()}; lcc-form={_FORM.decode()}\r\n"
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{cookies}{lines}\r\n".encode()


def _post(path: str, *headers: str, **fields: str) -> bytes:
    body = urlencode({"form": _SEAL.decode(), **fields})
    kind = f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n"
    return _get(path, *headers).replace(b"GET ", b"POST ").removesuffix(b"\r\n") + f"{kind}\r\n{body}".encode()


class PagesTarget(HttpTarget):
    """A site with a login.

    :cvar cookie: of its sessions.
    """

    share = 6
    streams = 60
    tokens = PAGE_TOKENS
    cookie = b"lcc-session"
    _session = _form = _seal = b""

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        protocol = self.factory.buildProtocol(IPv4Address("TCP", HOSTILE, 4711))
        return Line(protocol, self.settle, room=room, late=late, host=HOSTILE)

    def settle(self) -> None:
        self.clock.advance(0)
        refuse_connections(self.clock)

    def talk(self, random: Random, line: Line, pieces: Sequence[bytes]) -> None:
        line.say([self._with_secrets(piece) for piece in pieces])
        at = line.heard.find(CANARY)
        if at >= 0:
            kind = line.heard[:at].lower().rpartition(b"\r\ncontent-type:")[2]
            check(not kind.lstrip().startswith(b"text/html"), f"markup came out: {line.heard[at - 200 : at + 100]!r}")
        check(not re.search(rb"HTTP/1\.[01] 500 ", line.heard), f"an internal error: {line.heard[-500:]!r}")

    def _with_secrets(self, piece: bytes) -> bytes:
        for name, value in ((_SESSION, self._session), (_FORM, self._form), (_SEAL, self._seal)):
            piece = piece.replace(name, value or name)
        return piece.replace(b"lcc-session=", self.cookie + b"=")

    def asked(self, request: bytes) -> bytes:
        """What somebody honest hears, from elsewhere."""
        line = Line(self.factory.buildProtocol(IPv4Address("TCP", "192.0.2.1", 4711)), self.settle, host="192.0.2.1")
        line.say([self._with_secrets(request)])
        for _ in range(20):
            line.turn()
        line.lose()
        return line.heard

    def log_in(self) -> None:
        """As the user that there is."""
        self._session = self._form = self._seal = b""
        self.clock.advance(301)  # logins that failed are forgotten
        page = self.asked(_get("/login").replace(_FORM, b""))
        form = re.search(rb"lcc-form=([0-9a-f]{32})", page)
        seal = re.search(rb'name="form" value="([0-9a-f]{64})"', page)
        check(form and seal, f"no form: {page[:500]!r}")
        assert form and seal
        self._form, self._seal = form[1], seal[1]
        answer = self.asked(_post("/login", name=_NAME, password=_PASSWORD, next="/"))
        session = re.search(self.cookie + rb"=([0-9a-f]{32})", answer)
        check(b" 303 " in answer[:20] and session, f"no login: {answer[:500]!r}")
        assert session
        self._session = session[1]

    def honest_get(self, path: str, found: bytes) -> None:
        """A page has this."""
        answer = self.asked(_get(path))
        check(answer.startswith(b"HTTP/1.1 200 ") and found in answer, f"{path} is answered {answer[-600:]!r}")


class SearchPages(PagesTarget):
    """What people, browsers and programs ask the search server."""

    name = "search: at the HTTP port"
    cookie = b"lcc-search"
    tokens = (
        *PAGE_TOKENS,
        *(
            b"site:",
            b"host:",
            b"type:",
            b"lang:",
            b"since:7d",
            b"title:",
            b"%22",
            b"-",
            b"&format=json",
            b"&format=atom",
        ),
        *(b"&order=date", b"&limit=100", b"&after=", b"/copy/", b"/cached/", b"/opensearch.xml", b"0" * 40),
    )

    @classmethod
    def seeds(cls) -> list[bytes]:
        key = f"{1:040x}"
        bearer = f"Authorization: Bearer {_BEARER}"
        asked = quote('"two words" -other site:example.org since:2026-03')
        return [
            _get("/") + _get("/search?q=page") + _get("/search?q=page&order=date&limit=2&after=2"),
            _get(f"/search?q={asked}&format=json", bearer) + _get("/search?q=page&format=atom", bearer),
            _get("/search?q=wrod&format=json", "Authorization: Bearer 1-00")
            + _get("/search?q=title:page&format=json"),
            _get(f"/cached/{key}") + _get(f"/copy/{key}") + _get(f"/copy/{key}", bearer),
            _get("/opensearch.xml") + _get("/style.css") + _get("/search.css") + _get("/icon.svg") + _get("/none"),
            _get("/login?next=/search?q=x") + _post("/login", name=_NAME, password=_PASSWORD, next="//evil.example/"),
            _post("/login", name="", password=_BEARER, next="/") + _post("/login", name="bob", password="wrong"),
            _post("/logout") + _get("/search?q=page"),
            _get(f"/search?q=page&format={quote(CANARY)}")
            + _get(f"/{quote(CANARY)}")
            + _get(f"/copy/{quote(CANARY)}"),
            _get(f"/search?q={quote(CANARY)}") + _get("/search?q=" + quote("日本語 αθηνα İstanbul")),
            b"HEAD /search?q=page HTTP/1.0\r\n\r\n",
        ]

    def __init__(self, home: Path) -> None:
        self.clock = reactor = _Reactor()  # type: ignore[assignment]
        self._opened: dict[str, _Tables] = {}
        environment = _environment(reactor, self._opened)
        settings = SearchConfig(sessions_per_user=5)
        self._index = SearchIndex(home / "index", settings.memory_bytes, environment.in_thread, 4)
        self._client = CacheClient(reactor, f"unix:{home}/cu.sock", None)
        database: Any = environment.database("sqlite:lcc.db", home)
        database.now(set_web_user, WebUser(_NAME, hash_password(_PASSWORD, generated=True), False, 1))
        database.now(add_content_user, ContentUser(0, "prog", hash_password(_SECRET, generated=True)))
        nothing: Any = None
        engine = SearchServer(
            settings, self._index, self._client, nothing, lambda: succeed(False), nothing, reactor, environment.now
        )
        readers = Readers(settings, database, environment.in_thread, environment.token, reactor)
        self._readers = readers
        self.factory = build_search(
            engine, readers, self._client, environment.token, False, environment.in_thread, reactor
        )
        self._index.open()
        pages = [
            IndexedPage(
                f"{number:040x}", number, 1, f"http://www.example.org/{number}", "www.example.org", "html", number,
                f"Page {number}", "", f"A page of two words, number {number}. {CANARY.decode()}", "en",
            )
            for number in range(1, 6)
        ]  # fmt: skip
        self._index.apply(pages, "epoch1.5.0", complete=True)

    def honest(self) -> None:
        self.log_in()
        self.honest_get("/search?q=page&format=json", b'"total": 5')
        self.honest_get("/search?q=%22two+words%22&format=atom", b"<opensearch:totalResults>5<")
        self.honest_get("/search?q=number", b"Page 3")

    def close(self) -> None:
        self._readers.accounts.stop()
        self._index.close()
        self._client.close()
        self.settle()
        for each in self._opened.values():
            each.stop()


class MonitorPages(PagesTarget):
    """What people ask the web monitor, who may change everything."""

    name = "web monitor: at the HTTP port"
    cookie = b"lcc-web"
    engine_timers = 4  # what it asks BOT-Ms meanwhile
    tokens = (
        *PAGE_TOKENS,
        *(b"&only=", b"&order=", b"&after=", b"&before=", b"&skip=", b"&pid=", b"&code=", b"&state=", b"&refresh=0"),
        *(
            b"&span=day",
            b"&do=remove",
            b"&do=pause",
            b"&every=1s",
            b"&at=25:61",
            b"&cron=* * * * *",
            b"&url=http://x/",
        ),
        *(b"/provider", b"/errors", b"/tasks", b"/jobs", b"/feeds", b"/crawls", b"/live", b"/taken-away", b"/retry"),
    )

    @classmethod
    def seeds(cls) -> list[bytes]:
        url = quote("http://site/a", safe="")
        opml = '<opml version="2.0"><body><outline type="rss" xmlUrl="http://site/feed"/></body></opml>'
        reads = (
            ("/", "/?span=day&refresh=5", "/machines", "/style.css"),
            ("/providers", "/providers?only=errors&order=queue&skip=2", "/providers?after=1", "/provider/1"),
            ("/search?q=site", f"/url?url={url}", f"/url?url={url}&pid=1&order=1", f"/preview?key={'0' * 40}"),
            ("/errors", "/errors?code=404&pid=1&after=1-1", f"/picture?key={'0' * 40}"),
            ("/feeds", "/feed/1", "/feeds.opml", "/feed-discover?url=http://site/"),
            (
                "/crawls",
                "/crawl/1",
                "/crawl-urls?crawl=1&state=new&after=0-0",
                "/crawl-hosts?crawl=1&only=parked",
            ),
            ("/push", "/push?keys=valid", "/readers", "/registrations?only=new&after=1"),
            ("/tasks", "/tasks?only=active&kind=feed&after=0-0", "/task/1", "/task-add"),
            (
                "/jobs",
                "/jobs?state=queued&task=1",
                "/jobs?day=1&before=5-5",
                "/job/1",
                "/resources",
                "/statistics",
            ),
            (
                f"/search?q={quote(CANARY)}",
                f"/url?url={quote(CANARY)}",
                f"/{quote(CANARY)}",
                f"/tasks?kind={quote(CANARY)}",
            ),
            ("/live?page=/&number=0", "/live.js", "/login?next=/errors", "/none"),
        )
        posts = (
            _post("/taken-away", kind="machine", name="1") + _post("/retry", pid="1", code="404", back="/errors"),
            _post("/url", url="http://site/a", pid="1") + _post("/push", do="forget", host="site"),
            _post("/feeds", url="http://site/feed", every="1h", full_content="on") + _post("/feed/1", do="pause"),
            _post("/feeds-import", file=opml) + _post("/feed-discover", url="http://site/"),
            _post("/task-add", kind="command", command="true", args="a\r\nb", every="1h", at="", cron="", data="{}"),
            _post("/task/1", do="suspend") + _post("/job/1", do="kill") + _post("/crawl/1", do="pause"),
            _post("/resources", do="add", name="r", interval="5") + _post("/registrations", id="1", do="accept"),
            _post("/login", name=_NAME, password=_PASSWORD, next="/") + _post("/logout"),
        )
        return [b"".join(map(_get, some)) for some in reads] + list(posts)

    def __init__(self, home: Path) -> None:
        self.clock = reactor = _Reactor()  # type: ignore[assignment]
        self._opened: dict[str, _Tables] = {}
        self._environment = _environment(reactor, self._opened)
        text = f"""
            home = "{home}"
            timezone = "UTC"
            [database]
            url = "sqlite:lcc.db"
            [web]
            listen = "tcp:0:interface=127.0.0.1"
            sessions_per_user = 5
        """
        services = web.build(parse_config(text, home), self._environment)
        monitor: Any = services.commands
        self._monitor = monitor.engine
        self._monitor.discovery.feeds_of = _not_discovered
        (self.factory,) = (each.factory for each in services if isinstance(each, PortService))
        self._content: Any = self._monitor.content
        main = self._opened[MAIN]
        Queue(main).send(1, *map(notice, "abc"))
        main.now(save_state, 1, json.dumps({**STATE, "time": NOW}))
        main.now(set_web_user, WebUser(_NAME, hash_password(_PASSWORD, generated=True), True, 1))
        self._tasks = Tasks(self._opened[TASKS])
        self._tasks.add()
        self._tasks.run()
        Spider(self._opened[SPIDER]).add("http://site.example/")
        self._monitor.start()

    def rest(self) -> None:
        # The scheduler carries out what was ordered.
        super().rest()
        self._tasks.carry_out(int(self._environment.now()))

    def honest(self) -> None:
        self.log_in()
        self.honest_get("/", b"</html>")
        self.honest_get("/providers", b'href="/provider/1"')
        self.honest_get("/tasks", b'href="/task/1"')

    def close(self) -> None:
        self._monitor.stop()
        self._content.close()
        self.settle()
        for each in self._opened.values():
            each.stop()


async def _not_discovered(_url: str) -> list[dict[str, str]]:
    """In place of a process that fetches a page."""
    raise NotDiscovered("no process is started here")
