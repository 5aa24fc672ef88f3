"""A push server in memory, on SQLite and MariaDB: what it answers, tells and keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred

from lcc.config import WatchedConfig
from lcc.errors import FetchError, StoreUnavailable, code
from lcc.model import Provider
from lcc.model.push.pushes import KeyState, Submission
from lcc.model.sources import Source
from lcc.roles.push import engine
from lcc.storage.providers.providers import add_provider
from lcc.storage.providers.watched import find_or_make_watched
from lcc.storage.push import store
from lcc.storage.push.keys import decide_key, list_keys
from lcc.storage.push.store import SET_URLS, Arrival
from tests.support.databases import Backend, result_of
from tests.support.logs import LoggedErrors
from tests.support.roles.push import KEY, NOW, SITE, World

FILE = f"{SITE}{KEY}.txt"


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
    """Sites register themselves."""
    return open_world(unknown_sites="register")


def report(world: World, key: str = KEY) -> Any:
    status, body = world.get("/indexnow/report", host="www.example.org", key=key)
    assert status == 200
    return body["keys"][0]


def test_an_unknown_site(world: World) -> None:
    world.sites.files[FILE] = KEY.encode()
    status, body = world.push("a", "b")
    assert status == 202 and body["reason"] == "the key file is yet to be fetched"
    world.pass_time(2)
    [told] = world.uns.told
    assert (told.source, [url["c"] for url in told.urls]) == (Source.PUSHED, [SITE + "a", SITE + "b"])
    assert told.order > 0 and told.pid > 0
    world.uns.answer()
    status, body = world.get(url=SITE + "c", key=KEY)
    assert (status, body["accepted"], body["key"]) == (200, 1, "proven")
    assert world.uns.urls[-1] == (told.pid, [SITE + "c"]) and world.uns.told[-1].order > told.order
    assert world.sites.asked == [FILE]
    world.uns.answer()
    world.pass_time(1)
    assert (world.server.untold, world.server.unproven) == (0, 0)
    shown = report(world)
    assert (shown["state"], shown["provider"]) == ("proven", told.pid)
    assert [(each["urls"], each["state"]) for each in shown["pushes"]] == [(1, "told"), (2, "told")]


def test_the_report_has_what_could_not_be_fetched(world: World) -> None:
    world.sites.files[FILE] = KEY.encode()
    world.push("a")
    world.pass_time(1)
    [told] = world.uns.told
    columns = ("pid", "number", "code", "message", "url", "sent", "time", "source")
    for number, (url, source) in enumerate(
        (
            (SITE + "a", Source.PUSHED),
            (SITE.replace("http:", "https:") + "b", Source.PUSHED | Source.TOLD),
            (SITE + "secret", Source.TOLD),
            ("http://other.example/", Source.PUSHED),
        ),
        1,
    ):
        error = FetchError("address-forbidden", "10.1.2.3 is private")
        row = told.pid, number, error.code, error.text, url, "[]", NOW, int(source)
        world.main.now(lambda txn, row=row: txn.insert("urlerrs", columns, [row]))
    shown = report(world)["errors"]
    assert [(each["url"], each["code"]) for each in shown] == [
        ("https://www.example.org/b", code("address-forbidden")),
        (SITE + "a", code("address-forbidden")),
    ]
    assert "10.1.2.3" not in str(shown)
    # Whose key is no proof any longer has no business with them.
    world.tables.now(decide_key, "www.example.org", False, 1 << 40)
    assert report(world)["state"] == "refused" and report(world)["errors"] == []


def test_a_key_that_is_not_there(world: World) -> None:
    assert world.push("a")[0] == 202
    world.pass_time(1)
    status, body = world.push("a")
    assert status == 403 and FILE in body["error"] and "404" in body["error"]
    assert report(world)["pushes"][0]["state"] == "refused"
    # After a while it is looked at again.
    world.sites.files[FILE] = KEY.encode()
    world.pass_time(world.settings.retry_interval + 1)
    assert world.push("b")[0] == 202
    world.pass_time(2)
    assert world.uns.urls == [(world.uns.told[0].pid, [SITE + "b"])]


def test_a_page_with_status_200_is_no_key(world: World) -> None:
    world.sites.files[FILE] = f"<html>{KEY}</html>".encode()
    world.push("a")
    world.pass_time(1)
    assert "not just the key" in world.push("a")[1]["error"]
    assert world.uns.told == []


def test_a_site_that_cannot_be_reached(world: World) -> None:
    world.sites.files[FILE] = FetchError("connect-refused", "refused")
    world.push("a")
    world.pass_time(2)
    assert world.push("b")[0] == 202, "nothing that was accepted is lost for that"
    assert report(world)["reason"] != ""
    world.sites.files[FILE] = KEY.encode()
    world.pass_time(61)
    assert [urls for _, urls in world.uns.urls] == [[SITE + "a"], [SITE + "b"]]


def test_a_slow_site_does_not_keep_others_waiting(world: World) -> None:
    slow = [f"{KEY}{number}" for number in range(4)]
    for key in slow:
        world.sites.files[f"{SITE}{key}.txt"] = Deferred()
        world.push("a", key=key)
    world.pass_time(1)
    assert len(world.sites.asked) == 2
    world.sites.files[f"http://b.example/{KEY}.txt"] = KEY.encode()
    assert world.get(url="http://b.example/x", key=KEY)[0] == 202
    world.pass_time(2)
    assert [urls for _, urls in world.uns.urls] == [["http://b.example/x"]]


def test_it_never_comes_back(world: World) -> None:
    world.sites.files[FILE] = FetchError("connect-refused", "refused")
    world.push("a")
    for _ in range(world.settings.attempts_max):
        world.clock.advance(3600)
    assert report(world)["state"] == "refused" and world.server.unproven == 0


def test_a_proven_key_is_looked_at_again(world: World) -> None:
    world.sites.files[FILE] = KEY.encode()
    world.push("a")
    world.pass_time(1)
    world.sites.files[FILE] = FetchError("connect-refused", "refused")
    world.clock.advance(world.settings.check_interval)
    assert len(world.sites.asked) == 2 and world.push("b")[0] == 200
    del world.sites.files[FILE]
    world.clock.advance(120)
    assert world.push("c")[0] == 403


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("fault", [FetchError("connect-refused", "refused"), FetchError.from_status(404)])
def test_a_key_does_not_wait_for_a_clock_that_was_set_back(world: World, fault: FetchError, restarts: bool) -> None:
    world.clock_ahead = 86_400
    world.pass_time(1)
    world.sites.files[FILE] = fault
    world.push("a")
    world.pass_time(1)
    world.clock_ahead = 0
    world.sites.files[FILE] = KEY.encode()
    if restarts:
        world.restart()
    world.pass_time(2)
    assert len(world.sites.asked) == 1, "it waits as long as it ever does"
    world.pass_time(engine.BOUND_SECONDS + world.settings.retry_interval)
    assert world.push("b")[0] in (200, 202)
    world.pass_time(2)
    assert world.uns.urls[-1][1] == [SITE + "b"]


def test_a_key_that_an_operator_has_refused_stays_so_when_a_clock_is_set_back(world: World) -> None:
    world.sites.files[FILE] = KEY.encode()
    world.push("a")
    world.pass_time(1)
    world.tables.now(decide_key, "www.example.org", False, 1 << 40)
    world.clock_ahead = -86_400
    world.pass_time(world.settings.retry_interval + 2)
    assert world.push("b") == (403, {"error": "the operator has refused this site"})


def test_an_operator_approves(open_world: Callable[..., World]) -> None:
    world = open_world()
    world.sites.files[FILE] = KEY.encode()
    world.push("a")
    world.pass_time(1)
    status, body = world.push("b")
    assert status == 202 and "approval" in body["reason"] and world.uns.told == []
    assert world.tables.now(decide_key, "www.example.org", True, 0) == 1
    world.pass_time(2)
    assert len(world.uns.told) == 2 and world.push("c")[0] == 200


@pytest.mark.parametrize("unknown_sites", ["approve", "refuse"])
def test_a_site_whose_provider_is_lost_is_looked_at_again(
    open_world: Callable[..., World], unknown_sites: str
) -> None:
    """As where the queue's database is restored from a backup: its key is proven still."""
    world = open_world(unknown_sites=unknown_sites)
    world.sites.files[FILE] = KEY.encode()
    pid = world.main.now(add_provider, Provider(pid=0, roots=(SITE,), password_hash="x"))
    world.push("a")
    world.pass_time(2)
    world.uns.answer()
    world.pass_time(1)
    assert len(world.uns.told) == 1 and world.server.untold == 0
    for table in ("pidb", "proots"):
        world.main.now(lambda txn, table=table: txn.execute(f"DELETE FROM {table} WHERE pid = ?", [pid]))
    assert world.push("b")[0] == 200
    assert world.push("c")[0] == 202
    world.pass_time(2)
    assert world.server.untold == 0 and len(world.uns.told) == 1
    if unknown_sites == "refuse":
        assert world.server.unproven == 0
        status, body = world.push("d")
        assert status == 403 and "not in a provider's root" in body["error"]
        return
    status, body = world.push("d")
    assert status == 202 and "approval" in body["reason"] and world.server.unproven == 3
    assert world.tables.now(decide_key, "www.example.org", True, 0) == 1
    world.pass_time(2)
    world.uns.answer()
    world.pass_time(1)
    assert [urls for _, urls in world.uns.urls[1:]] == [[SITE + "b"], [SITE + "c"], [SITE + "d"]]
    assert world.server.unproven == world.server.untold == 0 and world.push("e")[0] == 200


