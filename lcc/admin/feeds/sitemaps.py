"""``lcc-admin sitemap``: sitemaps that are read periodically; what they list is their site's own word."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import attrs
import click

from lcc.admin.cache.fetch import fetched_once
from lcc.admin.context import Admin, pass_admin
from lcc.admin.feeds.private_sites import allow_private_site
from lcc.admin.feeds.values import EVERY, feed_url
from lcc.admin.output import Column, Listing, cell, json_option, pages
from lcc.admin.tasks.orders import answer, order, say_order, tasks_database
from lcc.commands.errors import Failed
from lcc.commands.watch import clean
from lcc.domain.fetches.robots_rules import sitemaps_named
from lcc.domain.urls import site_of
from lcc.domain.wording import duration, number
from lcc.insight.why import explain
from lcc.insight.why_words import say
from lcc.model import FetchOrder
from lcc.model.shellwords import shell_word
from lcc.model.sitemaps import PRIVATE_OPTION, index_of
from lcc.model.tasks import JobSpec, Task, TaskState, When
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.tasks.feeds.views import feed_named, ordered_task
from lcc.storage.tasks.orders import (
    SITEMAP_CONFIRM,
    TASK_POLL,
    TASK_REMOVE,
    TASK_RESUME,
    TASK_SET,
    TASK_SUSPEND,
    order_task,
)
from lcc.storage.tasks.polling.sitemaps import SITEMAP, SitemapState, documents_of, sitemap_states
from lcc.storage.tasks.views import PAGE_ROWS, get_task, tasks_page

EVERY_SECONDS = 21600
_ROBOTS_BYTES = 500 * 1024
_SEE = "lcc-admin sitemap list shows all sitemaps"
_COLUMNS = (
    Column("id", 6, "number"),
    Column("state", 9),
    Column("every_seconds", 7, "number", title="period"),
    Column("documents", 9, "number"),
    Column("urls", 9, "number", title="URLs"),
    Column("held", 7, "number"),
    Column("last_state", 15, title="last job"),
    Column("url"),
)


@click.group("sitemap")
def sitemap_group() -> None:
    """Manage sitemaps: XML, indexes, plain text, gzip.

    A sitemap is polled through the queue like any page.  What it lists is the site's own word; what it lists no
    longer is retracted, and deleted if nobody else names it.
    """


def _named_by_robots(admin: Admin, site: str, private: bool) -> list[str]:
    """The sitemaps of a site, as its robots.txt names them; without any: the usual place.

    :raises Failed: it cannot be fetched.
    """
    root = site_of(site)
    url = f"{root}robots.txt"
    kept = io.BytesIO()
    account = fetched_once(admin.config.bot, FetchOrder(0, url, private=private), root, kept)
    error = account.error
    if error is not None and not 400 <= error.code < 500:
        then = (
            "add --allow-private, if it is on your own network"
            if not private
            else f"lcc-admin fetch {shell_word(url)}"
        )
        raise Failed(f"{url}: {error.code} {error.entry.name}: {error.text}", then)
    text = kept.getvalue()[:_ROBOTS_BYTES].decode("utf-8-sig", "replace") if error is None else ""
    found = []
    for named in sitemaps_named(text):
        if site_of(feed_url(named)) == root:
            found.append(feed_url(named))
        else:
            click.echo(clean(f"left out: {named} is on another host"), err=True)
    return found or [f"{root}sitemap.xml"]


@sitemap_group.command("add")
@click.argument("url", required=False)
@click.option("--site", help="The sitemaps that robots.txt of this site names; if none: its /sitemap.xml.")
@click.option("--every", type=EVERY, default=EVERY_SECONDS, show_default=True, help="Period in seconds.")
@click.option("--allow-private", is_flag=True, help="The site may be on a private address.")
@json_option
@pass_admin
def add_command(
    admin: Admin, url: str | None, site: str | None, every: int, allow_private: bool, as_json: bool
) -> None:
    """Add sitemaps, and print their ids."""
    if (url is None) == (site is None):
        raise click.UsageError("give one of URL and --site URL")
    urls = [feed_url(url)] if url is not None else _named_by_robots(admin, feed_url(site or ""), allow_private)
    add_sitemaps(admin, urls, every, allow_private, as_json, several=url is None)


def add_sitemaps(
    admin: Admin, urls: list[str], every: int, allow_private: bool, as_json: bool, several: bool = False
) -> None:
    """Have these documents polled, and print their ids.

    :param several: one that is there already is none of the user's mistakes.
    :raises Failed: one is.
    """
    if allow_private:
        allow_private_site(admin, urls[0])
    options = (PRIVATE_OPTION,) if allow_private else ()
    with tasks_database(admin) as database:
        for each in urls:
            there = database.interact(feed_named, each, SITEMAP)
            if there and not several:
                raise Failed(f"{each} is sitemap {there} already", f"lcc-admin sitemap show {shell_word(there)}")
            if there:
                click.echo(clean(f"{each} is sitemap {there} already"), err=True)
                continue
            task = Task(0, JobSpec(SITEMAP, args=(each, *options)), When(every_seconds=every))
            added, ordered = database.write(order_task, task, admin.now())
            done = answer(database, ordered) is not None
            say_order(as_json, {"id": added, "url": each}, f"sitemap {added}: {each}", done)


def _record(task: Task, state: SitemapState) -> dict[str, Any]:
    return {
        "id": task.id,
        "url": task.spec.args[0] if task.spec.args else "",
        "state": task.state.value,
        "every_seconds": task.when.every_seconds,
        **state._asdict(),
        "index": index_of(task.spec.args),
        "due_time": task.due_time,
        "ended_time": task.ended_time,
        "last_state": None if task.last_state is None else task.last_state.value,
        "failures": task.failures,
        "message": task.message,
    }


def _records(database: BlockingDatabase) -> Iterator[dict[str, Any]]:
    """Those that operators have added: documents of indexes are counted with these."""
    for page in pages(
        lambda after: database.interact(tasks_page, after, SITEMAP), 0, lambda task: task.id, PAGE_ROWS
    ):
        tops = [task for task in page if not index_of(task.spec.args)]
        states = database.interact(sitemap_states, [task.id for task in tops])
        yield from (_record(task, states.get(task.id, SitemapState())) for task in tops)


@sitemap_group.command("list")
@json_option
@pass_admin
def list_command(admin: Admin, as_json: bool) -> None:
    """List all sitemaps."""
    listing = Listing(_COLUMNS, as_json)
    with tasks_database(admin) as database:
        for record in _records(database):
            listing.row(record)
    listing.end("there are no sitemaps: lcc-admin sitemap add URL")


def _find(database: BlockingDatabase, named: str) -> Task:
    """The sitemap of this id or URL.

    :raises Failed: there is none.
    """
    if named.isascii() and named.isdigit() and len(named) < 10:
        found = int(named)
    else:
        found = database.interact(feed_named, feed_url(named), SITEMAP)
        if not found:
            raise Failed(f"no sitemap has the URL {named[:200]}", _SEE)
    task = database.select(get_task, found) or database.select(ordered_task, found)
    if task is None or task.spec.kind != SITEMAP:
        raise Failed(f"there is no sitemap {found}", _SEE)
    return task


def _looked(database: BlockingDatabase, named: str) -> tuple[dict[str, Any], list[Task]]:
    task = _find(database, named)
    state = database.interact(sitemap_states, [task.id]).get(task.id, SitemapState())
    return _record(task, state), database.interact(documents_of, task.id)


@sitemap_group.command("show")
@click.argument("sitemap")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@pass_admin
def show_command(admin: Admin, sitemap: str, as_json: bool) -> None:
    """Show a sitemap, and the documents of an index.  SITEMAP is an id or a URL."""
    with tasks_database(admin) as database:
        record, documents = _looked(database, sitemap)
    listed = [{"id": task.id, "url": task.spec.args[0], "failures": task.failures} for task in documents]
    if as_json:
        click.echo(json.dumps({**record, "listed": listed}))
        return
    width = max(map(len, record))
    for name, value in record.items():
        click.echo(clean(f"{name:<{width}}  {cell(value, 'time' if name.endswith('_time') else '')}".rstrip()))
    for each in listed:
        failing = f"  failing: {each['failures']}" if each["failures"] else ""
        click.echo(clean(f"  {each['id']}  {each['url']}{failing}"))


@sitemap_group.command("why")
@click.argument("sitemap")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@pass_admin
def why_command(admin: Admin, sitemap: str, as_json: bool) -> None:
    """Explain what a sitemap waits for, and what of it is held."""
    with tasks_database(admin) as tasks, admin.database() as database:
        record, documents = _looked(tasks, sitemap)
        record["failing"] = [task.id for task in documents if task.failures]
        record["page"] = database.interact(explain, admin.config, admin.now(), record["url"])
    if as_json:
        click.echo(json.dumps(record))
        return
    for line in _say(record, admin.now()):
        click.echo(clean(line))


def _say(record: dict[str, Any], now: int) -> Iterator[str]:
    yield f"sitemap {record['id']}: {record['url']}"
    due = record["due_time"]
    if record["state"] == TaskState.SUSPENDED.value:
        yield f"  suspended{': ' + record['message'] if record['message'] else ''}"
    elif due is None:
        yield "  being polled or read now"
    elif due <= now:
        yield f"  due since {duration(now - due)}: the scheduler polls it as soon as it runs"
    else:
        yield f"  next poll in {duration(due - now)}"
    if record["failures"]:
        yield f"  failed {number(record['failures'], 'time')} in a row: {record['message']}"
    elif record["message"] and record["state"] == TaskState.ACTIVE.value:
        yield f"  {record['message']}"
    if not record["read_time"]:
        yield "  no worker has read it yet"
    else:
        ago = duration(max(0, now - record["read_time"]))
        yield f"  read {ago} ago: {number(record['urls'], 'URL')} in {number(record['documents'], 'document')}"
    if record["left_out"]:
        yield f"  {number(record['left_out'], 'URL')} left out: of other hosts, or no URLs"
    if record["held"]:
        yield f"  {number(record['held'], 'URL')} listed no longer, too many at once: their deletion is HELD"
        yield f"  Next: lcc-admin sitemap confirm {shell_word(str(record['id']))}, if the site means it"
    elif record["gone"]:
        yield f"  {number(record['gone'], 'URL')} listed no longer: retracted once all its documents were polled"
    for task in record["failing"]:
        yield f"  document {task} fails: lcc-admin sitemap why {shell_word(str(task))}"
    yield "its document:"
    for line in say(record["page"]):
        yield f"  {line}"


@sitemap_group.command("set")
@click.argument("sitemap")
@click.option("--every", type=EVERY, help="Period in seconds.")
@click.option("--allow-private", is_flag=True, help="The site may be on a private address.")
@json_option
@pass_admin
def set_command(admin: Admin, sitemap: str, every: int | None, allow_private: bool, as_json: bool) -> None:
    """Change a sitemap, and the documents of an index."""
    if every is None and not allow_private:
        raise click.UsageError("nothing to change: give an option")
    with tasks_database(admin) as database:
        task = _find(database, sitemap)
        if allow_private:
            allow_private_site(admin, task.spec.args[0])
        done = True
        if every is not None:
            body = {"when": attrs.asdict(When(every_seconds=every))}
            for each in (task, *database.interact(documents_of, task.id)):
                done = answer(database, order(database, TASK_SET, each.id, body, admin.now())) is not None
    say_order(as_json, {"id": task.id}, f"sitemap {task.id}: changed", done)


def _simple(name: str, kind: str, help_text: str, said: str) -> None:
    @sitemap_group.command(name, help=help_text)
    @click.argument("sitemaps", metavar="SITEMAP...", nargs=-1, required=True)
    @json_option
    @pass_admin
    def command(admin: Admin, sitemaps: tuple[str, ...], as_json: bool) -> None:
        with tasks_database(admin) as database:
            tasks = [_find(database, each) for each in sitemaps]
            given = [(task, order(database, kind, task.id, {}, admin.now())) for task in tasks]
            for task, ordered in given:
                done = answer(database, ordered) is not None
                say_order(as_json, {"id": task.id}, f"sitemap {task.id}: {said}", done)


_simple("confirm", SITEMAP_CONFIRM, "Have deleted what is held: the site means it.", "what is held is retracted")
_simple("poll", TASK_POLL, "Poll sitemaps now, not only when they are due.", "polled now")
_simple("suspend", TASK_SUSPEND, "Stop reading sitemaps; what they list stays.", "suspended")
_simple("resume", TASK_RESUME, "Read suspended sitemaps again.", "active")
_simple("remove", TASK_REMOVE, "Remove sitemaps; what they list is retracted.", "removed")
