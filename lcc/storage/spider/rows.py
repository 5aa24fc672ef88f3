"""Rows of the frontier as values, and back."""

from __future__ import annotations

import json
from typing import Any

import attrs

from lcc.model.crawls import Crawl, CrawlSettings, CrawlState, HostRow, KnownUrl, UrlOrder, UrlState
from lcc.storage.database.answered_orders import write_json
from lcc.storage.database.table import Table
from lcc.storage.database.transactions import Txn

CRAWLS = Table("spcrawl", ["id"], ("id", "name", "settings", "state", "created_time", "version"))
URLS = Table(
    "spurl",
    ["crawl", "urlkey"],
    (
        *("crawl", "urlkey", "hostkey", "path", "state", "urlrank", "depth", "inlinks", "parent", "cash", "history"),
        *("change_number", "md5", "checked_time", "interval_seconds", "code", "failures", "told_set"),
    ),
)
HOSTS = Table(
    "sphost",
    ["crawl", "hostkey"],
    (
        *("crawl", "hostkey", "root", "domain", "bucket", "pid", "excluded", "known", "waiting", "told", "cached"),
        *("failures", "parked_time", "parkings", "code", "due_time", "ready_time", "ask_time"),
    ),
)
DROPPED = "dropped:"
"""Begins the names of the counters of filters and limits: a filter may be called as another counter is."""
STATES = tuple(state.name.lower() for state in UrlState)
"""Names of the counters of URLs, by their state."""


@attrs.define(slots=True, eq=False)
class Url:
    """A row of ``spurl`` that may be changed."""

    crawl: int
    key: bytes
    host: bytes
    path: str
    state: int
    rank: int
    depth: int
    inlinks: int
    parent: bytes
    cash: int
    history: int
    change: int
    md5: bytes
    checked_time: int
    interval_seconds: int
    code: int
    failures: int
    told_set: int

    def values(self) -> tuple[Any, ...]:
        """As :data:`URLS` has it."""
        return (
            *(self.crawl, self.key, self.host, self.path, int(self.state), self.rank, self.depth, self.inlinks),
            *(self.parent, self.cash, self.history, self.change, self.md5, self.checked_time),
            *(self.interval_seconds, self.code, self.failures, self.told_set),
        )


@attrs.define(slots=True, eq=False)
class Host:
    """A row of ``sphost`` that may be changed."""

    crawl: int
    key: bytes
    root: str
    domain: str
    bucket: int
    pid: int
    excluded: int
    known: int
    waiting: int
    told: int
    cached: int
    failures: int
    parked_time: int
    parkings: int
    code: int
    due_time: int | None
    ready_time: int | None
    ask_time: int | None

    def values(self) -> tuple[Any, ...]:
        """As :data:`HOSTS` has it."""
        return (
            *(self.crawl, self.key, self.root, self.domain, self.bucket, self.pid, self.excluded, self.known),
            *(self.waiting, self.told, self.cached, self.failures, self.parked_time, self.parkings, self.code),
            *(self.due_time, self.ready_time, self.ask_time),
        )

    def will_be_due(self, when: int) -> None:
        """One of its URLs is to be looked at again then."""
        if self.due_time is None or when < self.due_time:
            self.due_time = when


def host_row(row: tuple[Any, ...]) -> HostRow:
    """The host of a row of :data:`HOSTS`."""
    host = Host(*row)
    name = host.root.partition("://")[2].rstrip("/")
    return HostRow(
        *(host.crawl, host.root, name, host.domain, host.bucket, host.pid, bool(host.excluded), host.known),
        *(host.waiting, host.told, host.cached, host.failures, host.parked_time, host.parkings, host.code),
    )


def known_url(root: str, row: tuple[Any, ...]) -> KnownUrl:
    """The URL of a row of :data:`URLS`.

    :param root: of its host.
    """
    crawl, key, _host, path, state, *others = row
    return KnownUrl(crawl, bytes(key), root, path, UrlState(state), *others)


def write_settings(settings: CrawlSettings) -> dict[str, Any]:
    """As columns and orders have them, but for those that have their defaults."""
    default = attrs.asdict(CrawlSettings(), value_serializer=_plain)
    given = attrs.asdict(settings, value_serializer=_plain)
    return {name: value for name, value in given.items() if value != default[name]}


def _plain(_settings: Any, _field: Any, value: Any) -> Any:
    return value.value if isinstance(value, UrlOrder) else list(value) if isinstance(value, tuple) else value


def read_settings(fields: dict[str, Any]) -> CrawlSettings:
    """What :func:`write_settings` has written.

    :raises TypeError, ValueError: something newer has.
    """
    given = dict(fields)
    if "order" in given:
        given["order"] = UrlOrder(given["order"])
    if "roots" in given:
        given["roots"] = tuple(given["roots"])
    return CrawlSettings(**given)


def crawl_values(crawl: Crawl) -> tuple[Any, ...]:
    """The row of a crawl, as :data:`CRAWLS` has it."""
    settings = write_json(write_settings(crawl.settings))
    return crawl.id, crawl.name, settings, crawl.state.value, crawl.created_time, crawl.version


def crawls(txn: Txn) -> list[Crawl]:
    """All of them, in order of their ids."""
    excluded: dict[int, set[str]] = {}
    for crawl, host in txn.query("SELECT crawl, host FROM spexcluded ORDER BY crawl, host"):
        excluded.setdefault(crawl, set()).add(host)
    return [
        Crawl(
            *(row[0], row[1], read_settings(json.loads(row[2])), CrawlState(row[3]), row[4]),
            excluded=frozenset(excluded.get(row[0], ())),
            version=row[5],
        )
        for row in txn.query(f"{CRAWLS.select} ORDER BY id")
    ]
