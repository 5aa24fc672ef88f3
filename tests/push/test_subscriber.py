"""Subscriptions of feeds at hubs, on SQLite and MariaDB: hubs that work, and those that do what none should."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from twisted.internet.defer import succeed

from lcc.domain.push.websub import LEASE_ASKED_SECONDS, RENEWAL_SECONDS_MAX, sign
from lcc.fetchers.guarded_client import NoAnswer, Reply
from lcc.model.push.websub import HubState
from lcc.roles.push.engine import BOUND_SECONDS
from lcc.roles.push.subscriber import CONFIRM_SECONDS, LEAVE_ATTEMPTS_MAX, LOOK_AGAIN_SECONDS
from lcc.storage.push.subscriptions import SubscriptionStore
from lcc.storage.tasks.orders import TASK_REMOVE
from tests.support.databases import Backend
from tests.support.logs import LoggedErrors
from tests.support.roles.push import HUB, TOPIC, HubWorld

DAY = 86400


@pytest.fixture
def open_world(backend: Backend) -> Iterator[Callable[..., HubWorld]]:
    made: list[HubWorld] = []

    def make(**settings: Any) -> HubWorld:
        made.append(HubWorld(backend, **settings))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.fixture
def world(open_world: Callable[..., HubWorld]) -> HubWorld:
    return open_world()


def test_a_feed_is_subscribed_to_and_pushed(world: HubWorld) -> None:
    task = world.feed()
    world.pass_time(2)
    [(url, form)] = world.hub.asked
    found = world.only
    assert (url, found.task, found.state) == (HUB, task, HubState.ASKING)
    assert form == {
        "hub.mode": "subscribe",
        "hub.topic": TOPIC,
        "hub.callback": f"https://push.example.org:9743/websub/{found.id}",
        "hub.secret": found.secret,
        "hub.lease_seconds": str(LEASE_ASKED_SECONDS),
    }
    assert len(found.id) == len(found.secret) == 32 and found.id != found.secret
    assert world.confirm() == (200, b"a b<i>")
    assert "Content-Type: text/plain" in world.headers and "nosniff" in world.headers
    found = world.only
    assert (found.state, found.lease_seconds) == (HubState.ACTIVE, 10 * DAY)
    assert found.due_time == int(world.now()) + 10 * DAY * 2 // 3
    # What was published before is pushed by nobody.
    world.pass_time(1)
    assert world.polls() == 1
    world.poll_over(task)
    world.pass_time(10)
    assert world.hear()[0] == 200
    world.pass_time(1)
    assert world.polls() == 1 and world.tasks.task(task).due_time == int(world.now())
    # Nothing was found: once more a minute later, and not again.
    world.poll_over(task)
    world.pass_time(58)
    assert world.polls() == 0
    world.pass_time(4)
    assert world.polls() == 1
    world.pass_time(300)
    assert world.polls() == 0
    assert world.server.counters.pushes_heard == 1 and world.only.pushes == 1


def test_no_second_look_where_there_are_news(world: HubWorld) -> None:
    task = world.subscribed()
    world.hear()
    world.pass_time(2)
    assert world.polls() == 1
    world.poll_over(task)
    world.read(task, news=True)
    world.pass_time(120)
    assert world.polls() == 0 and world.only.poll_time == 0


def test_many_pushes_are_few_polls(world: HubWorld) -> None:
    task = world.subscribed()
    count = 0
    for _ in range(30):
        assert world.hear()[0] == 200
        world.pass_time(1)
        count += world.polls()
        world.poll_over(task)
    assert 3 <= count <= 5


def test_pushes_do_not_put_off_the_backup_poll(world: HubWorld) -> None:
    task = world.subscribed()
    due = world.tasks.task(task).due_time or 0
    for _ in range(2):
        world.clock.advance(600)
        world.hear()
        world.pass_time(2)
        assert world.polls() == 1
        # It has found news, and the task's next poll is a period later.
        world.poll_over(task)
        world.read(task, news=True)
        world.pass_time(70)
        assert world.polls() == 0 and world.only.backup_time == due
    world.clock.advance(due - world.now() - 5)
    world.pass_time(2)
    assert world.polls() == 0
    world.pass_time(5)
    assert world.polls() == 1 and world.only.backup_time == 0


def test_forged_pushes(world: HubWorld) -> None:
    world.subscribed()
    for signature in ("sha256=00", "sha1=x", "none", sign("other", b"<diff/>")):
        status, body = world.hear(signature=signature)
        assert status == 403 and "X-Hub-Signature" in body["error"]
    assert world.server.counters.pushes_forged == 4
    world.pass_time(120)
    assert world.polls() == 0
    for path in ("/websub/0", "/websub/", "/websub/" + "f" * 32, "/websub/%ff"):
        status, body = world.ask(f"POST {path} HTTP/1.1\r\nHost: push\r\nContent-Length: 0\r\n\r\n".encode())
        assert status == 410 and "no such subscription" in body["error"]


def test_questions_that_nobody_asked_for(world: HubWorld) -> None:
    world.feed()
    world.pass_time(2)
    for changed, word in (
        ({"topic": "https://other.example.org/"}, "topic"),
        ({"mode": "unsubscribe"}, "wanted"),
        ({"mode": "x"}, "mode"),
        ({"lease_seconds": "0"}, "0 seconds"),
        ({"lease_seconds": "1e9"}, "no number"),
        ({"challenge": "x" * 2000}, "challenge"),
    ):
        status, body = world.confirm(**changed)
        assert status == 404 and word in body["error"], changed
    assert world.only.state is HubState.ASKING
    assert world.confirm(lease_seconds="1000000000")[0] == 200
    assert world.only.due_time == int(world.now()) + RENEWAL_SECONDS_MAX
    # It was confirmed; another question is nobody's.
    assert world.confirm()[0] == 404


def test_renewal_and_the_end_of_a_lease(world: HubWorld) -> None:
    task = world.subscribed()
    renewal, expires = world.only.due_time, world.only.expires_time
    world.clock.advance(renewal - world.now() + 1)
    world.pass_time(2)
    assert len(world.hub.asked) == 2 and world.hub.asked[0] == world.hub.asked[1]
    # Until it is confirmed the old one is good.
    assert world.only.state is HubState.ACTIVE and world.hear()[0] == 200
    assert world.confirm()[0] == 200
    assert world.only.expires_time > expires and world.only.active_time < renewal
    # A hub that is away until the lease is over.
    world.hub.answer = NoAnswer("1302 refused")
    world.clock.advance(world.only.expires_time - world.now() + 1)
    world.pass_time(2)
    assert world.only.state is HubState.ASKING and "refused" in world.only.why
    world.hub.answer = Reply(202, b"")
    world.clock.advance(100)
    world.pass_time(2)
    assert world.confirm()[0] == 200 and world.only.state is HubState.ACTIVE
    world.pass_time(2)
    assert world.polls() >= 1 and world.tasks.task(task).due_time


def test_a_hub_that_accepts_and_vanishes(world: HubWorld, logged_errors: LoggedErrors) -> None:
    world.feed()
    for _ in range(60):
        world.clock.advance(300)
    found = world.only
    assert found.state is HubState.DROPPED and "not confirmed it in" in found.why
    assert len(world.hub.asked) == 6 and world.server.counters.hubs_dropped == 1
    assert world.confirm()[0] == 404 and world.hear()[0] == 410
    # A week later it is asked again.
    world.clock.advance(7 * DAY)
    world.pass_time(2)
    assert len(world.hub.asked) == 7 and world.confirm()[0] == 200


def test_a_slow_hub_does_not_keep_others_waiting(world: HubWorld) -> None:
    world.hub.hanging.add(HUB)
    for number in range(9):
        world.feed(f"{TOPIC}?{number}")
    world.pass_time(3)
    world.feed(f"{TOPIC}?other", "https://other.example.net/")
    world.pass_time(3)
    assert [url for url, _ in world.hub.asked] == [HUB, HUB, "https://other.example.net/"]


def test_a_hub_that_refuses(world: HubWorld) -> None:
    world.hub.answer = Reply(400, b"hub.topic is\nnot ours")
    world.feed()
    world.pass_time(2)
    assert world.only.why == "the hub answers HTTP status 400: hub.topic is not ours"
    world.hub.answer = Reply(307, b"", "/other")
    world.clock.advance(100)
    world.pass_time(2)
    assert "redirects too often" in world.only.why and world.hub.asked[-1][0] == HUB + "other"
    world.hub.answer = Reply(302, b"", "/other")
    world.clock.advance(200)
    world.pass_time(2)
    assert "redirects are not followed" in world.only.why
    world.hub.answer = Reply(202, b"")
    world.clock.advance(300)
    world.pass_time(2)
    status, _ = world.confirm(mode="denied", challenge="", reason="no\nmore")
    assert status == 200 and world.only.state is HubState.DROPPED and "no more" in world.only.why


def test_the_secret_does_not_leave_tls(world: HubWorld) -> None:
    world.hub.answer = Reply(307, b"", "http://hub.example.net/other")
    world.feed()
    world.pass_time(2)
    assert [url for url, _ in world.hub.asked] == [HUB] and "from https to http" in world.only.why
    assert world.only.secret not in repr(world.only)


def test_a_confirmation_that_comes_too_late(world: HubWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.feed()
    world.pass_time(2)
    asked = world.only
    world.clock.advance(700)
    world.pass_time(1)
    assert not world.only.asked_time
    # It was read before, and is stored now.
    monkeypatch.setattr(SubscriptionStore, "get", lambda store, ident: succeed(asked))
    assert world.confirm()[0] == 404 and world.only.state is HubState.ASKING


def test_a_hub_whose_news_only_polls_find(world: HubWorld) -> None:
    task = world.subscribed()
    world.clock.advance(2 * 3600)
    for number in range(1, 4):
        assert world.only.state is HubState.ACTIVE
        world.read(task, news=True)
        world.pass_time(2)
        world.clock.advance(700)
        world.pass_time(2)
        assert world.only.missed == number or world.only.state is HubState.DROPPED
        world.clock.advance(3600)
    found = world.only
    assert found.state is HubState.DROPPED and "last 3 news" in found.why
    assert world.hear()[0] == 410


def test_news_that_were_pushed_late(world: HubWorld) -> None:
    task = world.subscribed()
    world.clock.advance(2 * 3600)
    for late in (True, False, True, False):
        if not late:
            world.hear()
        world.pass_time(2)
        world.read(task, news=True)
        world.pass_time(2)
        if late:
            world.clock.advance(300)
            world.hear()
        world.clock.advance(700)
        world.pass_time(2)
        assert (world.only.missed, world.only.judge_time) == (0, 0)
        world.polls()
        world.clock.advance(3600)


def test_another_hub(world: HubWorld) -> None:
    task = world.subscribed()
    old = world.only
    world.read(task, hub="https://new.example.net/")
    world.pass_time(3)
    assert {each.state for each in world.all} == {HubState.ACTIVE, HubState.ASKING}
    assert world.hear(ident=old.id)[0] == 200
    new = next(each for each in world.all if each.id != old.id)
    assert world.confirm(new.id)[0] == 200
    world.pass_time(3)
    assert world.hub.modes == ["subscribe", "subscribe", "unsubscribe"]
    assert world.confirm(old.id, mode="unsubscribe") == (200, b"a b<i>")
    assert world.only.id == new.id


def test_a_feed_that_goes(world: HubWorld) -> None:
    task = world.subscribed()
    world.tasks.order(TASK_REMOVE, task, now=int(world.now()))
    world.pass_time(10)
    assert world.hub.modes == ["subscribe", "unsubscribe"] and world.only.state is HubState.LEAVING
    # A hub that never asks is asked a few times.
    for _ in range(4):
        world.clock.advance(700)
        world.pass_time(2)
    assert world.all == [] and world.hub.modes.count("unsubscribe") == 3


def test_a_configured_hub(open_world: Callable[..., HubWorld]) -> None:
    world = open_world(hubs=("https://www.youtube.com/feeds/ https://hub.example.net/youtube",))
    video = "https://www.youtube.com/feeds/videos.xml?channel_id=x"
    world.feed(video, hub="")
    world.feed("https://www.example.org/other", hub="")
    world.pass_time(2)
    [(url, form)] = world.hub.asked
    assert (url, form["hub.topic"]) == ("https://hub.example.net/youtube", video)


def test_a_restart(world: HubWorld) -> None:
    task = world.subscribed()
    world.hear()
    world.restart()
    world.pass_time(3)
    assert world.polls() == 1 and len(world.all) == 1
    world.poll_over(task)
    world.restart()
    world.pass_time(62)
    assert world.polls() == 1
    assert world.server.subscriber is not None
    world.pass_time(10)
    assert world.server.subscriber.counts == {"active": 1}


@pytest.mark.long("mariadb")
@pytest.mark.parametrize("restarts", [False, True])
def test_nothing_waits_for_a_clock_that_was_set_back(world: HubWorld, restarts: bool) -> None:
    world.clock_ahead = DAY
    world.pass_time(1)
    task = world.subscribed()
    world.hear()
    world.pass_time(1)
    assert world.polls() == 1
    world.poll_over(task)
    world.hub.asked.clear()
    world.clock_ahead = 0
    if restarts:
        world.restart()
    world.pass_time(BOUND_SECONDS + LOOK_AGAIN_SECONDS + 10)
    assert world.polls() == 1, "nothing was found: it is polled once more"
    world.poll_over(task)
    # Its lease ends when the hub says so, and when that was is not known.
    assert world.hub.modes == ["subscribe"]
    now = int(world.now())
    found = world.only
    assert found.state is HubState.ACTIVE and found.expires_time <= now + found.lease_seconds
    assert (
        now - BOUND_SECONDS - LOOK_AGAIN_SECONDS - 10 <= found.asked_time <= now
        and found.due_time == found.asked_time + CONFIRM_SECONDS
    )
    assert max(found.pushed_time, found.polled_time, found.poll_time - LOOK_AGAIN_SECONDS) <= now
    assert world.confirm()[0] == 200 and world.only.due_time == now + 10 * DAY * 2 // 3
    # A feed that was read in that time does not hide those that are read now.
    other = world.feed("https://www.example.org/other.xml")
    world.pass_time(2)
    assert other in [each.task for each in world.all]


@pytest.mark.long("mariadb")
@pytest.mark.parametrize("answer", [Reply(202, b""), NoAnswer("1302 refused")])
def test_a_hub_is_asked_again_when_a_clock_was_set_back(world: HubWorld, answer: Reply | NoAnswer) -> None:
    world.clock_ahead = DAY
    world.hub.answer = answer
    world.feed()
    world.pass_time(2)
    assert world.hub.modes == ["subscribe"]
    world.clock_ahead = 0
    world.pass_time(3605 + BOUND_SECONDS)
    assert len(world.hub.asked) > 1
    assert world.only.why and "-" not in world.only.why


def test_who_was_yet_to_be_asked_for_when_a_clock_was_set_back(world: HubWorld) -> None:
    world.clock_ahead = DAY
    world.hub.hanging.add(HUB)
    for number in range(4):
        world.feed(f"https://www.example.org/{number}.xml")
    world.pass_time(2)
    assert len(world.hub.asked) < 4 == len(world.all)
    world.clock_ahead = 0
    world.hub.hanging.clear()
    world.restart()
    world.pass_time(5)
    assert {form["hub.callback"] for _, form in world.hub.asked} == {
        f"https://push.example.org:9743/websub/{each.id}" for each in world.all
    }


@pytest.mark.long("mariadb")
def test_a_hub_that_was_dropped_or_left_when_a_clock_was_set_back(
    open_world: Callable[..., HubWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = open_world(hub_retry=7200)
    world.clock_ahead = DAY
    world.feed()
    world.pass_time(2)
    world.ask(
        f"GET /websub/{world.only.id}?hub.mode=denied&{urlencode({'hub.topic': TOPIC})} HTTP/1.1\r\n"
        "Host: push\r\n\r\n".encode()
    )
    assert world.only.state is HubState.DROPPED
    world.clock_ahead = 0
    world.pass_time(BOUND_SECONDS)
    assert world.only.due_time <= world.now() + 7200
    world.clock.advance(7200)
    world.pass_time(2)
    assert world.only.state is HubState.ASKING and world.confirm()[0] == 200
    world.clock_ahead = DAY
    world.pass_time(1)
    world.tasks.order(TASK_REMOVE, str(world.only.task), now=int(world.now()))
    world.polls()
    world.pass_time(8)
    assert world.only.state is HubState.LEAVING
    world.clock_ahead = 0
    world.pass_time(BOUND_SECONDS + CONFIRM_SECONDS * LEAVE_ATTEMPTS_MAX + 20)
    assert not world.all


def test_while_it_is_paused(world: HubWorld) -> None:
    world.subscribed()
    world.server.pause()
    assert world.hear()[0] == 503 and world.confirm()[0] == 503
