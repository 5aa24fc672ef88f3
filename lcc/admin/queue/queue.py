"""``lcc-admin queue``: what waits to be fetched."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import attrs
import click

from lcc.admin.context import Admin, check_provider, pass_admin
from lcc.admin.output import Column, Listing, json_option, pages
from lcc.admin.values import PID, ROWS
from lcc.commands.progress import counting
from lcc.insight.qm_state import Live, read_live
from lcc.insight.records import NOT_BROWSABLE
from lcc.model import FETCH_NOW, QueueRow, retry_time
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.maintenance.saved_state import saved_state
from lcc.storage.views.queue_rows import QueueSet, queue_rows, queue_sets

PAGE_ROWS = 1000

_SET_COLUMNS = (
    Column("psetid", 8, "number"),
    Column("pid", 5, "number"),
    Column("priority", 8, "number"),
    Column("full", 4),
    Column("queued", 9, "number"),
    Column("slot", 4, "number"),
    Column("time", 19, "time", title="received (UTC)"),
    Column("next_try", 19, "time", title="retry (UTC)"),
    Column("waits_for", title="waits for provider"),
)
_URL_COLUMNS = (
    Column("psetid", 8, "number"),
    Column("seq", 9, "number"),
    Column("pid", 5, "number"),
    Column("operation", 9),
    Column("attempts", 8, "number"),
    Column("slot", 4, "number"),
    Column("next_try", 19, "time", title="retry (UTC)"),
    Column("mimetype", 21),
    Column("curl"),
)


@click.command("queue")
@click.option("--provider", "pid", type=PID, help="Only of this provider.")
@click.option("--urls", "each_url", is_flag=True, help="List URLs instead of sets.")
@click.option("--limit", type=ROWS, help="Maximum number of rows.")
@json_option
@pass_admin
def queue_command(admin: Admin, pid: int | None, each_url: bool, limit: int | None, as_json: bool) -> None:
    """List queued sets in order; with --urls, their URLs.

    URLs deleted after they were queued are not counted, but listed by --urls.  A provider waits for another one that
    has its turn at the same host ([qm] serial_by_host).
    """
    listing = Listing(_URL_COLUMNS if each_url else _SET_COLUMNS, as_json)
    with admin.database() as database:
        check_provider(database, pid)
        rows = _urls(database, pid) if each_url else _sets(database, pid, database.interact(_live, admin.now()))
        for row in counting("listing", islice(rows, limit)):
            listing.row(row)
    listing.end("the queue is empty")


def _live(txn: Txn, now: int) -> Live:
    return read_live(saved_state(txn), now)


def _sets(database: BlockingDatabase, pid: int | None, live: Live) -> Iterator[dict[str, Any]]:
    def page(after: tuple[int, int]) -> list[QueueSet]:
        return database.interact(queue_sets, pid, after, PAGE_ROWS)

    found = pages(page, (0, FETCH_NOW), lambda each: (each.psetid, each.slot), PAGE_ROWS)
    return (
        attrs.asdict(each) | _slot(each.slot) | {"waits_for": live.waits_for(each.pid)}
        for each in chain.from_iterable(found)
    )


def _urls(database: BlockingDatabase, pid: int | None) -> Iterator[dict[str, Any]]:
    def page(after: bytes | None) -> list[QueueRow]:
        return database.interact(queue_rows, pid, after, PAGE_ROWS)

    return map(_as_record, chain.from_iterable(pages(page, None, lambda row: row.key, PAGE_ROWS)))


def _slot(slot: int) -> dict[str, Any]:
    """The time slot that it waits for, or until when it waits after an error; neither: it may be fetched."""
    return {
        "slot": None if slot <= FETCH_NOW else slot,
        "next_try": retry_time(slot) if slot < FETCH_NOW else None,
    }


def _as_record(row: QueueRow) -> dict[str, Any]:
    notice = row.notice
    return {
        "psetid": row.psetid,
        **_slot(row.slot),
        "seq": row.seq,
        "pid": row.pid,
        # A deletion that came after a fetch was queued leaves nothing to do at the row's turn.
        "operation": "nothing" if row.delete else "fetch",
        "attempts": row.attempts,
        "unreached": row.unreached,
        "curl": notice.curl,
        "furl": notice.furl or notice.curl,
        "burl": None if notice.burl == NOT_BROWSABLE else notice.burl or notice.curl,
        "mimetype": notice.mimetype,
        "subtype": notice.subtype,
        "md5": notice.md5 or None,
        "len": notice.length,
        "mtime": notice.mtime,
        "hours": notice.hours,
    }
