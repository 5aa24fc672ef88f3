"""``lcc-admin urls``: what is in the cache, and what changed."""

from __future__ import annotations

import json
from typing import Any

import click

from lcc.admin.context import Admin, NoLongerKnown, pass_admin
from lcc.admin.output import Column, Listing, json_option
from lcc.admin.values import PID
from lcc.commands.progress import progress
from lcc.insight.records import as_record
from lcc.model import CachedUrl
from lcc.roles.cu.query_options import asked_query, query_options
from lcc.roles.cu.selection import pages
from lcc.roles.cu.tokens import StartAgain, TokenError
from lcc.storage.disk.content_paths import content_path

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
@query_options(complete={"provider": PID.shell_complete})
@json_option
@pass_admin
def urls_command(admin: Admin, /, as_json: bool, **options: Any) -> None:
    """List cached URLs; with --since, only changes.

    With --json, print one object per line; after changes, a last line {"next": "TOKEN"}.
    """
    query = asked_query(options)
    listing = Listing(_COLUMNS, as_json)
    content = admin.config.under_home(admin.config.botm.content)
    machine = admin.config.botm.machine

    def row(url: CachedUrl) -> dict[str, Any]:
        record = as_record(url, content)
        if not as_json and record["path"] is not None and url.fetched_machineid != machine:
            # Nothing of this machine: its home folder may be another one there.
            record["path"] = f"machine {url.fetched_machineid}: {content_path(url.fetched_fileid or 0)}"
        return record

    token = None
    with admin.database() as database:
        try:
            with progress("listing", unless_shown=True) as more:
                for page in pages(database.interact, query):
                    for url in page.rows:
                        listing.row(row(url))
                    token = page.token
                    more(len(page.rows))
        except TokenError as error:
            raise click.BadParameter(str(error), param_hint="--since") from None
        except StartAgain as error:
            raise NoLongerKnown(str(error), "start again with --since 0 and an empty copy") from None
    listing.end("no URL is cached" if token is None else "nothing has changed")
    if token is not None:
        click.echo(json.dumps({"next": str(token)}) if as_json else f"next: {token}")
