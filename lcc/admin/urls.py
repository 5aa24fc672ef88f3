"""``lcc-admin urls``: what is in the cache, and what changed."""

from __future__ import annotations

import json
from typing import Any

import click

from lcc.admin.context import Admin, NoLongerKnown, pass_admin
from lcc.admin.output import Column, Listing, json_option
from lcc.admin.values import PID, ROWS
from lcc.model import CachedUrl
from lcc.storage.content import content_path
from lcc.storage.database import BlockingDatabase
from lcc.users.records import as_record
from lcc.users.selection import all_changes, all_urls, start_token
from lcc.users.tokens import StartAgain, Token, TokenError

_COLUMNS = (
    Column("pid", 5, "number"),
    Column("change", 9, "number"),
    Column("state", 7),
    Column("mimetype", 21),
    Column("len", 9, "number"),
    Column("fetched_time", 19, "time", title="fetched (UTC)"),
    Column("curl"),
    Column("path"),
)


@click.command("urls")
@click.option("--provider", "pid", type=PID, help="Only this provider's.")
@click.option(
    "--since",
    metavar="TOKEN",
    help="What changed since then, deletions included, and last the next token.  0: from the beginning.",
)
@click.option("--limit", type=ROWS, help="At most so many rows.")
@json_option
@pass_admin
def urls_command(admin: Admin, pid: int | None, since: str | None, limit: int | None, as_json: bool) -> None:
    """List the cache; with --since, the changes since an earlier listing.

    With --json, one object a line; after the changes, a last line {"next": "TOKEN"}.
    """
    listing = Listing(_COLUMNS, as_json)
    content = admin.config.under_home(admin.config.botm.content)
    machine = admin.config.botm.machine

    def row(url: CachedUrl) -> dict[str, Any]:
        record = as_record(url, content)
        if not as_json and record["path"] is not None and url.fetched_machineid != machine:
            # Nothing of this machine: its home folder may be another one there.
            record["path"] = f"machine {url.fetched_machineid}: {content_path(url.fetched_fileid or 0)}"
        return record

    with admin.database() as database:
        if since is None:
            for url in all_urls(database.interact, pid, limit):
                listing.row(row(url))
            listing.end("no URL is cached")
            return
        token = _start(database, since, pid)
        try:
            for page in all_changes(database.interact, token, limit):
                for url in page.rows:
                    listing.row(row(url))
                token = page.token
        except StartAgain as error:
            raise _start_again(error) from None
    listing.end("nothing has changed")
    click.echo(json.dumps({"next": str(token)}) if as_json else f"next: {token}")


def _start(database: BlockingDatabase, since: str, pid: int | None) -> Token:
    try:
        return database.interact(start_token, since, pid)
    except TokenError as error:
        raise click.BadParameter(str(error), param_hint="--since") from None
    except StartAgain as error:
        raise _start_again(error) from None


def _start_again(error: StartAgain) -> NoLongerKnown:
    return NoLongerKnown(f"start again with --since 0 and an empty copy: {error}")
