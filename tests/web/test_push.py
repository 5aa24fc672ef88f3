"""The page of pushes: sites and their keys, hubs of feeds, subscribers of our own hub."""

from __future__ import annotations

import attrs
import pytest_twisted

from lcc.model.push.hub import HubAsk, HubSubscriber
from lcc.model.push.pushes import KeyState, SiteKey
from lcc.model.push.websub import HubState, HubSubscription
from lcc.storage.database.migrations import HUB, MAIN, PUSH
from lcc.storage.database.place import place_of
from lcc.storage.database.transactions import Txn
from lcc.storage.hub.subscribers import ASKS, SUBSCRIBERS, digest
from lcc.storage.push import store
from lcc.storage.push.store import KEYS
from lcc.storage.push.subscriptions import SUBSCRIPTIONS
from tests.support.databases import DirectDatabase

from .kit import CANARY, Watch, url_page
from .test_pages import check_page, words
from .test_tasks import pressed

SITE = "https://www.example.org/"
TOPIC = f"https://cache.example.org/atom?prefix={CANARY}"
SECRET = "0123456789abcdef"


def fill(txn: Txn, now: int) -> None:
    """A key that waits for approval, one that is proven, one of another host; a push with each."""
    for number, (host, state) in enumerate(
        (
            ("www.example.org", KeyState.APPROVAL),
            ("www.example.org", KeyState.PROVEN),
            ("b.example", KeyState.WAITING),
        )
    ):
        site, ident = f"https://{host}/", digest(str(number))
        places = site, SECRET, f"{site}{SECRET}.txt", f"{site}{number}/"
        key = SiteKey(ident, *places, state, pid=7 if number == 1 else 0, why=CANARY if number == 0 else "")
        KEYS.upsert(txn, [store._row(attrs.evolve(key, made_time=now - 3600, due_time=now))])
        urls = f'[{{"c":"{SITE}a"}},{{"c":"{SITE}aa"}}]'
        row = number + 1, ident, int(state is KeyState.PROVEN), 0, 0, urls, 2, "", now - 60 * number
        store._SETS.insert(txn, [row])
    store._SETS.insert(txn, [(9, digest("1"), 2, 7, 1, "", 2, "", now)])
    hub = HubSubscription(SECRET, 5, SITE, f"https://hub.example.net/{CANARY}", SECRET, HubState.DROPPED, now, now)
    row = attrs.astuple(attrs.evolve(hub, why="it does not push", state=hub.state.value))  # type: ignore[arg-type]
    SUBSCRIPTIONS.upsert(txn, [row])


def subscribe(txn: Txn, now: int) -> None:
    """Three subscribers of a topic, one of whom fails; and a request."""
    for number in range(3):
        found = HubSubscriber(
            *(digest(str(number)), digest("topic"), f"https://user{number}.example.net/{SECRET}", TOPIC, SECRET),
            *(0, "", 0, 0, 1 if number == 0 else 0, now + 86400, now),
            site=f"https://user{number}.example.net/",
            failures=4 if number == 0 else 0,
            since_time=now - 7200 if number == 0 else 0,
            why=CANARY if number == 0 else "",
        )
        SUBSCRIBERS.upsert(txn, [attrs.astuple(found)])
    ask = HubAsk(digest("x"), "https://u.example/", TOPIC, "subscribe", SECRET, 86400, 0, "", 0, now)
    ASKS.upsert(txn, [attrs.astuple(ask)])


@pytest_twisted.ensureDeferred
async def test_who_pushes_and_who_is_pushed(watch: Watch) -> None:
    browser = await watch.visitor()
    page = await browser.get("/push")
    check_page(page)
    now = int(watch.monitor.now())
    for series, function in ((PUSH, fill), (HUB, subscribe)):
        place = place_of(watch.config, series)
        assert place.is_there() == (place.series == MAIN), "who looks makes no tables"
        database = DirectDatabase(*place)
        database.now(function, now)
        database.blocking.close()
    page = await browser.get("/push")
    check_page(page)
    text = words(page)
    assert "wait for the proof of their key: 4; for the UNS: 2. Keys: 1 approval, 1 proven, 1 waiting." in text
    assert f"{SITE}0/ approval" in text and "Subscriptions: 1 dropped." in text and "it does not push" in text
    assert "3 subscribers, 1 of them failing; 1 request yet to be confirmed." in text
    assert "https://user0.example.net/ failing 2 hours ago never" in text, text
    assert SECRET not in page.body.decode() and CANARY not in page.body.decode()
    # Each count leads to what it counts.
    for query, rows, caption in (
        ("keys=approval", 1, "Keys: approval, the newest"),
        ("keys=proven", 1, "Keys: proven"),
        ("hubs=dropped", 1, "Subscriptions: dropped, the newest"),
    ):
        assert f'href="/push?{query}#' in page.body.decode()
        listed = await browser.get(f"/push?{query}")
        check_page(listed)
        assert caption in words(listed)
        section = listed.body.decode().partition(f'id="h-{"hubs" if "hubs" in query else "sites"}"')[2]
        assert section.partition("</section>")[0].count('<th scope="row"') == rows
    assert (await browser.get("/push?keys=lost")).status == 400
    assert 'href="#h-failing">1</a>' in page.body.decode()
    # A URL that was pushed and is not told yet.
    text = words(await browser.get(url_page(f"{SITE}a")))
    assert (
        "with the key of https://www.example.org/0/: it waits for approval; Next: lcc-admin push approve www" in text
    )
    assert "with the key of https://www.example.org/1/: it is yet to be told to the UNS" in text
    assert "b.example" not in text and "pushed" not in words(await browser.get(url_page(f"{SITE}b")))
    page = await pressed(browser, "/push", "approve")
    assert "Keys: 1 approved, 1 proven, 1 waiting." in words(page)
    watch.add_user("guest", operates=False)
    reader = await watch.visitor("guest")
    page = await reader.get("/push")
    assert "Approve" not in words(page) and "Refuse" not in words(page)
