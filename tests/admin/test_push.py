"""``lcc-admin push``."""

from __future__ import annotations

import json
import re
import time

import attrs

from lcc.config import load_config
from lcc.model.push.hub import HubSubscriber
from lcc.model.push.pushes import KeyState, SiteKey
from lcc.model.push.websub import HubState, HubSubscription
from lcc.storage.database.migrations import HUB, PUSH
from lcc.storage.database.place import place_of
from lcc.storage.hub.subscribers import SUBSCRIBERS, digest
from lcc.storage.push import store
from lcc.storage.push.store import KEYS
from lcc.storage.push.subscriptions import SUBSCRIPTIONS, get_subscription
from tests.support.admin import Lcc
from tests.support.databases import DirectDatabase

FEED = "https://www.example.org/feed.xml"


def test_the_commands(lcc: Lcc) -> None:
    assert "no site has pushed anything" in lcc.admin("push", "list").stdout
    assert lcc.admin("push", "approve", "www.example.org").stdout == "www.example.org: no key waits for approval\n"
    assert lcc.admin("push", "refuse", "HTTPS://www.example.org/x").stdout == "www.example.org: no key is known\n"
    assert "Invalid value" in lcc.admin("push", "refuse", "a b", code=2).stderr


def put(lcc: Lcc, subscription: HubSubscription) -> None:
    place = place_of(load_config(lcc.config_path), PUSH)
    database = DirectDatabase(place.url, place.home, place.series)
    row = attrs.astuple(attrs.evolve(subscription, state=subscription.state.value))  # type: ignore[arg-type]
    database.now(lambda txn: SUBSCRIPTIONS.upsert(txn, [row]))
    assert database.blocking.select(get_subscription, subscription.id) == subscription
    database.blocking.close()


def test_hubs_of_feeds(lcc: Lcc) -> None:
    assert "no feed is subscribed to" in lcc.admin("push", "hubs").stdout
    lcc.admin("feed", "add", FEED)
    assert json.loads(lcc.admin("feed", "show", FEED, "--json").stdout)["hubs"] == []
    now = int(time.time())
    found = HubSubscription("ab" * 16, 1, FEED, "https://hub.example.net/", "cd" * 16, HubState.ASKING, now, now)
    put(lcc, found)
    assert "hub https://hub.example.net/: asked to push" in lcc.admin("feed", "show", FEED).stdout
    active = attrs.evolve(found, state=HubState.ACTIVE, lease_seconds=864000, expires_time=now + 860000)
    put(lcc, attrs.evolve(active, pushed_time=now - 330, pushes=3))
    text = lcc.admin("feed", "show", FEED).stdout + lcc.admin("feed", "why", FEED).stdout
    assert len(re.findall(r"last push [56] minutes ago, 3 in all; lease of 10 days, over in 9 days", text)) == 2, text
    [row] = lcc.rows("push", "hubs")
    assert (row["state"], row["pushes"], row["hub"]) == ("active", 3, "https://hub.example.net/")
    # Neither the callback nor the secret is shown.
    assert found.id not in str(row) + text and found.secret not in str(row) + text
    put(lcc, attrs.evolve(found, state=HubState.DROPPED, why="it does not push", due_time=now + 86400 * 6 + 60))
    assert "DROPPED: it does not push; asked again in 6 d" in lcc.admin("feed", "show", FEED).stdout
    assert "it does not push" in lcc.admin("push", "hubs", "--state", "dropped").stdout
    assert lcc.rows("push", "hubs", "--state", "leaving") == []


def test_subscribers_of_the_hub(lcc: Lcc) -> None:
    assert "nobody has subscribed" in lcc.admin("push", "subscribers").stdout
    place = place_of(load_config(lcc.config_path), HUB)
    database = DirectDatabase(place.url, place.home, place.series)
    for number, failures in enumerate((0, 3)):
        callback = f"https://user{number}.example.net/{'ab' * 8}"
        found = HubSubscriber(
            digest(callback), digest("t"), callback, "https://lcc/atom", "cd" * 8, number, "", 0, 0, 0, 9, 1
        )
        site = f"https://user{number}.example.net/"
        row = attrs.astuple(
            attrs.evolve(found, site=site, failures=failures, why="HTTP status 500" if failures else "")
        )
        database.now(lambda txn, row=row: SUBSCRIBERS.upsert(txn, [row]))
    database.blocking.close()
    rows = lcc.rows("push", "subscribers")
    assert sorted((row["site"], row["user"], row["state"], row["reason"]) for row in rows) == [
        ("https://user0.example.net/", None, "current", ""),
        ("https://user1.example.net/", 1, "failing", "HTTP status 500"),
    ]
    text = lcc.admin("push", "subscribers", "--failing").stdout
    assert (
        "user1" in text and "user0" not in text and "abab" not in text + str(rows) and "cdcd" not in text + str(rows)
    )


def test_why_knows_what_waits_to_be_told(lcc: Lcc) -> None:
    url = "https://www.example.org/caf%C3%A9"
    assert lcc.admin("why", url).stdout.count("pushed") == 0
    place = place_of(load_config(lcc.config_path), PUSH)
    database = DirectDatabase(place.url, place.home, place.series)
    places = "http://www.example.org/", "0123456789", "http://www.example.org/k.txt", "http://www.example.org/"
    key = SiteKey(digest("k"), *places, KeyState.WAITING, why="1302 refused")
    database.now(lambda txn: KEYS.upsert(txn, [store._row(key)]))
    row = 1, key.id, 0, 0, 0, store._json([{"c": url}]), 1, "", 1_780_000_000
    database.now(lambda txn: store._SETS.insert(txn, [row]))
    database.blocking.close()
    text = lcc.admin("why", url).stdout
    # Its key file was fetched by http, which speaks for https, too.
    said = "pushed 2026-05-28 20:26:40 UTC with the key of http://www.example.org/: the key file is yet to be fetched"
    assert f"{said}: 1302 refused\n" in text, text
    assert json.loads(lcc.admin("why", url, "--json").stdout)["pushes"][0]["host"] == "www.example.org"
    assert "pushed" not in lcc.admin("why", url + "x").stdout
