"""``lcc-admin why``: every state that a URL can be in, with rows as the queue manager's store makes them."""

from __future__ import annotations

import json

import pytest

from lcc.insight import why
from lcc.model import FETCH_NOW, Delay, Source
from lcc.storage.disk.content_paths import content_path
from lcc.storage.providers.providers import order_removal
from tests.support.databases import result_of
from tests.support.qm_state import STATE
from tests.support.queue import notice

from .site import IDLE, NOW, Site


def test_a_url_of_nobody(site: Site) -> None:
    (answer,) = site.lcc.rows("why", "http://elsewhere/x")
    assert answer["providers"] == []
    assert "no provider has a root for it" in site.lcc.admin("why", "http://elsewhere/x").stdout
    assert "outside the roots of provider 1" in site.lcc.admin("why", "--provider", "1", "http://elsewhere/x").stdout
    assert "no provider 9" in site.lcc.admin("why", "--provider", "9", "http://site/x", code=1).output
    for bad in ("site/x", "ftp://", "http://user@site/"):
        assert "Invalid value for URL" in site.lcc.admin("why", bad, code=2).output


def test_a_root_that_was_taken_away(site: Site) -> None:
    site.lcc.admin("provider", "set", "1", "--root", "http://site/a/")
    assert site.why("a/x")["root"] == "http://site/a/"
    assert site.why("x")["root"] == ""
    said = site.lcc.admin("why", "http://site/x").stdout
    assert "outside the roots of provider 1: submissions of this URL are refused" in said


def test_a_url_that_nothing_is_known_of(site: Site) -> None:
    assert site.why("x")["root"] == "http://site/"
    assert site.why("x")["views"] == []
    assert "neither queued nor cached" in site.words("x")


def test_the_name_is_normalised_and_https_is_inside(site: Site) -> None:
    site.queue.send(1, notice("a"))
    (answer,) = site.lcc.rows("why", "HTTP://SITE:80/./a")
    assert answer["url"] == "http://site/a"
    assert len(answer["providers"][0]["views"]) == 1
    (answer,) = site.lcc.rows("why", "https://site/a")
    assert [provider["root"] for provider in answer["providers"]] == ["http://site/"]


def test_each_provider_with_such_a_root(site: Site) -> None:
    other = site.queue.add_provider()
    (answer,) = site.lcc.rows("why", "http://site/a")
    assert [provider["pid"] for provider in answer["providers"]] == [1, other]
    (answer,) = site.lcc.rows("why", "--provider", str(other), "http://site/a")
    assert [provider["pid"] for provider in answer["providers"]] == [other]


def test_queued_behind_others(site: Site) -> None:
    site.queue.send(1, *[notice(f"first{number}") for number in range(3)], now=NOW - 60)
    site.queue.send(2, notice("before"), notice("a"), full=True, now=NOW - 50)
    queued = site.view("a")["queued"]
    assert (queued["before_in_set"], queued["sets_before"], queued["rows_before"]) == (
        {"number": 1, "more": False},
        {"number": 1, "more": False},
        {"number": 3, "more": False},
    )
    assert (queued["full_set"], queued["priority"], queued["received_time"]) == (True, 1, NOW - 50)
    words = site.words("a")
    assert "text/html: queued, fetch URL http://site/a" in words
    assert "(full, priority 1), received 2023-11-14 22:12:30 UTC" in words
    assert "behind 1 row of its set, and 3 rows in 1 earlier set" in words
    assert "ready: fetched when its turn comes" in words


def test_counting_is_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(why, "COUNT_MAX", 2)
    site.queue.send(1, *[notice(f"{number}") for number in range(4)])
    assert site.view("2")["queued"]["before_in_set"] == {"number": 2, "more": False}
    assert site.view("3")["queued"]["before_in_set"] == {"number": 2, "more": True}
    assert "behind more than 2 rows of its set" in site.words("3")


def test_sets_of_other_providers(site: Site) -> None:
    mine = site.queue.pid
    other = site.queue.add_provider()
    site.queue.pid = other
    site.queue.send(1, notice("x"))
    site.queue.pid = mine
    site.queue.send(1, notice("a"))
    site.queue.pid = other
    site.queue.send(2, notice("y"))
    (answer,) = site.lcc.rows("why", "--provider", str(mine), "http://site/a")
    queued = answer["providers"][0]["views"][0]["queued"]
    assert (queued["earlier_sets_of_others"]["number"], queued["sets_of_higher_priority"]["number"]) == (1, 0)
    words = site.words("a")
    assert "other providers have 1 earlier set of the same priority" in words
    assert "behind" not in words and " 0 " not in words


