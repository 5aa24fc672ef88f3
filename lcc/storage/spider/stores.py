"""What the stores of spiders have, and the pages that they lack."""

from __future__ import annotations

from collections.abc import Mapping

from lcc.model.spider.crawls import StoreTrouble, StoreWork
from lcc.storage.database.transactions import Txn
from lcc.storage.spider.write import FrontierWrite

FAULT_CHARS_MAX = 500
_PLACES = ("spider", "store", "place", "fault", "backlog")
_BACKLOG = ("spider", "store", "pagekey", "change_number")


def save_places(write: FrontierWrite, places: Mapping[str, str], stores: Mapping[str, StoreWork]) -> None:
    """What is read of something else, and what stores made of some pages.

    :param places: how far the former is read, by its name.
    """
    if not places and not stores:
        return
    txn, spider = write.txn, write.spider
    sql = "SELECT store, place, backlog FROM spplace WHERE spider = ? AND store IN ({in})"
    before = {name: (place, backlog) for name, place, backlog in txn.query_in(sql, sorted(stores), [spider])}
    rows = [(spider, name, place, "", 0) for name, place in places.items()]
    for name, work in stores.items():
        place, backlog = before.get(name, ("", 0))
        backlog += _change(txn, spider, name, work)
        rows.append(
            (spider, name, place if work.place is None else work.place, work.fault[:FAULT_CHARS_MAX], backlog)
        )
    txn.upsert("spplace", _PLACES, sorted(rows), _PLACES[:2])


def _change(txn: Txn, spider: str, store: str, work: StoreWork) -> int:
    """Write a store's backlog; gives by how many pages it has grown."""
    named = sorted({*work.lacks, *work.has})
    if not named:
        return 0
    those = "FROM spbacklog WHERE spider = ? AND store = ? AND pagekey IN ({in})"
    known = {bytes(key) for (key,) in txn.query_in(f"SELECT pagekey {those}", named, [spider, store])}
    done = sorted(known.intersection(work.has))
    rows = [(spider, store, key, change) for key, change in sorted(work.lacks.items())]
    txn.upsert("spbacklog", _BACKLOG, rows, _BACKLOG[:3])
    txn.execute_in(f"DELETE {those}", done, [spider, store])
    return len(work.lacks.keys() - known) - len(done)


def backlog(txn: Txn, spider: str, store: str, after: bytes, limit: int) -> dict[bytes, int]:
    """As :meth:`lcc.interfaces.IFrontier.backlog`."""
    sql = (
        "SELECT pagekey, change_number FROM spbacklog WHERE spider = ? AND store = ? AND pagekey > ?"
        " ORDER BY pagekey LIMIT ?"
    )
    return {bytes(key): change for key, change in txn.query(sql, [spider, store, after, limit])}


def store_troubles(txn: Txn) -> list[StoreTrouble]:
    """The stores that cannot write, or lack pages, of all spiders."""
    sql = "SELECT spider, store, fault, backlog FROM spplace WHERE fault <> '' OR backlog > 0 ORDER BY spider, store"
    return [StoreTrouble(*row) for row in txn.query(sql)]
