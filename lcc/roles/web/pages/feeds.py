"""Feeds: the list, a page for each with why it is as it is, and the form that adds one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from lcc.insight.feed_why import feed_facts, feed_record, say_why
from lcc.insight.task_inputs import FEED_EVERY_MIN, InputError, checked_options, feed_period, feed_url
from lcc.insight.why import explain
from lcc.model.feed_options import ANYWHERE, SAME_HOST, FeedOptions, feed_args
from lcc.model.tasks import JobSpec, Task
from lcc.roles.web.pages.orders import TASK_ORDERS, OrderingPage, Told, bad_input, seconds_of, told
from lcc.roles.web.pages.providers import number
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.feeds.item_views import feeds_of, items_of_task
from lcc.storage.tasks.feeds.views import FEED, feed_named, ordered_task
from lcc.storage.tasks.orders import TASK_SET
from lcc.storage.tasks.views import get_task, tasks_page
from lcc.transport.http.pages import read_query
from lcc.transport.http.replies import HttpError
from lcc.transport.http.server import BodyRequest

PAGE_FEEDS = 50
ITEMS_SHOWN = 20


class FeedsPage(OrderingPage):
    """``/feeds``: a page of them at a time, by id; and the form that adds one."""

    methods = (b"GET", b"HEAD", b"POST")

    async def get(self, request: BodyRequest) -> None:
        after = number(read_query(request).get("after", "0"))
        feeds = await self.asked(_page, after)
        more = feeds[-1]["id"] if len(feeds) == PAGE_FEEDS else 0
        self.front.page(request, "feeds", "Feeds", feeds=feeds, more=more, every_min=FEED_EVERY_MIN)

    async def post(self, request: BodyRequest) -> None:
        fields = self.sent(request)
        try:
            url = feed_url(fields.get("url", ""))
            period = feed_period(seconds_of(fields.get("every", "").strip(), FEED_EVERY_MIN))
            options = checked_options(
                FeedOptions(
                    full_content=bool(fields.get("full_content")),
                    links=ANYWHERE if fields.get("links") == ANYWHERE else SAME_HOST,
                    listed=bool(fields.get("listed")),
                )
            )
        except InputError as error:
            raise bad_input(error) from None
        there = await self.asked(feed_named, url)
        if there:
            self.front.redirect(request, f"/feed/{there}")
            return
        task = Task(0, JobSpec(FEED, args=feed_args(url, options)), **period)
        new, order = await self.order_task(request, task)
        self.front.redirect(request, f"/feed/{new}?order={order}")


def _page(txn: Txn, after: int) -> list[dict[str, Any]]:
    tasks = tasks_page(txn, after, FEED, PAGE_FEEDS)
    feeds = feeds_of(txn, [task.id for task in tasks])
    return [feed_record(task, feeds.get(task.id)) for task in tasks]


@attrs.frozen
class _Seen:
    """What the page of a feed shows; ``why`` without what the cache says of its document.

    :ivar is_new: the scheduler has yet to add it.
    """

    task: Task
    is_new: bool
    record: Mapping[str, Any]
    why: dict[str, Any]
    items: tuple[Mapping[str, Any], ...]
    told: Told | None


def see_feed(txn: Txn, number: int, order: int) -> _Seen | None:
    """All that the page of a feed shows; None: there is no such feed."""
    task, new = get_task(txn, number), False
    if task is None:
        task, new = ordered_task(txn, number), True
    if task is None or task.spec.kind != FEED:
        return None
    items = tuple(json.loads(each.record) for each in items_of_task(txn, number, ITEMS_SHOWN))
    record = feed_record(task, feeds_of(txn, [number]).get(number))
    return _Seen(task, new, record, feed_facts(txn, task), items, told(txn, order))


class FeedPage(OrderingPage):
    """``/feed/N``: a feed, why it is as it is, its newest items; and what is to become of it."""

    methods = (b"GET", b"HEAD", b"POST")

    def takes(self, request: Any) -> bool:
        return len(request.postpath) == 1

    async def get(self, request: BodyRequest) -> None:
        feed_id, order = self.number_below(request), self.asked_order(request)
        found = await self.asked(see_feed, feed_id, order)
        if found is None:
            before = await self.asked(told, order)
            if before is None:
                raise HttpError(404, f"There is no feed {feed_id}.")
            self.front.page(request, "ordered", f"Feed {feed_id}", told=before, back="/feeds", list="feeds")
            return
        monitor, now = self.monitor, int(self.monitor.now())
        page = await monitor.database.interact(explain, monitor.config, now, found.why["url"])
        lines = [
            ((len(line) - len(line.lstrip())) // 2 + 1, line.strip())
            for line in list(say_why({**found.why, "page": page}, now))[1:]
        ]
        self.front.page(
            request,
            "feed",
            f"Feed {feed_id}",
            found=found,
            record=found.record,
            task=found.task,
            told=found.told,
            lines=lines,
            every_min=FEED_EVERY_MIN,
        )

    async def post(self, request: BodyRequest) -> None:
        fields, feed_id = self.sent(request), self.number_below(request)
        do = fields.get("do", "")
        if do not in TASK_ORDERS:
            raise HttpError(400, "This form is not known here.")
        if await self.asked(see_feed, feed_id, 0) is None:
            raise HttpError(404, f"There is no feed {feed_id}.")
        body: dict[str, Any] = {}
        if TASK_ORDERS[do] == TASK_SET:
            try:
                body = feed_period(seconds_of(fields.get("every", "").strip(), FEED_EVERY_MIN))
            except InputError as error:
                raise bad_input(error) from None
            body["when"] = attrs.asdict(body["when"])
        self.same_page(request, await self.order(request, f"{do} feed", TASK_ORDERS[do], feed_id, body))
