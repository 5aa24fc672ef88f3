"""``lcc-admin feed``: feeds that are read periodically, and their items."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import attrs
import click

from lcc.admin.context import Admin, pass_admin
from lcc.admin.feeds.discovery import discover_command
from lcc.admin.feeds.files import export_command, import_command
from lcc.admin.feeds.private_sites import allow_private_site
from lcc.admin.feeds.values import (
    EVERY,
    FEED_ARGUMENT,
    LINKS,
    SEE_FEEDS,
    PluginName,
    feed_url,
    find_feed,
    options_of,
    own_option,
)
from lcc.admin.output import Column, Listing, cell, json_option, pages
from lcc.admin.tasks.orders import answer, order, say_order, tasks_database
from lcc.commands.errors import Failed
from lcc.commands.progress import counting
from lcc.commands.watch import clean
from lcc.domain.wording import duration
from lcc.insight.feed_why import feed_facts, feed_record, say_why
from lcc.insight.hub_words import hub_record, say_hubs
from lcc.insight.task_inputs import feed_period
from lcc.insight.why import explain
from lcc.model.feed_options import DEFAULT_PLUGIN, FeedOptions, feed_args, read_feed_args
from lcc.model.shellwords import shell_word
from lcc.model.tasks import JobSpec, Task
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import PUSH
from lcc.storage.database.place import place_of
from lcc.storage.push.subscriptions import subscriptions_of
from lcc.storage.tasks.feeds.item_views import count_items, feeds_of, items_of_task
from lcc.storage.tasks.feeds.views import FEED, feed_named
from lcc.storage.tasks.orders import TASK_POLL, TASK_REMOVE, TASK_RESUME, TASK_SET, TASK_SUSPEND, order_task
from lcc.storage.tasks.views import PAGE_ROWS, tasks_page

_COLUMNS = (
    Column("id", 6, "number"),
    Column("state", 9),
    Column("period", 11),
    Column("last_state", 15, title="last job"),
    Column("due_time", 19, "time", title="due (UTC)"),
    Column("title", 24),
    Column("url"),
)
ITEMS_SHOWN = 10


@click.group("feed")
def feed_group() -> None:
    """Manage feeds: RSS, Atom, JSON Feed, and what plugins make a feed of.

    A feed is polled through the queue like any page; a worker reads it when it has changed.
    """


feed_group.add_command(discover_command)
feed_group.add_command(import_command)
feed_group.add_command(export_command)


def _options(command: Any) -> Any:
    """The options that ``add`` and ``set`` share."""
    for option in (
        click.option("--option", "own", multiple=True, callback=own_option, help="NAME=VALUE, for the plugin."),
        click.option("--plugin", type=PluginName(), help=f"What reads the feed.  Default: {DEFAULT_PLUGIN}."),
        click.option("--links", type=LINKS, help="Pages of items on which hosts.  Default: same-host."),
        click.option(
            "--full-content/--no-full-content",
            default=None,
            help="Fetch the pages of new items.",
        ),
        click.option(
            "--listed/--not-listed",
            default=None,
            help="The site's own feed: its pages of the site are the site's own word, not hints.",
        ),
    ):
        command = option(command)
    return command


@feed_group.command("add")
@click.argument("url")
@click.option("--every", type=EVERY, help="Period in seconds.  Default: it follows from what polls find.")
@_options
@click.option("--allow-private", is_flag=True, help="The feed may be on a private address.")
@json_option
@pass_admin
def add_command(
    admin: Admin, /, url: str, every: int | None, allow_private: bool, as_json: bool, own: Any, **given: Any
) -> None:
    """Add a feed, and print its id."""
    url = feed_url(url)
    options = options_of(FeedOptions(allow_private=allow_private, own=own), given)
    task = Task(0, JobSpec(FEED, args=feed_args(url, options)), **feed_period(every))
    if allow_private:
        allow_private_site(admin, url)
    with tasks_database(admin) as database:
        there = database.interact(feed_named, url)
        if there:
            raise Failed(f"{url} is feed {there} already", f"lcc-admin feed show {shell_word(there)}")
        number, ordered = database.write(order_task, task, admin.now())
        done = answer(database, ordered) is not None
    say_order(as_json, {"id": number, "url": url}, f"feed {number}: {url}", done)


def _records(database: BlockingDatabase) -> Iterator[dict[str, Any]]:
    for page in pages(lambda after: database.interact(tasks_page, after, FEED), 0, lambda task: task.id, PAGE_ROWS):
        feeds = database.interact(feeds_of, [task.id for task in page])
        yield from (feed_record(task, feeds.get(task.id)) for task in page)


def _period(record: dict[str, Any]) -> str:
    return f"{record['every_seconds']} s{' auto' if record['auto'] else ''}"


@feed_group.command("list")
@json_option
@pass_admin
def list_command(admin: Admin, as_json: bool) -> None:
    """List all feeds."""
    listing = Listing(_COLUMNS, as_json)
    with tasks_database(admin) as database:
        for record in counting("listing", _records(database)):
            listing.row(record if as_json else {**record, "period": _period(record), "title": record["title"][:24]})
    listing.end("there are no feeds: lcc-admin feed add URL")


def _hubs(admin: Admin, feed: int) -> list[dict[str, Any]]:
    """The hubs of a feed; none, if there never was a push server."""
    place = place_of(admin.config, PUSH)
    if not place.is_there():
        return []
    with admin.database_at(place) as database:
        return [hub_record(each) for each in database.interact(subscriptions_of, [feed])]


@feed_group.command("show")
@click.argument("feed", type=FEED_ARGUMENT)
@click.option("--items", "limit", type=click.IntRange(0, 10_000), default=ITEMS_SHOWN, help="How many items.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@pass_admin
def show_command(admin: Admin, feed: str, limit: int, as_json: bool) -> None:
    """Show a feed and its newest items.  FEED is an id or a URL."""
    with tasks_database(admin) as database:
        task = find_feed(database, feed)
        record = feed_record(task, database.interact(feeds_of, [task.id]).get(task.id))
        record["item_count"], record["item_bytes"] = database.interact(count_items, task.id)
        items = [json.loads(each.record) for each in database.interact(items_of_task, task.id, limit)]
    hubs = _hubs(admin, task.id)
    if as_json:
        click.echo(json.dumps({**record, "hubs": hubs, "items": items}))
        return
    width = max(map(len, record))
    for name, value in record.items():
        text = json.dumps(value) if isinstance(value, dict) else cell(value, "time" if name.endswith("_time") else "")
        click.echo(clean(f"{name:<{width}}  {text}".rstrip()))
    for line in say_hubs(hubs, admin.now()):
        click.echo(clean(line))
    for item in items:
        click.echo(clean(f"  {item.get('title') or item.get('id', '')}  {item.get('link', '')}".rstrip()))


@feed_group.command("why")
@click.argument("feed", type=FEED_ARGUMENT)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@pass_admin
def why_command(admin: Admin, feed: str, as_json: bool) -> None:
    """Explain what a feed waits for, and what became of its last poll."""
    with tasks_database(admin) as tasks, admin.database() as database:
        task = find_feed(tasks, feed)
        record = tasks.interact(feed_facts, task) | {"hubs": _hubs(admin, task.id)}
        record["page"] = database.interact(explain, admin.config, admin.now(), record["url"])
    if as_json:
        click.echo(json.dumps(record))
        return
    for line in say_why(record, admin.now()):
        click.echo(clean(line))


@feed_group.command("set")
@click.argument("feed", type=FEED_ARGUMENT)
@click.option("--every", type=EVERY, help="Period in seconds.")
@click.option("--auto", is_flag=True, help="The period follows from what polls find.")
@_options
@click.option("--url", "new_url", help="The feed has moved here; its items are kept.")
@click.option("--allow-private", is_flag=True, default=None, help="The feed may be on a private address.")
@json_option
@pass_admin
def set_command(
    admin: Admin,
    /,
    feed: str,
    every: int | None,
    auto: bool,
    own: Any,
    new_url: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Change a feed."""
    if every is not None and auto:
        raise click.UsageError("--every and --auto exclude each other")
    with tasks_database(admin) as database:
        task = find_feed(database, feed)
        try:
            url, options = read_feed_args(task.spec.args)
        except ValueError as error:
            raise Failed(f"feed {task.id}: {error}", "remove it, and add it again") from None
        options = options_of(options, {**given, "own": own or None})
        url = url if new_url is None else feed_url(new_url)
        if given["allow_private"]:
            allow_private_site(admin, url)
        args = feed_args(url, options)
        body: dict[str, Any] = {}
        if args != task.spec.args:
            body["spec"] = {"args": list(args)}
        if every is not None or auto:
            times = feed_period(every)
            body |= {**times, "when": attrs.asdict(times["when"])}
        if not body:
            raise click.UsageError("nothing to change: give an option")
        done = answer(database, order(database, TASK_SET, task.id, body, admin.now())) is not None
    say_order(as_json, {"id": task.id}, f"feed {task.id}: changed", done)


