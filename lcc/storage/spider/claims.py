"""Which spiders there are, and whose the buckets of hosts are.

A spider that others have seen silent for its lease is retired: its row goes, and with it its right to write.  Nobody
compares clocks: each counts the other's beats, by its own.
"""

from __future__ import annotations

from collections.abc import Collection

from lcc.errors import Busy
from lcc.model.spider.crawls import BUCKETS, SpiderClaim, SpiderStatus
from lcc.storage.database.tables.locked_counter import draw
from lcc.storage.database.transactions import Txn

_RUNS = "spider_run"
_COLUMNS = ("run", "name", "epoch", "beats", "seen_time", "trouble", "fence", "writes", "sets", "hosts_hour", "hosts")
TROUBLE_CHARS = 500
_CLAIM_COLUMNS = ("bucket", "run", "token")


def claim_run(txn: Txn, name: str) -> SpiderClaim:
    """As :meth:`lcc.interfaces.IFrontier.claim`."""
    run = draw(txn, _RUNS)  # locked: no two spiders claim at once
    _ensure_buckets(txn)
    epoch = f"{txn.random_bits(64):016x}"
    former = txn.query(f"SELECT run, hosts_hour, hosts FROM spspider WHERE name = ?{txn.for_update}", [name])
    hour, hosts = max(((row[1], row[2]) for row in former), default=(0, 0))
    txn.insert("spspider", _COLUMNS, [(run, name, epoch, 0, 0, "", 0, 0, 0, hour, hosts)])
    for old, *_ in former:
        txn.execute("UPDATE spclaim SET run = ? WHERE run = ?", [run, old])
        txn.execute("DELETE FROM spspider WHERE run = ?", [old])
    return SpiderClaim(run, epoch)


def _ensure_buckets(txn: Txn) -> None:
    there = {bucket for (bucket,) in txn.query("SELECT bucket FROM spclaim")}
    txn.insert("spclaim", _CLAIM_COLUMNS, [(each, 0, "") for each in range(BUCKETS) if each not in there])


def spiders(txn: Txn) -> list[SpiderStatus]:
    """As :meth:`lcc.interfaces.IFrontier.spiders`."""
    sql = (
        "SELECT s.run, s.name, s.beats, s.seen_time, s.trouble, c.bucket"
        " FROM spspider s LEFT JOIN spclaim c ON c.run = s.run ORDER BY s.run, c.bucket"
    )
    found: dict[tuple[int, str, int, int, str], set[int]] = {}
    for *spider, bucket in txn.query(sql):
        buckets = found.setdefault(tuple(spider), set())
        if bucket is not None:
            buckets.add(bucket)
    return [
        SpiderStatus(run, name, beats, frozenset(buckets), seen_time, trouble)
        for (run, name, beats, seen_time, trouble), buckets in found.items()
    ]


def beat(txn: Txn, run: int, trouble: str, now: int) -> None:
    """As :meth:`lcc.interfaces.IFrontier.beat`.

    :raises Busy: the spider was fenced off.
    """
    _alive(txn, run)
    sql = "UPDATE spspider SET seen_time = ?, trouble = ? WHERE run = ?"
    txn.execute(sql, [now, trouble[:TROUBLE_CHARS], run])


def _alive(txn: Txn, run: int) -> None:
    _own_row(txn, run)
    txn.execute("UPDATE spspider SET beats = beats + 1 WHERE run = ?", [run])


def _own_row(txn: Txn, run: int) -> None:
    if txn.one(f"SELECT 1 FROM spspider WHERE run = ?{txn.for_update}", [run]) is None:
        raise Busy(f"another spider has taken over (run {run})")


def retire(txn: Txn, own: int, run: int, beats: int) -> bool:
    """As :meth:`lcc.interfaces.IFrontier.retire`.

    :param own: the run of the spider that asks.
    """
    _alive(txn, own)
    row = txn.one(f"SELECT beats FROM spspider WHERE run = ?{txn.for_update}", [run])
    if row is None:
        return True  # somebody else has done it
    if run == own or row[0] != beats:
        return False
    _remove(txn, run)
    return True


def end(txn: Txn, run: int) -> None:
    """As :meth:`lcc.interfaces.IFrontier.end`."""
    _remove(txn, run)


def _remove(txn: Txn, run: int) -> None:
    txn.execute("DELETE FROM spspider WHERE run = ?", [run])
    txn.execute("UPDATE spclaim SET run = 0 WHERE run = ?", [run])


def take_buckets(txn: Txn, run: int, wanted: int) -> dict[int, str]:
    """As :meth:`lcc.interfaces.IFrontier.take_buckets`."""
    _alive(txn, run)
    # A bucket is free only while its row is locked.
    rows = txn.query(f"SELECT bucket, run, token FROM spclaim ORDER BY bucket{txn.for_update}")
    own = {bucket: token for bucket, owner, token in rows if owner == run}
    free = [(bucket, token) for bucket, owner, token in rows if owner == 0]
    for bucket, token in free[: max(0, wanted - len(own))]:
        txn.execute("UPDATE spclaim SET run = ? WHERE bucket = ?", [run, bucket])
        own[bucket] = token
    return own


def give_buckets(txn: Txn, run: int, buckets: Collection[int]) -> None:
    """As :meth:`lcc.interfaces.IFrontier.give_buckets`."""
    _alive(txn, run)
    txn.execute_in("UPDATE spclaim SET run = 0 WHERE run = ? AND bucket IN ({in})", sorted(buckets), [run])
