"""Sitemaps as the scheduler polls them: what they list no longer is retracted within seconds."""

from __future__ import annotations

import json

from lcc.model.tasks import Effects
from lcc.storage.tasks.orders import SITEMAP_CONFIRM
from tests.scheduler.polls.polling import FEED, Polling, given, worker
from tests.support.roles.scheduler import FakeManager
from tests.support.sitemaps import resync, urlset, worked

SITE = FEED[: FEED.index("/", 8)]


def read(bench: Polling, manager: FakeManager, document: str) -> None:
    """The robot finds this, and the worker reads it."""
    bench.fetch()
    bench.pass_time(2)
    job, content = given(manager)
    said = worked(document, job.data, url=content.url)
    items = tuple(json.dumps(each) for each in said.stored)
    manager.end(job, effects=Effects(items=items, data=said.data))


def urls(*names: object) -> list[str]:
    return [f"{SITE}/{name}" for name in names]


def said(bench: Polling) -> list[tuple[str, str]]:
    """Operation and URL of what the UNS is told as the site's own word."""
    sets = []
    while taken := bench.taken():
        sets += [each for each in taken if each.source == "listed"]
    assert all(each.order > 0 for each in sets)
    return sorted((url.get("op", "update"), url["c"]) for each in sets for url in each.urls)


def test_what_is_listed_no_longer_is_retracted_within_seconds(bench: Polling) -> None:
    manager = worker(bench)
    bench.feed(kind="sitemap")
    bench.outbox()
    read(bench, manager, urlset(*urls(1, 2)))
    assert said(bench) == [("update", url) for url in urls(1, 2)]
    bench.until_asked()
    read(bench, manager, urlset(*urls(2)))
    assert said(bench) == [], "not with the reading: it may stand in another document"
    bench.room = False
    bench.pass_time(20)
    assert said(bench) == [], "while the UNS takes nothing more"
    bench.room = True
    bench.pass_time(6)
    assert said(bench) == [("retract", url) for url in urls(1)]
    assert bench.engine.counters.retracted == 1
    bench.pass_time(20)
    assert said(bench) == []


def test_too_much_is_held_and_counted(bench: Polling) -> None:
    manager = worker(bench)
    task = bench.feed(kind="sitemap")
    bench.outbox()
    read(bench, manager, urlset(*urls(*range(300))))
    said(bench)
    bench.until_asked()
    read(bench, manager, urlset(*urls(1)))
    bench.pass_time(20)
    assert said(bench) == [] and bench.engine.counters.sitemap_urls_held == 299
    bench.order(SITEMAP_CONFIRM, task)
    bench.pass_time(20)
    assert [op for op, _ in said(bench)] == ["retract"] * 299
    assert (bench.engine.counters.retracted, bench.engine.counters.sitemap_urls_held) == (299, 0)


def test_a_change_list_deletes_within_seconds(bench: Polling) -> None:
    manager = worker(bench)
    bench.feed(kind="sitemap")
    bench.outbox()
    entry = f'<url><loc>{SITE}/1</loc><rs:md change="deleted" datetime="2026-01-01T00:00:00Z"/></url>'
    read(bench, manager, resync("changelist", entry))
    bench.pass_time(6)
    assert said(bench) == [("retract", url) for url in urls(1)]
