"""Feeds on the command line: which one is meant, and how often it is read."""

from __future__ import annotations

from itertools import islice
from typing import Any

import attrs
import click
from click.shell_completion import CompletionItem

from lcc.admin.tasks.orders import offered
from lcc.admin.values import IDS_SHOWN
from lcc.commands.errors import Failed
from lcc.errors import ConfigError
from lcc.feeds.registry import installed_plugins, plugin_named
from lcc.insight import task_inputs
from lcc.insight.task_inputs import EVERY_MAX, FEED_EVERY_MIN, InputError
from lcc.model.feed_options import ANYWHERE, SAME_HOST, FeedOptions
from lcc.model.tasks import Task
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.tasks.feeds.views import FEED, feed_named, feed_urls, ordered_task
from lcc.storage.tasks.views import get_task

SEE_FEEDS = "lcc-admin feed list shows all feeds"


class FeedArgument(click.ParamType[str]):
    """A feed: its id, or its URL."""

    name = "feed"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The ids that begin so, each with its URL."""
        feeds = offered(ctx, lambda database: list(database.interact(feed_urls).items()))
        found = (each for each in feeds if str(each[1]).startswith(incomplete))
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


EVERY = click.IntRange(FEED_EVERY_MIN, EVERY_MAX)
LINKS = click.Choice([SAME_HOST, ANYWHERE])


def feed_url(text: str) -> str:
    """A feed's URL, normalised.

    :raises click.BadParameter: it is none.
    """
    try:
        return task_inputs.feed_url(text)
    except InputError as error:
        raise click.BadParameter(f"{error}; {error.remedy}", param_hint="URL") from None


def options_of(options: FeedOptions, given: dict[str, Any]) -> FeedOptions:
    """The options with those that were given: the values that are not None.

    :raises click.UsageError: they do not go together.
    """
    found = attrs.evolve(options, **{name: value for name, value in given.items() if value is not None})
    try:
        return task_inputs.checked_options(found)
    except InputError:
        raise click.UsageError("--listed is about the pages of items: it needs --full-content") from None


def find_feed(database: BlockingDatabase, named: str) -> Task:
    """The feed of this id or URL.

    :raises Failed: there is none.
    """
    number = int(named) if named.isascii() and named.isdigit() and len(named) < 10 else None
    if number is None:
        number = database.interact(feed_named, feed_url(named))
        if not number:
            raise Failed(f"no feed has the URL {named[:200]}", SEE_FEEDS)
    task = database.select(get_task, number) or database.select(ordered_task, number)
    if task is None or task.spec.kind != FEED:
        raise Failed(f"there is no feed {number}", SEE_FEEDS)
    return task
