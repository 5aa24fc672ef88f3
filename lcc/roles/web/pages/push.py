"""Sites that push, hubs that push what is new in feeds, and whom our own hub tells: a page for all of it."""

from __future__ import annotations

from typing import Any

import attrs

from lcc.domain.registration.sites import host_of
from lcc.domain.urls import normalise
from lcc.errors import UrlError
from lcc.insight.hub_words import hub_record, subscriber_record
from lcc.insight.push_words import key_record
from lcc.model.push.pushes import KeyState
from lcc.model.push.websub import HubState
from lcc.roles.web.pages.orders import OrderingPage
from lcc.storage.database.migrations import HUB, PUSH
from lcc.storage.database.transactions import Txn
from lcc.storage.hub.subscribers import HubTopic, hub_counts, hub_topics, list_subscribers
from lcc.storage.push.keys import REFUSED_SECONDS, count_keys, decide_key, list_keys
from lcc.storage.push.store import waiting_urls
from lcc.storage.push.subscriptions import count_subscriptions, list_subscriptions
from lcc.transport.http.pages import read_query
from lcc.transport.http.replies import HttpError
from lcc.transport.http.server import BodyRequest

ROWS_SHOWN = 50


@attrs.frozen
class _Pushed:
    """What is shown of the push server.

    :ivar unproven, untold: URLs waiting for the proof of their key, and for the UNS.
    :ivar keys: records; those first that wait for approval, then the newest; ``key_states``: state -> number.
    :ivar hubs: records of subscriptions; those first that are dropped; ``hub_states``: state -> number.
    """

    unproven: int
    untold: int
    keys: tuple[dict[str, Any], ...]
    key_states: dict[str, int]
    hubs: tuple[dict[str, Any], ...]
    hub_states: dict[str, int]


@attrs.frozen
class _Subscribed:
    """What is shown of the hub of content users.

    :ivar failing: those whose deliveries fail; ``asked``: requests that are yet to be confirmed.
    :ivar worst: records of subscribers whose deliveries fail, the longest first.
    """

    subscribers: int
    failing: int
    asked: int
    topics: tuple[HubTopic, ...]
    worst: tuple[dict[str, Any], ...]


def see_pushes(txn: Txn, keys_state: KeyState | None = None, hubs_state: HubState | None = None) -> _Pushed:
    """All that is shown of the push server.

    :param keys_state, hubs_state: only keys, and subscriptions at hubs, in this state; None: in any.
    """
    keys = list_keys(txn, keys_state)
    if keys_state is None:
        keys = [*list_keys(txn, KeyState.APPROVAL), *keys]
    hubs = list_subscriptions(txn, hubs_state, ROWS_SHOWN)
    if hubs_state is None:
        hubs = [*list_subscriptions(txn, HubState.DROPPED, ROWS_SHOWN), *hubs]
    return _Pushed(
        *waiting_urls(txn),
        tuple(
            key_record(each) | {"host": host_of(each.site)}
            for each in list({key.id: key for key in keys}.values())[:ROWS_SHOWN]
        ),
        count_keys(txn),
        tuple(hub_record(each) for each in list({hub.id: hub for hub in hubs}.values())[:ROWS_SHOWN]),
        count_subscriptions(txn),
    )


def see_subscribers(txn: Txn) -> _Subscribed:
    """All that is shown of the hub of content users."""
    return _Subscribed(
        *hub_counts(txn),
        tuple(hub_topics(txn, ROWS_SHOWN)),
        tuple(map(subscriber_record, list_subscribers(txn, ROWS_SHOWN, failing=True))),
    )


class PushPage(OrderingPage):
    """``/push``: who pushes, and who is pushed; sites that wait for it can be approved, or refused."""

    methods = (b"GET", b"HEAD", b"POST")

    async def get(self, request: BodyRequest) -> None:
        monitor, query = self.monitor, read_query(request)
        try:
            keys = KeyState(query["keys"]) if "keys" in query else None
            hubs = HubState(query["hubs"]) if "hubs" in query else None
        except ValueError:
            raise HttpError(400, "There is no such state of keys or subscriptions.") from None
        pushed: _Pushed | None = await self.seen(PUSH, monitor.push.interact, see_pushes, keys, hubs)
        subscribed: _Subscribed | None = await self.seen(HUB, monitor.hub.interact, see_subscribers)
        self.front.page(request, "push", "Push", pushed=pushed, subscribed=subscribed, keys=keys, hubs=hubs)

    async def post(self, request: BodyRequest) -> None:
        fields = self.sent(request)
        do, host = fields.get("do", ""), fields.get("host", "")
        if do not in ("approve", "refuse"):
            raise HttpError(400, "This form is not known here.")
        try:
            host = host_of(normalise(f"https://{host}/"))
        except UrlError as error:
            raise HttpError(400, f"This is no host: {error.text}.") from None
        until = int(self.monitor.now()) + REFUSED_SECONDS
        if await self.seen(PUSH, self.monitor.push.write, decide_key, host, do == "approve", until):
            self.ordered(request, f"{do} pushes of", host)
        self.front.redirect(request, "/push")
