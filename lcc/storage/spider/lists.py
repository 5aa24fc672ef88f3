"""URLs and hosts of a crawl, a page at a time, as people look through them.  Only read."""

from __future__ import annotations

from typing import NamedTuple

from lcc.model.spider.crawls import HostRow, KnownUrl, UrlState
from lcc.storage.database.transactions import Txn
from lcc.storage.spider.rows import HOSTS, URLS, host_row, known_url

_LAST_KEY = b"\xff" * 16


class UrlPlace(NamedTuple):
    """A place in a list of URLs, behind one of them.

    :ivar state, rank: of that URL, in the list of a host; elsewhere they do not matter.
    """

    state: int = -1
    rank: int = 0
    key: bytes = b""


def crawl_urls(
    txn: Txn, crawl: int, state: UrlState | None, after: bytes, limit: int, rows_max: int
) -> tuple[list[KnownUrl], bytes]:
    """URLs of all hosts, in order of their keys: those of a host lie together.

    :param state: only those in it; None: all.
    :param after: the key that they lie behind.
    :param rows_max: so many URLs are looked at.
    :return: the URLs, and the key that the next ones lie behind; empty: there are none.
    """
    sql = "SELECT urlkey FROM spurl WHERE crawl = ? AND urlkey > ? ORDER BY urlkey LIMIT 1 OFFSET ?"
    upto = txn.value(sql, [crawl, after, rows_max - 1], b"")
    which = "" if state is None else " AND state = ?"
    values = [crawl, after, upto or _LAST_KEY, *([] if state is None else [state.value]), limit]
    sql = f"{URLS.select} WHERE crawl = ? AND urlkey > ? AND urlkey <= ?{which} ORDER BY urlkey LIMIT ?"
    urls = _known(txn, crawl, txn.query(sql, values))
    return urls, urls[-1].key if len(urls) == limit else upto


def host_urls(
    txn: Txn, crawl: int, host: bytes, state: UrlState | None, after: UrlPlace, limit: int
) -> tuple[list[KnownUrl], UrlPlace | None]:
    """URLs of a host: those that wait, in the order in which they are told, then those in each other state.

    :param host: its key.
    :param state: only those in it; None: all.
    :return: the URLs, and the place that the next ones lie behind; None: there are none.
    """
    rows: list[tuple[object, ...]] = []
    for each in UrlState if state is None else (state,):
        if each.value < after.state:
            continue
        begun = each.value == after.state
        behind = " AND urlrank >= ? AND (urlrank > ? OR urlkey > ?)" if begun else ""
        sql = (
            f"{URLS.select} {txn.by_index('spurl_next')} WHERE crawl = ? AND hostkey = ? AND state = ?{behind}"
            " ORDER BY urlrank, urlkey LIMIT ?"
        )
        place = [after.rank, after.rank, after.key] if begun else []
        rows += txn.query(sql, [crawl, host, each.value, *place, limit - len(rows)])
        if len(rows) == limit:
            last = _known(txn, crawl, rows[-1:])[0]
            return _known(txn, crawl, rows), UrlPlace(last.state.value, last.rank, last.key)
    return _known(txn, crawl, rows), None


def crawl_host_list(txn: Txn, crawl: int, parked: bool, after: tuple[int, bytes] | None, limit: int) -> list[HostRow]:
    """Hosts, those with the most known URLs first; or those that are left alone, the longest first.

    :param after: known URLs, or the end of the time in which it is left alone, and key of the host before the first.
    """
    column, index = ("parked_time", "sphost_parked") if parked else ("known", "sphost_known")
    which, place = f" AND {column} > 0" if parked else "", list[object]()
    if after is not None:
        which += f" AND {column} <= ? AND ({column} < ? OR hostkey < ?)"
        place = [after[0], *after]
    order = f"ORDER BY {column} DESC, hostkey DESC LIMIT ?"
    sql = f"{HOSTS.select} {txn.by_index(index)} WHERE crawl = ?{which} {order}"
    return [host_row(row) for row in txn.query(sql, [crawl, *place, limit])]


def _known(txn: Txn, crawl: int, rows: list[tuple[object, ...]]) -> list[KnownUrl]:
    roots: dict[object, str] = {}
    for row in rows:
        if row[2] not in roots:
            sql = "SELECT root FROM sphost WHERE crawl = ? AND hostkey = ?"
            roots[row[2]] = txn.value(sql, [crawl, row[2]], "")
    return [known_url(roots[row[2]], row) for row in rows]
