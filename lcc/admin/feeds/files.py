"""``lcc-admin feed import`` and ``export``: lists of feeds as other feed readers have them (OPML)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import IO, Any

import click

from lcc.admin.context import Admin, pass_admin
from lcc.admin.feeds.private_sites import allow_private_site
from lcc.admin.feeds.values import EVERY, LINKS, feed_url, options_of
from lcc.admin.output import json_option, pages
from lcc.admin.tasks.orders import tasks_database
from lcc.commands.errors import Failed
from lcc.domain.urls import site_of
from lcc.domain.wording import number
from lcc.feeds.opml import OpmlError, Outline, read_opml, write_opml
from lcc.insight.task_inputs import feed_period
from lcc.model.feed_options import FeedOptions, feed_args
from lcc.model.tasks import JobSpec, Task
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.feed_views import FEED, feed_urls
from lcc.storage.tasks.item_views import feeds_of
from lcc.storage.tasks.orders import order_task
from lcc.storage.tasks.views import PAGE_ROWS, tasks_page

_ORDERS_AT_ONCE = 200


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
    seen: dict[str, str] = {}
    faults: list[tuple[str, str]] = []
    with tasks_database(admin) as database:
        there = database.interact(feed_urls)
        for outline in outlines:
            try:
                url = feed_url(outline.url)
            except click.BadParameter as error:
                faults.append((outline.url, error.message))
                continue
            seen[url] = "there" if url in there else "added"
        new = [url for url, state in seen.items() if state == "added"]
        if options.allow_private:
            for url in {site_of(url): url for url in new}.values():
                allow_private_site(admin, url)
        tasks = iter([Task(0, JobSpec(FEED, args=feed_args(url, options)), **feed_period(every)) for url in new])
        ids: dict[str, int] = dict(there)
        while some := list(islice(tasks, _ORDERS_AT_ONCE)):
            numbers = database.write(_order_all, some, admin.now())
            ids.update((task.spec.args[0], number) for task, number in zip(some, numbers, strict=True))
    if as_json:
        for url, state in seen.items():
            click.echo(json.dumps({"url": url, "id": ids[url], "state": state}))
        for url, text in faults:
            click.echo(json.dumps({"url": url, "id": None, "state": "refused", "error": text}))
    else:
        there_already = len(seen) - len(new)
        were = f", {there_already:,} {'was' if there_already == 1 else 'were'} there already" if there_already else ""
        click.echo(f"{number(len(new), 'feed')} added{were}")
        for _, text in faults:
            click.echo(f"refused: {text}", err=True)
    if faults:
        raise SystemExit(Failed.exit_code)


def _order_all(txn: Txn, tasks: Sequence[Task], now: int) -> list[int]:
    return [order_task(txn, task, now)[0] for task in tasks]


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
    for line in write_opml("Feeds of an LCC", outlines):
        output.write(line)


def _outlines(database: Any) -> Iterator[Outline]:
    for page in pages(lambda after: database.interact(tasks_page, after, FEED), 0, lambda task: task.id, PAGE_ROWS):
        feeds = database.interact(feeds_of, [task.id for task in page])
        for task in page:
            info = json.loads(feeds[task.id].record) if task.id in feeds else {}
            if task.spec.args:
                yield Outline(task.spec.args[0], info.get("title", ""), info.get("link", ""))
