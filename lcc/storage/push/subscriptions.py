"""Subscriptions of feeds at hubs (``websub``).  Owned by the push server, and written under its claim of the tables.

A change is conditional on what it was decided by: a hub's answer may come while a push, or another answer, is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs
from twisted.internet.defer import Deferred

from lcc.model.push.websub import HubOfFeed, HubState, HubSubscription
from lcc.storage.database.database import Database
from lcc.storage.database.table import Table, due_where
from lcc.storage.database.transactions import Txn

WHY_CHARS = 500
SUBSCRIPTIONS = Table("websub", ["id"], [field.name for field in attrs.fields(HubSubscription)])
_ANY = "state IN ('asking', 'active')"


class Pushed(NamedTuple):
    """A signed push.

    :ivar poll_time: when the feed is to be polled.
    :ivar looks: so many polls may follow that.
    """

    id: str
    time: int
    poll_time: int
    looks: int


class LongestWaits(NamedTuple):
    """How long a subscription waits at most, in seconds.

    :ivar confirm: for the hub's answer.
    :ivar retry: before a hub is asked again that could not be asked.
    :ivar dropped: before a hub is asked again that was dropped.
    :ivar poll: before a poll because of a push.
    :ivar judge: for the push of news that a poll has found.
    """

    confirm: int
    retry: int
    dropped: int
    poll: int
    judge: int


def as_subscription(row: Sequence[Any]) -> HubSubscription:
    """The subscription of a row of :data:`SUBSCRIPTIONS`."""
    values = dict(zip(SUBSCRIPTIONS.columns, row, strict=True))
    return HubSubscription(**{**values, "state": HubState(values["state"])})


def _row(subscription: HubSubscription) -> tuple[Any, ...]:
    return tuple(map(_stored, attrs.asdict(subscription, recurse=False).values()))


class SubscriptionStore:
    """See :mod:`lcc.storage.push.subscriptions`.

    :param write: runs a function in a transaction of the push server that has claimed the tables.
    """

    def __init__(self, database: Database, write: Callable[..., Deferred[Any]]) -> None:
        self._database = database
        self._select: Callable[..., Deferred[Any]] = database.select
        self._write = write

    def get(self, ident: str) -> Deferred[HubSubscription | None]:
        """The subscription of a callback."""
        return self._select(get_subscription, ident)

    def due(self, now: int, failing: bool, without: Sequence[str], limit: int) -> Deferred[list[HubSubscription]]:
        """Those whose hubs are to be asked, or are waited for in vain, the longest first.

        :param failing: of those whose hubs were asked in vain, or of the others.
        :param without: hubs that are left out.
        """
        return self._select(_due, now, failing, without, limit)

    def with_polls(self, now: int, limit: int) -> Deferred[list[HubSubscription]]:
        """Those whose feeds are to be polled, or whose newest news are to be judged."""
        return self._database.interact(_with_polls, now, limit)

    def of_tasks(self, tasks: Sequence[int]) -> Deferred[list[HubSubscription]]:
        """Those of these feeds."""
        return self._select(subscriptions_of, list(tasks))

    def page(self, after: str, limit: int) -> Deferred[list[HubSubscription]]:
        """All, in the order of their ids."""
        return self._select(_page, after, limit)

    def counts(self) -> Deferred[dict[str, int]]:
        """State -> how many there are."""
        return self._select(count_subscriptions)

    def add(self, subscriptions: Sequence[HubSubscription]) -> Deferred[None]:
        """New ones."""
        return self._write(_add, list(subscriptions))

    def change(self, ident: str, where: Mapping[str, Any], values: Mapping[str, Any]) -> Deferred[bool]:
        """Set these columns, if those have the values that it was decided by; whether they had."""
        return self._write(_change, ident, dict(where), dict(values))

    def pushed(self, pushes: Sequence[Pushed]) -> Deferred[None]:
        """Signed pushes have come."""
        return self._write(_pushed, list(pushes))

    def bound_waits(self, now: int, longest: LongestWaits) -> Deferred[None]:
        """The wall clock may have been set back: what was noted by it before is not waited for any longer than usual.

        What a hub has confirmed in what is the future now is asked for at once: when its lease ends is not known.
        """
        return self._write(_bound_waits, now, longest)

    def remove(self, ident: str) -> Deferred[None]:
        """It has ended."""
        return self._write(_remove, ident)


def get_subscription(txn: Txn, ident: str) -> HubSubscription | None:
    """See :meth:`SubscriptionStore.get`."""
    row = txn.one(f"{SUBSCRIPTIONS.select} WHERE id = ?", [ident])
    return None if row is None else as_subscription(row)


def subscriptions_of(txn: Txn, tasks: Sequence[int]) -> list[HubSubscription]:
    """See :meth:`SubscriptionStore.of_tasks`."""
    rows = txn.query_in(f"{SUBSCRIPTIONS.select} WHERE task IN ({{in}})", list(tasks))
    return sorted(map(as_subscription, rows), key=lambda each: (each.task, each.made_time, each.id))


def list_subscriptions(txn: Txn, state: HubState | None, limit: int) -> list[HubSubscription]:
    """The newest ones; of one state, or all."""
    where, values = ("WHERE state = ?", [state.value]) if state else ("", [])
    sql = f"{SUBSCRIPTIONS.select} {where} ORDER BY made_time DESC, id LIMIT ?"
    return [as_subscription(row) for row in txn.query(sql, [*values, limit])]


def _due(txn: Txn, now: int, failing: bool, without: Sequence[str], limit: int) -> list[HubSubscription]:
    where = due_where(failing, "hub", without)
    sql = f"{SUBSCRIPTIONS.select} WHERE due_time <= ? AND {where} ORDER BY due_time, id LIMIT ?"
    return [as_subscription(row) for row in txn.query(sql, [now, *without, limit])]


def _with_polls(txn: Txn, now: int, limit: int) -> list[HubSubscription]:
    found: dict[str, HubSubscription] = {}
    for name in ("poll_time", "backup_time", "judge_time"):
        sql = f"{SUBSCRIPTIONS.select} WHERE {name} > 0 AND {name} <= ? AND {_ANY} ORDER BY {name} LIMIT ?"
        found |= {each.id: each for each in map(as_subscription, txn.query(sql, [now, limit]))}
    return list(found.values())


def _page(txn: Txn, after: str, limit: int) -> list[HubSubscription]:
    rows = txn.query(f"{SUBSCRIPTIONS.select} WHERE id > ? ORDER BY id LIMIT ?", [after, limit])
    return [as_subscription(row) for row in rows]


def count_subscriptions(txn: Txn) -> dict[str, int]:
    """State -> how many subscriptions are in it."""
    return {state: int(count) for state, count in txn.query("SELECT state, COUNT(*) FROM websub GROUP BY state")}


def _add(txn: Txn, subscriptions: Sequence[HubSubscription]) -> None:
    SUBSCRIPTIONS.insert(txn, [_row(each) for each in subscriptions])


def _change(txn: Txn, ident: str, where: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    names = list(where)
    row = txn.one(f"SELECT {', '.join(['id', *names])} FROM websub WHERE id = ?{txn.for_update}", [ident])
    if row is None or list(row[1:]) != [_stored(where[name]) for name in names]:
        return False
    if "why" in values:
        values = {**values, "why": values["why"][:WHY_CHARS]}
    assignments = ", ".join(f"{name} = ?" for name in values)
    txn.execute(f"UPDATE websub SET {assignments} WHERE id = ?", [*map(_stored, values.values()), ident])
    return True


def _stored(value: Any) -> Any:
    return value.value if isinstance(value, HubState) else value


def _pushed(txn: Txn, pushes: Sequence[Pushed]) -> None:
    sql = f"UPDATE websub SET pushed_time = ?, pushes = pushes + 1, poll_time = ?, looks = ? WHERE id = ? AND {_ANY}"
    for each in pushes:
        txn.execute(sql, [each.time, each.poll_time, each.looks, each.id])


def _bound_waits(txn: Txn, now: int, longest: LongestWaits) -> None:
    txn.execute(
        "UPDATE websub SET due_time = ?, expires_time = ? + lease_seconds"
        " WHERE state = 'active' AND asked_time = 0 AND expires_time > ? + lease_seconds",
        [now, now, now],
    )
    for column, seconds, where in (
        ("due_time", 0, "state = 'asking' AND asked_time = 0 AND failures = 0"),
        ("due_time", longest.confirm, "(asked_time > 0 OR state = 'leaving')"),
        ("due_time", longest.retry, f"failures > 0 AND {_ANY}"),
        ("due_time", longest.dropped, "state = 'dropped'"),
        ("asked_time", 0, "state <> 'leaving'"),
        ("active_time", 0, _ANY),
        ("news_time", 0, _ANY),
        ("pushed_time", 0, _ANY),
        ("polled_time", -1, _ANY),  # whether that was after the last push is not known
        ("poll_time", longest.poll, _ANY),
        ("judge_time", longest.judge, _ANY),
    ):
        latest = now + seconds
        txn.execute(f"UPDATE websub SET {column} = ? WHERE {column} > ? AND {where}", [latest, latest])


def _remove(txn: Txn, ident: str) -> None:
    txn.execute("DELETE FROM websub WHERE id = ?", [ident])


def replaced(rows: Sequence[HubSubscription], wanted: HubOfFeed | None) -> tuple[bool, list[HubSubscription]]:
    """What is to be done about the subscriptions of a feed: whether a new one is wanted, and those that are to end.

    One at another hub is kept until the new one is confirmed.
    """
    living = [each for each in rows if each.state is not HubState.LEAVING]
    fitting = [each for each in living if wanted is not None and (each.hub, each.topic) == wanted]
    active = any(each.state is HubState.ACTIVE for each in fitting)
    ending = [
        each
        for each in living
        if each not in fitting and (wanted is None or active or each.state is not HubState.ACTIVE)
    ] + fitting[1:]
    return wanted is not None and not fitting, ending
