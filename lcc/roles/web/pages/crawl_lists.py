"""What the counts of a crawl count: its URLs and its hosts, a page at a time."""

from __future__ import annotations

import re
from typing import Any

import attrs

from lcc.domain.spider.keys import host_key
from lcc.domain.urls import normalise, site_of
from lcc.errors import UrlError
from lcc.model.spider.crawls import CrawlStatus, HostRow, KnownUrl, UrlState
from lcc.numbers import INT64_MAX, parse_number
from lcc.roles.web.pages.crawls import AboutCrawls
from lcc.roles.web.pages.providers import number
from lcc.storage.database.transactions import Txn
from lcc.storage.spider.lists import UrlPlace, crawl_host_list, crawl_urls, host_urls
from lcc.storage.spider.views import crawl_statuses
from lcc.transport.http.pages import read_query
from lcc.transport.http.replies import HttpError
from lcc.transport.http.server import BodyRequest

PAGE_URLS = 100
PAGE_HOSTS = 50
STATES = {state.name.lower(): state for state in UrlState}
_PLACE = re.compile(r"([0-9])_(-?[0-9]{1,18})_((?:[0-9a-f]{2}){0,16})", re.ASCII)
_HOST_PLACE = re.compile(r"([0-9]{1,18})_((?:[0-9a-f]{2}){0,8})", re.ASCII)


@attrs.frozen
class _Urls:
    """URLs of a crawl, and the address's word for where the next ones begin; '': there are none."""

    status: CrawlStatus
    urls: tuple[KnownUrl, ...]
    after: str


class CrawlUrlsPage(AboutCrawls):
    """``/crawl-urls?crawl=N``: URLs that a crawl knows, all or those in a state, of all hosts or one."""

    async def get(self, request: BodyRequest) -> None:
        query = read_query(request)
        crawl, state, root = number(query.get("crawl", "")), query.get("state", ""), query.get("root", "")
        if state and state not in STATES:
            raise HttpError(400, f"There is no such state of URLs: they are {', '.join(STATES)}.")
        try:
            root = site_of(normalise(root)) if root else ""
        except UrlError as error:
            raise HttpError(400, f"Invalid root: {error}.") from None
        place = _place(query.get("after", ""))
        chosen = STATES.get(state)
        found: _Urls = await self.asked(_see_urls, crawl, chosen, root, place, self.monitor.settings.rows_max)
        name = found.status.crawl.name
        self.front.page(
            request,
            "crawl_urls",
            f"URLs of crawl {name}: {state}" if state else f"URLs of crawl {name}",
            crawl=found.status.crawl,
            counts=found.status.counts,
            urls=found.urls,
            state=state,
            states=tuple(STATES),
            root=root,
            next={"crawl": crawl, "state": state, "root": root, "after": found.after} if found.after else None,
        )


class CrawlHostsPage(AboutCrawls):
    """``/crawl-hosts?crawl=N``: hosts of a crawl, all or those that are parked."""

    async def get(self, request: BodyRequest) -> None:
        query = read_query(request)
        crawl, parked = number(query.get("crawl", "")), query.get("only", "") == "parked"
        after = _HOST_PLACE.fullmatch(query["after"]) if "after" in query else None
        if "after" in query and after is None:
            raise HttpError(400, "The address of this page is not complete.")
        place = None if after is None else (parse_number(after[1], INT64_MAX), bytes.fromhex(after[2]))
        status, hosts = await self.asked(_see_hosts, crawl, parked, place)
        only = "parked" if parked else ""
        last = f"{hosts[-1].parked_time if parked else hosts[-1].known}_{hosts[-1].key.hex()}" if hosts else ""
        self.front.page(
            request,
            "crawl_hosts",
            f"{'Parked hosts' if parked else 'Hosts'} of crawl {status.crawl.name}",
            crawl=status.crawl,
            hosts=hosts,
            parked=parked,
            next={"crawl": crawl, "only": only, "after": last} if len(hosts) == PAGE_HOSTS else None,
        )


def _place(text: str) -> UrlPlace:
    """Where a page of URLs begins.

    :raises HttpError: the address says something else.
    """
    if not text:
        return UrlPlace()
    found = _PLACE.fullmatch(text)
    if found is None:
        raise HttpError(400, "The address of this page is not complete.")
    return UrlPlace(parse_number(found[1], 9), parse_number(found[2], INT64_MAX, -INT64_MAX), bytes.fromhex(found[3]))


def _see_urls(txn: Txn, crawl: int, state: UrlState | None, root: str, after: UrlPlace, rows_max: int) -> _Urls:
    status = _status(txn, crawl)
    if root:
        urls, behind = host_urls(txn, crawl, host_key(root), state, after, PAGE_URLS)
    else:
        urls, key = crawl_urls(txn, crawl, state, after.key, PAGE_URLS, rows_max)
        behind = UrlPlace(0, 0, key) if key else None
    word = "" if behind is None else f"{behind.state}_{behind.rank}_{behind.key.hex()}"
    return _Urls(status, tuple(urls), word)


def _see_hosts(txn: Txn, crawl: int, parked: bool, after: Any) -> tuple[CrawlStatus, list[HostRow]]:
    return _status(txn, crawl), crawl_host_list(txn, crawl, parked, after, PAGE_HOSTS)


def _status(txn: Txn, crawl: int) -> CrawlStatus:
    for status in crawl_statuses(txn):
        if status.crawl.id == crawl:
            return status
    raise HttpError(404, f"There is no crawl {crawl}.")