def test_a_set_that_was_told_of_a_provider_that_is_lost_waits_for_the_operator_too(
    open_world: Callable[..., World],
) -> None:
    world = open_world(unknown_sites="approve")
    world.sites.files[FILE] = KEY.encode()
    pid = world.main.now(add_provider, Provider(pid=0, roots=(SITE,), password_hash="x"))
    world.push("a")
    world.pass_time(2)
    assert len(world.uns.told) == 1
    for table in ("pidb", "proots"):
        world.main.now(lambda txn, table=table: txn.execute(f"DELETE FROM {table} WHERE pid = ?", [pid]))
    world.push("b")
    world.pass_time(2)
    world.uns.answer(code=code("provider-gone"))
    world.pass_time(2)
    assert world.server.unproven == 2 and len(world.uns.told) == 1
    world.tables.now(decide_key, "www.example.org", True, 0)
    world.pass_time(2)
    assert sorted(urls for _, urls in world.uns.urls[1:]) == [[SITE + "a"], [SITE + "b"]]


def test_an_operator_refuses(open_world: Callable[..., World]) -> None:
    world = open_world()
    world.sites.files[FILE] = KEY.encode()
    world.push("a")
    world.pass_time(1)
    assert world.tables.now(decide_key, "www.example.org", False, 1 << 40) == 1
    assert world.push("b") == (403, {"error": "the operator has refused this site"})
    assert report(world)["pushes"][0]["state"] == "refused"


