"""Subscriptions of feeds at hubs (WebSub): a push means "poll now".

Owns ``websub`` (:mod:`lcc.storage.push.subscriptions`).  Feeds are the scheduler's: which hubs they name is read from
its tables, and a poll is an order to it, as ``lcc-admin feed poll`` gives.

Strategy: what a hub sends is never parsed, for it is often only a part of the feed; all that counts is that it is
signed with the secret of the subscription.  Then the feed is polled, through the queue as always, and once more a
minute later if nothing was found: hubs push before caches have the news.  Backup polls stay where they are: when a
push comes it is noted when the next one was due, and it takes place then.  So a hub that is silent about news is
noticed: after several news in succession of which it has pushed none, it is dropped.

Failures: a hub that does not answer, or answers and never confirms, is asked again, more and more seldom, then
dropped for a week; meanwhile the feed is polled as without it.  A subscription is good until its lease is over,
whatever becomes of its renewal.  Pushes are answered when they are on stable storage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.config import PushConfig
from lcc.domain.fetches.retries import doubled_seconds
from lcc.domain.push.websub import (
    LEASE_ASKED_SECONDS,
    LEASE_NUMBER_MAX,
    WebSubRefused,
    absolute_url,
    hub_named,
    hub_of,
    question_fault,
    read_hubs,
    renewal_time,
    signature_fault,
    subscription_form,
)
from lcc.domain.urls import normalise, scheme_of
from lcc.domain.wording import duration
from lcc.errors import Busy, StoreUnavailable
from lcc.fetchers.guarded_client import GuardedClient, NoAnswer, one_line
from lcc.model.push.websub import FeedFacts, HubState, HubSubscription
from lcc.numbers import parse_number
from lcc.roles.background import Background
from lcc.roles.places import Places
from lcc.roles.push.counters import Counters
from lcc.storage.database.database import Database
from lcc.storage.database.gathering import Gathering
from lcc.storage.push.subscriptions import LongestWaits, Pushed, SubscriptionStore, replaced
from lcc.storage.tasks.feeds.hubs import facts_of_feeds, feeds_read_since, order_polls

_log = Logger()

PAGE = 200
LOOK_AGAIN_SECONDS = 60
POLL_GAP_SECONDS = 10
"""Between polls because of pushes, of one feed."""
PUSH_AWAITED_SECONDS = 600
"""A push may come so much later than a poll has found the news."""
CONFIRM_SECONDS = 600
"""A hub that has accepted a request is to confirm it within this time."""
ATTEMPTS_MAX = 6
LEAVE_ATTEMPTS_MAX = 3
_RETRY_SECONDS, _RETRY_SECONDS_MAX = 60, 3600
_OVERLAP_SECONDS = 5
"""Clocks of the scheduler's host and of this one differ by less."""
_SWEEP_TICKS = 5
_REDIRECTS_MAX = 3
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
_ENDED = {"asked_time": 0, "poll_time": 0, "looks": 0, "backup_time": 0, "judge_time": 0}
_LIVING = (HubState.ASKING, HubState.ACTIVE)


