"""What is said to the push server, to a hub, to the search, to the proxy and with the tokens of a front end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import parse_qs

from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from zope.interface import implementer

from lcc.domain.push.indexnow import URLS_MAX, PushRefused, key_fault, read_body, read_query
from lcc.domain.push.websub import (
    METHODS,
    SIGNATURE_CHARS_MAX,
    WebSubRefused,
    hub_named,
    lease_fault,
    links_of_headers,
    question_fault,
    read_form,
    read_hubs,
    sign,
    signature_fault,
)
from lcc.domain.urls import Roots, normalise
from lcc.model.push.websub import HubState, HubSubscription
from lcc.roles.cu.front.tokens import is_front_token, parse_front_token
from lcc.roles.cu.tokens import TokenError, parse_token
from lcc.search.index import TextIndex
from lcc.search.query import CLAUSES_MAX, QUERY_CHARS_MAX, QueryError, parse_query
from lcc.search.values import IndexedPage
from lcc.transport.ports.proxy_protocol import BehindProxies, trusted_proxies
from tests.fuzz.mutation import TOKENS
from tests.fuzz.target import Target, check, joined
from tests.fuzz.target_document import DocumentTarget, check_texts
from tests.support.transports import Line

NOW = 1_780_000_000
_KEY = "abcdef0123456789"
_PROXY = "192.0.2.5"
_TEXT_MAX = 2000


class IndexNowRequests(DocumentTarget):
    """Queries and JSON bodies of IndexNow, and key files."""

    name = "indexnow"
    tokens = (
        *TOKENS,
        b"{",
        b"[",
        b"null",
        b'"\\ud800"',
        b"1e999",
        b"&url=",
        b"%ff",
        b"https://",
        b"\\u0000",
        b'["a"]',
    )

    @classmethod
    def seeds(cls) -> list[bytes]:
        urls = [f"http://www.example.org/{number}" for number in range(3)]
        body = {"host": "www.example.org", "key": _KEY, "urlList": urls}
        located = {
            **body,
            "keyLocation": "http://www.example.org/a/key.txt",
            "urlList": ["http://www.example.org/a/b"],
        }
        query = f"url=http%3A%2F%2Fwww.example.org%2F1&key={_KEY}"
        return [json.dumps(body).encode(), json.dumps(located).encode(), query.encode(), _KEY.encode()]

    def read(self, random: Random, data: bytes, pieces: Sequence[bytes]) -> None:
        check(key_fault(data, _KEY) == "" or data.strip() != _KEY.encode(), "the key is not known again")
        any_port = random.random() < 0.5
        try:
            if data[:1] in (b"{", b"["):
                told = read_body(json.loads(data), any_port)
            else:
                told = read_query(parse_qs(data.decode("ascii"), True, max_num_fields=20, errors="strict"), any_port)
        except PushRefused as refused:
            check(refused.status in (400, 422), f"status {refused.status}")
            check(len(refused.text) < _TEXT_MAX and refused.text.isprintable(), f"a text like {refused.text[:300]!r}")
            return
        except (ValueError, RecursionError):
            return  # no JSON, no query: the web site says so
        check_texts(told)
        check(0 < len(told.urls) <= URLS_MAX, f"{len(told.urls)} URLs")
        for url in told.urls:
            check(
                normalise(url) == url and Roots([told.folder]).contains(url), f"{url!r} is not below {told.folder!r}"
            )

    def honest(self) -> None:
        told = read_body(json.loads(self.seeds()[0]))
        check(len(told.urls) == 3, f"{told}")


class WebSubMessages(DocumentTarget):
    """``Link``, forms, questions and signatures of WebSub."""

    name = "websub"
    tokens = (
        *TOKENS,
        b"; rel=",
        b'; rel="hub self"',
        b"<>",
        b'"\\',
        b"hub.mode=",
        b"&hub.topic=",
        b"%ff",
        b"sha1=",
        b";",
    )

    @classmethod
    def seeds(cls) -> list[bytes]:
        form = "hub.mode=subscribe&hub.topic=http%3A%2F%2Fsite.example%2Ffeed&hub.challenge=x&hub.lease_seconds=86400"
        return [
            b'<http://hub.example/>; rel="hub", </feed>; rel=self; title="a \\" b", <x>;rel="next prev"',
            form.encode(),
            sign("secret", b"body").encode(),
            b"http://site.example/ http://hub.example/",
        ]

    def read(self, random: Random, data: bytes, pieces: Sequence[bytes]) -> None:
        text = data.decode("utf-8", "replace")
        found = links_of_headers([text, text[::-1]], "http://site.example/feed")
        check_texts(found)
        check(len(found) < 100 + 65536, f"{len(found)} links")
        for _, url in found:
            check(url.startswith(("http:", "https:")) or url.lower().startswith("http"), f"{url!r}")
        hub_named(found, "http://site.example/feed")
        asked = HubSubscription(
            "id", 1, "http://site.example/feed", "http://hub.example/", "secret", HubState.ASKING, 1, 1, 1
        )
        try:
            form = read_form(data)
        except WebSubRefused as refused:
            check(refused.status == 400 and len(refused.text) < _TEXT_MAX, f"{refused.text[:300]!r}")
        else:
            check(len(question_fault(asked, form)) < _TEXT_MAX, "a long text")
        fault = signature_fault("secret", text, b"body")
        check(len(fault) < _TEXT_MAX, "a long text")
        right = len(text) <= SIGNATURE_CHARS_MAX and any(
            text.strip().lower() == sign("secret", b"body", method) for method in METHODS
        )
        check(bool(fault) != right, f"a signature {text[:200]!r} is taken for {'wrong' if fault else 'right'}")
        check(len(lease_fault(text)) < _TEXT_MAX, "a long text")
        try:
            check_texts(read_hubs(text.splitlines()))
        except ValueError:
            pass

    def honest(self) -> None:
        links = links_of_headers([self.seeds()[0].decode()], "http://site.example/")
        check(("hub", "http://hub.example/") in links and ("self", "http://site.example/feed") in links, f"{links}")
        check(signature_fault("secret", sign("secret", b"body"), b"body") == "", "its signature is refused")


def _page(number: int) -> IndexedPage:
    return IndexedPage(
        key=f"{number:040x}",
        change=number + 1,
        url=f"http://h.example/{number}",
        title=f"title {number}",
        text="red blue green word not closed",
        provider=1,
        site="h.example",
        type="html",
        date=NOW,
    )


class SearchQueries(DocumentTarget):
    """What people type, as it is understood, and as the index is asked."""

    name = "search queries"
    tokens = (
        *TOKENS,
        *(b'"', b"-", b":", b"site:", b"host:x:80 ", b"type:pdf ", b"lang:en ", b"since:7d ", b"since:9999-99-99 "),
        *(
            b"title:",
            b" AND ",
            b"*",
            b"~",
            b"^",
            b"(",
            b")",
            b"\\",
            b"/",
            b"[a TO b]",
            "\u0301\u200d".encode(),
            b"or ",
        ),
    )

    @classmethod
    def seeds(cls) -> list[bytes]:
        every = 'red "a b" -yellow title:"a b" site:example.org host:h.example:80 type:text/csv lang:en since:7d'
        wide = "\u00e9t\u00e9 \u6771\u4eac \uff46\uff55"
        return [text.encode() for text in (every, "word", "since:2026-01 x", wide, '"not closed')]

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._index = TextIndex(home / "index", 15 << 20)
        self._index.add([_page(number) for number in range(3)])
        self._index.commit(self._index.state.advanced("t.1", True, ""))

    def read(self, random: Random, data: bytes, pieces: Sequence[bytes]) -> None:
        text = data.decode("utf-8", "surrogateescape" if random.random() < 0.2 else "replace")
        try:
            query = parse_query(text, random.choice(("", "rank", "date")), NOW)
        except QueryError as error:
            check(len(error.text) < _TEXT_MAX, "a long text")
            check(error.at is None or 0 <= error.at <= max(len(text), QUERY_CHARS_MAX), f"a fault at {error.at}")
            return
        check_texts(query.text)
        check(0 < len(query.clauses) <= CLAUSES_MAX, f"{len(query.clauses)} parts")
        for clause in query.clauses:
            check(0 <= clause.begin <= clause.end <= len(query.text), f"{clause}")
        found = self._index.search(query, random.choice((None, frozenset({1}), frozenset())), 5)
        check_texts([hit.title for hit in found.hits])
        if found.suggestion:
            parse_query(found.suggestion, "", NOW)

    def honest(self) -> None:
        found = self._index.search(parse_query('word "not closed', "", NOW), None, 5)
        check(found.total == 3, f"{found.total} pages")

    def close(self) -> None:
        self._index.close()


class Tokens(DocumentTarget):
    """Tokens of changes, of one LCC and of a front end."""

    name = "tokens"
    share = 2
    tokens = (
        *TOKENS,
        b"fe1~",
        b"fe2~",
        b"~",
        b".",
        b"~1.a.1.1",
        b"0.0.0.0",
        b".f7",
        b".i9",
        b".b1",
        b".k8.",
        b"0" * 40,
    )

    @classmethod
    def seeds(cls) -> list[bytes]:
        whole = b"fe2~a0~9~1.x_-9.12.0~22.y.7.9.f3.i99.b5.k4." + b"0a" * 20
        return [
            b"fe1~a0~1.x_-9.12.0~22.y.7.9",
            b"fe1~0",
            b"abc.12.34.0f",
            b"fe1~a" + b"~7.t.1.1" * 50,
            whole,
            b"fe2~0~0",
        ]

    def read(self, random: Random, data: bytes, pieces: Sequence[bytes]) -> None:
        text = data.decode("utf-8", "replace")
        for parse in (parse_front_token, parse_token):
            try:
                token: Any = parse(text)
            except TokenError:
                continue
            check(parse(str(token)) == token or not _is_ahead(token), f"{text[:200]!r} becomes {str(token)[:200]!r}")
            check(parse is parse_token or is_front_token(text), "a token of a front end that does not look like one")

    def honest(self) -> None:
        for text in ("fe1~a0~1.x.12.0~22.y.7.9", f"fe2~a0~9~1.x.12.0~22.y.7.9.f3.i99.b5.k4.{'0a' * 20}"):
            token = parse_front_token(text)
            check(list(token.positions) == [1, 22] and str(token) == text, f"{token}")


def _is_ahead(token: Any) -> bool:
    """Where a reading from the beginning has passed what it began with, the token no longer says so."""
    places = token.positions.values() if hasattr(token, "positions") else [token]
    return all(place.begun == 0 or place.begun > place.number for place in places)


@implementer(IHalfCloseableProtocol)
class _Heard(Protocol):
    """The client's protocol behind the proxy: keeps what it hears."""

    def __init__(self, address: Any) -> None:
        self.address = address
        self.data = b""
        self.lost = False

    def dataReceived(self, data: bytes) -> None:
        self.data += data

    def readConnectionLost(self) -> None:
        assert self.transport is not None
        self.transport.loseConnection()

    def writeConnectionLost(self) -> None:
        """Nothing."""

    def connectionLost(self, reason: Any = None) -> None:
        self.lost = True