def test_cached(site: Site) -> None:
    site.queue.send(1, notice("a", md5="a"))
    site.queue.fetch_all(now=NOW - 7200)
    cached = site.view("a")["cached"]
    assert (cached["state"], cached["fetched_time"], cached["told_len"]) == ("cached", NOW - 7200, 1)
    words = site.words("a")
    assert "text/html: cached since 2023-11-14 20:13:20 UTC (2 hours ago)" in words
    assert content_path(1) in words and "on machine 1 (file 1)" in words
    site.lcc.config_path.write_text(site.lcc.config_path.read_text() + "[botm]\nmachine = 9\n")
    assert f"in {content_path(1)} in the content folder of machine 1 (file 1)" in site.words("a")
    assert f"1 bytes, md5 {cached['md5']}, status 200, change 1" in words
    assert f"the provider submitted md5 {'a' * 32}, len 1, mtime 2" in words
    site.queue.send(2, notice("a", md5="a"), now=NOW - 3600)
    assert "confirmed 2023-11-14 21:13:20 UTC (60 minutes ago)" in site.words("a")


def test_every_view(site: Site) -> None:
    site.queue.send(1, notice("a"), notice("a", mimetype="text/plain"))
    site.queue.fetch_all()
    site.queue.send(2, notice("a"))
    html, plain = site.why("a")["views"]
    assert (html["mimetype"], plain["mimetype"]) == ("text/html", "text/plain")
    assert html["cached"] and html["queued"] and plain["cached"] and not plain["queued"]
    words = site.words("a")
    assert "text/html: cached since" in words and "text/html: queued" in words and "text/plain: cached since" in words


def test_deleted(site: Site) -> None:
    site.queue.send(1, notice("a"))
    site.queue.fetch_all()
    site.queue.send(2, notice("a", delete=True), now=NOW)
    assert site.view("a")["cached"]["state"] == "deleted"
    assert "text/html: deleted since 2023-11-14 22:13:20 UTC, change 2" in site.words("a")


def test_deleted_while_it_is_queued(site: Site) -> None:
    site.queue.send(1, notice("a"))
    site.queue.send(2, notice("a", delete=True))
    assert site.view("a")["queued"]["operation"] == "nothing"
    words = site.words("a")
    assert "deleted after it was queued" in words
    assert "waits" not in words and "fetched when its turn comes" not in words


def test_waiting_for_orders_of_an_earlier_queue_manager(site: Site) -> None:
    site.queue.send(1, notice("a"))
    awaited = [{"machine": 3, "until": NOW + 90}]
    cases = ((1, [1], 1, True), (1, [7], 9, False), (2000, [7], 1, True), (2000, [7], 0, False))
    for count, pids, upto, waits in cases:
        site.say(awaited=awaited, withheld={"providers": count, "pids": pids, "sets_upto": upto})
        assert site.why("a")["awaited"] == (awaited if waits else [])
        assert (
            "machine 3 is disconnected, or robots hang there, and may still be fetching" in site.words("a")
        ) is waits
    site.say(awaited=awaited, withheld={"providers": 1, "pids": [1], "sets_upto": 1})
    assert "fetching resumes when it reconnects, or at 2023-11-14 22:14:50 UTC, in 90 seconds" in site.words("a")
    site.say(awaited=[], withheld={"providers": 0, "pids": [], "sets_upto": 0})
    assert "ready: fetched when its turn comes" in site.words("a")


def test_waiting_for_another_provider_of_its_host(site: Site) -> None:
    site.queue.send(1, notice("a"))
    site.say(**STATE | {"time": NOW - 2, "host_turns": [{"turns": [7, 9], "waiting": [5, 1], "count": 2}]})
    assert site.why("a")["waits_for"] == [7, 9]
    words = site.words("a")
    assert (
        "waits: provider 7, 9 of the same host has its turn (one of a host at a time: [qm] serial_by_host)" in words
    )
    (row,) = site.lcc.rows("queue")
    assert row["waits_for"] == [7, 9]
    assert site.lcc.admin("queue").stdout.splitlines()[1].endswith("7 9")
    assert "2 providers waiting for another one of the same host" in site.lcc.admin("status").stdout
    site.say(host_turns=[{"turns": [7], "waiting": [5], "count": 1}])
    assert site.why("a")["waits_for"] == [] and "ready: fetched when its turn comes" in site.words("a")