class Subscriber:
    """See :mod:`lcc.roles.push.subscriber`.

    :param tasks: the tables of the scheduler.
    :param client: asks hubs.
    :param now: seconds since 1970.
    :param token: gives 16 unguessable hexadecimal digits.
    :ivar counts: state -> number of subscriptions.
    """

    def __init__(
        self,
        settings: PushConfig,
        store: SubscriptionStore,
        tasks: Database,
        client: GuardedClient,
        now: Callable[[], float],
        token: Callable[[], str],
        counters: Counters,
    ) -> None:
        self.counts: dict[str, int] = {}
        self._settings = settings
        self._hubs = read_hubs(settings.hubs)
        self._store = store
        self._tasks = tasks
        self._client = client
        self._now = now
        self._token = token
        self._counters = counters
        self._pushes: Gathering[Pushed, None] = Gathering(self._store_pushes)
        self._work = Background("Cannot follow feeds and their hubs", failed=self._failed)
        self._asking: Places[HubSubscription] = Places(
            "ask hubs",
            settings.checks_at_once,
            lambda *which: store.due(int(self._now()), *which),
            self._ask_hub,
            lambda row: row.hub,
            settings.checks_at_once // 4,
        )
        self._read_upto = 0
        self._read: dict[int, int] = {}
        self._swept = ""
        self._ticks = 0

    def tick(self) -> None:
        """Each second."""
        self._ticks += 1
        if not self._work.busy:
            self._work.begin(self._do())
        self._asking.tick()

    def stop(self) -> None:
        """End what is under way."""
        self._work.cancel()
        self._asking.stop()

    async def bound_waits(self) -> None:
        """The wall clock may have been set back: nothing waits for a time that it gave while it was wrong."""
        longest = LongestWaits(
            confirm=CONFIRM_SECONDS,
            retry=_RETRY_SECONDS_MAX,
            dropped=self._settings.hub_retry,
            poll=LOOK_AGAIN_SECONDS,
            judge=PUSH_AWAITED_SECONDS,
        )
        await self._store.bound_waits(int(self._now()), longest)

    def callback_of(self, ident: str) -> str:
        """Where the hub of this subscription pushes to."""
        return f"{self._settings.url.rstrip('/')}/websub/{ident}"

    # What hubs say.

    async def question(self, ident: str, fields: Mapping[str, str]) -> str:
        """A hub wants to know whether a subscription is meant, or says that there will be none.

        :returns: the answer: its challenge.
        :raises WebSubRefused: it is not.
        """
        found = await self._known(ident)
        if fields.get("hub.mode") == "denied" and fields.get("hub.topic") == found.topic:
            reason = one_line(fields.get("hub.reason", ""), 200) or "no reason given"
            if found.state in _LIVING:
                await self._drop(found, f"the hub has refused the subscription: {reason}", {})
            return ""
        fault = question_fault(found, fields)
        if fault:
            raise WebSubRefused(404, fault)
        if fields["hub.mode"] == "unsubscribe":
            if found.state is HubState.LEAVING:
                await self._store.remove(ident)
        else:
            lease = parse_number(fields.get("hub.lease_seconds", str(LEASE_ASKED_SECONDS)), LEASE_NUMBER_MAX)
            await self._confirmed(found, lease)
        return fields["hub.challenge"]

    async def _confirmed(self, found: HubSubscription, lease: int) -> None:
        now = int(self._now())
        values: dict[str, Any] = {
            "state": HubState.ACTIVE,
            "asked_time": 0,
            "due_time": renewal_time(now, lease),
            "lease_seconds": lease,
            "expires_time": now + lease,
            "failures": 0,
            "why": "",
        }
        if found.state is not HubState.ACTIVE:
            # What was published between the last poll and now is pushed by nobody.
            values |= {"active_time": now, "poll_time": now, "looks": 0, "missed": 0}
            _log.info("Subscribed: {topic} at {hub}", topic=found.topic, hub=found.hub)
        if not await self._store.change(found.id, {"asked_time": found.asked_time}, values):
            raise WebSubRefused(404, "nobody waits for this answer any more")
        rows = await self._store.of_tasks([found.task])
        others = [each for each in rows if each.id != found.id and each.state is not HubState.LEAVING]
        await self._end(others)

    async def push(self, ident: str, signature: str | None, body: bytes) -> None:
        """A hub has news; answered once that is on stable storage.

        :raises WebSubRefused: it is none of a subscription.
        """
        found = await self._known(ident)
        if found.state not in _LIVING:
            raise WebSubRefused(410, "this subscription has ended")
        fault = signature_fault(found.secret, signature, body)
        if fault:
            self._counters.pushes_forged += 1
            raise WebSubRefused(403, fault)
        self._counters.pushes_heard += 1
        now = int(self._now())
        waits = found.poll_time if 0 < found.poll_time <= now else max(now, found.polled_time + POLL_GAP_SECONDS)
        await self._pushes.ask(Pushed(ident, now, waits, 1))
        self.tick()

    async def _known(self, ident: str) -> HubSubscription:
        found: HubSubscription | None = await self._store.get(ident)
        if found is None:
            raise WebSubRefused(410, "there is no such subscription, or it has ended")
        return found

    def _store_pushes(self, pushes: list[Pushed]) -> Deferred[Sequence[None]]:
        return self._store.pushed(pushes).addCallback(lambda _: [None] * len(pushes))

    # Which subscriptions there are to be, and what hubs are good for.

    async def _do(self) -> None:
        await self._follow()
        if self._ticks % _SWEEP_TICKS == 0:
            await self._sweep()
            self.counts = await self._store.counts()
        await self._poll()

    async def _follow(self) -> None:
        """Feeds that were read lately: their hubs, their news."""
        # The wall clock may have been set back, here or where the scheduler is.
        self._read_upto = min(self._read_upto, int(self._now()))
        since = (self._read_upto - _OVERLAP_SECONDS, 0)
        while True:
            page = await self._tasks.select(feeds_read_since, since, PAGE)
            new = [each for each in page if self._read.get(each.task) != each.read_time]
            if new:
                await self._look_at(new)
            for each in page:
                self._read[each.task] = each.read_time
                self._read_upto = max(self._read_upto, min(each.read_time, int(self._now())))
            if len(page) < PAGE:
                break
            since = (page[-1].read_time, page[-1].task)
        least = self._read_upto - _OVERLAP_SECONDS
        self._read = {task: time for task, time in self._read.items() if time >= least}

    async def _look_at(self, feeds: Sequence[FeedFacts]) -> None:
        known: dict[int, list[HubSubscription]] = {}
        for row in await self._store.of_tasks([each.task for each in feeds]):
            known.setdefault(row.task, []).append(row)
        made: list[HubSubscription] = []
        now = int(self._now())
        for feed in feeds:
            rows = known.get(feed.task, [])
            named = hub_named(feed.links, feed.url)
            wanted = hub_of(feed.url, named, self._hubs) if feed.active else None
            new, ending = replaced(rows, wanted)
            await self._end(ending)
            if new and wanted is not None:
                hub, topic = wanted
                made.append(
                    HubSubscription(
                        self._token() + self._token(),
                        feed.task,
                        topic,
                        hub,
                        self._token() + self._token(),
                        HubState.ASKING,
                        now,
                        now,
                        news_time=feed.changed_time,
                    )
                )
            for row in rows:
                if row not in ending and row.state in _LIVING and feed.changed_time > row.news_time:
                    await self._note_news(row, feed, now)
        if made:
            await self._store.add(made)

    async def _note_news(self, row: HubSubscription, feed: FeedFacts, now: int) -> None:
        """A poll has found news: was there a push of them?"""
        # What the first poll of a subscription finds may be older than it.
        young = feed.changed_time - row.active_time <= max(PUSH_AWAITED_SECONDS, feed.every_seconds)
        if row.state is not HubState.ACTIVE or young:
            values = {"news_time": feed.changed_time}
        elif row.pushed_time > row.news_time:
            values = {"news_time": feed.changed_time, "missed": 0, "judge_time": 0}
        elif not row.judge_time:
            values = {"judge_time": now + PUSH_AWAITED_SECONDS}
        else:
            return
        await self._store.change(row.id, {"news_time": row.news_time}, values)

    async def _sweep(self) -> None:
        """End the subscriptions of feeds that were removed or suspended."""
        rows = await self._store.page(self._swept, PAGE)
        self._swept = rows[-1].id if len(rows) == PAGE else ""
        if rows:
            feeds = await self._tasks.select(facts_of_feeds, sorted({row.task for row in rows}))
            gone = [row for row in rows if row.task not in feeds or not feeds[row.task].active]
            await self._end([row for row in gone if row.state is not HubState.LEAVING])

    async def _end(self, rows: Sequence[HubSubscription]) -> None:
        now = int(self._now())
        for row in rows:
            values = {**_ENDED, "state": HubState.LEAVING, "due_time": now, "failures": 0}
            await self._store.change(row.id, {"state": row.state}, values)

    # Polls.

    async def _poll(self) -> None:
        now = int(self._now())
        rows = await self._store.with_polls(now, PAGE)
        if not rows:
            return
        feeds = await self._tasks.select(facts_of_feeds, sorted({row.task for row in rows}))
        planned = [(row, *_planned(row, feeds.get(row.task), now)) for row in rows]
        polled = sorted({row.task for row, poll, _ in planned if poll})
        if polled:
            # Before it is noted: ordered twice is polled once.
            await self._tasks.write(order_polls, polled, now)
        self._counters.polls_ordered += len(polled)
        for row, _, values in planned:
            where = {name: getattr(row, name) for name in ("poll_time", "pushed_time", "judge_time", "backup_time")}
            if values.get("missed", 0) >= self._settings.hub_missed:
                why = f"the hub has not pushed the last {values['missed']} news, which only polls found"
                await self._drop(row, why, where)
            else:
                await self._store.change(row.id, where, values)

    async def _drop(self, row: HubSubscription, why: str, where: Mapping[str, Any]) -> None:
        """Do without this hub for a long time."""
        again = int(self._now()) + self._settings.hub_retry
        values = {**_ENDED, "state": HubState.DROPPED, "due_time": again, "why": why}
        if await self._store.change(row.id, {**where, "state": row.state}, values):
            self._counters.hubs_dropped += 1
            _log.warn(
                "Hub {hub} dropped for {topic}: {why}; the feed is polled as without it",
                hub=row.hub,
                topic=row.topic,
                why=why,
            )

    # Asking hubs.

    async def _ask_hub(self, row: HubSubscription) -> None:
        now = int(self._now())
        where = {"state": row.state, "due_time": row.due_time, "asked_time": row.asked_time}
        if row.state is HubState.LEAVING:
            if row.failures >= LEAVE_ATTEMPTS_MAX or not row.active_time:
                await self._store.remove(row.id)
            elif await self._store.change(
                row.id, where, {"due_time": now + CONFIRM_SECONDS, "failures": row.failures + 1}
            ):
                await self._request("unsubscribe", row)
            return
        if row.asked_time:
            waited = duration(now - row.asked_time)
            await self._not_subscribed(row, f"the hub has accepted the request, and not confirmed it in {waited}")
            return
        state = HubState.ACTIVE if row.state is HubState.ACTIVE and row.expires_time > now else HubState.ASKING
        values: dict[str, Any] = {"state": state, "asked_time": now, "due_time": now + CONFIRM_SECONDS}
        if row.state is HubState.DROPPED:
            values |= {"failures": 0, "missed": 0}
        # Before it is asked: it may confirm before it has answered.
        if await self._store.change(row.id, where, values):
            why = await self._request("subscribe", row)
            if why:
                current = await self._store.get(row.id)
                if current is not None and current.asked_time == now:
                    await self._not_subscribed(current, why)

    async def _request(self, mode: str, row: HubSubscription) -> str:
        """Send a request to a hub; why it was not accepted, empty: it was."""
        form = subscription_form(mode, row, self.callback_of(row.id))
        url = row.hub
        try:
            for _ in range(_REDIRECTS_MAX):
                reply = await self._client.post(normalise(url), form, _FORM)
                there = absolute_url(reply.location, url) if reply.status in (307, 308) else ""
                if not there:
                    return "" if reply.is_success else f"the hub answers {reply.said()}"
                if scheme_of(url) == "https" and scheme_of(there) == "http":
                    return "the hub redirects from https to http, where others could read the secret"
                url = there
        except NoAnswer as error:
            return f"the hub cannot be asked: {error}"
        return "the hub redirects too often"

    async def _not_subscribed(self, row: HubSubscription, why: str) -> None:
        now, failures = int(self._now()), row.failures + 1
        where = {"asked_time": row.asked_time, "state": row.state}
        if failures >= ATTEMPTS_MAX and (row.state is HubState.ASKING or row.expires_time <= now):
            await self._drop(row, why, where)
            return
        wait = doubled_seconds(_RETRY_SECONDS, failures - 1, _RETRY_SECONDS_MAX)
        values = {"asked_time": 0, "failures": failures, "why": why, "due_time": now + wait}
        if await self._store.change(row.id, where, values):
            _log.info("Cannot subscribe to {topic} at {hub}: {why}", topic=row.topic, hub=row.hub, why=why)

    def _failed(self, failure: Failure) -> None:
        # The engine notices the first two by itself.
        if not failure.check(StoreUnavailable, Busy, CancelledError):
            _log.failure("Cannot follow feeds and their hubs", failure=failure)


