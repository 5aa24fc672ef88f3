"""Pages of feeds, tasks, jobs, crawls, pushes, users and content in a real browser, with something on each."""

from __future__ import annotations

import pytest
import pytest_twisted
from twisted.internet.threads import deferToThread

from lcc.model.tasks import Effects, JobSpec, JobState, KindLimits, LogRow, ManagerStatus, When
from lcc.storage.database.migrations import HUB, PUSH
from lcc.storage.database.place import place_of
from lcc.storage.providers.content_users import ContentUser, add_content_user
from lcc.storage.views.readers import Reading, note_readings
from tests.support.chromium import Chromium
from tests.support.databases import DirectDatabase
from tests.support.servers.content_host import ContentHost
from tests.support.tasks import Tasks

from . import test_push
from .kit import CANARY, Watch, url_page
from .test_browser import check_looks, log_in
from .test_crawls import crawled
from .test_pages import sqlite_only
from .test_tasks import lives, now_of, scheduled
from .test_url import cache

__all__ = ["scheduled"]  # a fixture

FEED = "https://www.example.org/a/rather/long/path/of/a/feed.xml"


def fill(watch: Watch, scheduled: Tasks) -> int:
    """Something of each kind; the number of a job."""
    now = now_of(watch)
    scheduled.add(now, spec=JobSpec("feed", "feed", (FEED,)))
    info = '{"title": "News of the example", "link": "x"}'
    columns = ("task", "policy", "record", "read_time", "changed_time")
    scheduled.database.now(lambda txn: txn.insert("feeds", columns, [(1, "id", info, now, now)]))
    spec = JobSpec("command", "weekly-report", ("--city", CANARY), "tracker", on=("allow:web*",), data=CANARY)
    scheduled.add(now, spec=spec, when=When(cron="0 6 * * mon", timezone="Europe/Amsterdam"))
    running = scheduled.run(now)
    rows = (LogRow(now, "info", "begun"), LogRow(now, "warning", CANARY))
    scheduled.end(
        running, JobState.PERMANENT, now=now, message="exit code 2", output="out\n" * 50, effects=Effects(logs=rows)
    )
    limits = (KindLimits("feed", 2, 600), KindLimits("command", 4, 60))
    up = ManagerStatus("up", "alpha", "r", 1, now - 600, now, capacity=4, kinds=limits)
    lives(watch, scheduled, up, ManagerStatus("down", "beta", "r", 1, now - 900, now - 300, now - 300))
    crawled(watch)[0].blocking.close()
    for series, function in ((PUSH, test_push.fill), (HUB, test_push.subscribe)):
        database = DirectDatabase(*place_of(watch.config, series))
        database.now(function, now)
        database.blocking.close()
    cuid = watch.database.now(add_content_user, ContentUser(0, "search", "h", frozenset(range(1, 30)), False))
    watch.database.now(note_readings, {0: Reading(now - 5), cuid: Reading(now, "", 0)})
    return running.id


@pytest.mark.long
@sqlite_only
@pytest_twisted.ensureDeferred
async def test_lists_in_a_real_browser(watch: Watch, scheduled: Tasks, chromium: Chromium) -> None:
    job = fill(watch, scheduled)
    host = ContentHost(watch.config.home)
    try:
        text = f"<html>{CANARY}\n{'long' * 300}\n".encode()
        preview = cache(watch, "page", "text/html", host.add(text), len(text))
        await watch.look()
        address = f"http://127.0.0.1:{watch.port}"
        await deferToThread(log_in, chromium, f"{address}/")
        pages = (
            *("/feeds", "/feed/1", "/tasks", "/task/2", "/jobs", f"/job/{job}", "/statistics", "/crawls", "/crawl/1"),
            *("/crawl-urls?crawl=1", "/crawl-urls?crawl=1&state=waiting", "/crawl-hosts?crawl=1"),
            *("/push", "/readers", "/machines", url_page("http://site/page"), preview),
        )
        await deferToThread(check_looks, chromium, address, pages)
        # A column without content is not shown.
        for page, table, display in (("/tasks", "#list", "table-cell"), ("/crawl/1", "#hosts", "none")):
            await deferToThread(chromium.go, address + page)
            shown = f"getComputedStyle(document.querySelector('{table} th.optional')).display"
            await deferToThread(lambda: chromium.size(1280, 800))
            assert await deferToThread(chromium.evaluate, shown) == display, page
        assert chromium.complaints == []
    finally:
        await host.stop()
