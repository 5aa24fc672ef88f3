"""``lcc-admin feed import`` and ``export``: lists of feeds as other feed readers have them (OPML)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Any

import click

from lcc.admin.context import Admin, pass_admin
from lcc.admin.feeds.private_sites import allow_private_site
from lcc.admin.feeds.values import EVERY, LINKS, options_of
from lcc.admin.output import json_option
from lcc.admin.tasks.orders import tasks_database
from lcc.commands.errors import Failed
from lcc.domain.urls import site_of
from lcc.insight.feed_lists import LIST_TITLE, compare_list, in_chunks, order_feeds, outline_page, said_of
from lcc.model.feed_options import FeedOptions
from lcc.protocols.opml import OpmlError, Outline, read_opml, write_opml
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.tasks.feeds.views import feed_urls


@click.command("import")
@click.argument("file", type=click.File("rb"))
@click.option("--every", type=EVERY, help="Period in seconds.  Default: it follows from what polls find.")
@click.option("--full-content", is_flag=True, default=None, help="Fetch the pages of new items, and keep their text.")
@click.option("--links", type=LINKS, help="Pages of items on which hosts.  Default: same-host.")
@click.option("--listed", is_flag=True, default=None, help="Each is its site's own feed, whose pages are its word.")
@click.option("--allow-private", is_flag=True, default=None, help="The feeds may be on private addresses.")
@json_option
@pass_admin
def import_command(admin: Admin, /, file: IO[bytes], every: int | None, as_json: bool, **given: Any) -> None:
    """Add the feeds of an OPML file (-: standard input); those that are there already stay as they are."""
    try:
        outlines = read_opml(file)
    except OpmlError as error:
        raise Failed(
            f"{getattr(file, 'name', '<stdin>')}: {error}", "export the list as OPML from your feed reader again"
        ) from None
    options = options_of(FeedOptions(), given)
    with tasks_database(admin) as database:
        known = database.interact(feed_urls)
        found = compare_list(outlines, known)
        if options.allow_private:
            for url in {site_of(url): url for url in found.new}.values():
                allow_private_site(admin, url)
        ids = {url: known[url] for url in found.there}
        for some in in_chunks(found.new):
            ids.update(zip(some, database.write(order_feeds, some, options, every, admin.now()), strict=True))
    if as_json:
        for state, urls in (("added", found.new), ("there", found.there)):
            for url in urls:
                click.echo(json.dumps({"url": url, "id": ids[url], "state": state}))
        for url, text in found.refused:
            click.echo(json.dumps({"url": url, "id": None, "state": "refused", "error": text}))
    else:
        click.echo(said_of(found))
        for _, text in found.refused:
            click.echo(f"refused: {text}", err=True)
    if found.refused:
        raise SystemExit(Failed.exit_code)


@click.command("export")
@click.option("-o", "--output", type=click.File("w", encoding="utf-8", lazy=True), default="-", help="A file.")
@json_option
@pass_admin
def export_command(admin: Admin, output: IO[str], as_json: bool) -> None:
    """Write all feeds as OPML, which other feed readers import."""
    with tasks_database(admin) as database:
        outlines = list(_outlines(database))
    if as_json:
        for each in outlines:
            click.echo(json.dumps({"url": each.url, "title": each.title, "page": each.page}), file=output)
        return
    for line in write_opml(LIST_TITLE, outlines):
        output.write(line)


def _outlines(database: BlockingDatabase) -> Iterator[Outline]:
    after: int | None = 0
    while after is not None:
        page = database.interact(outline_page, after)
        yield from page.outlines
        after = page.last
