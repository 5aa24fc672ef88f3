"""Subscribers of the hub of content users, and requests that are yet to be confirmed (``hubsub``, ``hubask``).

A subscriber is one row, however far behind it is: the number of the last change that it got, and whether it is owed
something.  Who is owed nothing has got all up to the hub's own position, so that a change of which it is not to be
told costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import attrs
from twisted.internet.defer import Deferred

from lcc.model.push.hub import HubAsk, HubSubscriber
from lcc.storage.database.database import Database
from lcc.storage.database.table import Table, due_where
from lcc.storage.database.tables.claimed import ClaimedTables
from lcc.storage.database.transactions import Txn

WHY_CHARS = 500
PURGED_AT_ONCE = 1000
ASKS = Table("hubask", ["id"], [field.name for field in attrs.fields(HubAsk)])
SUBSCRIBERS = Table("hubsub", ["id"], [field.name for field in attrs.fields(HubSubscriber)])


def digest(*texts: str) -> bytes:
    """What rows are known by."""
    return blake2b("\n".join(texts).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _ask(row: Sequence[Any]) -> HubAsk:
    return HubAsk(bytes(row[0]), *row[1:])


def as_subscriber(row: Sequence[Any]) -> HubSubscriber:
    """The subscriber of a row of :data:`SUBSCRIBERS`."""
    return HubSubscriber(bytes(row[0]), bytes(row[1]), *row[2:])


class HubStore:
    """See :mod:`lcc.storage.hub.subscribers`.

    :param several: the changes are those of several sub-LCCs: a timeline is positions in all of them, and the number
        their sum.
    """

    def __init__(self, database: Database, several: bool = False) -> None:
        self._several = several
        self._tables = ClaimedTables(database, "hub", "hub")
        self._select = database.interact
        self._write = self._tables.write

    def claim(self) -> Deferred[str]:
        """Become the one that may write.

        :returns: up to which change all subscribers were woken, as a token; empty: it is the first start.
        """
        return self._tables.claim(lambda txn: _position(txn, self._several))

    def topics(self) -> Deferred[dict[bytes, str]]:
        """Those that have subscribers, by their ids."""
        return self._select(_topics)

    def counts(self) -> Deferred[tuple[int, int, int]]:
        """Subscribers, those of them whose deliveries fail, and open requests."""
        return self._select(hub_counts)

    def get(self, ident: bytes) -> Deferred[HubSubscriber | None]:
        """A subscriber."""
        return self._select(_get, ident)

    def wake(self, topics: Collection[bytes], before: tuple[str, int], position: str, now: int) -> Deferred[None]:
        """Something was changed in these topics.

        :param before: timeline and number up to which who is owed nothing has got all.
        :param position: the new one.
        """
        return self._write(_wake, list(topics), before, position, now, self._several)

    def drop_all(self, why: str, position: str, now: int) -> Deferred[None]:
        """What was changed is no longer known."""
        return self._write(_drop_all, why, position, now, self._several)

    def add_ask(self, ask: HubAsk) -> Deferred[None]:
        """A request; it takes the place of an open one of the same callback and topic."""
        return self._write(_add_ask, ask)

    def due_asks(self, now: int, failing: bool, without: Sequence[str], limit: int) -> Deferred[list[HubAsk]]:
        """Requests whose callbacks are to be asked, the longest waiting first.

        :param failing: of those that were asked in vain, or of the others.
        :param without: parties whose requests are left out.
        """
        return self._select(_due_asks, now, failing, without, limit)

    def confirmed(self, ask: HubAsk, subscriber: HubSubscriber | None) -> Deferred[None]:
        """A callback has confirmed a request; None: it subscribes no longer."""
        return self._write(_confirmed, ask, subscriber)

    def ask_later(self, ask: HubAsk, due_time: int) -> Deferred[None]:
        """A callback could not be asked; 0: it is asked no more.  A request that has taken its place stays."""
        return self._write(_ask_later, ask, due_time)

    def due(self, now: int, failing: bool, without: Sequence[str], limit: int) -> Deferred[list[HubSubscriber]]:
        """Those to whom something is to be delivered, the longest waiting first.

        :param failing: of those whose last delivery failed, or of the others.
        :param without: sites of callbacks that are left out.
        """
        return self._select(_due, now, failing, without, limit)

    def change(self, subscriber: HubSubscriber, **values: Any) -> Deferred[None]:
        """What became of a delivery; nothing where it has renewed its subscription, or was dropped, meanwhile.

        :param subscriber: as it was when the delivery began.
        """
        return self._write(_change, subscriber, values)

    def bound_waits(self, now: int, ask_seconds: int, retry_seconds: int, away_seconds: int) -> Deferred[None]:
        """The wall clock may have been set back: what was noted by it before is not waited for any longer than usual.

        :param ask_seconds: before a callback is asked again; ``retry_seconds``: before a delivery that has failed is
            tried again; ``away_seconds``: before any other.
        """
        return self._write(_bound_waits, now, ask_seconds, retry_seconds, away_seconds)

    def remove(self, subscriber: HubSubscriber) -> Deferred[None]:
        """It is told nothing more; likewise."""
        return self._write(_remove, subscriber)

    def purge(self, now: int) -> Deferred[int]:
        """Forget those whose lease is over."""
        return self._write(_purge, now)


def list_subscribers(txn: Txn, limit: int, failing: bool = False) -> list[HubSubscriber]:
    """The newest ones.

    :param failing: only those whose deliveries fail, and those that are dropped; the longest failing first.
    """
    where, order = ("WHERE failures > 0 OR dropped = 1", "since_time") if failing else ("", "made_time DESC")
    return [
        as_subscriber(row) for row in txn.query(f"{SUBSCRIBERS.select} {where} ORDER BY {order}, id LIMIT ?", [limit])
    ]


class HubTopic(NamedTuple):
    """A topic that has subscribers.

    :ivar subscribers: how many; ``failing``: of these, whose deliveries fail; ``owed``: to whom something is owed.
    :ivar delivered_time: of the last delivery; 0: there was none.
    """

    topic: str
    subscribers: int
    failing: int
    owed: int
    delivered_time: int


def hub_topics(txn: Txn, limit: int) -> list[HubTopic]:
    """Those with the most subscribers."""
    sql = (
        "SELECT MIN(topic), COUNT(*), SUM(CASE WHEN failures > 0 THEN 1 ELSE 0 END),"
        " SUM(CASE WHEN due_time > 0 THEN 1 ELSE 0 END), MAX(delivered_time)"
        " FROM hubsub WHERE dropped = 0 GROUP BY topicid ORDER BY COUNT(*) DESC, MIN(topic) LIMIT ?"
    )
    return [HubTopic(topic, *map(int, counts)) for topic, *counts in txn.query(sql, [limit])]


def _position(txn: Txn, several: bool) -> str:
    if several:  # it is too long for meta
        return str(txn.value("SELECT position FROM hubposition WHERE id = 1", [], ""))
    return str(txn.value("SELECT value FROM meta WHERE name = 'hub_position'", [], ""))


def _set_position(txn: Txn, position: str, several: bool) -> None:
    if several:
        txn.upsert("hubposition", ["id", "position"], [(1, position)], ["id"], ["position"])
        return
    txn.upsert("meta", ["name", "value"], [("hub_position", position)], ["name"], ["value"])


def _topics(txn: Txn) -> dict[bytes, str]:
    sql = "SELECT topicid, MIN(topic) FROM hubsub WHERE dropped = 0 GROUP BY topicid"
    return {bytes(ident): topic for ident, topic in txn.query(sql)}


def hub_counts(txn: Txn) -> tuple[int, int, int]:
    """See :meth:`HubStore.counts`."""
    asks = txn.value("SELECT COUNT(*) FROM hubask", [], 0)
    row = txn.one("SELECT COUNT(*), SUM(CASE WHEN failures > 0 THEN 1 ELSE 0 END) FROM hubsub") or (0, 0)
    return row[0], round(row[1] or 0), asks


def _get(txn: Txn, ident: bytes) -> HubSubscriber | None:
    row = txn.one(f"{SUBSCRIBERS.select} WHERE id = ?", [ident])
    return None if row is None else as_subscriber(row)


def _wake(txn: Txn, topics: Sequence[bytes], before: tuple[str, int], position: str, now: int, several: bool) -> None:
    timeline, number = before
    # In this order: MySQL takes new values to the right of where they are set.
    if several:
        # Who has got more of one sub-LCC may have got less of another: what it has got stays as it is.
        sql = (
            "UPDATE hubsub SET number = CASE WHEN number > ? THEN number ELSE ? END,"
            " timeline = CASE WHEN number > ? THEN timeline ELSE ? END,"
            " due_time = ? WHERE due_time = 0 AND topicid IN ({in})"
        )
        values: list[Any] = [number, number, number, timeline, now]
    else:
        sql = (
            "UPDATE hubsub SET number = CASE WHEN timeline = ? AND number > ? THEN number ELSE ? END, timeline = ?,"
            " due_time = ? WHERE due_time = 0 AND topicid IN ({in})"
        )
        values = [timeline, number, number, timeline, now]
    txn.execute_in(sql, list(topics), values)
    _set_position(txn, position, several)


def _drop_all(txn: Txn, why: str, position: str, now: int, several: bool) -> None:
    txn.execute("UPDATE hubsub SET dropped = 1, why = ?, due_time = ?, failures = 0", [why[:WHY_CHARS], now])
    _set_position(txn, position, several)


def _add_ask(txn: Txn, ask: HubAsk) -> None:
    ASKS.upsert(txn, [attrs.astuple(ask)])


def _due_asks(txn: Txn, now: int, failing: bool, without: Sequence[str], limit: int) -> list[HubAsk]:
    where = due_where(failing, "party", without)
    sql = f"{ASKS.select} WHERE due_time <= ? AND {where} ORDER BY due_time LIMIT ?"
    return [_ask(row) for row in txn.query(sql, [now, *without, limit])]


def _confirmed(txn: Txn, ask: HubAsk, subscriber: HubSubscriber | None) -> None:
    if subscriber is None:
        txn.execute("DELETE FROM hubsub WHERE id = ?", [ask.id])
    else:
        SUBSCRIBERS.upsert(txn, [attrs.astuple(subscriber)])
    _ask_later(txn, ask, 0)


def _ask_later(txn: Txn, ask: HubAsk, due_time: int) -> None:
    row = txn.one(f"{ASKS.select} WHERE id = ?{txn.for_update}", [ask.id])
    if row is None or _ask(row) != ask:
        return
    if due_time:
        txn.execute("UPDATE hubask SET due_time = ?, failures = failures + 1 WHERE id = ?", [due_time, ask.id])
    else:
        txn.execute("DELETE FROM hubask WHERE id = ?", [ask.id])


def _due(txn: Txn, now: int, failing: bool, without: Sequence[str], limit: int) -> list[HubSubscriber]:
    where = due_where(failing, "site", without)
    sql = f"{SUBSCRIBERS.select} WHERE due_time > 0 AND due_time <= ? AND {where} ORDER BY due_time, id LIMIT ?"
    return [as_subscriber(row) for row in txn.query(sql, [now, *without, limit])]


_SAME = "id = ? AND expires_time = ? AND secret = ? AND dropped = ?"


def _same(subscriber: HubSubscriber) -> list[Any]:
    return [subscriber.id, subscriber.expires_time, subscriber.secret, subscriber.dropped]


def _change(txn: Txn, subscriber: HubSubscriber, values: Mapping[str, Any]) -> None:
    if "why" in values:
        values = {**values, "why": values["why"][:WHY_CHARS]}
    assignments = ", ".join(f"{name} = ?" for name in values)
    txn.execute(f"UPDATE hubsub SET {assignments} WHERE {_SAME}", [*values.values(), *_same(subscriber)])


def _bound_waits(txn: Txn, now: int, ask_seconds: int, retry_seconds: int, away_seconds: int) -> None:
    for table, seconds, where in (
        ("hubask", ask_seconds, "failures > 0"),
        ("hubask", 0, "failures = 0"),
        ("hubsub", retry_seconds, "failures > 0"),
        ("hubsub", away_seconds, "failures = 0"),
    ):
        latest = now + seconds
        txn.execute(f"UPDATE {table} SET due_time = ? WHERE due_time > ? AND {where}", [latest, latest])
    txn.execute("UPDATE hubsub SET since_time = ? WHERE since_time > ?", [now, now])


def _remove(txn: Txn, subscriber: HubSubscriber) -> None:
    txn.execute(f"DELETE FROM hubsub WHERE {_SAME}", _same(subscriber))


def _purge(txn: Txn, now: int) -> int:
    found = txn.query("SELECT id FROM hubsub WHERE expires_time <= ? LIMIT ?", [now, PURGED_AT_ONCE])
    txn.execute_in("DELETE FROM hubsub WHERE id IN ({in})", [ident for (ident,) in found])
    return len(found)
