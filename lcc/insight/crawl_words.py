"""Crawls and their URLs, in words and as records: for commands, the HTTP interface and the monitor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lcc.domain.wording import duration, number, utc
from lcc.errors import code, entry_for
from lcc.model.shellwords import shell_word
from lcc.model.spider.crawls import (
    BUCKETS,
    NEVER,
    CrawlState,
    CrawlStatus,
    HostRow,
    KnownUrl,
    SpidersSeen,
    SpiderStatus,
    StoreTrouble,
    UrlState,
)
from lcc.model.states import UnreadRobots
from lcc.storage.spider.rows import write_settings

URL_COUNTS = ("known", "waiting", "told", "cached", "failed", "gone", "refused")
"""Counts of a crawl's URLs."""
COUNTS = (*URL_COUNTS, "hosts", "parked", "pages", "links")
"""What is shown of a crawl, but for what its filters have dropped."""


def crawl_record(status: CrawlStatus) -> dict[str, Any]:
    """A crawl for programs."""
    crawl = status.crawl
    return {
        "name": crawl.name,
        "state": crawl.state.value,
        "done": status.is_done,
        "created_time": crawl.created_time,
        "settings": write_settings(crawl.settings),
        "excluded": sorted(crawl.excluded),
        "counts": {name: status.counts.get(name, 0) for name in COUNTS},
        "filtered": filtered(status),
    }


def host_record(host: HostRow) -> dict[str, Any]:
    """A host of a crawl for programs."""
    return {
        "host": host.host,
        "pid": host.pid or None,
        "excluded": bool(host.excluded),
        "known": host.known,
        "waiting": host.waiting,
        "told": host.told,
        "cached": host.cached,
        "failures": host.failures,
        "parked_time": host.parked_time or None,
        "code": host.code or None,
    }


def spider_record(spider: SpiderStatus) -> dict[str, Any]:
    """A spider for programs."""
    return {
        "name": spider.name,
        "buckets": len(spider.buckets),
        "seen_time": spider.seen_time or None,
        "trouble": spider.trouble,
    }


def spiders_record(seen: SpidersSeen) -> dict[str, Any]:
    """Spiders, stores and crawls for programs."""
    crawls = [
        {
            **crawl_record(status),
            "hosts": [host_record(host) for host in hosts],
            "parked": [host_record(host) for host in parked],
        }
        for status, hosts, parked in seen.crawls
    ]
    found = [spider_record(each) for each in seen.spiders]
    return {"spiders": found, "stores": [store_record(each) for each in seen.stores], "crawls": crawls}


def spider_lines(running: Sequence[SpiderStatus], now: int, lease_seconds: float) -> list[tuple[str, str]]:
    """Spiders for people: names and values.

    :param lease_seconds: who is silent for longer does not run.
    """
    lines = []
    for each in running:
        seconds = now - each.seen_time
        seen = f"last seen {duration(seconds)} ago" if each.seen_time else "just started"
        is_silent = bool(each.seen_time) and seconds > lease_seconds
        state = f"silent: {seen}" if is_silent else f"{len(each.buckets)} of {BUCKETS} buckets; {seen}"
        lines.append(("spider", f"{each.name}: {state}"))
        if each.trouble:
            lines.append(("", each.trouble))
    return lines


def filtered(status: CrawlStatus) -> dict[str, int]:
    """The links that were dropped, by filter and limit; those that have dropped none are left out."""
    return {name: count for name, count in sorted(status.dropped.items()) if count}


def crawl_facts(status: CrawlStatus) -> list[tuple[str, Any]]:
    """A crawl for people: names and values."""
    crawl, counts = status.crawl, status.counts
    settings = crawl.settings
    limits = (
        ("depth", settings.depth_max),
        ("URLs", settings.urls_max or None),
        ("hosts", settings.hosts_max or None),
    )
    revisit = "" if not settings.revisit_seconds else f"after {duration(settings.revisit_seconds)} at first"
    return [
        ("crawl", f"{crawl.name} ({state_words(status)})"),
        ("follows", settings.restrict_to or "(everything)"),
        ("provider", settings.pid or ""),
        ("roots", " ".join(settings.roots)),
        ("names", settings.names + (", with a host resolver" if settings.host_resolver else "")),
        ("order", settings.order.value),
        ("limits", ", ".join(f"{name} {value:,}" for name, value in limits if value is not None)),
        ("revisits", revisit),
        ("private", "its hosts may be on private addresses" if settings.allow_private else ""),
        ("excluded", " ".join(sorted(crawl.excluded))),
        ("added", utc(crawl.created_time)),
        ("URLs", ", ".join(f"{counts.get(name, 0):,} {name}" for name in URL_COUNTS)),
        ("hosts", f"{counts.get('hosts', 0):,}" + _parked(counts)),
        ("read", f"{number(counts.get('pages', 0), 'page')}, {number(counts.get('links', 0), 'link')} followed"),
        ("dropped", ", ".join(f"{count:,} {name}" for name, count in filtered(status).items())),
    ]


def _parked(counts: Mapping[str, int]) -> str:
    parked = counts.get("parked", 0)
    return f", {parked:,} parked" if parked else ""


def state_words(status: CrawlStatus) -> str:
    """What a crawl does."""
    state = status.crawl.state
    if state is CrawlState.ACTIVE:
        return "done" if status.is_done else "active"
    return str(state.value)