def test_attempts_that_failed(site: Site) -> None:
    site.queue.send(1, notice("a"), notice("b"))
    site.queue.record(site.queue.failed(site.queue.rows()[0], 503, "overloaded"), now=NOW - 10)
    queued = site.view("a")["queued"]
    assert (queued["attempts"], queued["unreached"], queued["slot"]) == (1, 0, None)
    assert queued["last_error"] == {"code": 503, "text": "overloaded", "time": NOW - 10}
    assert NOW + 30 < queued["next_try"] <= NOW + 54
    words = site.words("a")
    assert "1 of 7 attempts failed" in words and "not reached" not in words and "behind" not in words
    assert "the last error was 503 (Service Unavailable), 2023-11-14 22:13:10 UTC: overloaded\n" in words
    assert "waits: retry at 2023-11-14 22:1" in words
    site.queue.open_retries(queued["next_try"])
    site.queue.record(site.queue.failed(site.queue.rows()[1], 1301), now=NOW + 60)
    queued = site.view("a")["queued"]
    assert (queued["attempts"], queued["unreached"], queued["next_try"]) == (1, 1, None)
    words = site.words("a")
    assert "1 of 20 attempts did not reach its site" in words and "behind 1 row of its set" in words
    assert "the last error was 1301" in words and "next try" not in words
    # What is told anew begins anew.
    site.queue.send(2, notice("a"), now=NOW + 70)
    queued = site.view("a")["queued"]
    assert (queued["attempts"], queued["unreached"], queued["last_error"]) == (0, 0, None)


def test_errors_and_quotas(site: Site) -> None:
    site.queue.send(1, notice("a", furl="http://site/fetch"), notice("b"))
    first, second = site.queue.rows()
    site.queue.record(site.queue.failed(first, 404), site.queue.failed(second, 1501), now=NOW)
    assert "failed for good with 404 (http-404), 2023-11-14 22:13:20 UTC: Not Found" in site.words("fetch")
    assert "404 (http-404)" in site.words("a")  # although nothing else is known of it any longer
    assert "over the file quota: 1501 (quota-files)" in site.words("b")
    assert [error["code"] for error in site.why("b")["errors"]] == [1501]


def test_found_by_what_is_fetched(site: Site) -> None:
    site.queue.send(1, notice("a", furl="http://site/fetch"))
    assert site.why("fetch")["views"] == []
    assert "queued, fetch URL http://site/fetch" in site.words("fetch", "--fetch-url")
    site.queue.fetch_all()
    assert site.why("fetch", "--fetch-url")["curls"] == ["http://site/a"]
    site.queue.send(2, notice("a", furl="http://site/fetch"))
    site.queue.record(site.queue.failed(site.queue.rows()[0], 403))
    assert [error["code"] for error in site.why("a")["errors"]] == [403]


@pytest.mark.parametrize(
    ("delay", "said"),
    [
        (Delay(1, NOW + 90, "bandwidth"), "the bandwidth limit of this provider is reached"),
        (Delay(0, NOW + 90, "bandwidth"), "the bandwidth limit of the whole LCC is reached"),
        (Delay(1, NOW + 90, "site-error", 1302, 3), "1302 (connection refused), 3 times in a row"),
        (Delay(1, NOW + 90, "hours"), "the hours of this provider are over"),
        (Delay(1, NOW + 90, "interval"), "the interval between fetches from this provider is not over"),
        (Delay(1, NOW + 90, "retry-after", 503), "answered 503 (Service Unavailable) and asked to be left alone"),
    ],
)
def test_delays(site: Site, delay: Delay, said: str) -> None:
    site.queue.send(1, notice("a"))
    result_of(site.queue.store.save_delays([delay, Delay(77, NOW + 90, "bandwidth")]))
    words = site.words("a")
    assert said in words
    assert "retry at 2023-11-14 22:14:50 UTC, in 90 seconds" in words
    assert "ready: fetched when its turn comes" not in words
    assert [each["pid"] for each in site.why("a")["delays"]] == [delay.pid]
    result_of(site.queue.store.save_delays([delay._replace(until_time=float(NOW - 1))]))
    assert "ready: fetched when its turn comes" in site.words("a")


def test_hours_of_the_provider(site: Site) -> None:
    site.queue.send(1, notice("a"))
    site.change(hours="2-8", timezone="UTC")
    words = site.words("a")
    assert "the provider's hours are 2-8 (UTC); the next begin at 2023-11-15 02:00:00 UTC, in 3 hours" in words
    site.change(hours="22-23")
    assert "ready: fetched when its turn comes" in site.words("a")


