"""Watched providers, and whose a URL is, on each database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import attrs
import pytest

from lcc.config import RsConfig, WatchedConfig
from lcc.domain.urls import owner_of
from lcc.model import Provider
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.passwords import DUMMY_HASH, hash_of
from lcc.storage.providers.providers import (
    add_provider,
    change_provider,
    get_provider,
    list_providers,
    order_removal,
)
from lcc.storage.providers.registrations import prove_registration
from lcc.storage.providers.watched import (
    CRAWL_DELAY_MAX,
    OPERATOR,
    Asker,
    SeveralWatched,
    TooManyWatched,
    find_or_make_watched,
    provider_of,
    providers_of,
    register_provider,
    roots_of_sites,
    watch_site,
    watcher_of,
)
from tests.storage.test_registrations import NOW, SETTINGS, SITE, another, open_one
from tests.support.databases import Backend, DirectDatabase
from tests.support.plans import Explaining

WATCHED = WatchedConfig()


def watch(database: DirectDatabase, root: str, settings: WatchedConfig = WATCHED) -> int:
    return database.now(find_or_make_watched, root, settings)


def register(database: DirectDatabase, *roots: str) -> int:
    return database.now(add_provider, Provider(0, roots, f"hash {hash(roots)}"))


def test_it_has_the_limits_of_the_configuration_and_no_password(database: DirectDatabase) -> None:
    pid = watch(database, SITE)
    provider = database.now(get_provider, pid)
    assert provider == Provider(
        pid, (SITE,), "", 100_000, files_max=10_000, space_max_bytes=10**9, interval_seconds=1.0, watched=True
    )
    free = WatchedConfig(bandwidth_bytes=0, interval=0.0, files_max=0, space_max_bytes=0)
    plain = database.now(get_provider, watch(database, "http://other/", free))
    assert plain == Provider(pid + 1, ("http://other/",), "", watched=True)
    assert hash_of(provider) == hash_of(None) == DUMMY_HASH


def test_there_is_one_however_often_it_is_asked_for(database: DirectDatabase) -> None:
    pid = watch(database, SITE)
    assert [watch(database, SITE) for _ in range(3)] == [pid] * 3
    assert watch(database, "https" + SITE[4:]) == pid  # an http root admits https
    assert watch(database, SITE + "a/") == pid + 1
    assert watch(database, "https://only.example.org/") == pid + 2
    assert watch(database, "http://only.example.org/") == pid + 3
    assert database.now(watcher_of, SITE) == pid
    database.now(order_removal, pid)
    assert database.now(watcher_of, SITE) is None
    assert watch(database, SITE) == pid + 4


def test_several_that_make_it_at_once(backend: Backend) -> None:
    databases = [DirectDatabase(backend.url, backend.home) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        pids = list(pool.map(lambda database: watch(database, SITE), databases))
    assert len(set(pids)) == 1
    assert len(databases[0].now(list_providers)) == 1


def test_they_are_not_more_than_may_be(database: DirectDatabase) -> None:
    few = attrs.evolve(WATCHED, providers_max=2)
    pids = [watch(database, f"http://site{number}/", few) for number in range(2)]
    with pytest.raises(TooManyWatched, match="providers_max"):
        watch(database, "http://site2/", few)
    assert [watch(database, f"http://site{number}/", few) for number in range(2)] == pids
    pid = database.now(lambda txn: find_or_make_watched(txn, "http://site2/", few, OPERATOR))
    assert pid == pids[-1] + 1  # an operator may
    database.now(order_removal, pids[0])
    database.now(order_removal, pids[1])
    watch(database, "http://site3/", few)


def test_a_domain_has_only_so_many(database: DirectDatabase) -> None:
    """Whoever has wildcard DNS has no end of hosts: few are watched, and fewer within an hour."""
    few = attrs.evolve(WATCHED, domain_providers_max=5, domain_providers_hourly=2)
    hosts = iter(range(100))

    def ask(domain: str, now: int, **more: bool) -> int:
        root = f"http://{next(hosts)}.{domain}/"
        return database.now(find_or_make_watched, root, few, Asker(domain, now, **more))

    for start in (0, 3600):
        ask("a.example", start)
        ask("a.example", start + 10)
        with pytest.raises(TooManyWatched, match=r"2 providers of a.example .* domain_providers_hourly"):
            ask("a.example", start + 20)
    ask("a.example", 10**5)
    with pytest.raises(TooManyWatched, match=r"5 providers of a.example .* domain_providers_max"):
        ask("a.example", 10**6)
    ask("b.example", 3620)
    ask("a.example", 3620, capped=False)
    first = database.now(find_or_make_watched, "http://0.a.example/", few, Asker("a.example", 10**6))
    database.now(order_removal, first)
    database.now(order_removal, first + 1)
    ask("a.example", 10**6)


def test_providers_that_a_wrong_clock_has_made_are_not_counted_for_an_hour(database: DirectDatabase) -> None:
    few = attrs.evolve(WATCHED, domain_providers_hourly=1)
    for number, now in enumerate((10**6, 1000, 10**6 + 3600)):
        database.now(find_or_make_watched, f"http://{number}.a.example/", few, Asker("a.example", now))
    with pytest.raises(TooManyWatched):
        database.now(find_or_make_watched, "http://x.a.example/", few, Asker("a.example", 1000))


def test_private_addresses_are_allowed_where_an_operator_says_so(database: DirectDatabase) -> None:
    def allowed(pid: int) -> bool:
        provider = database.now(get_provider, pid)
        assert provider is not None
        return provider.allow_private

    private = Asker(private=True)
    made = database.now(find_or_make_watched, SITE, WATCHED, private)
    assert allowed(made) and database.now(find_or_make_watched, SITE, WATCHED) == made and allowed(made)
    other = watch(database, "http://other.example/")
    assert not allowed(other)
    assert database.now(find_or_make_watched, "http://other.example/", WATCHED, private) == other and allowed(other)
    registered = register(database, "http://own.example/")
    assert database.now(find_or_make_watched, "http://own.example/", WATCHED, private) == registered
    assert not allowed(registered)


def test_what_lies_below_a_registered_root_is_that_providers(database: DirectDatabase) -> None:
    registered = register(database, SITE + "a/", "http://x/")
    assert watch(database, SITE + "a/feed/") == watch(database, SITE + "a/") == registered
    above = watch(database, SITE)
    assert above != registered and watch(database, SITE + "b/") not in (above, registered)


def test_the_longest_root_wins(database: DirectDatabase) -> None:
    site, folder = watch(database, SITE), register(database, SITE + "~me/")
    owners = {
        SITE + "x": site,
        SITE + "~me/x": folder,
        "https" + SITE[4:] + "~me/x": folder,
        SITE + "~me": site,
        "http://www.example.or": None,
        "http://www.example.org:8080/": None,
        "ftp" + SITE[4:]: None,
    }
    assert_owners(database, owners)
    twin = register(database, SITE + "~me/", "http://y/")
    assert database.now(provider_of, SITE + "~me/x") == folder < twin
    database.now(order_removal, folder)
    assert database.now(provider_of, SITE + "~me/x") == twin
    odd = register(database, "http://a_c/x?%27")  # "_" and "%" are nothing but themselves
    assert database.now(provider_of, "http://a_c/x?%27b") == odd
    assert database.now(provider_of, "http://abc/x?%27b") is None


def test_its_owner_registers_it(database: DirectDatabase) -> None:
    pid, other = watch(database, SITE), watch(database, SITE + "a/")
    number = open_one(database, another(folders=(SITE,)))
    done = database.now(prove_registration, number, False, SETTINGS, NOW)
    assert done.pid == pid
    provider = database.now(get_provider, pid)
    assert provider is not None and not provider.watched
    assert (provider.roots, provider.password_hash) == ((SITE,), done.password_hash)
    assert (provider.bandwidth_bytes, provider.files_max, provider.interval_seconds) == (1000, 5, None)
    assert (provider.contact, provider.full_sets, provider.former_roots) == ("me@example.org", 3, ())
    assert database.query("SELECT kind, pid FROM orders") == [("provider-changed", pid)]
    # Somebody else who can put files there is another provider.
    second = database.now(prove_registration, open_one(database, another(folders=(SITE,))), False, SETTINGS, NOW)
    assert second.pid not in (pid, other)


@pytest.mark.parametrize(("watched", "registered"), [("http", "https"), ("https", "http")])
def test_its_owner_registers_it_by_the_other_scheme(database: DirectDatabase, watched: str, registered: str) -> None:
    place = "://www.example.org/"
    pid = watch(database, watched + place)
    number = open_one(database, another(folders=(registered + place,)))
    assert database.now(prove_registration, number, False, SETTINGS, NOW).pid == pid
    provider = database.now(get_provider, pid)
    assert provider is not None and not provider.watched
    # A root of http admits https; one of https does not admit http, where the rows are.
    assert provider.roots == (("https" + place, "http" + place) if watched == "http" else ("http" + place,))


def test_of_both_schemes_the_same_one_is_registered(database: DirectDatabase) -> None:
    secure, plain = watch(database, "https://a/"), watch(database, "http://a/")
    assert secure != plain
    assert database.now(register_provider, Provider(0, ("http://a/",), "1")) == plain
    assert database.now(register_provider, Provider(0, ("http://a/",), "2")) == secure
    assert database.now(register_provider, Provider(0, ("http://a/",), "2")) == secure, "the commit was lost"


def test_roots_that_several_watch_are_not_registered_at_once(database: DirectDatabase) -> None:
    first, second = watch(database, "http://a/"), watch(database, "http://b/")
    with pytest.raises(SeveralWatched, match=f"http://a/ by provider {first}, http://b/ by provider {second}"):
        database.now(register_provider, Provider(0, ("http://a/", "http://b/", "http://c/"), "1"))
    assert database.now(register_provider, Provider(0, ("http://c/", "http://b/"), "2")) == second


def test_the_interval_that_robots_txt_asks_for(database: DirectDatabase) -> None:
    def intervals() -> dict[str, tuple[float | None, str]]:
        return {each.roots[0]: (each.interval_seconds, each.interval_by) for each in database.now(list_providers)}

    def ask(seconds: float) -> None:
        database.now(watch_site, "http://a/", WATCHED, seconds)

    site, folder = watch(database, "http://a/"), watch(database, "http://a/blog/")
    register(database, "http://a/own/")
    watch(database, "http://a.b/")
    ask(0.5)
    assert set(intervals().values()) == {(1.0, ""), (None, "")}, "it only makes it longer"
    assert not database.query("SELECT kind FROM orders")
    ask(20)
    asked = (20.0, "robots.txt")
    assert intervals() == {
        "http://a/": asked,
        "http://a/blog/": asked,
        "http://a/own/": (None, ""),
        "http://a.b/": (1.0, ""),
    }
    assert database.query("SELECT pid FROM orders ORDER BY pid") == [(site,), (folder,)]
    watch(database, "http://a/later/")
    assert intervals()["http://a/later/"] == asked
    provider = database.now(get_provider, folder)
    assert provider is not None
    database.now(change_provider, attrs.evolve(provider, interval_seconds=5.0, interval_by="operator"))
    ask(1e9)
    assert intervals()["http://a/"] == (CRAWL_DELAY_MAX, "robots.txt")
    assert intervals()["http://a/blog/"] == (5.0, "operator")
    ask(0)
    assert intervals()["http://a/"] == (1.0, "") and intervals()["http://a/blog/"] == (5.0, "operator")


def test_the_hours_that_robots_txt_asks_for(database: DirectDatabase) -> None:
    def hours() -> dict[str, tuple[str, str, str]]:
        return {each.roots[0]: (each.hours, each.timezone, each.hours_by) for each in database.now(list_providers)}

    site, folder = watch(database, "http://a/"), watch(database, "http://a/blog/")
    register(database, "http://a/own/")
    database.now(watch_site, "http://a/", WATCHED, 0.0, "6-8")
    asked = ("6-8", "UTC", "robots.txt")
    assert hours() == {"http://a/": asked, "http://a/blog/": asked, "http://a/own/": ("", "", "")}
    assert database.query("SELECT pid FROM orders ORDER BY pid") == [(site,), (folder,)]
    watch(database, "http://a/later/")
    assert hours()["http://a/later/"] == asked
    provider = database.now(get_provider, folder)
    assert provider is not None
    own = ("", "Europe/Berlin", "operator")
    database.now(change_provider, attrs.evolve(provider, hours="", timezone="Europe/Berlin", hours_by="operator"))
    database.now(watch_site, "http://a/", WATCHED, 0.0, "22-4")
    assert hours()["http://a/"] == ("22-4", "UTC", "robots.txt") and hours()["http://a/blog/"] == own
    database.now(watch_site, "http://a/", WATCHED, 0.0)
    assert hours()["http://a/"] == ("", "", "") and hours()["http://a/blog/"] == own


def test_long_roots(database: DirectDatabase) -> None:
    long = f"http://long/{'x' * 250}/{'y' * 100}/"
    folder, page = register(database, long), register(database, long + "p?q=")
    other = register(database, f"http://long/{'x' * 250}/{'z' * 100}/")
    owners = {long + "p": folder, long + "p?q=1": page, long[:-1]: None, long.replace("y", "z"): other}
    assert_owners(database, owners)


def test_what_providers_have_on_hosts(database: DirectDatabase) -> None:
    whole = watch(database, "http://a.example/")
    part = register(database, "http://a.example/docs/")
    safe = register(database, "https://b.example/", "https://c.example/")
    sites = [
        "http://a.example/",
        "https://a.example/",
        "http://b.example/",
        "https://b.example/",
        "http://d.example/",
    ]
    there = (("http://a.example/docs/", part), ("http://a.example/", whole))
    found = database.now(roots_of_sites, sites, None)
    assert found == {sites[0]: there, sites[1]: there, sites[3]: (("https://b.example/", safe),)}
    assert database.now(roots_of_sites, sites, {part}) == dict.fromkeys(sites[:2], there[:1])
    owners = {"http://a.example/docs/x": part, "https://a.example/docs/x": part, "http://a.example/docsx": whole}
    assert {url: owner_of(url, there) for url in owners} == owners
    assert owner_of("http://b.example/", found[sites[3]]) == 0, "an https root does not admit http"


def assert_owners(database: DirectDatabase, owners: dict[str, int | None]) -> None:
    """Asked for one by one, and together."""
    assert {url: database.now(provider_of, url) for url in owners} == owners
    assert database.now(providers_of, owners) == {url: pid for url, pid in owners.items() if pid is not None}


def test_whose_urls_are_on_hosts_with_many_roots(database: DirectDatabase) -> None:
    """Of such a host not all roots are read."""
    many = register(database, *[f"http://many/~{number:03}/" for number in range(100)])
    site, me, both = register(database, SITE), register(database, SITE + "~me/"), register(database, "https://both/")
    plain = watch(database, "http://both/")
    owners = {f"http://many/~{number:03}/page": many for number in (0, 50, 99)}
    owners |= {"http://many/page": None, "http://nobody/": None, SITE + "~me/a": me, SITE + "a": site}
    owners |= {"https://both/a": both, "http://both/a": plain, "http://many/~050": None}
    assert_owners(database, owners)
    assert_owners(database, {url: pid for url, pid in owners.items() if "many" not in url})
    assert database.now(providers_of, []) == {}


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
def test_whose_a_url_is_is_looked_up_on_a_host_of_many(database: DirectDatabase) -> None:
    register(database, *[f"http://host/~{number}/" for number in range(500)])
    database.query("ANALYZE TABLE proots, pidb")

    def explained(txn: Txn) -> list[tuple[str, str, str, str | None, int]]:
        explaining = Explaining(txn)
        assert provider_of(explaining, "http://host/~7/page")
        return explaining.plans

    (rows,) = [rows for _, table, _, index, rows in database.now(explained) if (table, index) == ("r", "proots_root")]
    assert rows < 20, "not all roots of the host"


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
def test_whose_urls_are_is_looked_up_along_the_index(database: DirectDatabase) -> None:
    for host in range(300):
        register(database, f"http://host{host}/")
    database.query("ANALYZE TABLE proots, pidb")
    urls = [f"http://host{host}/page" for host in range(40)]

    def explained(txn: Txn) -> list[tuple[str, str, str, str | None, int]]:
        explaining = Explaining(txn)
        assert len(providers_of(explaining, urls)) == 40
        return explaining.plans

    (rows,) = [rows for _, table, _, index, rows in database.now(explained) if (table, index) == ("r", "proots_root")]
    assert rows < 60, "not all roots"


def test_watched_ones_lock_no_owner_out(database: DirectDatabase) -> None:
    strict = RsConfig(providers_per_site=1, providers_per_host=1)
    watch(database, SITE)
    watch(database, SITE + "a/")
    number = open_one(database, another(folders=(SITE + "b/",)), strict)
    assert database.now(prove_registration, number, False, strict, NOW).pid