def test_an_operator_refuses_while_the_file_is_fetched(open_world: Callable[..., World]) -> None:
    world = open_world(unknown_sites="register")
    coming: Deferred[bytes] = Deferred()
    world.sites.files[FILE] = coming
    world.push("a")
    world.pass_time(1)
    assert world.sites.asked == [FILE]
    world.tables.now(decide_key, "www.example.org", False, 1 << 40)
    coming.callback(KEY.encode())
    world.pass_time(2)
    assert report(world)["state"] == "refused" and world.uns.told == []
    assert world.push("b") == (403, {"error": "the operator has refused this site"})


def test_unknown_sites_are_refused(open_world: Callable[..., World]) -> None:
    world = open_world(unknown_sites="refuse")
    status, body = world.push("a")
    assert status == 403 and "no provider's" in body["error"] and world.sites.asked == []
    world.main.now(add_provider, Provider(pid=0, roots=(SITE + "mine/",), password_hash="x"))
    world.sites.files[SITE + "mine/k.txt"] = KEY.encode()
    assert world.push("mine/a", keyLocation=SITE + "mine/k.txt")[0] == 202
    world.pass_time(1)
    assert len(world.uns.told) == 1


def test_the_longest_root_wins(world: World) -> None:
    whole = world.main.now(find_or_make_watched, SITE, WatchedConfig())
    part = world.main.now(add_provider, Provider(pid=0, roots=(SITE + "shop/",), password_hash="x"))
    world.sites.files[FILE] = KEY.encode()
    world.push("a", "shop/1", "b")
    world.pass_time(2)
    assert sorted(world.uns.urls) == sorted([(whole, [SITE + "a", SITE + "b"]), (part, [SITE + "shop/1"])])


def test_a_host_with_many_roots(world: World) -> None:
    roots = [f"{SITE}{number}/" for number in range(1001)]
    pid = world.main.now(add_provider, Provider(pid=0, roots=(*roots, f"{SITE}last/"), password_hash="x"))
    world.sites.files[FILE] = KEY.encode()
    world.push("last/1")
    world.pass_time(2)
    assert world.uns.urls == [(pid, [SITE + "last/1"])]


def test_what_the_uns_refuses(world: World) -> None:
    world.sites.files[FILE] = KEY.encode()
    world.push("a")
    world.pass_time(1)
    world.uns.answer(code=code("provider-gone"))
    world.pass_time(1)
    assert len(world.uns.told) == 2, "with a new number"
    world.uns.answer(code=code("set-too-large"))
    world.pass_time(1)
    [pushed] = report(world)["pushes"]
    assert pushed["state"] == "refused" and str(code("set-too-large")) in pushed["reason"]


