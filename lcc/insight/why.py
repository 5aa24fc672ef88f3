"""All that is known of a URL, for the words of :mod:`lcc.insight.why_words`: where it stands, what it waits for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lcc.config import Config
from lcc.domain.fetches.timeslots import TimeSlots
from lcc.domain.keys import url_key
from lcc.insight.qm_state import Live, read_live
from lcc.insight.records import as_record
from lcc.model import FETCH_NOW, QueueRow, retry_time, source_text
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.providers import NoSuchProvider, get_provider, provider_status
from lcc.storage.queue.maintenance.saved_state import saved_state
from lcc.storage.views.inspect import (
    Count,
    View,
    curls_fetched_from,
    delays_of,
    earliest_set,
    errors_of,
    last_error,
    owners,
    place,
    sets_of_others,
    views,
)

COUNT_MAX = 10_000
"""Beyond, "more than" this."""

ERRORS_MAX = 5


def explain(
    txn: Txn, config: Config, now: int, url: str, pid: int | None = None, fetch_url: bool = False
) -> dict[str, Any]:
    """All that is known of a URL; ``pushes`` (:func:`lcc.insight.push_words.push_records`) is for the caller to add.

    :param now: seconds since 1970.
    :param url: normalised.
    :param pid: only as this provider's; None: all that it belongs to.
    :param fetch_url: the URL is what is fetched, not the name of the page; reads all of the provider's rows.
    :raises NoSuchProvider: there is no such provider.
    """
    live = read_live(saved_state(txn), now)
    roots = {owner.pid: owner.root for owner in owners(txn, url)}
    if pid is not None:
        if get_provider(txn, pid) is None:
            raise NoSuchProvider(f"there is no provider {pid}")
        roots = {pid: roots.get(pid, "")}
    providers = []
    for owner, root in roots.items():
        curls = curls_fetched_from(txn, owner, url) if fetch_url else [url]
        providers.append(_provider(config, txn, live, now, owner, root, curls, url))
    return {
        "url": url,
        "time": now,
        "trouble": live.trouble,
        "takes_nothing": live.takes_nothing,
        "providers": providers,
    }


def _provider(
    config: Config,
    txn: Txn,
    live: Live,
    now: int,
    pid: int,
    root: str,
    curls: list[str],
    asked: str,
) -> dict[str, Any]:
    provider = get_provider(txn, pid)
    status = provider_status(txn, pid, 0)
    found = [view for curl in curls for view in views(txn, url_key(pid, curl, ""))]
    fetched_from = {asked, *curls}
    for view in found:
        for each in (view.queued.notice if view.queued is not None else None, view.cached):
            if each is not None:
                fetched_from.add(each.furl or each.curl)
    key = url_key(pid, curls[0] if curls else asked, "")
    errors = errors_of(txn, key, sorted(fetched_from - {""}), ERRORS_MAX)
    hours = provider.hours if provider is not None else ""
    zone = provider.timezone if provider is not None else ""
    return {
        "pid": pid,
        "root": root,
        "curls": curls,
        "removed": provider is None or provider.removed,
        "queued": status.processing,
        "awaited": live.awaited if live.withholds(pid, earliest_set(txn, pid)) else [],
        "delays": [delay._asdict() for delay in delays_of(txn, pid, now)],
        "being_fetched": live.is_fetching_from(pid),
        "waits_for": live.waits_for(pid),
        "hours": hours,
        "timezone": zone or config.timezone,
        "opens": _opening(config, "", hours, zone, now),
        "full_set_wanted": status.full_set_wanted,
        "views": [_view(config, txn, live, now, view, hours, zone) for view in found],
        "errors": [
            {
                "code": error.code,
                "text": error.text,
                "url": error.url,
                "time": error.time,
                "source": source_text(error.source),
            }
            for error in errors
        ],
    }


def _view(config: Config, txn: Txn, live: Live, now: int, view: View, hours: str, zone: str) -> dict[str, Any]:
    content: Path = config.under_home(config.botm.content)
    cached: dict[str, Any] | None = None
    if view.cached is not None:
        md5, length, mtime = view.told
        cached = as_record(view.cached, content) | {
            "key": view.cached.key.hex(),
            "status": view.cached.status,
            "here": view.cached.fetched_machineid == config.botm.machine,
            "confirmed_time": view.cached.confirmed_time,
            "told_md5": md5 or None,
            "told_len": length,
            "told_mtime": mtime,
        }
    queued = None if view.queued is None else _queued(config, txn, live, now, view.queued, hours, zone)
    return {"mimetype": view.mimetype, "queued": queued, "cached": cached}


def _queued(config: Config, txn: Txn, live: Live, now: int, row: QueueRow, hours: str, zone: str) -> dict[str, Any]:
    stands = place(txn, row, COUNT_MAX)
    own = stands.own_set
    higher = earlier = Count(0, False)
    if own is not None:
        higher, earlier = sets_of_others(txn, own, COUNT_MAX)
    order = live.fetching(row.key)
    error = last_error(txn, row)
    return {
        "operation": "nothing" if row.delete else "fetch",
        "source": source_text(row.source),
        "furl": row.notice.furl or row.notice.curl,
        "psetid": row.psetid,
        "seq": row.seq,
        "full_set": own is not None and own.full,
        "priority": None if own is None else own.priority,
        "received_time": None if own is None else own.time,
        "slot": None if row.slot <= FETCH_NOW else row.slot,
        "hours": row.notice.hours,
        "opens": _opening(config, row.notice.hours, hours, zone, now),
        "attempts": row.attempts,
        "attempts_max": config.qm.attempts_max,
        "unreached": row.unreached,
        "unreached_max": config.qm.hold_attempts_max,
        "last_error": None if error is None else error._asdict(),
        "next_try": retry_time(row.slot) if row.slot < FETCH_NOW else None,
        "fetching_on": None if order is None else order["machine"],
        "before_in_set": _count(stands.in_set),
        "sets_before": _count(stands.sets),
        "rows_before": _count(stands.rows),
        "sets_of_higher_priority": _count(higher),
        "earlier_sets_of_others": _count(earlier),
    }


def _count(count: Count) -> dict[str, Any]:
    return count._asdict()


def _opening(config: Config, hours: str, provider_hours: str, zone: str, now: int) -> float | None:
    """When these hours are open next: now, if they are; None: they never meet."""
    timeslots = TimeSlots(config.slots, config.slot_seconds, config.timezone)
    return timeslots.opening(timeslots.meet(hours, provider_hours), now, zone)
