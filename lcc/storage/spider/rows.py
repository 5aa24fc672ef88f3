"""Rows of the frontier as values, and back."""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Any

import attrs

from lcc.model.spider.crawls import Crawl, CrawlSettings, CrawlState, HostRow, KnownUrl, UrlOrder, UrlRow, UrlState
from lcc.storage.database.table import Table
from lcc.storage.database.tables.answered_orders import write_json
from lcc.storage.database.transactions import Txn

CRAWLS = Table("spcrawl", ["id"], ("id", "name", "settings", "state", "created_time", "version"))


def _names(row: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(row))


def _columns(row: type[Any], **renamed: str) -> tuple[str, ...]:
    """The columns of a row type, in the order of its fields."""
    return tuple(renamed.get(name, name) for name in _names(row))


URLS = Table(
    "spurl",
    ["crawl", "urlkey"],
    _columns(UrlRow, key="urlkey", host="hostkey", rank="urlrank", change="change_number"),
)
HOSTS = Table("sphost", ["crawl", "hostkey"], _columns(HostRow, key="hostkey"))
DROPPED = "dropped:"
"""Begins the names of the counters of filters and limits: a filter may be called as another counter is."""
STATES = tuple(state.name.lower() for state in UrlState)
"""Names of the counters of URLs, by their state."""


_STATES = tuple(UrlState)

url_values = attrgetter(*("state.value" if name == "state" else name for name in _names(UrlRow)))
"""The row of a URL, as :data:`URLS` has it."""
host_values = attrgetter(*_names(HostRow))
"""The row of a host, as :data:`HOSTS` has it."""


def url_row(row: tuple[Any, ...]) -> UrlRow:
    """The URL of a row of :data:`URLS`."""
    url = UrlRow(*row)
    url.state = _STATES[url.state]
    return url


def known_url(root: str, row: tuple[Any, ...]) -> KnownUrl:
    """The URL of a row of :data:`URLS`.

    :param root: of its host.
    """
    values: Any = (*row, root)
    url = KnownUrl(*values)
    url.state = _STATES[url.state]
    return url


def host_row(row: tuple[Any, ...]) -> HostRow:
    """The host of a row of :data:`HOSTS`."""
    host = HostRow(*row)
    host.excluded = bool(host.excluded)
    return host


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
