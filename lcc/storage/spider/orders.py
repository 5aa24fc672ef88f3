"""Orders for spiders (``sporders``): what commands, the HTTP interface and the monitor want of crawls.

Whoever gives one checks it first; one spider carries it out, and answers in its row: ``{}`` or ``{"crawl": id}``; or
``{"error": why}``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from lcc.model.spider.crawls import (
    BUCKETS,
    CRAWL_NAME_CHARS_MAX,
    Crawl,
    CrawlSettings,
    CrawlState,
    FoundUrl,
    SpiderOrder,
)
from lcc.storage.database.tables.answered_orders import AnsweredOrders
from lcc.storage.database.tables.locked_counter import draw
from lcc.storage.database.transactions import Txn
from lcc.storage.spider.commit import add_starts
from lcc.storage.spider.rows import CRAWLS, crawl_values, read_settings, write_settings
from lcc.storage.spider.telling import forget_providers
from lcc.storage.spider.write import FrontierWrite

CRAWL_ADD = "crawl-add"
"""``settings`` and ``starts`` (URLs)."""
CRAWL_START = "crawl-start"
"""More ``starts``."""
CRAWL_SET = "crawl-set"
"""``settings`` that are to be other ones; the others stay."""
CRAWL_PAUSE = "crawl-pause"
CRAWL_RESUME = "crawl-resume"
CRAWL_REMOVE = "crawl-remove"
CRAWL_EXCLUDE = "crawl-exclude"
"""``hosts``, lower case, with their ports if these are not the default."""
CRAWL_INCLUDE = "crawl-include"
"""``hosts`` that are no longer excluded."""

STARTS_MAX = 1000
"""URLs in one order; more of them stand in further ones."""
ORDERS = AnsweredOrders("sporders", "sporder_id")
CRAWL_IDS = "crawl_id"
_SCHEMES = ("http", "https", "ftp")
_ORDERS_KEPT_SECONDS = 3600
_Answer = dict[str, Any]


def add_body(settings: CrawlSettings, starts: Sequence[str]) -> dict[str, Any]:
    """The body of :data:`CRAWL_ADD`.

    :param starts: at most :data:`STARTS_MAX`.
    """
    return {"settings": write_settings(settings), "starts": list(starts)}


def starts_of(order: SpiderOrder) -> list[str]:
    """The URLs that an order begins with."""
    return [str(url) for url in order.body.get("starts", ())]


def settings_of(order: SpiderOrder) -> CrawlSettings:
    """The settings of a new crawl.

    :raises TypeError, ValueError: a newer command's.
    """
    return read_settings(dict(order.body.get("settings", {})))


def open_orders(txn: Txn, limit: int) -> list[SpiderOrder]:
    """As :meth:`lcc.interfaces.IFrontier.open_orders`."""
    sql = "SELECT id, kind, target, body FROM sporders WHERE done_time IS NULL ORDER BY id LIMIT ?"
    return [SpiderOrder(number, kind, name, json.loads(body)) for number, kind, name, body in txn.query(sql, [limit])]


def refuse_order(write: FrontierWrite, order: SpiderOrder, why: str) -> None:
    """As :meth:`lcc.interfaces.IFrontier.refuse_order`."""
    if _is_open(write, order):
        ORDERS.set_answer(write.txn, order.id, {"error": why}, write.now)


def carry_out(write: FrontierWrite, order: SpiderOrder, starts: Sequence[FoundUrl]) -> None:
    """As :meth:`lcc.interfaces.IFrontier.carry_out`."""
    if not _is_open(write, order):
        return
    handler = _HANDLERS.get(order.kind)
    if handler is None:
        answer: _Answer = {"error": f"this spider knows no order {order.kind!r}"}
    else:
        answer = handler(write, order, starts)
    ORDERS.set_answer(write.txn, order.id, answer, write.now)
    ORDERS.purge(write.txn, write.now - _ORDERS_KEPT_SECONDS, STARTS_MAX)


def _is_open(write: FrontierWrite, order: SpiderOrder) -> bool:
    # Another spider may carry it out just now.
    sql = f"SELECT 1 FROM sporders WHERE id = ? AND done_time IS NULL{write.txn.for_update}"
    return write.txn.one(sql, [order.id]) is not None


def _crawl(write: FrontierWrite, name: str) -> Crawl | None:
    return next((crawl for crawl in write.crawls.values() if crawl.name == name), None)


def _unknown(order: SpiderOrder) -> _Answer:
    return {"error": f"there is no crawl {order.crawl!r}"}


def _save(write: FrontierWrite, crawl: Crawl) -> None:
    CRAWLS.upsert(write.txn, [crawl_values(attrs.evolve(crawl, version=crawl.version + 1))])


def _add(write: FrontierWrite, order: SpiderOrder, starts: Sequence[FoundUrl]) -> _Answer:
    if not 0 < len(order.crawl) <= CRAWL_NAME_CHARS_MAX:
        return {"error": f"a name has 1 to {CRAWL_NAME_CHARS_MAX} characters"}
    if _crawl(write, order.crawl) is not None:
        return {"error": f"there is a crawl {order.crawl!r} already"}
    try:
        settings = settings_of(order)
    except (TypeError, ValueError) as error:
        return {"error": f"this spider does not understand the settings: {error}"}
    number = draw(write.txn, CRAWL_IDS)
    crawl = Crawl(number, order.crawl, settings, CrawlState.ACTIVE, write.now, frozenset(), 1)
    CRAWLS.insert(write.txn, [crawl_values(crawl)])
    add_starts(write, crawl, starts)
    return {"crawl": number}


def _start(write: FrontierWrite, order: SpiderOrder, starts: Sequence[FoundUrl]) -> _Answer:
    crawl = _crawl(write, order.crawl)
    if crawl is None or crawl.state is CrawlState.REMOVING:
        return _unknown(order)
    add_starts(write, crawl, starts)
    return {"crawl": crawl.id}


def _set(write: FrontierWrite, order: SpiderOrder, _starts: Sequence[FoundUrl]) -> _Answer:
    crawl = _crawl(write, order.crawl)
    if crawl is None or crawl.state is CrawlState.REMOVING:
        return _unknown(order)
    try:
        settings = read_settings({**write_settings(crawl.settings), **order.body.get("settings", {})})
    except (TypeError, ValueError) as error:
        return {"error": f"this spider does not understand the settings: {error}"}
    # The names and ranks of the URLs that are known follow from these.
    for name in ("names", "host_resolver", "order", "pid"):
        if getattr(settings, name) != getattr(crawl.settings, name):
            return {"error": f"{name} of a crawl cannot change; add a new one"}
    if settings.allow_private and not crawl.settings.allow_private:
        forget_providers(write, crawl.id, range(BUCKETS))  # the UNS lets them be private when it is asked again
    _save(write, attrs.evolve(crawl, settings=settings))
    return {"crawl": crawl.id}


def _to(state: CrawlState) -> Callable[[FrontierWrite, SpiderOrder, Sequence[FoundUrl]], _Answer]:
    def change(write: FrontierWrite, order: SpiderOrder, _starts: Sequence[FoundUrl]) -> _Answer:
        crawl = _crawl(write, order.crawl)
        if crawl is None or crawl.state is CrawlState.REMOVING:
            return _unknown(order)
        _save(write, attrs.evolve(crawl, state=state))
        return {"crawl": crawl.id}

    return change


def _exclude(excluded: bool) -> Callable[[FrontierWrite, SpiderOrder, Sequence[FoundUrl]], _Answer]:
    def change(write: FrontierWrite, order: SpiderOrder, _starts: Sequence[FoundUrl]) -> _Answer:
        crawl = _crawl(write, order.crawl)
        if crawl is None or crawl.state is CrawlState.REMOVING:
            return _unknown(order)
        hosts = [str(host) for host in order.body.get("hosts", ())]
        if excluded:
            columns = ("crawl", "host")
            write.txn.upsert("spexcluded", columns, [(crawl.id, host) for host in hosts], columns, columns[:1])
        else:
            write.txn.execute_in("DELETE FROM spexcluded WHERE crawl = ? AND host IN ({in})", hosts, [crawl.id])
        keys = [write.rules.host_key(f"{scheme}://{host}/") for host in hosts for scheme in _SCHEMES]
        write.load_hosts([(crawl.id, key) for key in keys])
        for key in keys:
            row = write.host(crawl.id, key)
            if row is not None:
                row.excluded = excluded
        _save(write, crawl)
        return {"crawl": crawl.id}

    return change


_HANDLERS: Mapping[str, Callable[[FrontierWrite, SpiderOrder, Sequence[FoundUrl]], _Answer]] = {
    CRAWL_ADD: _add,
    CRAWL_START: _start,
    CRAWL_SET: _set,
    CRAWL_PAUSE: _to(CrawlState.PAUSED),
    CRAWL_RESUME: _to(CrawlState.ACTIVE),
    CRAWL_REMOVE: _to(CrawlState.REMOVING),
    CRAWL_EXCLUDE: _exclude(True),
    CRAWL_INCLUDE: _exclude(False),
}
