"""The WebSub hub of content users: whose topics are Atom feeds of selections.

Owns ``hubsub`` and ``hubask`` (:mod:`lcc.storage.hub.subscribers`).

Strategy: each change of the cache is looked at once, here, and wakes the subscribers of the topics that it may belong
to; :class:`~lcc.roles.cu.hub.delivery.Delivery` reads what each of them has not got yet, and sends it.  A subscriber
is one row of bounded size, however far behind; in memory are only the topics.  What a user may see is looked up at
each delivery.

Failures: a subscriber that was away goes on where it was.  One whose deliveries have failed for too long, whose user
has gone, or whose changes are no longer known, is told that it is dropped (``hub.mode=denied``), and forgotten.  The
position of the hub is stored with whom it has woken: killed at any moment, it forgets nobody, and delivers twice
at worst.  A newer hub takes the tables over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.config import CuConfig
from lcc.domain.push.websub import LEASE_MIN_SECONDS, LEASE_NUMBER_MAX, SECRET_BYTES_MAX, WebSubRefused, is_url
from lcc.domain.registration.sites import name_of
from lcc.domain.throttle import Throttle
from lcc.domain.urls import URL_CHARS, normalise, site_of
from lcc.errors import Busy, FetchError, StoreUnavailable, UrlError
from lcc.fetchers.addresses import check_addresses, literal_address
from lcc.fetchers.guarded_client import GuardedClient, NoAnswer
from lcc.model import CachedUrl
from lcc.model.push.hub import HubAsk, HubSubscriber
from lcc.model.sources import Source
from lcc.numbers import parse_number
from lcc.roles.access import Access
from lcc.roles.background import Background
from lcc.roles.cu.atom import PATH, asked_of, without_since
from lcc.roles.cu.cache import Cache
from lcc.roles.cu.formats import Nothing
from lcc.roles.cu.hub.delivery import AWAY_SECONDS, RETRY_SECONDS_MAX, Delivery, question_to
from lcc.roles.cu.hub.positions import Position, position_of, token_at
from lcc.roles.cu.query import Query, QueryError
from lcc.roles.cu.tokens import NOW, StartAgain, TokenError
from lcc.roles.places import Places
from lcc.roles.wall_clock import WallClock
from lcc.storage.hub.subscribers import PURGED_AT_ONCE, HubStore, digest
from lcc.storage.views.selected import Selection

_log = Logger()

LEASE_SECONDS = 10 * 86400
"""Of who asks for none."""
ASKS_MAX = 2000
"""Requests that may wait for their callbacks."""
ASKS_PER_PARTY, ASKS_WINDOW_SECONDS = 600, 600.0
ASKS_AT_ONCE, PARTY_ASKS_AT_ONCE = 20, 4
"""Callbacks that are asked, and those of them because of one user or address."""
ASK_ATTEMPTS_MAX = 3
ASK_AGAIN_SECONDS = 60
_LOOK_SECONDS = 60.0
_PURGE_TICKS = 60
POSTPONED_SECONDS = 86400.0
_NO_BYTES = Nothing()
_ALL = Selection(sources=int(~Source(0)))


class Hub:
    """See :mod:`lcc.roles.cu.hub.engine`.

    :param cache: only read.
    :param without: what those without a token may see.
    :param now: seconds since 1970.
    :param token: gives 16 unguessable hexadecimal digits.
    :ivar subscribers: how many there are; ``failing``: whose deliveries fail; ``asks``: open requests.
    """

    def __init__(
        self,
        settings: CuConfig,
        store: HubStore,
        cache: Cache,
        client: GuardedClient,
        without: str,
        clock: IReactorTime,
        now: Callable[[], float],
        token: Callable[[], str],
    ) -> None:
        self.url = f"{settings.url.rstrip('/')}/"
        self.is_claimed = False
        self.trouble = "its tables are not claimed yet"
        self.subscribers = self.failing = self.asks = 0
        self._settings = settings
        self._store = store
        self._cache = cache
        self._client = client
        self._clock = clock
        self._now = WallClock(now, clock, self._stepped)
        self._purge_at = clock.seconds()
        self._token = token
        self._topics: dict[bytes, Selection] = {}
        self._absent: set[bytes] = set()
        self._by_provider: defaultdict[int, dict[bytes, Selection]] = defaultdict(dict)
        self._requests = Throttle(ASKS_PER_PARTY, ASKS_WINDOW_SECONDS)
        self.delivery = Delivery(settings, store, cache, client, without, self.url, self._now, self._failed)
        self._following = Background("Cannot follow changes for the hub", failed=self._failed)
        self._asking: Places[HubAsk] = Places(
            "ask callbacks",
            ASKS_AT_ONCE,
            lambda *which: store.due_asks(int(self._now()), *which),
            self._ask,
            lambda ask: ask.party,
            PARTY_ASKS_AT_ONCE,
            self._failed,
        )
        self._position: Position | None = None
        self._ticks = 0
        self._ticker = LoopingCall(self._tick)
        self._ticker.clock = clock

    def start(self) -> None:
        """Claim the tables, and work."""
        self._ticker.start(1.0)

    def stop(self) -> None:
        """End what is under way; it is done again."""
        if self._ticker.running:
            self._ticker.stop()
        self._following.cancel()
        self._asking.stop()
        self.delivery.stop()

    # Requests.

    async def request(self, form: dict[str, str], access: Access, party: str) -> dict[str, Any]:
        """Somebody wants to subscribe, or no longer; the callback is asked whether that is meant.

        :returns: what is told of it: it is on stable storage.
        :raises WebSubRefused: it is not accepted.
        """
        if not self.is_claimed:
            raise WebSubRefused(503, "the hub accepts nothing at present, try again later")
        if party and self._requests.take([("address", party)], self._clock.seconds()):
            raise WebSubRefused(429, "too many requests from this address, try again later")
        ask = await self._read(form, access, party)
        if self.asks >= ASKS_MAX or (
            ask.mode == "subscribe" and self.subscribers >= self._settings.hub_subscribers_max
        ):
            raise WebSubRefused(503, "there are too many subscribers, or requests, already; try again later")
        await self._store.add_ask(ask)
        self.asks += 1
        self._asking.tick()
        told: dict[str, Any] = {"accepted": f"{ask.mode}: the callback is asked whether this is meant"}
        return {**told, "lease_seconds": ask.lease_seconds} if ask.mode == "subscribe" else told

    async def _read(self, form: dict[str, str], access: Access, party: str) -> HubAsk:
        mode, topic, callback = (form.get(f"hub.{name}", "") for name in ("mode", "topic", "callback"))
        if mode not in ("subscribe", "unsubscribe"):
            raise WebSubRefused(400, f"hub.mode: {mode[:40]!r} is none of subscribe, unsubscribe")
        self._check_callback(callback)
        secret = form.get("hub.secret", "")
        if len(secret.encode("utf-8", "replace")) > SECRET_BYTES_MAX:
            raise WebSubRefused(400, f"hub.secret: longer than {SECRET_BYTES_MAX} bytes")
        lease = self._lease(form.get("hub.lease_seconds", ""))
        timeline, number = await self._begins(topic, access)
        # A token in the topic says where to begin; the topic is the feed.
        feed = without_since(topic)
        now = int(self._now())
        ident = digest(callback, feed)
        who = f"user {access.cuid}" if access.cuid else party
        return HubAsk(ident, callback, topic, mode, secret, lease, access.cuid, timeline, number, now, party=who)

    def _check_callback(self, callback: str) -> None:
        if not is_url(callback) or "#" in callback or len(callback) > URL_CHARS:
            raise WebSubRefused(400, f"hub.callback: {callback[:80]!r} is no http or https URL without fragment")
        try:
            literal = literal_address(name_of(normalise(callback)))
            if literal is not None:
                check_addresses((literal,), self._settings.hub_allow_private)
        except (UrlError, FetchError) as error:
            raise WebSubRefused(400, f"hub.callback: {error.text or error.entry.text}") from None

    def _lease(self, text: str) -> int:
        try:
            lease = parse_number(text, LEASE_NUMBER_MAX) if text else LEASE_SECONDS
        except ValueError:
            raise WebSubRefused(400, f"hub.lease_seconds: {text[:40]!r} is no number of seconds") from None
        if lease < LEASE_MIN_SECONDS:
            raise WebSubRefused(400, f"hub.lease_seconds: {lease} is less than {LEASE_MIN_SECONDS}")
        return min(lease, self._settings.hub_lease)

    async def _begins(self, topic: str, access: Access) -> tuple[str, int]:
        """From which change on: timeline and number; an empty one: from now on."""
        try:
            query = asked_of(topic, self.url)
            if query is None:
                raise WebSubRefused(400, f"hub.topic: no feed of this hub: they begin with {self.url}{PATH}")
            if query.since is None:
                return "", 0
            token = await self._cache.since(query.within(access.providers))
        except QueryError as error:
            raise WebSubRefused(400, f"hub.topic: {error}") from None
        except (TokenError, StartAgain) as error:
            raise WebSubRefused(400, f"hub.topic: since: {error}") from None
        return position_of(token)

    # Callbacks.

    async def _ask(self, ask: HubAsk) -> None:
        challenge = self._token() + self._token()
        fields = {"hub.mode": ask.mode, "hub.topic": ask.topic, "hub.challenge": challenge}
        if ask.mode == "subscribe":
            fields["hub.lease_seconds"] = str(ask.lease_seconds)
        why, again = "", False
        try:
            reply = await self._client.get(question_to(ask.callback, fields))
            if not reply.is_success:
                why = f"it answers {reply.said()}"
            elif reply.body.strip() != challenge.encode():
                why = "it does not answer with the challenge"
        except NoAnswer as error:
            why, again = str(error), ask.failures + 1 < ASK_ATTEMPTS_MAX
        if why:
            _log.info("Callback {callback} does not confirm: {why}", callback=ask.callback, why=why)
            await self._store.ask_later(ask, int(self._now()) + ASK_AGAIN_SECONDS if again else 0)
            self.asks -= 0 if again else 1
            return
        await self._confirmed(ask)

    async def _confirmed(self, ask: HubAsk) -> None:
        self.asks -= 1
        if ask.mode == "unsubscribe":
            await self._store.confirmed(ask, None)
            return
        now, topic, position = int(self._now()), without_since(ask.topic), self._position
        assert position is not None  # the tables were claimed
        before: HubSubscriber | None = await self._store.get(ask.id)
        timeline, number = ask.timeline, ask.number
        if not timeline and before is not None and not before.dropped:
            timeline, number = before.timeline, before.number
            if not before.due_time and number < position.number:
                # It has got all up to there.
                timeline, number = position.timeline, position.number
        elif not timeline:
            timeline, number = position.timeline, position.number
        made = before.made_time if before is not None else now
        subscriber = HubSubscriber(
            ask.id,
            digest(topic),
            ask.callback,
            topic,
            ask.secret,
            ask.cuid,
            timeline,
            number,
            0,
            now,  # what was changed before this is stored has woken nobody
            now + ask.lease_seconds,
            made,
            site=site_of(normalise(ask.callback)),
            delivered_time=before.delivered_time if before is not None else 0,
            deliveries=before.deliveries if before is not None else 0,
        )
        self._add_topic(subscriber.topicid, topic)
        await self._store.confirmed(ask, subscriber)
        self.subscribers += before is None
        self.delivery.tick()

    # Changes.

    def _add_topic(self, ident: bytes, topic: str) -> None:
        if ident in self._topics:
            return
        try:
            query = asked_of(topic, self.url)
        except QueryError:
            query = None
        if query is None:  # its address was another one: who renews gets the new one
            return
        selection = self._topics[ident] = query.selection
        for pid in selection.providers if selection.providers is not None else (0,):
            self._by_provider[pid][ident] = selection

    async def _follow(self) -> None:
        while True:
            position = self._position
            assert position is not None
            try:
                piece = await self._cache.begin(Query(_ALL, token_at(position, _ALL.digest)), _NO_BYTES)
            except StartAgain as error:
                await self._start_again(str(error))
                continue
            assert piece.token is not None  # it is about changes
            reached = position_of(piece.token)
            if reached != position:
                woken = self._touched(piece.urls)
                # Before it is written: what is delivered meanwhile may be older.
                self.delivery.position = reached
                await self._store.wake(woken, position, piece.token, int(self._now()))
                self._position = reached
                if woken:
                    self.delivery.tick()
            if piece.after is None:
                await self._cache.changed(piece.token, _LOOK_SECONDS)

    async def _start_again(self, why: str) -> None:
        position = await self._cache.since(Query(_ALL, NOW))
        _log.warn("The hub begins anew: {why}; its subscribers are told", why=why)
        await self._store.drop_all(f"changes were lost, start again: {why}", position, int(self._now()))
        self._position = self.delivery.position = position_of(position)
        self.delivery.tick()

    def _touched(self, rows: Sequence[CachedUrl]) -> list[bytes]:
        """Topics to which some of these rows may belong."""
        found: set[bytes] = set()
        by_provider: defaultdict[int, list[CachedUrl]] = defaultdict(list)
        for row in rows:
            by_provider[row.pid].append(row)
            by_provider[0].append(row)
        for pid, mine in by_provider.items():
            for ident, selection in self._by_provider.get(pid, {}).items():
                prefix = selection.prefix
                if ident not in found and any(row.curl.startswith(prefix) for row in mine):
                    found.add(ident)
        return list(found)

    # Work.

    async def _tick(self) -> None:
        try:
            if not self.is_claimed:
                await self._claim()
            if self._ticks % _PURGE_TICKS == 0:
                now = int(self._now())
                # The wall clock may have been set back, also while no hub ran.
                await self._store.bound_waits(now, ASK_AGAIN_SECONDS, RETRY_SECONDS_MAX, AWAY_SECONDS)
                while self._clock.seconds() >= self._purge_at and await self._store.purge(now) == PURGED_AT_ONCE:
                    pass
                self._load(await self._store.topics())
            self._ticks += 1
            self.subscribers, self.failing, self.asks = await self._store.counts()
            if not self._following.busy:
                self._following.begin(self._follow())
            self._asking.tick()
            self.delivery.tick()
            self.trouble = ""
        except StoreUnavailable as error:
            self.trouble = str(error)
        except Busy as error:
            _log.error("{error}: this hub ends", error=str(error))
            self._lost(str(error))
        except Exception as error:
            self.trouble = str(error)
            _log.failure("Periodic tick failed")

    def _stepped(self, step: float) -> None:
        """The wall clock was set by so many seconds: leases that look over may not be, or were given too short."""
        if step > 0:
            self._purge_at = self._clock.seconds() + POSTPONED_SECONDS

    async def _claim(self) -> None:
        saved = await self._store.claim()
        position = saved or await self._cache.since(Query(_ALL, NOW))
        if not saved:
            # Killed before the first change, it is to go on from here.
            await self._store.wake([], ("", 0), position, int(self._now()))
        self._position = self.delivery.position = position_of(position)
        self.is_claimed = True

    def _load(self, topics: dict[bytes, str]) -> None:
        # One that is just being subscribed to may not be there yet.
        absent = self._topics.keys() - topics.keys()
        for ident in absent & self._absent:
            selection = self._topics.pop(ident)
            for pid in selection.providers if selection.providers is not None else (0,):
                self._by_provider[pid].pop(ident, None)
        self._absent = absent
        for ident, topic in topics.items():
            self._add_topic(ident, topic)

    def _lost(self, why: str) -> None:
        self.is_claimed = False
        self.trouble = why
        self.stop()

    def _failed(self, failure: Failure) -> None:
        if failure.check(Busy):
            self._lost(str(failure.value))
        elif not failure.check(StoreUnavailable, CancelledError):
            _log.failure("The hub cannot work", failure=failure)
