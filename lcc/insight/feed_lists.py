"""Lists of feeds (OPML) as commands and the monitor exchange them with other feed readers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from lcc.domain.wording import number
from lcc.insight.task_inputs import InputError, feed_period, feed_url
from lcc.model.feed_options import FeedOptions, feed_args
from lcc.model.tasks import JobSpec, Task
from lcc.protocols.opml import Outline
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.feeds.item_views import feeds_of
from lcc.storage.tasks.feeds.views import FEED
from lcc.storage.tasks.orders import order_task
from lcc.storage.tasks.views import PAGE_ROWS, tasks_page

LIST_TITLE = "Feeds of an LCC"
ORDERS_AT_ONCE = 200
"""Feeds that are ordered in one transaction."""


class FeedList(NamedTuple):
    """What a list names, in its order.

    :ivar there: URLs of feeds that are there already.
    :ivar refused: what is no URL of a feed, and why.
    """

    new: list[str]
    there: list[str]
    refused: list[tuple[str, str]]


def compare_list(outlines: Iterable[Outline], known: Mapping[str, int]) -> FeedList:
    """
    :param known: URLs of all feeds.
    """
    found: dict[str, bool] = {}
    refused = []
    for outline in outlines:
        try:
            url = feed_url(outline.url)
        except InputError as error:
            refused.append((outline.url, f"{error}; {error.remedy}"))
        else:
            found[url] = url in known
    new, there = ([url for url, known in found.items() if known is state] for state in (False, True))
    return FeedList(new, there, refused)


def order_feeds(
    txn: Txn, urls: Sequence[str], options: FeedOptions, every_seconds: int | None, now: int
) -> list[int]:
    """Order that these feeds are added; returns their ids.

    :param every_seconds: None: it follows from what polls find.
    """
    period = feed_period(every_seconds)
    tasks = [Task(0, JobSpec(FEED, args=feed_args(url, options)), **period) for url in urls]
    return [order_task(txn, task, now)[0] for task in tasks]


def said_of(found: FeedList) -> str:
    """How many were added, and how many not."""
    there = len(found.there)
    were = f", {there:,} {'was' if there == 1 else 'were'} there already" if there else ""
    return f"{number(len(found.new), 'feed')} added{were}"


class OutlinePage(NamedTuple):
    """Some feeds.

    :ivar last: id of the last one; None: there are no more.
    """

    outlines: list[Outline]
    last: int | None


def outline_page(txn: Txn, after: int) -> OutlinePage:
    """The feeds with greater ids, some at a time."""
    tasks = tasks_page(txn, after, FEED, PAGE_ROWS)
    feeds = feeds_of(txn, [task.id for task in tasks])
    found = []
    for task in tasks:
        info = json.loads(feeds[task.id].record) if task.id in feeds else {}
        if task.spec.args:
            found.append(Outline(task.spec.args[0], info.get("title", ""), info.get("link", "")))
    return OutlinePage(found, tasks[-1].id if len(tasks) == PAGE_ROWS else None)


def in_chunks(urls: Sequence[str]) -> Iterator[Sequence[str]]:
    """As many as are ordered at once."""
    for start in range(0, len(urls), ORDERS_AT_ONCE):
        yield urls[start : start + ORDERS_AT_ONCE]
