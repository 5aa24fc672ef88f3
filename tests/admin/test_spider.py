"""``lcc-admin spider``, with and without a spider that carries its orders out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from lcc.admin.cli import main
from lcc.admin.role_tables import RoleTables
from lcc.config import load_config
from lcc.errors import code, entry_for
from lcc.model.spider.crawls import FrontierBatch, HostRef, StoreWork, Verdict
from lcc.storage.database.migrations import SPIDER, TASKS
from lcc.storage.database.place import place_of
from lcc.storage.providers.providers import list_providers
from lcc.storage.spider.orders import starts_of
from tests.support.admin import Lcc
from tests.support.databases import DirectDatabase, result_of
from tests.support.frontier import Spider, carry_out_all
from tests.support.tasks import NOW, Tasks, robots_known_as

SITE = "http://www.example.org/"
SCOPE = r"http://www\.example\.org/"
ADD = ("spider", "add", "docs", "--start", SITE, "--restrict-to", SCOPE)


@contextmanager
def spider(lcc: Lcc, monkeypatch: Any) -> Iterator[Spider]:
    """Carries orders out whenever a command waits for its answer."""
    place = place_of(load_config(lcc.config_path), SPIDER)
    running = Spider(DirectDatabase(place.url, place.home, place.series))
    answer = RoleTables.answer

    def carried_out(*arguments: Any) -> Any:
        carry_out_all(running)
        return answer(*arguments)

    monkeypatch.setattr(RoleTables, "answer", carried_out)
    yield running
    running.database.blocking.close()


@pytest.fixture(autouse=True)
def soon(monkeypatch: Any) -> None:
    """Nobody answers later."""
    monkeypatch.setattr("lcc.admin.role_tables._WAIT_SECONDS", 0.1)


def test_without_a_spider(lcc: Lcc) -> None:
    assert "there are no crawls" in lcc.admin("spider", "list").stdout
    assert lcc.admin("spider", "status").stdout == "spider:     none has run yet\n"
    done = lcc.admin(*ADD)
    assert done.stdout == "ordered: crawl docs: 1 to start from\n"
    assert "as soon as it runs" in done.stderr


def test_the_life_of_a_crawl(lcc: Lcc, monkeypatch: Any) -> None:
    with spider(lcc, monkeypatch) as running:
        assert lcc.admin(*ADD, "--depth", "3", "--order", "opic", "--revisit", "86400").stdout == (
            "crawl docs: 1 to start from\n"
        )
        [row] = lcc.rows("spider", "list")
        assert (row["name"], row["state"], row["done"], row["counts"]["waiting"]) == ("docs", "active", False, 1)
        assert row["settings"] == {
            "restrict_to": SCOPE,
            "order": "opic",
            "depth_max": 3,
            "revisit_seconds": 86400,
        }
        assert "there is a crawl docs already" in lcc.admin(*ADD, code=1).stderr
        running.read(SITE, SITE + "a", SITE + "b", dropped={(1, "scope"): 7})
        shown = lcc.admin("spider", "show", "docs").stdout
        assert "crawl:      docs (active)" in shown and "limits:     depth 3" in shown and "7 scope" in shown
        assert lcc.admin("spider", "start", "docs", SITE + "c").stdout == "crawl docs: 1 more to start from\n"
        assert lcc.rows("spider", "list")[0]["counts"]["known"] == 4
        [status] = lcc.rows("spider", "status")
        assert [each["name"] for each in status["spiders"]] == ["one"]
        assert status["crawls"][0]["hosts"][0]["host"] == "www.example.org"
        assert "host:       www.example.org: 4 known, 1 cached, 3 waiting" in lcc.admin("spider", "status").stdout
        assert status["stores"] == []
        broken = {"warc": StoreWork(None, "No space left on device", {b"k" * 20: 1})}
        result_of(running.store.commit(FrontierBatch(stores=broken), NOW))
        shown = lcc.admin("spider", "status").stdout
        assert "store:      warc of one lacks 1 page: No space left on device" in shown
        [status] = lcc.rows("spider", "status")
        assert status["stores"] == [
            {"spider": "one", "store": "warc", "fault": "No space left on device", "backlog": 1}
        ]
        result_of(running.store.beat("cannot reach the UNS's port of notifiers", int(time.time()) - 600))
        for command in (["status"], ["spider", "status"]):
            shown = lcc.admin(*command).stdout
            assert "one: silent: last seen 10 minutes ago" in shown and "cannot reach the UNS's port" in shown
        [status] = lcc.rows("status")
        assert status["spiders"][0]["trouble"] == "cannot reach the UNS's port of notifiers"
        lcc.admin("spider", "set", "docs", "--urls", "9", "--restrict-to", "http://", "--allow-private")
        assert lcc.rows("spider", "list")[0]["settings"]["allow_private"]
        assert lcc.rows("spider", "list")[0]["settings"]["urls_max"] == 9
        lcc.admin("spider", "set", "docs", "--urls", "none", "--depth", "none")
        assert not {"urls_max", "depth_max"} & lcc.rows("spider", "list")[0]["settings"].keys()
        assert lcc.admin("spider", "pause", "docs").stdout == "crawl docs is paused\n"
        assert lcc.rows("spider", "list")[0]["state"] == "paused"
        assert lcc.admin("spider", "run", "docs").stdout.startswith("1 of 4 URLs: 1 cached")
        assert lcc.rows("spider", "list")[0]["state"] == "active"
        excluded = lcc.admin("spider", "exclude", "docs", "Bad.example.org", "http://worse.example.org:8080/x")
        assert excluded.stdout == "crawl docs: bad.example.org worse.example.org:8080 excluded\n"
        assert lcc.rows("spider", "list")[0]["excluded"] == ["bad.example.org", "worse.example.org:8080"]
        lcc.admin("spider", "include", "docs", "bad.example.org")
        assert lcc.rows("spider", "list")[0]["excluded"] == ["worse.example.org:8080"]
        assert lcc.admin("spider", "remove", "docs").stdout == "crawl docs is being removed\n"
        assert "is being removed" in lcc.admin("spider", "run", "docs", code=1).stderr
        while result_of(running.store.remove_page()):
            pass
        assert lcc.rows("spider", "list") == []


def test_a_crawl_is_run_until_it_is_done(lcc: Lcc, monkeypatch: Any) -> None:
    with spider(lcc, monkeypatch) as running:
        lcc.admin(*ADD)
        pages = iter([(SITE, [SITE + "a"]), (SITE + "a", [])])

        def wait(_seconds: float) -> None:
            url, links = next(pages)
            running.read(url, *links)

        monkeypatch.setattr("lcc.admin.spider.crawls.time.sleep", wait)
        done = lcc.admin("spider", "run", "docs", "--until-done")
        assert done.stdout == ("docs is done: 2 of 2 URLs: 2 cached, 0 failed, 0 being fetched; 1 host\n")
        assert [line[:18] for line in done.stderr.splitlines()] == ["docs: 0 of 1 URL: ", "docs: 1 of 2 URLs:"]


def test_why(lcc: Lcc, monkeypatch: Any) -> None:
    with spider(lcc, monkeypatch) as running:
        lcc.admin(*ADD)
        running.read(SITE, SITE + "a/b")
        why = lcc.admin("spider", "why", SITE + "a/b").stdout
        assert "waiting: not told to the LCC yet" in why and f"found via: {SITE}\n" in why
        assert "1 link from a start; linked from 1 known page" in why
        assert (
            "cached, and its links were read" in lcc.admin("spider", "why", "HTTP://www.example.org:80/#top").stdout
        )
        assert "dropped:    scope: the expression does not match" in lcc.admin("spider", "why", "http://b/").stdout
        [record] = lcc.rows("spider", "why", SITE + "x/x/x/")
        assert {each["filter"]: each["reason"] for each in record["filters"]}["traps"] == "the path repeats 'x'"
        not_found = "no page that was read links to it, or all links to it are nofollow or too deep\n"
        assert not_found in lcc.admin("spider", "why", SITE + "new").stdout
        lcc.admin("spider", "exclude", "docs", "www.example.org")
        assert "hosts: www.example.org is excluded" in lcc.admin("spider", "why", SITE + "new").stdout
        assert "www.example.org is excluded" in lcc.admin("spider", "why", "docs", SITE + "a/b").stdout
        named = lcc.admin("spider", "why", "docs", code=1).stderr
        assert named == "Error: docs is a crawl, and no URL\nNext: lcc-admin spider why docs URL\n"
        assert "There must be a URL" in lcc.admin("spider", "why", "docs", SITE, SITE, code=2).stderr


def test_why_names_a_robots_txt_that_was_read_later(lcc: Lcc, monkeypatch: Any) -> None:
    """Links to a host are found before its robots.txt is known."""
    with spider(lcc, monkeypatch) as running:
        lcc.admin(*ADD)
        running.tell(SITE)
        running.answer(Verdict.REFUSED, SITE)
        assert "state:      refused: disallowed by robots.txt\n" in lcc.admin("spider", "why", SITE).stdout


def test_why_tells_of_limits(lcc: Lcc, monkeypatch: Any) -> None:
    """What they keep out is not remembered; so is not what the frontier knows of, either."""
    with spider(lcc, monkeypatch) as running:
        lcc.admin(*ADD[:-1], "http://", "--urls", "2", "--hosts", "1")
        running.read(SITE, SITE + "a")

        def dropped(url: str) -> str:
            return lcc.admin("spider", "why", "docs", url).stdout.partition("dropped:    ")[2].strip()

        then = "Next: lcc-admin spider set docs"
        assert dropped(SITE + "b") == f"urls-max: the crawl knows 2 URLs, and takes no new ones; {then} --urls NUMBER"
        assert lcc.rows("spider", "why", SITE + "b")[0]["limit"] == "urls-max"
        lcc.admin("spider", "set", "docs", "--urls", "none")
        assert (
            dropped("http://b/") == f"hosts-max: the crawl has 1 host, and takes no new ones; {then} --hosts NUMBER"
        )
        lcc.admin("spider", "set", "docs", "--hosts", "none")
        assert lcc.rows("spider", "why", "http://b/")[0]["limit"] is None
        settings = lcc.config_path.read_text()
        lcc.config_path.write_text(f"{settings}\n[spider]\nhosts_per_domain = 1\n")
        of_domain = "the crawl takes no more hosts of example.org ([spider] hosts_per_domain)"
        assert dropped("http://a.b.c.example.org/") == f"domain-hosts-max: {of_domain}"


def test_hosts_that_are_parked(lcc: Lcc, monkeypatch: Any) -> None:
    with spider(lcc, monkeypatch) as running:
        lcc.admin(*ADD)
        host, refused = HostRef(1, SITE), entry_for(code("limit"))
        for _ in range(2):
            result_of(running.store.fail_host(host, refused.code, int(time.time())))
        why = f" (2 times in a row): {refused.code} {refused.text}\n"
        for command in (["status"], ["why", SITE]):
            shown = lcc.admin("spider", *command).stdout
            assert "www.example.org" in shown.partition(why)[0].splitlines()[-1], shown


def test_hosts_whose_robots_txt_is_not_known(lcc: Lcc, monkeypatch: Any) -> None:
    place = place_of(load_config(lcc.config_path), TASKS)
    tasks = Tasks(DirectDatabase(place.url, place.home, place.series))
    with spider(lcc, monkeypatch):
        lcc.admin(*ADD)
        assert "1 URL of www.example.org waiting" in lcc.admin("spider", "why", SITE).stdout
        result_of(tasks.store.claim())
        result_of(tasks.store.poll_robots([SITE], NOW))
        robots = f"{SITE}robots.txt"
        asked = f"its host waits for its robots.txt: {robots} is being fetched\n"
        assert asked in lcc.admin("spider", "why", SITE).stdout
        robots_known_as(tasks, "", "none", 1305)
        unread = f"{robots} could not be read: 1305 fetching from the host's address is forbidden; "
        assert f"its host waits for its robots.txt: {unread}" in lcc.admin("spider", "why", SITE).stdout
        assert f"waiting for its robots.txt: {unread}" in lcc.admin("spider", "status").stdout
        robots_known_as(tasks, "", "all", 404)
        assert "robots.txt" not in lcc.admin("spider", "why", SITE).stdout + lcc.admin("spider", "status").stdout
    tasks.database.blocking.close()


def test_files_of_starts_and_of_hosts(lcc: Lcc, tmp_path: Path, monkeypatch: Any) -> None:
    starts, hosts = tmp_path / "starts", tmp_path / "hosts.properties"
    starts.write_text("".join(f"http://www.a.org/{number}\n" for number in range(1500)))
    hosts.write_text("startsWith(www.)=\n")
    given = ("--start", f"@{starts}", "--restrict-to", "http://a\\.org/", "--host-resolver", str(hosts))
    with spider(lcc, monkeypatch) as running:
        lcc.admin("spider", "add", "big", *given, "--names", "larm", "--hosts", "10")
        [row] = lcc.rows("spider", "list")
        assert row["settings"]["host_resolver"] == hosts.read_text() and row["settings"]["names"] == "larm"
        assert row["counts"]["known"] == 1500
        assert running.status("big").counts["known"] == 1500
    starts.write_text("http://ok/\nnonsense\n")
    assert f"{starts}: line 2: 'nonsense'" in lcc.admin("spider", "add", "x", *given, code=2).stderr
    starts.write_bytes("http://ok/\nhttp://a.org/\u00fc\n".encode("latin-1"))
    assert f"{starts}: line 2: not UTF-8" in lcc.admin("spider", "add", "x", *given, code=2).stderr
    hosts.write_text("synonym(a)=b\nsynonym(b)=a\n")
    assert "circle" in lcc.admin("spider", "add", "x", "--host-resolver", str(hosts), code=2).stderr
    assert "No such file" in lcc.admin("spider", "add", "x", "--start", "@nowhere", code=2).stderr


def test_a_provider_is_completed(lcc: Lcc, monkeypatch: Any) -> None:
    lcc.admin("provider", "add", "--root", "http://www.example.org/a/")
    with spider(lcc, monkeypatch):
        lcc.admin("spider", "add", "rest", "--provider", "1")
        [row] = lcc.rows("spider", "list")
        assert row["settings"] == {"pid": 1, "roots": ["http://www.example.org/a/"]}
        why = lcc.admin("spider", "why", "http://www.example.org/b").stdout
        assert "scope: outside of the provider's roots" in why
        outside = lcc.admin("spider", "start", "rest", "http://www.example.org/b", code=1).stderr
        assert "start http://www.example.org/b: scope: outside of the provider's roots" in outside
    assert "there is no provider 9" in lcc.admin("spider", "add", "x", "--provider", "9", code=1).stderr


def test_private_hosts(lcc: Lcc, monkeypatch: Any) -> None:
    with spider(lcc, monkeypatch):
        private = ("--start", "http://10.0.0.1/x", "--restrict-to", "http://10\\.", "--allow-private")
        lcc.admin("spider", "add", "inner", *private)
    [watched] = lcc.write(list_providers)
    assert watched.allow_private and watched.roots == ("http://10.0.0.1/",)


def test_hosts_that_may_be_private_later_are_asked_for_at_once(lcc: Lcc, monkeypatch: Any) -> None:
    place = place_of(load_config(lcc.config_path), TASKS)
    tasks = Tasks(DirectDatabase(place.url, place.home, place.series))
    result_of(tasks.store.claim())
    result_of(tasks.store.poll_robots([SITE, "http://elsewhere.example/"], NOW))
    robots_known_as(tasks, "", "none", code("address-forbidden"))

    def ordered() -> list[tuple[str, str]]:
        return tasks.database.query("SELECT kind, body FROM taskorders ORDER BY id")

    def why() -> str:
        return lcc.admin("spider", "why", SITE).stdout

    with spider(lcc, monkeypatch):
        lcc.admin(*ADD)
        then = "Next: if its hosts may be private: lcc-admin spider set docs --allow-private\n"
        assert then in why() and ordered() == []
        lcc.admin("spider", "set", "docs", "--allow-private")
        assert then not in why()
        [watched] = lcc.write(list_providers)
        assert watched.allow_private and watched.roots == (SITE,)
        assert ordered() == [("robots-again", f'{{"origins":["{SITE}"],"after_seconds":3}}')]
        tasks.carry_out()
        assert "robots.txt is being fetched\n" in why()
        lcc.admin("spider", "set", "docs", "--urls", "9")
        assert len(ordered()) == 1, "nothing is refused any longer"
        robots_known_as(tasks, "", "none", code("address-forbidden"))
        lcc.admin("spider", "add", "again", *ADD[3:], "--allow-private")
        assert len(ordered()) == 2
    tasks.database.blocking.close()


NONSENSE = [
    (["add", "a b", "--start", SITE], "cannot be the name of a crawl", 2),
    (["add", "a", "--start", "example.org"], "does not begin with http://", 2),
    (["add", "a", "--start", SITE], "needs an expression", 1),
    (["add", "a", "--restrict-to", SCOPE], "needs a URL to start from", 1),
    (["add", "a", "--start", SITE, "--restrict-to", "("], "the expression is not valid", 1),
    (["add", "a", "--start", SITE, "--restrict-to", "http://(w|ww)+$"], "repeats repetitions", 1),
    (["add", "a", "--start", SITE, "--restrict-to", "http://b/"], f"start {SITE}: scope: the expression", 1),
    (["add", "a", "--start", SITE, "--depth", "-1"], "neither a whole number nor 'none'", 2),
    (["show", "none"], "there is no crawl 'none'", 1),
    (["pause", "none"], "there is no crawl 'none'", 1),
    (["why", "nonsense"], "does not begin with http://", 1),
    (["why", SITE], "there are no crawls", 1),
    (["exclude", "none", "http:///"], "is not a host", 2),
]


def test_what_makes_no_sense(lcc: Lcc) -> None:
    for arguments, words, exit_code in NONSENSE:
        assert words in lcc.admin("spider", *arguments, code=exit_code).stderr


def test_completion(lcc: Lcc, monkeypatch: Any) -> None:
    with spider(lcc, monkeypatch):
        lcc.admin(*ADD)
        complete = ShellComplete(main, {}, "lcc-admin", "_LCC_ADMIN_COMPLETE")
        found = complete.get_completions(["--config", str(lcc.config_path), "spider", "show"], "d")
        assert [(each.value, each.help) for each in found] == [("docs", "active")]


def test_starts_reach_the_spider_in_pieces(lcc: Lcc, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "starts").write_text("".join(f"http://a/{number}\n" for number in range(2500)))
    lcc.admin("spider", "add", "big", "--start", f"@{tmp_path / 'starts'}", "--restrict-to", "http://a/")
    with spider(lcc, monkeypatch) as running:
        orders = result_of(running.store.open_orders(10))
        assert [(order.kind, len(starts_of(order))) for order in orders] == [
            ("crawl-add", 1000),
            ("crawl-start", 1000),
            ("crawl-start", 500),
        ]
        json.dumps(orders[0].body)