def store_record(trouble: StoreTrouble) -> dict[str, Any]:
    """A store that lacks pages, for programs."""
    return {
        "spider": trouble.spider,
        "store": trouble.store,
        "fault": trouble.fault or None,
        "backlog": trouble.backlog,
    }


def store_words(trouble: StoreTrouble) -> str:
    """What a store lacks, and why."""
    lacks = f"{trouble.store} of {trouble.spider} lacks {number(trouble.backlog, 'page')}"
    return f"{lacks}: {trouble.fault}" if trouble.fault else f"{lacks}, and is getting them"


def progress_line(status: CrawlStatus) -> str:
    """How far a crawl has come, in a line."""
    counts = status.counts
    known = counts.get("known", 0)
    left = counts.get("waiting", 0) + counts.get("told", 0)
    failed = sum(counts.get(name, 0) for name in ("failed", "gone", "refused"))
    return (
        f"{known - left:,} of {number(known, 'URL')}: {counts.get('cached', 0):,} cached, {failed:,} failed,"
        f" {counts.get('told', 0):,} being fetched; {number(counts.get('hosts', 0), 'host')}{_parked(counts)}"
    )


def url_record(url: KnownUrl) -> dict[str, Any]:
    """A URL of a frontier for programs; times in seconds since 1970."""
    return {
        "furl": url.furl,
        "state": url.state.name.lower(),
        "depth": url.depth,
        "inlinks": url.inlinks,
        "change": url.change or None,
        "md5": url.md5.hex() or None,
        "checked_time": url.checked_time or None,
        "due_time": _due(url),
        "code": url.code or None,
        "failures": url.failures,
    }


def _due(url: KnownUrl) -> int | None:
    return None if url.state in (UrlState.WAITING, UrlState.TOLD) or url.rank >= NEVER else url.rank


_ADDRESS_FORBIDDEN = code("address-forbidden")
_REDIRECT_OUTSIDE = code("redirect-outside")
_STATES: Mapping[UrlState, str] = {
    UrlState.WAITING: "waiting: not told to the LCC yet",
    UrlState.TOLD: "told to the LCC, not answered yet",
    UrlState.CACHED: "cached, and its links were read",
    UrlState.FAILED: "failed, given up",
    UrlState.GONE: "gone, as its site says",
    UrlState.REFUSED: "refused: it is not fetched",
}


def why_known(
    status: CrawlStatus,
    url: KnownUrl,
    host: HostRow | None,
    unread: UnreadRobots | None,
    way: Sequence[KnownUrl],
    now: int,
) -> list[str]:
    """What became of a URL that a crawl knows, a line each.

    :param unread: where robots.txt of its host is not known.
    :param way: pages from a start to the one that linked to it first.
    """
    by_robots = url.state is UrlState.REFUSED and not url.code
    lines = ["refused: disallowed by robots.txt" if by_robots else _STATES[url.state]]
    if url.state is UrlState.TOLD:
        lines.append(f"told {duration(now - url.rank)} ago; lcc-admin why shows its state in the LCC")
    if url.code:
        lines.append(f"last error: {url.code} {entry_for(url.code).text}")
    if url.code == _REDIRECT_OUTSIDE:
        lines.append("the target of the redirect is fetched from its own host, if the filters pass it")
    if url.checked_time:
        lines.append(f"last checked: {utc(url.checked_time)}")
    due = _due(url)
    if due is not None:
        lines.append(f"next visit: {utc(due)}")
    if url.state is UrlState.WAITING:
        lines += _holds(status, host, unread, now)
    lines.append(f"{number(url.depth, 'link')} from a start; linked from {number(url.inlinks, 'known page')}")
    lines += [f"{'found via' if step == 0 else 'then'}: {page.furl}" for step, page in enumerate(way)]
    return lines


def _holds(status: CrawlStatus, host: HostRow | None, unread: UnreadRobots | None, now: int) -> list[str]:
    """What holds up the URLs of a host."""
    lines = []
    if status.crawl.state is not CrawlState.ACTIVE:
        lines.append(f"the crawl is {status.crawl.state.value}")
    if host is not None and host.excluded:
        lines.append(f"{host.host} is excluded")
    if host is not None and host.parked_time > now:
        lines.append(f"{host.host} is parked {parked_words(host)}")
    if unread is not None:
        lines.append(f"its host waits for its robots.txt: {unread_words(unread)}")
        if unread.code == _ADDRESS_FORBIDDEN and not status.crawl.settings.allow_private:
            change = f"lcc-admin spider set {shell_word(status.crawl.name)} --allow-private"
            lines.append(f"Next: if its hosts may be private: {change}")
    if not lines and host is not None:
        order = status.crawl.settings.order.value
        lines.append(f"{number(host.waiting, 'URL')} of {host.host} waiting, in order of {order}")
    return lines


def parked_words(host: HostRow) -> str:
    """Until when a host is left alone, and why."""
    again = f" ({host.parkings:,} times in a row)" if host.parkings > 1 else ""
    why = f": {host.code} {entry_for(host.code).text}" if host.code else ""
    return f"until {utc(host.parked_time)}{again}{why}"


def unread_words(unread: UnreadRobots) -> str:
    """Why a robots.txt is not known, and when it is asked for again."""
    robots = f"{unread.origin}robots.txt"
    if not unread.checked_time:
        return f"{robots} is being fetched"
    if not unread.code:
        return f"{robots} could not be read"
    again = f"; next try at {utc(unread.due_time)}" if unread.due_time else "; being tried again"
    return f"{robots} could not be read: {unread.code} {entry_for(unread.code).text}{again}"