def test_killed_before_and_after_each_step(world: World) -> None:
    world.sites.files[FILE] = FetchError("connect-refused", "refused")
    world.push("a")  # waits for its proof
    world.restart()
    assert world.server.unproven == 1
    world.sites.files[FILE] = KEY.encode()
    world.clock.advance(61)
    world.push("b")
    world.pass_time(2)
    before = [(each.number, each.order, each.urls) for each in world.uns.told]
    assert before
    world.restart()  # told, not answered
    world.pass_time(2)
    assert [(each.number, each.order, each.urls) for each in world.uns.told] == before
    world.uns.answer()
    world.pass_time(1)
    world.restart()
    world.pass_time(2)
    assert world.uns.told == [] and world.server.untold == 0


def test_no_number_of_a_set_is_given_twice_after_a_restore(world: World) -> None:
    """The tables are put back from a backup in which a set waits: the UNS may have had it, and those after it."""
    world.sites.files[FILE] = KEY.encode()
    world.push("a")
    world.pass_time(1)
    [(backup,)] = world.tables.query("SELECT value FROM meta WHERE name = 'push_number'")
    world.push("b")
    world.pass_time(1)
    waiting, later = (each.number for each in world.uns.told)
    world.tables.now(lambda txn: txn.execute("DELETE FROM pushset WHERE number = ?", [later]))
    world.tables.now(lambda txn: txn.execute("UPDATE meta SET value = ? WHERE name = 'push_number'", [backup]))
    world.restart()
    world.push("c")
    world.pass_time(2)
    first, new = (each.number for each in world.uns.told)
    assert first == waiting and new > later


def test_the_uns_is_away(world: World) -> None:
    world.sites.files[FILE] = KEY.encode()
    world.push("a")
    world.pass_time(1)
    world.uns.answer()
    world.uns.connected = False
    assert [world.push(name)[0] for name in "bcd"] == [200] * 3 and len(world.uns.told) == 1
    before = world.uns.order
    world.uns.connected = True
    world.pass_time(2)
    assert len(world.uns.told) == 4
    assert {each.order for each in world.uns.told[1:]} == {before + 1}, "drawn once for all that waited"


def test_no_answer_before_it_is_stored(world: World) -> None:
    world.tables.fail_after = 1
    status, body = world.push("a")
    assert status == 503 and "database" in body["error"] and "Retry-After: 5" in world.headers


def test_a_second_server_takes_over(world: World, logged_errors: LoggedErrors) -> None:
    second = world.made()
    second.start()
    world.pass_time(1)
    assert world.ended == 1
    assert logged_errors.flush("another push server")
    assert world.push("a")[0] == 503
    second.stop()


def test_pushes_that_arrive_together_are_told_as_one(world: World) -> None:
    world.sites.files[FILE] = KEY.encode()
    world.push("first")
    world.pass_time(1)
    world.uns.answer()
    pid = world.uns.told[0].pid
    [shown] = world.tables.now(list_keys)
    submission = Submission(shown.site, shown.key, shown.location, shown.folder, (SITE + "a",))
    others = attrs.evolve(submission, urls=tuple(f"{SITE}{number}" for number in range(SET_URLS)))
    # The fourth could draw no number, and is newer than the others; one of another provider's counts as none.
    pushes = (submission, 201), (others, 203), (submission, 202)
    arrivals = [Arrival(pushed, pid, order, NOW) for pushed, order in pushes]
    arrivals += [Arrival(submission, pid, 0, NOW), Arrival(submission, pid + 1, 204, NOW)]
    assert {key.state for key in result_of(world.server.store._accept_all(arrivals))} == {KeyState.PROVEN}
    world.pass_time(2)
    told = [(each.order, len(each.urls)) for each in world.uns.told[1:]]
    assert told == [(203, SET_URLS), (203, 2), (world.uns.order, 2)]
    world.uns.answer()
    world.pass_time(1)
    assert [each["urls"] for each in report(world)["pushes"]] == [2, 2, SET_URLS, 1]