class _Port(Factory):
    noisy = False

    def __init__(self) -> None:
        self.built: list[_Heard] = []

    def buildProtocol(self, addr: Any) -> Any:
        self.built.append(_Heard(addr))
        return self.built[-1]


class ProxyHeaders(Target):
    """The PROXY protocol, from a proxy that is trusted."""

    name = "proxy protocol"
    share = 4
    tokens = (
        *TOKENS,
        b"PROXY ",
        b"TCP4 ",
        b"TCP6 ",
        b"UNKNOWN",
        b" ::1",
        b" 1.2.3.4",
        b"\r\n",
        b"\r",
        b"65536",
        b"\0",
    )

    @classmethod
    def seeds(cls) -> list[bytes]:
        return [
            b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 9000\r\n<a/>",
            b"PROXY TCP6 2001:db8::7 ::1 4711 9000\r\nGET / HTTP/1.1\r\n\r\n",
            b"PROXY UNKNOWN x y\r\nrest",
            b"GET / HTTP/1.1\r\n\r\n",
            b"\r\n\r\n\0\r\nQUIT\n!\x11\0\x0c",
        ]

    def __init__(self, home: Path) -> None:
        self.clock = Clock()
        self._port = _Port()
        self._proxies = BehindProxies(self._port, trusted_proxies([_PROXY]), self.clock, 10.0)

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        self._port.built.clear()
        return Line(self._proxies.buildProtocol(IPv4Address("TCP", _PROXY, 1)), self.settle, room=room, late=late)

    def talk(self, random: Random, line: Line, pieces: Sequence[bytes]) -> None:
        data = joined(pieces)
        line.say(pieces)
        check(len(self._port.built) <= 1, "two protocols for one connection")
        for heard in self._port.built:
            # Whose it is, and all that stands behind the header, however it was cut.
            if data.startswith(b"PROXY "):
                head, _, rest = data.partition(b"\r\n")
                check(heard.data == rest and len(head) + 2 <= 107, f"of {data[:200]!r} it heard {heard.data[:200]!r}")
                known = head.split(b" ")[2].decode() if head.startswith(b"PROXY TCP") else _PROXY
                check(heard.address.host in (known, known.lower()) or ":" in known, f"{heard.address} for {head!r}")
            else:
                check(heard.data == data, f"of {data[:200]!r} it heard {heard.data[:200]!r}")
                check(heard.address.host == _PROXY, f"{heard.address} for {data[:200]!r}")

    def play(self, random: Random, pieces: Sequence[bytes]) -> Line | None:
        line = super().play(random, pieces)
        check(all(heard.lost for heard in self._port.built), "a protocol was not told of its end")
        return line

    def honest(self) -> None:
        line = self.connect()
        line.say([b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 90", b"00\r\n<a/>"])
        (heard,) = self._port.built
        check(heard.address.host == "192.0.2.7" and heard.data == b"<a/>", f"{heard.address}: {heard.data!r}")
        line.lose()
