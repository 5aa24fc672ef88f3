"""``lcc-admin retry`` and ``rebuild``: orders that the queue manager carries out."""

from __future__ import annotations

import sys

import click

from lcc.admin.context import Admin, check_provider, pass_admin
from lcc.admin.queue.errors import code_option
from lcc.insight.qm_state import read_live
from lcc.insight.why_words import counted
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.tables.order_rows import REBUILD, RETRY, add_order
from lcc.storage.database.transactions import Txn
from lcc.storage.queue.maintenance.saved_state import saved_state
from lcc.storage.views.inspect import Count, count_errors, count_waiting

COUNT_MAX = 100_000


@click.command("retry")
@click.option("--provider", "pid", type=click.IntRange(1), help="Only of this provider.")
@code_option
@click.option("--all", "everything", is_flag=True, help="All errors of all providers.")
@pass_admin
def retry_command(admin: Admin, pid: int | None, code: int | None, everything: bool) -> None:
    """Retry failed URLs now.

    Unreachable sites and URLs waiting after an error are retried at once; URLs with a final error (see lcc-admin
    errors) are queued again, unless they were submitted since.

    Without --provider and --code it asks; --all answers that.
    """
    if everything and (pid is not None or code is not None):
        raise click.UsageError("--all cannot be combined with --provider or --code.")
    with admin.database() as database:
        check_provider(database, pid)
        what = _retried(*database.interact(_count, pid or 0, code or 0))
        if pid is None and code is None and not everything:
            _ask_for_all(what)
        database.write(add_order, RETRY, pid or 0, code or 0)
        click.echo(f"ordered: retry of {what}")
        warn_if_not_running(admin, database)


def _ask_for_all(what: str) -> None:
    """
    :raises click.UsageError: there is nobody to ask.
    :raises click.Abort: the answer is no.
    """
    if not sys.stdin.isatty():
        raise click.UsageError(f"this would retry {what}, of all providers: give --provider, --code or --all.")
    click.confirm(f"Retry {what}, of all providers?", abort=True)


def _count(txn: Txn, pid: int, code: int) -> tuple[Count, Count]:
    return count_errors(txn, pid, code, COUNT_MAX), count_waiting(txn, pid, code, COUNT_MAX)


def _retried(found: Count, waiting: Count) -> str:
    what = [f"{_urls(found)} with a final error"] * bool(found.number)
    what += [f"{_urls(waiting)} waiting after an error"] * bool(waiting.number)
    sites = "any unreachable sites"
    return f"{', '.join(what)} and {sites}" if what else f"{sites} (no URL has such an error)"


def _urls(count: Count) -> str:
    return counted({"number": count.number, "more": count.more}, "URL")


@click.command("rebuild")
@pass_admin
def rebuild_command(admin: Admin) -> None:
    """Rebuild the table of queued sets from the queue."""
    with admin.database() as database:
        database.write(add_order, REBUILD)
        click.echo("ordered")
        warn_if_not_running(admin, database)


def warn_if_not_running(admin: Admin, database: BlockingDatabase) -> None:
    """Warn if no queue manager is running to carry out an order."""
    if not read_live(database.interact(saved_state), admin.now()).alive:
        click.echo("no queue manager is running: this is done when one starts")
