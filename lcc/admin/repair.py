"""``lcc-admin retry`` and ``rebuild``: orders that the queue manager carries out."""

from __future__ import annotations

import click

from lcc.admin.context import Admin, check_provider, pass_admin
from lcc.admin.errors import code_option
from lcc.insight.qm_state import read_live
from lcc.insight.why_words import counted
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.order_rows import REBUILD, RETRY, add_order
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.saved_state import saved_state
from lcc.storage.views.inspect import Count, count_errors, count_waiting

COUNT_MAX = 100_000


@click.command("retry")
@click.option("--provider", "pid", type=click.IntRange(1), help="Only this provider's.")
@code_option
@pass_admin
def retry_command(admin: Admin, pid: int | None, code: int | None) -> None:
    """Fetch again what failed, now: what waits because of an error, and what failed for good and is kept as an error.

    Providers whose sites could not be reached and URLs that wait after an error are tried at once; URLs behind the
    errors that are kept (see: lcc-admin errors) are queued again, unless something has come of them since.
    """
    with admin.database() as database:
        check_provider(database, pid)
        found, waiting = database.interact(_count, pid or 0, code or 0)
        database.write(add_order, RETRY, pid or 0, code or 0)
        click.echo(
            f"ordered: {_urls(found)} that failed for good, {_urls(waiting)} that wait after an error,"
            " and sites that could not be reached are tried again"
        )
        tell_when(admin, database)


def _count(txn: Txn, pid: int, code: int) -> tuple[Count, Count]:
    return count_errors(txn, pid, code, COUNT_MAX), count_waiting(txn, pid, code, COUNT_MAX)


def _urls(count: Count) -> str:
    return counted({"number": count.number, "more": count.more}, "URL")


@click.command("rebuild")
@pass_admin
def rebuild_command(admin: Admin) -> None:
    """Build the table of the sets that wait (qpsdb) anew from the queue (qdb)."""
    with admin.database() as database:
        database.write(add_order, REBUILD)
        click.echo("ordered")
        tell_when(admin, database)


def tell_when(admin: Admin, database: BlockingDatabase) -> None:
    """Say that an order has to wait, if no queue manager runs."""
    if not read_live(database.interact(saved_state), admin.now()).alive:
        click.echo("no queue manager is running: it is carried out when one is started")
