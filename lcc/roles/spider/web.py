"""The HTTP interface of crawls: JSON in, JSON out, for who has the token (LARM "as a real server").

``GET /status``, ``GET /crawls``, ``POST /crawls``, ``GET /crawls/NAME``, ``GET /crawls/NAME/why?url=URL`` and
``POST /crawls/NAME/ACTION`` (start, set, pause, resume, remove, exclude, include).  What is asked for becomes an
order, as those of ``lcc-admin`` do; a reply waits for its answer for a while.  A provider, and private addresses, can
be named by an operator only: with ``lcc-admin``.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from lcc.client.blocking import CacheError
from lcc.config import SpiderConfig
from lcc.errors import ConfigError, StoreUnavailable
from lcc.insight.crawl_words import crawl_record, spiders_record
from lcc.model.spider.crawls import CrawlSettings, CrawlStatus
from lcc.model.states import UnreadRobots
from lcc.roles.spider.sites import Sites
from lcc.roles.spider.why import UrlInCrawl, url_in_crawl
from lcc.spider.crawl_inputs import SCHEMES, check_crawl, check_crawl_name, check_host, check_settings
from lcc.spider.names.start_list import start_url
from lcc.storage.spider.orders import (
    CRAWL_ADD,
    CRAWL_EXCLUDE,
    CRAWL_INCLUDE,
    CRAWL_PAUSE,
    CRAWL_REMOVE,
    CRAWL_RESUME,
    CRAWL_SET,
    CRAWL_START,
    ORDERS,
    STARTS_MAX,
    add_body,
)
from lcc.storage.spider.rows import read_settings
from lcc.storage.spider.views import HOSTS_SHOWN, crawl_status, crawl_statuses, see_spiders
from lcc.transport.http.replies import RETRY_SECONDS, Explained, HttpError, reply_json, run
from lcc.transport.http.server import BodyRequest, GuardedSite, text_header
from lcc.transport.ports.limited import LimitedFactory

_log = Logger()

TOKEN_CHARS_MIN = 16
CONNECTIONS_MAX = 100
WAIT_SECONDS = 5.0
"""How long a reply waits until its order is carried out."""
_STEP_SECONDS = 0.1
_BODY_BYTES_MAX = 1 << 20
_TEXTS = frozenset({"restrict_to", "names", "host_resolver", "order"})
_NUMBERS = frozenset(
    {
        "depth_max",
        "urls_max",
        "hosts_max",
        "revisit_seconds",
        "revisit_least_seconds",
        "revisit_most_seconds",
    }
)
_DEFAULTS = CrawlSettings()
_CHANGEABLE = ("restrict_to", *sorted(_NUMBERS))
_SIMPLE = {b"pause": CRAWL_PAUSE, b"resume": CRAWL_RESUME, b"remove": CRAWL_REMOVE}
_HOSTS = {b"exclude": CRAWL_EXCLUDE, b"include": CRAWL_INCLUDE}
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class CrawlRequest(BodyRequest):
    """A request with a list of URLs."""

    body_bytes_max = _BODY_BYTES_MAX


class CrawlSite(GuardedSite):
    """The site of the interface."""

    requestFactory = CrawlRequest


class CrawlApi(Resource):
    """All of the interface.

    :param database: with the tables of spiders.
    :param token: that requests must have.
    :param sites: what is known of robots.txt.
    :param now: seconds since 1970.
    """

    isLeaf = True

    def __init__(
        self,
        database: Any,
        settings: SpiderConfig,
        token: str,
        sites: Sites,
        clock: IReactorTime,
        now: Callable[[], float],
    ) -> None:
        super().__init__()
        self._database = database
        self._settings = settings
        self._token = token.encode()
        self._sites = sites
        self._clock = clock
        self._now = now

    def render(self, request: Any) -> int:
        for name, value in _HEADERS.items():
            request.setHeader(name, value)
        run(request, _explain, self._answer, request)
        return NOT_DONE_YET

    async def _answer(self, request: CrawlRequest) -> None:
        self._admit(request)
        path: list[bytes] = request.postpath or []
        match path:
            case [b"status"] if request.method in (b"GET", b"HEAD"):
                seen = await self._database.interact(see_spiders, None, HOSTS_SHOWN)
                reply_json(request, 200, spiders_record(seen), {})
            case [b"status"]:
                raise HttpError(405, "GET shows it")
            case [b"crawls"] if request.method in (b"GET", b"HEAD"):
                statuses = await self._database.interact(crawl_statuses)
                reply_json(request, 200, {"crawls": [crawl_record(each) for each in statuses]}, {})
            case [b"crawls"] if request.method == b"POST":
                await self._add(request)
            case [b"crawls", name] if request.method in (b"GET", b"HEAD"):
                reply_json(request, 200, crawl_record(await self._crawl(name)), {})
            case [b"crawls", name, b"why"] if request.method in (b"GET", b"HEAD"):
                await self._why(request, await self._crawl(name))
            case [b"crawls", name, action] if request.method == b"POST":
                await self._act(request, await self._crawl(name), action)
            case [b"crawls", *_]:
                raise HttpError(405, "GET shows crawls, POST changes them")
            case _:
                raise HttpError(404, "there are /crawls and /status")

    def _admit(self, request: CrawlRequest) -> None:
        scheme, _, token = (text_header(request, "authorization") or "").partition(" ")
        given = token.strip().encode("utf-8", "surrogateescape")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given, self._token):
            raise HttpError(401, "the Authorization must be: Bearer TOKEN", www_authenticate='Bearer realm="LCC"')

    async def _crawl(self, name: bytes) -> CrawlStatus:
        status: CrawlStatus | None = await self._database.interact(crawl_status, name.decode("utf-8", "replace"))
        if status is None:
            raise HttpError(404, "there is no such crawl")
        return status

    async def _why(self, request: CrawlRequest, status: CrawlStatus) -> None:
        given = request.args.get(b"url", [])
        if len(given) != 1:
            raise HttpError(400, "there must be one url: GET /crawls/NAME/why?url=URL, the URL percent-encoded")
        furl, now = start_url(given[0].decode("utf-8", "replace"), SCHEMES), int(self._now())
        found: UrlInCrawl = await self._database.interact(url_in_crawl, status, furl, self._settings, now)
        with suppress(CacheError):
            await self._sites.ask([found.root])
        robots = self._sites.said(found.root)
        unread = None
        if not self._sites.may_tell(found.root):
            unread = UnreadRobots(found.root, 0, robots.checked_time, 0)
        facts = found.facts(robots, unread, now)
        reply_json(
            request, 200, {**found.record(robots), "words": [f"{name} {said}".strip() for name, said in facts]}, {}
        )

    async def _add(self, request: CrawlRequest) -> None:
        fields = _fields(request, "name", "starts", *_TEXTS, *_NUMBERS)
        name, starts = check_crawl_name(str(fields.pop("name", ""))), _starts(fields.pop("starts", []))
        settings = _settings(fields)
        check_crawl(settings, starts, self._settings, self._now())
        await self._order(request, CRAWL_ADD, name, add_body(settings, starts), 201)

    async def _act(self, request: CrawlRequest, status: CrawlStatus, action: bytes) -> None:
        crawl = status.crawl
        body: dict[str, Any] = {}
        if action in _SIMPLE:
            _fields(request)
            kind = _SIMPLE[action]
        elif action in _HOSTS:
            kind = _HOSTS[action]
            body["hosts"] = [check_host(each) for each in _strings(_fields(request, "hosts").get("hosts"), "hosts")]
        elif action == b"set":
            kind = CRAWL_SET
            body["settings"] = _checked(_fields(request, *_CHANGEABLE))
            check_settings(attrs.evolve(crawl.settings, **body["settings"]), self._settings, self._now())
        elif action == b"start":
            kind = CRAWL_START
            body["starts"] = _starts(_fields(request, "starts").get("starts"))
            check_crawl(crawl.settings, body["starts"], self._settings, self._now())
        else:
            raise HttpError(404, f"there are start, set, {', '.join(each.decode() for each in (*_SIMPLE, *_HOSTS))}")
        await self._order(request, kind, crawl.name, body, 200)

    async def _order(self, request: CrawlRequest, kind: str, name: str, body: Mapping[str, Any], status: int) -> None:
        number = await self._database.write(ORDERS.give, kind, name, body, int(self._now()))
        for _ in range(round(WAIT_SECONDS / _STEP_SECONDS)):
            answer = await self._database.interact(ORDERS.answer, number)
            if answer is not None:
                if "error" in answer:
                    raise HttpError(409, str(answer["error"]))
                reply_json(request, status, {"name": name, "done": True}, {})
                return
            await deferLater(self._clock, _STEP_SECONDS)
        reply_json(request, 202, {"name": name, "done": False}, {})


def _fields(request: CrawlRequest, *names: str) -> dict[str, Any]:
    """The JSON object of a request.

    :raises HttpError: it is none, or has other fields.
    """
    kind = (text_header(request, "content-type") or "").partition(";")[0].strip().lower()
    data = request.body()
    if data and kind != "application/json":
        raise HttpError(415, "the body must be application/json")
    try:
        fields = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        raise HttpError(400, "the body is not JSON") from None
    if not isinstance(fields, dict):
        raise HttpError(400, "the body must be a JSON object")
    unknown = sorted(fields.keys() - {*names})
    if unknown:
        raise HttpError(400, f"unknown field {unknown[0][:60]!r}; there are {', '.join(sorted(names)) or 'none'}")
    return fields


def _strings(value: Any, name: str) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        raise HttpError(400, f"{name} must be a list of strings")
    return value


def _starts(value: Any) -> list[str]:
    starts = [start_url(each, SCHEMES) for each in _strings(value, "starts")]
    if len(starts) > STARTS_MAX:
        raise HttpError(400, f"at most {STARTS_MAX} starts at once; POST further ones to /crawls/NAME/start")
    return list(dict.fromkeys(starts))


def _checked(fields: dict[str, Any]) -> dict[str, Any]:
    """Settings of a crawl; null is the default: of a limit, that there is none.

    :raises HttpError: one is not of its kind.
    """
    for name, value in fields.items():
        is_text = name in _TEXTS
        fits = isinstance(value, str) if is_text else type(value) is int and 0 <= value < 2**40
        if not fits and value is not None:
            raise HttpError(400, f"{name} must be {'a string' if is_text else 'a whole number, not negative'}")
    return {name: getattr(_DEFAULTS, name) if value is None else value for name, value in fields.items()}


def _settings(fields: dict[str, Any]) -> CrawlSettings:
    """Those of a new crawl.

    :raises HttpError: one is not of its kind.
    """
    try:
        return read_settings(_checked(fields))
    except ValueError as error:
        raise HttpError(400, f"order: {error}") from None


def _explain(failure: Failure) -> Explained:
    error = failure.value
    if isinstance(error, HttpError):
        return error.status, {"error": error.text}, error.headers
    if isinstance(error, ConfigError):
        return 400, {"error": error.faults[0], "faults": error.faults}, {}
    if isinstance(error, StoreUnavailable):
        return 503, {"error": "the database cannot be reached, try again later"}, {"retry-after": str(RETRY_SECONDS)}
    _log.failure("Cannot answer a request about crawls", failure=failure)
    return 500, {"error": "an internal error"}, {}


def build_site(
    database: Any, settings: SpiderConfig, token: str, sites: Sites, reactor: Any, now: Callable[[], float]
) -> LimitedFactory:
    """The site of the HTTP interface.

    :raises ConfigError: the token is too short.
    """
    if len(token) < TOKEN_CHARS_MIN:
        raise ConfigError([f"spider.listen_token_file: its first line has fewer than {TOKEN_CHARS_MIN} characters"])
    api = CrawlApi(database, settings, token, sites, reactor, now)
    return LimitedFactory(
        CrawlSite(api, timeout=60, reactor=reactor, now=now), CONNECTIONS_MAX, "clients of crawls", 0
    )