def _planned(row: HubSubscription, feed: FeedFacts | None, now: int) -> tuple[bool, dict[str, Any]]:
    """Whether a feed is polled now, and what is noted then."""
    if feed is None or not feed.active:
        return False, {"poll_time": 0, "looks": 0, "backup_time": 0, "judge_time": 0}
    poll = False
    values: dict[str, Any] = {}
    if 0 < row.judge_time <= now:
        missed = 0 if row.pushed_time > row.news_time else row.missed + 1
        values |= {"judge_time": 0, "news_time": feed.changed_time, "missed": missed}
    if 0 < row.poll_time <= now:
        if feed.due_time is None:
            values["poll_time"] = now + POLL_GAP_SECONDS  # what an earlier poll has found is being read
        elif row.polled_time >= row.pushed_time > 0 and feed.changed_time >= row.pushed_time:
            values |= {"poll_time": 0, "looks": 0}
        else:
            poll = True
            further = row.looks > 0
            values |= {
                "poll_time": now + LOOK_AGAIN_SECONDS if further else 0,
                "looks": row.looks - 1 if further else 0,
                "polled_time": now,
            }
    if 0 < row.backup_time <= now:
        poll, values["backup_time"] = True, 0
    elif poll and not row.backup_time and feed.due_time is not None and feed.due_time > now:
        values["backup_time"] = feed.due_time
    return poll, values
