"""``lcc-admin why``: where a URL stands, and what it waits for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from lcc.admin.context import Admin, Failed, pass_admin
from lcc.admin.live import Live, read_live
from lcc.admin.why_words import say
from lcc.config import Config
from lcc.domain.keys import url_key
from lcc.domain.timeslots import TimeSlots
from lcc.domain.urls import normalise
from lcc.errors import UrlError
from lcc.model import FETCH_NOW, QueueRow, retry_time
from lcc.storage.database import BlockingDatabase
from lcc.storage.inspect import (
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
from lcc.storage.providers import get_provider, provider_status
from lcc.storage.queue_state import saved_state
from lcc.users.records import as_record

COUNT_MAX = 10_000
"""Beyond, "more than" this."""

ERRORS_MAX = 5


@click.command("why")
@click.argument("url")
@click.option("--provider", "pid", type=click.IntRange(1), help="Only as this provider's.")
@click.option(
    "--fetch-url", is_flag=True, help="URL is what is fetched; reads all of the provider's rows to find its name."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@pass_admin
def why_command(admin: Admin, url: str, pid: int | None, fetch_url: bool, as_json: bool) -> None:
    """Tell where a URL stands: whose it is, what it waits for, what went wrong, or since when it is cached.

    URL is the conceptual URL: the name that the provider gave it.
    """
    try:
        name = normalise(url)
    except UrlError as error:
        raise click.BadParameter(str(error), param_hint="URL") from None
    with admin.database() as database:
        answer = explain(admin, database, name, pid, fetch_url)
    if as_json:
        click.echo(json.dumps(answer))
        return
    for line in say(answer):
        click.echo(line)


def explain(admin: Admin, database: BlockingDatabase, url: str, pid: int | None, fetch_url: bool) -> dict[str, Any]:
    """All that is known of a URL.

    :param url: normalised.
    :raises Failed: there is no such provider.
    """
    now = admin.now()
    live = read_live(database.interact(saved_state), now)
    roots = {owner.pid: owner.root for owner in database.interact(owners, url)}
    if pid is not None:
        if database.interact(get_provider, pid) is None:
            raise Failed(f"there is no provider {pid}")
        roots = {pid: roots.get(pid, "")}
    providers = []
    for owner, root in roots.items():
        curls = database.interact(curls_fetched_from, owner, url) if fetch_url else [url]
        providers.append(_provider(admin.config, database, live, now, owner, root, curls, url))
    return {
        "url": url,
        "time": now,
        "trouble": live.trouble,
        "takes_nothing": live.takes_nothing,
        "providers": providers,
    }


def _provider(
    config: Config,
    database: BlockingDatabase,
    live: Live,
    now: int,
    pid: int,
    root: str,
    curls: list[str],
    asked: str,
) -> dict[str, Any]:
    provider = database.interact(get_provider, pid)
    status = database.interact(provider_status, pid, 0)
    found = [view for curl in curls for view in database.interact(views, url_key(pid, curl, ""))]
    fetched_from = {asked, *curls}
    for view in found:
        for each in (view.queued.notice if view.queued is not None else None, view.cached):
            if each is not None:
                fetched_from.add(each.furl or each.curl)
    key = url_key(pid, curls[0] if curls else asked, "")
    errors = database.interact(errors_of, key, sorted(fetched_from - {""}), ERRORS_MAX)
    hours = provider.hours if provider is not None else ""
    zone = provider.timezone if provider is not None else ""
    return {
        "pid": pid,
        "root": root,
        "curls": curls,
        "removed": provider is None or provider.removed,
        "queued": status.processing,
        "awaited": live.awaited if live.withholds(pid, database.interact(earliest_set, pid)) else [],
        "delays": [delay._asdict() for delay in database.interact(delays_of, pid, now)],
        "being_fetched": live.is_fetching_from(pid),
        "hours": hours,
        "timezone": zone or config.timezone,
        "opens": _opening(config, "", hours, zone, now),
        "full_set_wanted": status.full_set_wanted,
        "views": [_view(config, database, live, now, view, hours, zone) for view in found],
        "errors": [
            {"code": error.code, "text": error.text, "url": error.url, "time": error.time} for error in errors
        ],
    }


def _view(
    config: Config, database: BlockingDatabase, live: Live, now: int, view: View, hours: str, zone: str
) -> dict[str, Any]:
    content: Path = config.under_home(config.botm.content)
    cached: dict[str, Any] | None = None
    if view.cached is not None:
        md5, length, mtime = view.told
        cached = as_record(view.cached, content) | {
            "status": view.cached.status,
            "here": view.cached.fetched_machineid == config.botm.machine,
            "confirmed_time": view.cached.confirmed_time,
            "told_md5": md5 or None,
            "told_len": length,
            "told_mtime": mtime,
        }
    queued = None if view.queued is None else _queued(config, database, live, now, view.queued, hours, zone)
    return {"mimetype": view.mimetype, "queued": queued, "cached": cached}


def _queued(
    config: Config, database: BlockingDatabase, live: Live, now: int, row: QueueRow, hours: str, zone: str
) -> dict[str, Any]:
    stands = database.interact(place, row, COUNT_MAX)
    own = stands.own_set
    higher = earlier = Count(0, False)
    if own is not None:
        higher, earlier = database.interact(sets_of_others, own, COUNT_MAX)
    order = live.fetching(row.key)
    error = database.interact(last_error, row)
    return {
        "operation": "nothing" if row.delete else "fetch",
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
