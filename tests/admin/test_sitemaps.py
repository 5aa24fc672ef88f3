"""``lcc-admin sitemap``, with and without a scheduler that carries its orders out."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from lcc.errors import FetchError
from lcc.storage.tasks.polling.sitemaps import SITEMAP
from tests.admin.test_feeds import scheduler
from tests.support.admin import Lcc
from tests.support.databases import DirectDatabase

SITE = "http://www.example.org/"
URL = f"{SITE}sitemap.xml"


@pytest.fixture(autouse=True)
def soon(monkeypatch: Any) -> None:
    """Nobody answers later."""
    monkeypatch.setattr("lcc.admin.role_tables._WAIT_SECONDS", 0.1)


def robots(monkeypatch: Any, text: str = "", error: FetchError | None = None) -> None:
    """What robots.txt of the site is."""

    def fetched(_settings: Any, order: Any, _roots: str, file: Any) -> Any:
        assert order.url == f"{SITE}robots.txt"
        file.write(text.encode())
        return SimpleNamespace(error=error)

    monkeypatch.setattr("lcc.admin.feeds.sitemaps.fetched_once", fetched)


def read(database: DirectDatabase, task: int, **values: int) -> None:
    """As after a reading."""
    columns = ("task", "site", "kind", "urls", "gone", "held", "left_out", "pid", "connorder", "read_time")
    row = {"urls": 0, "gone": 0, "held": 0, "left_out": 0, "pid": 1, "connorder": 1, "read_time": 1, **values}
    rest = [row[name] for name in columns[3:]]
    names = (*columns, "gone_time", "confirmed")
    gone_time = 1 if row["gone"] else 0
    database.now(lambda txn: txn.insert("sitemaps", names, [(task, task, "urlset", *rest, gone_time, 0)]))


def test_without_a_scheduler(lcc: Lcc) -> None:
    assert lcc.admin("sitemap", "list").stdout == "there are no sitemaps: lcc-admin sitemap add URL\n"
    done = lcc.admin("sitemap", "add", URL)
    assert done.stdout == f"ordered: sitemap 1: {URL}\n" and "as soon as it runs" in done.stderr
    assert json.loads(lcc.admin("sitemap", "show", URL, "--json").stdout)["every_seconds"] == 21600
    assert "is sitemap 1 already" in lcc.admin("sitemap", "add", URL, code=1).stderr
    assert "give one of" in lcc.admin("sitemap", "add", code=2).stderr
    assert "no sitemap has the URL" in lcc.admin("sitemap", "show", f"{SITE}x", code=1).stderr
    lcc.admin("feed", "add", f"{SITE}feed")
    assert "there is no sitemap 2" in lcc.admin("sitemap", "why", "2", code=1).stderr


def test_the_life_of_a_sitemap(lcc: Lcc, monkeypatch: Any) -> None:
    with scheduler(lcc, monkeypatch, "sitemaps") as database:
        assert lcc.admin("sitemap", "add", URL, "--every", "3600").stdout == f"sitemap 1: {URL}\n"
        assert "no worker has read it yet" in lcc.admin("sitemap", "why", URL).stdout
        read(database, 1, urls=40, gone=300, held=300, left_out=2)
        [row] = lcc.rows("sitemap", "list")
        assert (row["id"], row["urls"], row["held"], row["documents"], row["every_seconds"]) == (1, 40, 300, 1, 3600)
        why = lcc.admin("sitemap", "why", "1").stdout
        assert "300 URLs listed no longer, too many at once: their deletion is HELD" in why
        assert "Next: lcc-admin sitemap confirm 1" in why and "2 URLs left out" in why
        database.now(lambda txn: txn.execute("UPDATE schedulerfence SET value = 1 WHERE name = 'heard'"))
        assert "deletions of 300 URLs of 1 sitemap HELD: lcc-admin sitemap" in lcc.admin("status").stdout
        assert lcc.admin("sitemap", "confirm", "1").stdout == "sitemap 1: what is held is retracted\n"
        assert database.query("SELECT confirmed FROM sitemaps") == [(1,)]
        assert "nothing to change" in lcc.admin("sitemap", "set", "1", code=2).stderr
        lcc.admin("sitemap", "set", "1", "--every", "60")
        assert json.loads(lcc.admin("sitemap", "show", "1", "--json").stdout)["every_seconds"] == 60
        for command, text in (("poll", "polled now"), ("suspend", "suspended"), ("resume", "active")):
            assert lcc.admin("sitemap", command, "1").stdout == f"sitemap 1: {text}\n"
        lcc.admin("sitemap", "remove", "1")
        assert lcc.rows("sitemap", "list") == []


def test_the_sitemaps_that_robots_txt_names(lcc: Lcc, monkeypatch: Any) -> None:
    text = (
        f"Sitemap: {SITE}a.xml\nUser-agent: *\nDisallow: /\nsitemap: http://other.example/b.xml\nSitemap: {SITE}a.xml"
    )
    robots(monkeypatch, text)
    with scheduler(lcc, monkeypatch, "sitemaps") as database:
        done = lcc.admin("sitemap", "add", "--site", f"{SITE}somewhere/")
        assert done.stdout == f"sitemap 1: {SITE}a.xml\n"
        assert done.stderr == "left out: http://other.example/b.xml is on another host\n"
        assert "is sitemap 1 already" in lcc.admin("sitemap", "add", "--site", SITE).stderr
        robots(monkeypatch, error=FetchError.from_status(404))
        assert lcc.admin("sitemap", "add", "--site", SITE, "--allow-private").stdout == f"sitemap 2: {URL}\n"
        assert database.query("SELECT kind, args FROM tasks WHERE id = 2") == [
            (SITEMAP, f'["{URL}","--allow-private"]')
        ]
        robots(monkeypatch, error=FetchError("address-forbidden", "10.0.0.1"))
        assert "--allow-private" in lcc.admin("sitemap", "add", "--site", SITE, code=1).stderr