def _simple(name: str, kind: str, help_text: str, said: str) -> None:
    @feed_group.command(name, help=help_text)
    @click.argument("feeds", type=FEED_ARGUMENT, metavar="FEED...", nargs=-1, required=True)
    @json_option
    @pass_admin
    def command(admin: Admin, /, feeds: tuple[str, ...], as_json: bool) -> None:
        with tasks_database(admin) as database:
            tasks = [find_feed(database, feed) for feed in feeds]
            given = [(task, order(database, kind, task.id, {}, admin.now())) for task in tasks]
            for task, ordered in given:
                answered = answer(database, ordered)
                done = answered is not None
                # It was polled a moment ago, and there is news.
                job = (answered or {}).get("job")
                words = said if job is None else f"job {job} is to read what its last poll has found"
                due_time = find_feed(database, str(task.id)).due_time if done and name == "resume" else None
                due = "" if due_time is None else f", next poll in {duration(max(0, due_time - admin.now()))}"
                say_order(as_json, {"id": task.id}, f"feed {task.id}: {words}{due}", done)


_simple("poll", TASK_POLL, "Poll feeds now, not only when they are due.", "polled now")
_simple("suspend", TASK_SUSPEND, "Stop reading feeds; their items are kept.", "suspended")
_simple("resume", TASK_RESUME, "Read suspended feeds again.", "active")
_simple("remove", TASK_REMOVE, "Remove feeds; their items are forgotten after a time.", "removed")

__all__ = ["SEE_FEEDS", "feed_group"]
