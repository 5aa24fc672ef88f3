"""The hub of content users, on SQLite and MariaDB: subscribers that are away, slow, dead, or should not be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from lxml import etree
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock

from lcc.config import CuConfig
from lcc.domain.push.websub import WebSubRefused, signature_fault
from lcc.fetchers.guarded_client import NoAnswer, Reply
from lcc.roles.access import EVERYTHING, Access
from lcc.roles.cu.cache import OneLcc
from lcc.roles.cu.hub import delivery, engine
from lcc.roles.cu.hub.engine import ASKS_AT_ONCE, PARTY_ASKS_AT_ONCE, Hub
from lcc.roles.cu.watcher import ChangeWatcher
from lcc.storage.database.migrations import HUB, MAIN
from lcc.storage.hub import subscribers
from lcc.storage.hub.subscribers import HubStore, list_subscribers
from lcc.storage.providers.content_users import remove_content_user
from tests.support.cache import Cache, add_user
from tests.support.databases import Backend, DirectDatabase, result_of
from tests.support.logs import LoggedErrors
from tests.support.roles.callbacks import Callbacks

URL = "https://cache.example.org/"
TOPIC = f"{URL}atom?prefix=http%3A%2F%2Fa.example.org%2F"
CALLBACK = "https://user.example.net/callback?x=1"
ATOM = "{http://www.w3.org/2005/Atom}"
GONE = "{http://purl.org/atompub/tombstones/1.0}deleted-entry"


class World:
    """A hub with all that it works with.

    :ivar clock_ahead: somebody has set the wall clock forward by so many seconds.
    """

    def __init__(self, backend: Backend, **settings: Any) -> None:
        self.main = DirectDatabase(backend.url, backend.home)
        self.tables = DirectDatabase(backend.url, backend.home, HUB if backend.kind == "sqlite" else MAIN)
        self.cache = Cache(self.main)
        self.settings = CuConfig(url=URL, hub=True, **settings)
        self.clock = Clock()
        self.callbacks = Callbacks()
        self.tokens = self.clock_ahead = 0
        self.hub: Hub | None = None
        self.restart()

    def now(self) -> float:
        return 1_780_000_000 + self.clock_ahead + self.clock.seconds()

    def restart(self) -> None:
        """As after a kill."""
        if self.hub is not None:
            self.stop()
        database: Any = self.main
        tables: Any = self.tables
        asks: Any = self.callbacks
        self.watcher = ChangeWatcher(database, self.clock)
        store = HubStore(tables)
        self.hub = Hub(
            self.settings, store, OneLcc(database, self.watcher), asks, "content", self.clock, self.now, self.token
        )
        self.hub.start()

    def token(self) -> str:
        self.tokens += 1
        return f"{self.tokens:016x}"

    def request(self, access: Access = EVERYTHING, party: str = "", **fields: str) -> dict[str, Any]:
        form = {"mode": "subscribe", "topic": TOPIC, "callback": CALLBACK, "secret": "s"} | fields
        assert self.hub is not None
        asked = self.hub.request({f"hub.{name}": value for name, value in form.items()}, access, party)
        return result_of(Deferred.fromCoroutine(asked))

    def refusal(self, **fields: str) -> WebSubRefused:
        with pytest.raises(WebSubRefused) as refused:
            self.request(**fields)
        return refused.value

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds * 2):
            self.clock.advance(0.5)

    @property
    def rows(self) -> list[Any]:
        return self.tables.blocking.interact(list_subscribers, 100)

    def told(self, host: str = "user.example.net") -> list[list[str]]:
        """URLs of each document that was delivered there; deleted ones with a minus."""
        return [urls(body) for body in self.callbacks.got.get(host, [])]

    def stop(self) -> None:
        assert self.hub is not None
        self.hub.stop()
        self.watcher.stop()

    def close(self) -> None:
        self.stop()
        self.main.blocking.close()
        self.tables.blocking.close()


def urls(document: bytes) -> list[str]:
    """The rows of a document, oldest first."""
    found = []
    for each in etree.fromstring(document):
        row = each.find("{*}url")
        if each.tag in (f"{ATOM}entry", GONE) and row is not None:
            found.append(f"{'-' if each.tag == GONE else ''}{row.get('curl').rpartition('/')[2]}")
    return found[::-1]


def flat(documents: list[list[str]]) -> list[str]:
    """The rows of all documents."""
    return [name for names in documents for name in names]


@pytest.fixture
def open_world(backend: Backend) -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def make(**settings: Any) -> World:
        made.append(World(backend, **settings))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.fixture
def world(open_world: Callable[..., World]) -> World:
    return open_world()


def put(world: World, *names: str, host: str = "a.example.org", pid: int = 1) -> None:
    for name in names:
        world.cache.put(pid, f"http://{host}/{name}")


def test_a_subscriber_hears_of_changes(world: World) -> None:
    put(world, "before")
    world.pass_time(1)
    assert world.request()["lease_seconds"] == 10 * 86400
    [question] = world.callbacks.questions
    assert {name: question[f"hub.{name}"] for name in ("mode", "topic", "lease_seconds")} == {
        "mode": "subscribe",
        "topic": TOPIC,
        "lease_seconds": "864000",
    }
    assert question["x"] == "1"
    put(world, "one")
    put(world, "other", host="b.example.org")
    world.cache.delete(1, "http://a.example.org/before")
    world.pass_time(2)
    assert world.told() == [["one", "-before"]]
    [body] = world.callbacks.got["user.example.net"]
    headers = world.callbacks.headers
    assert headers["Content-Type"] == "application/atom+xml"
    assert headers["Link"] == f'<{TOPIC}>; rel="self", <{URL}hub>; rel="hub"'
    assert signature_fault("s", headers["X-Hub-Signature"], body) == ""
    # What is not of the topic costs it nothing.
    put(world, "more", host="b.example.org")
    world.pass_time(5)
    assert world.callbacks.asked == 1 and world.rows[0].due_time == 0


def test_one_that_was_away_goes_on_where_it_was(world: World) -> None:
    world.request()
    world.callbacks.answers["user.example.net"] = NoAnswer("1302 refused")
    put(world, *(f"p{number}" for number in range(5)))
    world.pass_time(3)
    [row] = world.rows
    assert (row.failures, row.why, row.number) == (1, "1302 refused", 0)
    put(world, *(f"q{number}" for number in range(250)))
    world.restart()
    world.pass_time(3)
    # It is one row, and is asked more and more seldom.
    assert len(world.rows) == 1
    world.callbacks.answers.clear()
    world.pass_time(120)
    told = world.told()
    assert [len(each) for each in told] == [100, 100, 55]
    assert flat(told) == [f"p{number}" for number in range(5)] + [f"q{number}" for number in range(250)]
    assert world.rows[0].failures == 0


@pytest.mark.long("mariadb")
@pytest.mark.parametrize("restarts", [False, True])
def test_nobody_waits_for_a_clock_that_was_set_back(world: World, restarts: bool) -> None:
    world.request()
    world.pass_time(1)
    world.clock_ahead = 86_400
    world.callbacks.answers["user.example.net"] = NoAnswer("1302 refused")
    world.callbacks.held = fail(NoAnswer("1302 refused"))
    world.request(callback="https://other.example.net/")
    put(world, "one")
    world.pass_time(1)
    assert world.rows[0].failures == 1 and world.hub is not None and world.hub.asks == 1
    world.callbacks.answers.clear()
    world.clock_ahead = 0
    if restarts:
        world.restart()
    world.pass_time(engine.ASK_AGAIN_SECONDS + 61)
    assert len(world.rows) == 2
    assert world.told() == []
    world.pass_time(delivery.RETRY_SECONDS_MAX)
    assert world.told() == [["one"]]


def test_what_is_owed_does_not_wait_for_a_clock_that_was_set_back(world: World) -> None:
    world.request()
    world.pass_time(1)
    world.clock_ahead = 86_400
    world.callbacks.hanging["user.example.net"] = []
    put(world, "one")
    world.pass_time(1)
    world.clock_ahead = 0
    world.callbacks.hanging.clear()
    world.restart()
    world.pass_time(10)
    assert world.told() == [["one"]]


def test_slow_ones_do_not_keep_others_waiting(open_world: Callable[..., World]) -> None:
    world = open_world(hub_deliveries=4)
    for number in range(10):
        world.request(callback=f"http://slow{number}.example.net/")
        world.callbacks.answers[f"slow{number}.example.net"] = NoAnswer("no answer within 10 seconds")
    put(world, "one")
    world.pass_time(40)
    hanging: Deferred[Reply] = Deferred()
    for number in range(10):
        world.callbacks.answers[f"slow{number}.example.net"] = hanging
    world.pass_time(60)
    world.request()
    put(world, "two")
    world.pass_time(2)
    assert world.told() == [["two"]]


def test_a_site_that_hangs_does_not_keep_others_waiting(open_world: Callable[..., World]) -> None:
    world = open_world(hub_deliveries=4)
    for number in range(5):
        world.request(callback=f"http://slow.example.net/{number}")
    world.callbacks.hanging["slow.example.net"] = []
    world.request()
    put(world, "one")
    world.pass_time(2)
    assert world.told() == [["one"]] and world.callbacks.asked == 3


def test_dead_ones_are_dropped_and_told(world: World) -> None:
    world.request()
    world.callbacks.answers["user.example.net"] = 500
    put(world, "one")
    for _ in range(80):
        world.clock.advance(3600)
        world.clock.advance(1)
    assert world.rows == []
    denied = world.callbacks.questions[-1]
    assert denied["hub.mode"] == "denied" and "deliveries fail: it answers HTTP status 500" in denied["hub.reason"]
    assert world.hub is not None and world.hub.delivery.dropped == 1


def test_one_that_has_gone(world: World) -> None:
    world.request()
    world.callbacks.answers["user.example.net"] = 410
    put(world, "one")
    world.pass_time(2)
    assert world.rows == []


def test_redirecting_callbacks(world: World) -> None:
    world.request()
    world.callbacks.answers["user.example.net"] = 302
    put(world, "one")
    world.pass_time(2)
    assert "redirects are not followed" in world.rows[0].why


def test_who_does_not_confirm(world: World) -> None:
    world.callbacks.confirms = False
    world.request()
    world.pass_time(200)
    assert world.rows == [] and len(world.callbacks.questions) == 1


def test_slow_callbacks_do_not_put_off_confirmations(world: World) -> None:
    slow = [f"slow{number}.example.net" for number in range(38)]
    world.callbacks.hanging = {host: [] for host in slow}
    for host in slow[:8]:
        world.request(callback=f"http://{host}/", party="192.0.2.9")
    assert len(world.callbacks.questions) == PARTY_ASKS_AT_ONCE
    world.request(party="198.51.100.1")
    assert [row.callback for row in world.rows] == [CALLBACK]
    # One is asked when another has had its time; those that did not answer do not take the places of new ones.
    for host in slow[:4]:
        world.callbacks.hanging[host][0].errback(NoAnswer("no answer within 10 seconds"))
    world.pass_time(2)
    assert len(world.callbacks.questions) == 2 * PARTY_ASKS_AT_ONCE + 1
    for number, host in enumerate(slow[8:], 10):
        world.request(callback=f"http://{host}/", party=f"192.0.2.{number}")
    assert sum(map(len, world.callbacks.hanging.values())) - 4 == ASKS_AT_ONCE * 3 // 4
    world.pass_time(60)
    assert sum(len(world.callbacks.hanging[host]) for host in slow[:4]) == 4, "their party has its share"
    for host in slow[4:8]:
        world.callbacks.hanging[host][0].errback(NoAnswer("no answer within 10 seconds"))
    world.pass_time(2)
    assert sum(len(world.callbacks.hanging[host]) for host in slow[:4]) == 8, "in places of their own"


def test_unsubscribing_and_renewing(world: World) -> None:
    world.request(lease_seconds="86400")
    first = world.rows[0]
    put(world, "one")
    world.clock.advance(40000)
    world.pass_time(2)
    world.request(lease_seconds="1000000000", secret="t")
    world.pass_time(2)
    [row] = world.rows
    assert (row.secret, row.made_time) == ("t", first.made_time)
    assert row.expires_time - first.expires_time == 30 * 86400 - 86400 + 40002
    put(world, "two")
    world.pass_time(2)
    assert world.told() == [["one"], ["two"]]
    world.request(mode="unsubscribe")
    assert world.rows == [] and world.callbacks.questions[-1]["hub.mode"] == "unsubscribe"
    put(world, "three")
    world.pass_time(2)
    assert world.callbacks.asked == 2


@pytest.mark.long("mariadb")
def test_nobody_is_forgotten_because_a_clock_is_set_forward(world: World) -> None:
    world.request(lease_seconds="86400")
    world.pass_time(61)
    world.clock_ahead = 2 * 86_400
    put(world, "one")
    world.pass_time(61)
    world.clock_ahead = 0
    put(world, "two")
    world.pass_time(61)
    assert world.told() == [["one"], ["two"]]
    world.clock.advance(86_400)
    world.pass_time(61)
    assert world.rows == []


def test_who_subscribes_again_while_it_is_told_stays(world: World) -> None:
    cuid, _ = add_user(world.cache, {1})
    world.request(Access("x", frozenset({1}), True, cuid))
    world.main.now(lambda txn: remove_content_user(txn, cuid))
    world.callbacks.denied = world.request
    put(world, "one")
    world.pass_time(3)
    assert [row.cuid for row in world.rows] == [0]
    put(world, "two")
    world.pass_time(2)
    assert "two" in flat(world.told())


@pytest.mark.parametrize("status", [200, 410, 500])
def test_who_renews_while_something_is_delivered(world: World, status: int) -> None:
    world.request()
    held = world.callbacks.answers["user.example.net"] = Deferred()
    put(world, "one")
    world.pass_time(2)
    world.request(secret="t")
    world.callbacks.answers.clear()
    held.callback(Reply(status, b""))
    world.pass_time(2)
    assert world.rows[0].secret == "t" and world.told() == [["one"]]


def test_a_request_takes_the_place_of_one_that_is_open(world: World) -> None:
    world.callbacks.held = held = Deferred()
    world.request(mode="unsubscribe")
    world.request()
    held.callback(Reply(404, b""))
    world.pass_time(2)
    assert len(world.rows) == 1 and world.callbacks.questions[-1]["hub.mode"] == "subscribe"


def test_what_changes_while_a_subscription_is_stored(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    held: Deferred[None] = Deferred()
    monkeypatch.setattr(HubStore, "get", lambda store, ident: held)
    world.request()
    put(world, "one")
    world.pass_time(2)
    held.callback(None)
    world.pass_time(2)
    assert world.told() == [["one"]]


def test_the_end_of_a_lease(world: World) -> None:
    world.request(lease_seconds="60")
    world.clock.advance(61)
    world.pass_time(130)
    assert world.rows == []


def test_subscribers_are_forgotten_as_fast_as_they_come(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (engine, subscribers):
        monkeypatch.setattr(module, "PURGED_AT_ONCE", 2)
    for number in range(7):
        world.request(callback=f"http://u{number}.example.net/", lease_seconds="60")
    world.pass_time(1)
    assert len(world.rows) == 7
    world.clock.advance(61)
    world.pass_time(61)
    assert world.rows == [], "not two in a minute"


def test_going_on_by_a_token(world: World) -> None:
    put(world, "one")
    world.pass_time(1)
    world.request()
    put(world, "two")
    world.pass_time(2)
    [body] = world.callbacks.got["user.example.net"]
    onwards = etree.fromstring(body).find(f"{ATOM}link[@rel='next']").get("href")
    world.request(mode="unsubscribe")
    put(world, "three", "four")
    world.pass_time(2)
    world.request(topic=onwards)
    assert world.callbacks.questions[-1]["hub.topic"] == onwards
    world.pass_time(2)
    assert world.told() == [["two"], ["three", "four"]] and world.rows[0].topic == TOPIC


def test_what_is_refused(world: World) -> None:
    for fields, words in (
        ({"mode": "publish"}, "hub.mode"),
        ({"callback": "ftp://user.example.net/"}, "hub.callback"),
        ({"callback": "https://a:b@user.example.net/"}, "hub.callback"),
        ({"callback": CALLBACK + "#x"}, "hub.callback"),
        ({"callback": "http://127.0.0.1/"}, "hub.callback"),
        ({"callback": "http://[::ffff:10.0.0.1]/"}, "hub.callback"),
        ({"callback": "http://169.254.169.254/latest"}, "hub.callback"),
        ({"secret": "x" * 200}, "199 bytes"),
        ({"secret": "x" * 10_000}, "199 bytes"),
        ({"lease_seconds": "0"}, "less than 60"),
        ({"lease_seconds": "-1"}, "no number"),
        ({"lease_seconds": "1e9"}, "no number"),
        ({"topic": "https://other.example.org/atom"}, "no feed of this hub"),
        ({"topic": f"{URL}changes"}, "no feed of this hub"),
        ({"topic": f"{URL}atom?colour=red"}, "colour"),
        ({"topic": f"{URL}atom?since=x"}, "since"),
        ({"topic": f"{URL}atom?key={'ab' * 20}"}, "key"),
        ({"topic": f"{URL}atom?prefix=%ff"}, "query"),
    ):
        refused = world.refusal(**fields)
        assert refused.status == 400 and words in refused.text, (fields, refused.text)
    assert world.rows == [] and world.callbacks.questions == []


def test_floods(open_world: Callable[..., World]) -> None:
    world = open_world(hub_subscribers_max=3)
    for number in range(3):
        world.request(callback=f"http://u{number}.example.net/")
        world.pass_time(1)
    assert world.refusal(callback="http://u4.example.net/").status == 503
    with pytest.raises(WebSubRefused, match="from this address"):
        for _ in range(1000):
            world.request(party="192.0.2.1", mode="unsubscribe")
    # What is no good counts, too: it is looked at.
    statuses = {world.refusal(party="192.0.2.2", mode="publish").status for _ in range(1000)}
    assert statuses == {400, 429}


def test_what_a_user_may_see(world: World) -> None:
    cuid, _ = add_user(world.cache, {2})
    access = Access("x", frozenset({2}), True, cuid)
    world.request(access)
    put(world, "hidden")
    put(world, "seen", pid=2)
    world.pass_time(2)
    assert world.told() == [["seen"]]
    # A subscription ends with its user.
    world.main.now(remove_content_user, cuid)
    put(world, "later", pid=2)
    world.pass_time(3)
    assert world.rows == [] and "user has gone" in world.callbacks.questions[-1]["hub.reason"]
    assert len(world.told()) == 1


def test_a_restart_forgets_nobody(world: World) -> None:
    world.request()
    for number in range(5):
        world.stop()
        put(world, f"p{number}")
        world.restart()
        world.pass_time(2)
    assert flat(world.told()) == [f"p{number}" for number in range(5)]


def test_a_lost_commit(world: World) -> None:
    world.request()
    world.tables.fail_after = 2
    put(world, "one")
    world.pass_time(5)
    assert set(flat(world.told())) == {"one"}
    put(world, "two")
    world.pass_time(3)
    assert world.told()[-1] == ["two"]


def test_changes_that_are_lost(world: World) -> None:
    world.request()
    put(world, *(f"p{number}" for number in range(10)))
    world.callbacks.answers["user.example.net"] = 500
    world.pass_time(1)
    # Its tombstones are forgotten before it is back.
    sql = "UPDATE counters SET value = ? WHERE name = 'forgotten'"
    world.main.now(lambda txn: txn.execute(sql, [world.cache.change]))
    world.restart()
    world.pass_time(120)
    assert world.rows == []
    assert "start again" in world.callbacks.questions[-1]["hub.reason"]


def test_a_newer_hub_takes_over(world: World, logged_errors: LoggedErrors) -> None:
    tables: Any = world.tables
    result_of(HubStore(tables).claim())
    world.pass_time(130)
    logged_errors.flush("another hub has claimed")
    assert world.hub is not None and not world.hub.is_claimed
    assert world.refusal().status == 503


def test_many_topics(world: World) -> None:
    for number in range(60):
        query = urlencode({"provider": number % 7 + 1, "prefix": f"http://a.example.org/{number}/"})
        world.request(topic=f"{URL}atom?{query}", callback=f"http://u{number}.example.net/")
    for number in range(60):
        put(world, f"{number}/x", pid=number % 7 + 1)
    world.pass_time(4)
    assert {host: len(bodies) for host, bodies in world.callbacks.got.items()} == {
        f"u{number}.example.net": 1 for number in range(60)
    }
    assert len(world.rows) == 60
