"""``lcc-admin errors``: errors of fetches that are kept for the providers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import click

from lcc.admin.context import Admin, check_provider, pass_admin
from lcc.admin.output import Column, Listing, json_option, pages
from lcc.admin.values import PID
from lcc.commands.progress import counting
from lcc.errors import entry_for
from lcc.model import source_text
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.views.inspect import kept_errors

PAGE_ROWS = 1000

_COLUMNS = (
    Column("pid", 5, "number"),
    Column("number", 6, "number"),
    Column("time", 19, "time", title="time (UTC)"),
    Column("code", 4, "number"),
    Column("name", 18),
    Column("source", 6),
    Column("url"),
    Column("text"),
)

code_option = click.option(
    "--code", type=click.IntRange(100, 9999), help="Only errors with this code or HTTP status."
)


@click.command("errors")
@click.option("--provider", "pid", type=PID, help="Only of this provider.")
@code_option
@click.option("--limit", type=click.IntRange(1), help="Maximum number of rows.")
@json_option
@pass_admin
def errors_command(admin: Admin, pid: int | None, code: int | None, limit: int | None, as_json: bool) -> None:
    """List final errors of fetches, by provider and in order.

    URLs that were fetched or deleted since then are not listed; their errors are still reported to the provider.
    """
    listing = Listing(_COLUMNS, as_json)
    with admin.database() as database:
        check_provider(database, pid)
        for row in counting("listing", islice(_errors(database, pid or 0, code or 0), limit)):
            listing.row(row)
    listing.end("no errors" if code is None else f"no errors with code {code}")


def _errors(database: BlockingDatabase, pid: int, code: int) -> Iterator[dict[str, Any]]:
    found = pages(
        lambda after: database.interact(kept_errors, pid, code, after, PAGE_ROWS),
        (0, 0),
        lambda row: (row[0], row[1].number),
        PAGE_ROWS,
    )
    for owner, error in chain.from_iterable(found):
        yield {
            "pid": owner,
            "number": error.number,
            "time": error.time,
            "code": error.code,
            "name": entry_for(error.code).name,
            "source": source_text(error.source),
            "url": error.url,
            "text": error.text,
            "sent": error.sent,
        }