def test_hours_of_the_url(site: Site) -> None:
    site.queue.send(1, notice("a", hours="3-5"), notice("b", hours="12"), now=NOW)
    row = site.queue.database.query("SELECT slot FROM qdb ORDER BY seq LIMIT 1")[0][0]
    assert site.view("a")["queued"]["slot"] == (None if row == FETCH_NOW else row)
    assert "its hours are 3-5 (UTC); the next begin at 2023-11-15 03:00:00 UTC" in site.words("a")
    site.change(hours="4-8")
    assert "the next begin at 2023-11-15 04:00:00 UTC" in site.words("a")
    assert "its hours (12) never overlap the provider's (4-8)" in site.words("b")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("", "no queue manager has run yet"),
        ("{}", "no queue manager has run yet"),
        ('"nonsense', "no queue manager has run yet"),
        ("[1]", "no queue manager has run yet"),
        (json.dumps(IDLE | {"time": NOW - 60}), "the queue manager is not running"),
        (json.dumps(IDLE | {"capacity": 0}), "no robot is connected"),
    ],
)
def test_nobody_there_to_fetch(site: Site, state: str, said: str) -> None:
    site.queue.send(1, notice("a"))
    result_of(site.queue.store.save_state(state))
    assert f"waits: {said}" in site.words("a")


def test_being_fetched(site: Site) -> None:
    site.queue.send(1, notice("a"))
    order = {"pid": 1, "key": site.queue.key("a").hex(), "machine": 4, "lease_left": 200.0}
    site.say(orders=[order])
    assert "being fetched on machine 4, from http://site/a" in site.words("a")
    site.say(orders=[order], time=NOW - 60)
    assert "is being fetched" not in site.words("a")


def test_another_url_of_its_provider_is_being_fetched(site: Site) -> None:
    site.queue.send(1, notice("a"), notice("b"))
    order = {"pid": 1, "key": site.queue.key("a").hex(), "machine": 4, "lease_left": 200.0}
    site.say(orders=[order])
    words = site.words("b")
    assert "waits: another URL of this provider is being fetched (one at a time)" in words
    assert "ready: fetched when its turn comes" not in words
    site.say(orders=[order | {"pid": 2}])
    assert "ready: fetched when its turn comes" in site.words("b")


def test_hours_are_told_once(site: Site) -> None:
    site.queue.send(1, notice("a"))
    site.change(hours="5-8", timezone="Asia/Kolkata")
    result_of(site.queue.store.save_delays([Delay(1, NOW + 9000, "hours")]))
    words = site.words("a")
    assert "the provider's hours are 5-8 (Asia/Kolkata); the next begin" in words
    assert "are over" not in words


def test_what_may_be_in_a_spool(site: Site) -> None:
    told = "recent submissions may still be in the spool of a UNS"
    site.say(overload="99 URLs are queued")
    assert f"{told}: the queue manager is overloaded: 99 URLs are queued" in site.words("a")
    site.say(time=NOW - 60)
    assert f"{told}: the queue manager is not running" in site.words("a")
    site.say()
    assert told not in site.words("a")


def test_a_provider_that_is_being_removed(site: Site) -> None:
    site.queue.send(1, notice("a"))
    site.queue.database.now(order_removal, 1)
    assert "the provider is being removed" in site.words("a")


def test_a_set_that_is_missing(site: Site) -> None:
    site.queue.send(1, notice("a"))
    site.queue.database.now(lambda txn: txn.execute("DELETE FROM qpsdb"))
    assert "is missing from the table of sets: run lcc-admin rebuild" in site.words("a")


def test_content_that_was_lost(site: Site) -> None:
    site.queue.send(1, notice("a", "1"))
    site.queue.record(site.queue.fetched(site.queue.rows()[0]))
    result_of(site.queue.store.fetch_again(1, [1], NOW))
    words = site.words("a")
    assert "its content file was lost and is being fetched again" in words
    assert "None" not in words


def test_who_names_it(site: Site) -> None:
    site.queue.send(1, notice("told"), notice("both"))
    site.queue.send(2, notice("both"), notice("listed"), source=Source.LISTED)
    assert "named by" not in site.words("told") and "named by: told, listed" in site.words("both")
    assert site.view("listed")["queued"]["source"] == "listed"
    site.queue.send(0, notice("hinted", ifabsent=True), source=Source.LINK)
    site.queue.record(*[site.queue.failed(row, 404) for row in site.queue.rows() if "hinted" in row.notice.curl])
    site.queue.fetch_all()
    words = site.words("both")
    assert "named by: told, listed" in words and "the provider submitted" in words
    assert "the provider submitted" not in site.words("listed")
    assert "(link): Not Found" in site.words("hinted")
    (error,) = site.lcc.rows("errors")
    assert site.lcc.rows("errors", "--provider", str(site.queue.pid)) == [error]
    assert (error["number"], error["source"]) == (-1, "link")
    assert site.why("hinted")["errors"][0]["source"] == "link"
