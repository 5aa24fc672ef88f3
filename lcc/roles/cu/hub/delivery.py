"""Deliveries to the subscribers of the hub: what each has not got yet, as an Atom document, signed.

Redirects are not followed, and callbacks on private addresses are refused by the agent's guards.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import attrs
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.config import CuConfig
from lcc.domain.fetches.retries import doubled_seconds
from lcc.domain.push.websub import sign
from lcc.domain.urls import normalise
from lcc.fetchers.guarded_client import GuardedClient, NoAnswer
from lcc.model.push.hub import HubSubscriber
from lcc.roles.access import WITHOUT_TOKEN, Access
from lcc.roles.cu.atom import MEDIA_TYPE, Changed, asked_of, atom_document, link_header, read_changed
from lcc.roles.cu.cache import Cache
from lcc.roles.cu.hub.positions import Position, covers, position_of, token_at
from lcc.roles.cu.query import QueryError
from lcc.roles.cu.tokens import StartAgain
from lcc.roles.places import Places
from lcc.storage.database.transactions import Txn
from lcc.storage.hub.subscribers import HubStore
from lcc.storage.providers.content_users import get_content_user

_log = Logger()

DOCUMENTS_KEPT = 16
"""Documents that are kept for others of the same topic who are as far."""
TELL_ATTEMPTS_MAX = 3
_RETRY_SECONDS, RETRY_SECONDS_MAX = 30, 3600
_GONE = 410
AWAY_SECONDS = 5
"""Later what a sub-LCC has that could not be reached is asked for again."""


def access_of(txn: Txn, cuid: int, without: str) -> Access | None:
    """What a subscriber may see now; None: nothing any longer."""
    if cuid == 0:
        return WITHOUT_TOKEN[without]
    user = get_content_user(txn, cuid)
    return None if user is None else Access(user.name, user.providers, user.content, user.cuid)


def question_to(callback: str, fields: dict[str, str]) -> str:
    """The callback with these fields in its query, normal."""
    url = normalise(callback)
    return f"{url}{'&' if '?' in url else '?'}{urlencode(fields)}"


@attrs.frozen
class _Document:
    data: bytes
    changed: Changed


class Delivery:
    """See :mod:`lcc.roles.cu.hub.delivery`.

    :param lost: called with Busy when another hub has claimed the tables.
    :ivar position: up to which changes the hub wakes, or is about to; None: it has not begun.
    :ivar delivered, failed, dropped: counted since the start.
    :ivar tick, stop: those of its :class:`lcc.roles.places.Places`.
    """

    def __init__(
        self,
        settings: CuConfig,
        store: HubStore,
        cache: Cache,
        client: GuardedClient,
        without: str,
        url: str,
        now: Callable[[], float],
        lost: Callable[[Failure], object],
    ) -> None:
        self.position: Position | None = None
        self.delivered = self.failed = self.dropped = 0
        self._settings = settings
        self._store = store
        self._cache = cache
        self._client = client
        self._without = without
        self._url = url
        self._now = now
        self._documents: OrderedDict[tuple[Any, ...], _Document] = OrderedDict()
        self._places: Places[HubSubscriber] = Places(
            "deliver to subscribers",
            settings.hub_deliveries,
            lambda *which: store.due(int(self._now()), *which),
            self._deliver,
            lambda subscriber: subscriber.site,
            settings.hub_deliveries // 2,
            lost,
        )
        self.tick, self.stop = self._places.tick, self._places.stop

    async def _deliver(self, subscriber: HubSubscriber) -> None:
        if subscriber.dropped:
            await self._tell_dropped(subscriber)
            return
        access = await self._cache.users.interact(access_of, subscriber.cuid, self._without)
        if access is None:
            await self._drop(subscriber, "your user has gone, or may read nothing any longer")
            return
        try:
            document = await self._document(subscriber, access)
        except StartAgain as error:
            await self._drop(subscriber, f"changes were lost, start again: {error}")
            return
        except QueryError as error:
            await self._drop(subscriber, f"this topic is none any longer: {error}")
            return
        if not document.changed.rows:
            await self._save(subscriber, document.changed, 0)
            return
        headers = {"Content-Type": MEDIA_TYPE, "Link": link_header(subscriber.topic, f"{self._url}hub")}
        if subscriber.secret:
            headers["X-Hub-Signature"] = sign(subscriber.secret, document.data)
        try:
            reply = await self._client.post(normalise(subscriber.callback), document.data, headers)
        except NoAnswer as error:
            await self._not_delivered(subscriber, str(error))
            return
        if reply.status == _GONE:
            await self._store.remove(subscriber)
        elif reply.is_success:
            self.delivered += 1
            await self._save(subscriber, document.changed, 1)
        else:
            await self._not_delivered(subscriber, f"it answers {reply.said()}")

    async def _document(self, subscriber: HubSubscriber, access: Access) -> _Document:
        place = subscriber.topic, access.providers, subscriber.timeline, subscriber.number
        found = self._documents.get(place)
        # One that is short may have become longer.
        if found is not None and (found.changed.more or not self._is_behind(position_of(found.changed.token))):
            return found
        query = asked_of(subscriber.topic, self._url)
        if query is None:
            raise QueryError([f"feeds begin with {self._url}"])
        scoped = query.within(access.providers)
        since = token_at(Position(subscriber.timeline, subscriber.number), scoped.selection.digest)
        changed = await read_changed(self._cache, attrs.evolve(scoped, since=since, limit=None))
        data = b""
        if changed.rows:
            data = atom_document(
                changed.rows, changed.token, subscriber.topic, self._url, f"{self._url}hub", int(self._now())
            )
        document = self._documents[place] = _Document(data, changed)
        while len(self._documents) > DOCUMENTS_KEPT:
            self._documents.popitem(last=False)
        return document

    def _is_behind(self, position: Position) -> bool:
        return self.position is not None and not covers(position, self.position)

    async def _save(self, subscriber: HubSubscriber, changed: Changed, count: int) -> None:
        now, position = int(self._now()), position_of(changed.token)
        owed = changed.more or self._is_behind(position)
        again = now + AWAY_SECONDS if changed.missing and not changed.more else now
        await self._store.change(
            subscriber,
            timeline=position.timeline,
            number=position.number,
            due_time=again if owed else 0,
            failures=0,
            since_time=0,
            delivered_time=now if count else subscriber.delivered_time,
            deliveries=subscriber.deliveries + count,
            why="",
        )

    async def _not_delivered(self, subscriber: HubSubscriber, why: str) -> None:
        self.failed += 1
        now, failures = int(self._now()), subscriber.failures + 1
        since = subscriber.since_time or now
        if now - since >= self._settings.hub_give_up:
            await self._drop(subscriber, f"deliveries fail: {why}")
            return
        wait = doubled_seconds(_RETRY_SECONDS, failures - 1, RETRY_SECONDS_MAX)
        await self._store.change(subscriber, failures=failures, since_time=since, due_time=now + wait, why=why)

    async def _drop(self, subscriber: HubSubscriber, why: str) -> None:
        self.dropped += 1
        _log.info("Subscriber {callback} is dropped: {why}", callback=subscriber.callback, why=why)
        await self._store.change(subscriber, dropped=1, why=why, failures=0, due_time=int(self._now()))

    async def _tell_dropped(self, subscriber: HubSubscriber) -> None:
        fields = {"hub.mode": "denied", "hub.topic": subscriber.topic, "hub.reason": subscriber.why}
        try:
            await self._client.get(question_to(subscriber.callback, fields))
        except NoAnswer:
            failures = subscriber.failures + 1
            if failures < TELL_ATTEMPTS_MAX:
                due = int(self._now()) + _RETRY_SECONDS * failures
                await self._store.change(subscriber, failures=failures, due_time=due)
                return
        # Who has subscribed again while it was told stays.
        await self._store.remove(subscriber)
