"""Feeds on the command line: which one is meant, and how often it is read."""

from __future__ import annotations

from itertools import islice
from typing import Any

import attrs
import click
from click.shell_completion import CompletionItem

from lcc.admin.context import Admin
from lcc.admin.tasks.orders import tasks_database
from lcc.admin.values import IDS_SHOWN
from lcc.commands.errors import Failed
from lcc.domain.urls import normalise, scheme_of
from lcc.errors import ConfigError, UrlError
from lcc.feeds.registry import installed_plugins, plugin_named
from lcc.model.feed_options import ANYWHERE, SAME_HOST, FeedOptions
from lcc.model.tasks import Task, When
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.tasks.feed_views import FEED, feed_urls, ordered_task
from lcc.storage.tasks.views import get_task

SEE_FEEDS = "lcc-admin feed list shows all feeds"
FIRST_SECONDS = 3600
"""The period of a new feed, until its polls say what is right."""
LEAST_SECONDS, MOST_SECONDS = 900, 86400
"""Bounds of the period, where it follows from the polls."""


class FeedArgument(click.ParamType[str]):
    """A feed: its id, or its URL."""

    name = "feed"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The ids that begin so, each with its URL."""
        admin = Admin(ctx.find_root().params.get("config_path"))
        try:
            with tasks_database(admin, patient=False) as database:
                feeds = database.interact(feed_urls)
        except Failed:
            return []
        found = (each for each in feeds.items() if str(each[1]).startswith(incomplete))
        return [CompletionItem(str(number), help=url) for url, number in islice(found, IDS_SHOWN)]


FEED_ARGUMENT = FeedArgument()


class PluginName(click.ParamType[str]):
    """The name of a feed plugin."""

    name = "plugin"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """It must be installed here: it is then, as a rule, where the managers are."""
        try:
            return plugin_named(str(value)).name
        except ConfigError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Those that are installed."""
        found = installed_plugins().values()
        return [CompletionItem(each.name, help=each.summary) for each in found if each.name.startswith(incomplete)]


def own_option(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[Any, ...]:
    """``NAME=VALUE``, many times."""
    found = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE")
        found[name] = text
    return tuple(found.items())


EVERY = click.IntRange(10, 366 * 86400)
LINKS = click.Choice([SAME_HOST, ANYWHERE])


def feed_url(text: str) -> str:
    """A feed's URL, normalised.

    :raises click.BadParameter: it is none.
    """
    try:
        url = normalise(text.strip()).partition("#")[0]
    except UrlError as error:
        raise click.BadParameter(f"{text[:200]}: {error}", param_hint="URL") from None
    if scheme_of(url) not in ("http", "https"):
        raise click.BadParameter(f"{text[:200]}: a feed's URL begins with http:// or https://", param_hint="URL")
    return url


def when_of(every: int | None) -> dict[str, Any]:
    """The period of a feed, as fields of a task; None: it follows from what its polls find."""
    if every is None:
        return {
            "when": When(every_seconds=FIRST_SECONDS),
            "auto": True,
            "least_seconds": LEAST_SECONDS,
            "most_seconds": MOST_SECONDS,
        }
    return {"when": When(every_seconds=every), "auto": False, "least_seconds": 0, "most_seconds": 0}


def options_of(options: FeedOptions, given: dict[str, Any]) -> FeedOptions:
    """The options with those that were given: the values that are not None."""
    return attrs.evolve(options, **{name: value for name, value in given.items() if value is not None})


def find_feed(database: BlockingDatabase, named: str) -> Task:
    """The feed of this id or URL.

    :raises Failed: there is none.
    """
    number = int(named) if named.isascii() and named.isdigit() and len(named) < 10 else None
    if number is None:
        number = database.interact(feed_urls).get(feed_url(named))
        if number is None:
            raise Failed(f"no feed has the URL {named[:200]}", SEE_FEEDS)
    task = database.select(get_task, number) or database.select(ordered_task, number)
    if task is None or task.spec.kind != FEED:
        raise Failed(f"there is no feed {number}", SEE_FEEDS)
    return task