def test_a_proven_key_is_not_looked_up_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PROVEN_KEPT", 1)
    world.sites.files[FILE] = KEY.encode()
    world.push("a")
    world.pass_time(1)
    assert world.push("b")[0] == 200
    with monkeypatch.context() as patch:
        patch.setattr(world.server.store, "_find_all", None)
        assert world.push("c")[0] == 200
    # Somebody else's push takes its place, and what an operator says holds at once.
    world.sites.files[f"{SITE}9876543210.txt"] = b"9876543210"
    world.push("d", key="9876543210")
    world.pass_time(1)
    assert world.push("d", key="9876543210")[0] == 200 and world.push("e")[0] == 200
    assert len(world.server.store._proven) == 1
    assert world.tables.now(decide_key, "www.example.org", False, 1 << 40) == 2
    stored = world.tables.query("SELECT COUNT(*) FROM pushset")
    assert world.push("f") == (403, {"error": "the operator has refused this site"})
    assert world.tables.query("SELECT COUNT(*) FROM pushset") == stored


@pytest.mark.parametrize(("bound", "answer"), [("keep", ""), ("RECORDS_MAX", ""), ("keep", "set-too-large")])
def test_records_are_forgotten_as_fast_as_they_come(
    open_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch, bound: str, answer: str
) -> None:
    monkeypatch.setattr(store, "PURGED_AT_ONCE", 2)
    monkeypatch.setattr(engine, "PURGED_AT_ONCE", 2)
    world = open_world(unknown_sites="register", keep=3600)
    world.sites.files[FILE] = KEY.encode()
    for name in "abcdefg":
        world.push(name)
        world.pass_time(1)
        world.uns.answer(code=code(answer) if answer else 0)
    world.pass_time(1)
    assert [each["state"] for each in report(world)["pushes"]] == ["refused" if answer else "told"] * 7
    if bound == "keep":
        world.clock.advance(3600)
    else:
        monkeypatch.setattr(store, bound, 0)
        world.clock.advance(engine.PURGE_SECONDS)
    world.pass_time(5)
    assert report(world)["pushes"] == [], "not some thousands in ten minutes"


def test_who_begins_with_sets_that_wait_forgets_nothing(open_world: Callable[..., World]) -> None:
    world = open_world(unknown_sites="register")
    world.sites.files[FILE] = KEY.encode()
    world.push("a")
    world.pass_time(1)
    world.uns.answer()
    world.push("b")
    world.pass_time(1)
    world.restart()
    world.clock.advance(engine.PURGE_SECONDS)
    world.pass_time(1)
    assert sorted(each["state"] for each in report(world)["pushes"]) == ["accepted", "told"]


def test_many_hosts_from_one_address(open_world: Callable[..., World]) -> None:
    world = open_world(keys_max=3)
    answers = [world.get(url=f"http://h{number}.example/", key=KEY)[0] for number in range(5)]
    assert answers == [202, 202, 202, 429, 429]
    assert world.get(url="http://h9.example/", key=KEY, peer="198.51.100.1")[0] == 202
    assert "Retry-After" not in world.headers


def test_what_waits_is_bounded(open_world: Callable[..., World]) -> None:
    world = open_world(unproven_max=3, requests_max=3)
    world.sites.files[FILE] = FetchError("connect-refused", "refused")
    assert world.push("a", "b")[0] == 202
    status, body = world.push("c", "d")
    assert status == 429 and "2 URLs wait" in body["error"] and "Retry-After: 30" in world.headers
    assert world.push("c")[0] == 202
    status, body = world.push("c")
    assert status == 429 and "too many requests" in body["error"]


def test_private_addresses_are_not_told_of(world: World) -> None:
    world.sites.files[FILE] = FetchError("address-forbidden", "10.1.2.3 is private")
    world.push("a")
    world.pass_time(1)
    error = world.push("a")[1]["error"]
    assert "10.1.2.3" not in error and "may be fetched from" in error


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"\xff", b'"x"', b"\x1f\x8b\x08\x00"])
def test_bodies_that_are_none(world: World, body: bytes) -> None:
    assert world.post(body)[0] == 400


def test_other_requests(world: World) -> None:
    assert world.ask(b"PUT /indexnow HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")[0] == 405
    assert world.ask(b"GET /indexnow?url=%ff&key=a HTTP/1.1\r\nHost: a\r\n\r\n")[0] == 400
    assert world.get("/indexnow/report", host="www.example.org", key=KEY)[0] == 404
    assert world.get("/indexnow/report", key=KEY)[0] == 400
    assert world.get("/elsewhere")[0] == 404
    world.server.pause()
    assert world.push("a")[0] == 503
    world.server.resume()
    assert world.push("a")[0] == 202


def test_a_database_that_is_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> Any:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(world.tables.blocking, "_run", away)
        assert world.push("a")[0] == 503
        world.pass_time(1)
        assert world.server.trouble == "away"
    world.pass_time(1)
    assert world.server.trouble == "" and world.push("a")[0] == 202
