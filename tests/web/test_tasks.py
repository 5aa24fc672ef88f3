"""The pages of tasks, jobs, feeds and managers: what they show, what they order of the scheduler."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import pytest_twisted
from twisted.internet.threads import deferToThread

from lcc.model.tasks import Effects, JobSpec, JobState, KindLimits, LogRow, ManagerStatus
from lcc.roles.web.pages import feeds, jobs, tasks
from lcc.storage.database.migrations import TASKS
from lcc.storage.database.place import place_of
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.feeds.views import feed_named
from lcc.storage.tasks.figures import task_figures
from lcc.storage.tasks.views import ended_jobs, failing_tasks, jobs_page, statistics, tasks_page, waiting_jobs
from tests.support.browser import Browser, Reply
from tests.support.databases import DirectDatabase, result_of
from tests.support.tasks import Tasks

from .kit import CANARY, Watch, press
from .test_pages import check_page, sqlite_only, words
from .test_plans import ExplainingSqlite

TURNED = "\u202egpj.exe"
"""Begins with what turns the text after it around."""


@pytest.fixture
def scheduled(watch: Watch) -> Tasks:
    """The tables of tasks of this monitor, and who carries out its orders."""
    return Tasks(DirectDatabase(*place_of(watch.config, TASKS)))


def now_of(watch: Watch) -> int:
    return int(watch.monitor.now())


def lives(watch: Watch, scheduled: Tasks, *managers: ManagerStatus) -> None:
    """The scheduler says that it runs."""
    result_of(scheduled.store.save_managers(managers, [], now_of(watch), 86400))


async def pressed(browser: Browser, path: str, do: str, **filled: str) -> Reply:
    """Press a button of a page, and follow where it leads."""
    page = await browser.get(path)

    def press_it() -> Reply:
        [form] = [form for form in page.page.forms if dict(form.form_values()).get("do") == do]
        fields = {name: value or "" for name, value in form.form_values()} | filled
        return browser.visitor.post(form.action, fields)

    reply = await deferToThread(press_it)
    return await browser.get(reply.headers["location"]) if reply.status == 303 else reply


async def filled(browser: Browser, path: str, **fields: str) -> Reply:
    """Fill in the form for something new, and follow where it leads."""
    page = await browser.get(path)

    def send() -> Reply:
        form = next(form for form in page.page.forms if form.action == path)
        return browser.visitor.post(path, {name: value or "" for name, value in form.form_values()} | fields)

    reply = await deferToThread(send)
    return await browser.get(reply.headers["location"]) if reply.status == 303 else reply


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_a_task_is_added_and_changed(watch: Watch, scheduled: Tasks) -> None:
    await watch.look()
    browser = await watch.visitor()
    assert "has not run yet" in words(await browser.get("/tasks"))
    seen = await filled(
        browser,
        "/task-add",
        command="fetch",
        args="--city\r\nA  b\r\n;rm",
        every="3600",
        data="d",
        on="allow:web* deny:web3",
    )
    assert "Hosts allow:web* deny:web3" in words(seen)
    check_page(seen)
    assert "Order 1 is given" in words(seen) and "ordered: the scheduler adds it" in words(seen)
    scheduled.carry_out()
    task = scheduled.task(1)
    assert (task.spec.command, task.spec.args, task.spec.data) == ("fetch", ("--city", "A  b", ";rm"), "d")
    assert "Order 1 is carried out" in words(await browser.get("/task/1?order=1"))
    for do, state in (("suspend", "suspended"), ("resume", "active")):
        await pressed(browser, "/task/1", do)
        scheduled.carry_out()
        assert scheduled.task(1).state.value == state
    refused = await pressed(browser, "/task/1", "set", every="soon")
    check_page(refused, 400)
    assert "'soon' is no period in seconds. Go back and give 1 to" in words(refused)
    assert "a time of day" in words(await pressed(browser, "/task/1", "set", every="60", at="06:30"))
    await pressed(browser, "/task/1", "set", every="", cron="0 6 * * mon", timezone="Europe/Amsterdam")
    scheduled.carry_out()
    assert (scheduled.task(1).when.cron, scheduled.task(1).when.every_seconds) == ("0 6 * * mon", 0)
    assert "cron 0 6 * * mon Europe/Amsterdam" in words(await browser.get("/tasks"))
    await pressed(browser, "/task/1", "remove")
    scheduled.carry_out()
    gone = await browser.get("/task/1?order=5")
    check_page(gone)
    assert "carried out" in words(gone) and "not there (any longer)" in words(gone)
    check_page(await browser.get("/task/1"), 404)
    for bad in (
        {"command": "../sh", "every": "1"},
        {"every": "1"},
        {"command": "c"},
        {"kind": "sitemap", "args": "x"},
        {"command": "c", "every": "1", "on": "web3"},
        {"command": "c", "every": "1", "on": "deny:*"},
    ):
        check_page(await filled(browser, "/task-add", **bad), 400)


@pytest_twisted.ensureDeferred
async def test_lists_and_pages(watch: Watch, scheduled: Tasks) -> None:
    lives(watch, scheduled)
    await watch.look()
    browser = await watch.visitor()
    ids = [scheduled.add(now_of(watch)) for _ in range(tasks.PAGE_TASKS + 1)]
    first = await browser.get("/tasks")
    check_page(first)
    [link] = first.page.xpath("//a[@rel='next']/@href")
    assert f"/task/{ids[-1]}" not in first.body.decode()
    assert f"/task/{ids[-1]}" in (await browser.get(link)).body.decode()
    made = scheduled.make(now_of(watch))
    ended = now_of(watch)
    for job, state in zip(scheduled.start(*made[:3]), (JobState.PERMANENT, JobState.COMPLETED, None), strict=True):
        if state:
            scheduled.end(job, state, now=ended, message="said", seconds=2.0)
    failing = await browser.get("/tasks?only=failing")
    check_page(failing)
    assert [row.get("href") for row in failing.page.xpath("//tbody//th/a")] == [f"/task/{made[0].id}"]
    assert "failing for" in words(failing)
    scheduled.order("task-suspend", ids[5])
    suspended = await browser.get("/tasks?only=suspended")
    assert suspended.page.xpath("//tbody//th/a/@href") == [f"/task/{ids[5]}"]
    assert "No such tasks" in words(await browser.get("/tasks?kind=sitemap"))
    for state, number in (("permanent-error", made[0].id), ("running", made[2].id)):
        listed = await browser.get(f"/jobs?state={state}")
        check_page(listed)
        assert listed.page.xpath("//tbody//th/a/@href")[-1] == f"/job/{number}"  # and what a suspension has ended
    check_page(await browser.get("/jobs?state=odd"), 400)
    assert len((await browser.get("/jobs")).page.xpath("//tbody/tr")) == jobs.PAGE_JOBS
    assert len((await browser.get(f"/jobs?task={ids[0]}")).page.xpath("//tbody/tr")) == 1
    told = await browser.get("/statistics")
    check_page(told)
    [row] = told.page.xpath("//tbody/tr")
    assert [" ".join(cell.text_content().split()) for cell in row][1:4] == ["command", "1", "1"]
    for state, job in (("completed", made[1]), ("failed", made[0])):
        [link] = told.page.xpath(f"//tbody//a[contains(@href, 'state={state}')]")
        listed = await browser.get(link.get("href"))
        check_page(listed)
        assert listed.page.xpath("//tbody//th/a/@href") == [f"/job/{job.id}"] and link.text_content() == "1"
        assert "Jobs of kind command that ended on" in words(listed)
    day = ended // 86400
    assert "None is left" in words(await browser.get(f"/jobs?day={day - 1}&state=completed"))
    assert "None is left" in words(await browser.get(f"/jobs?day={day}&state=completed&kind=feed"))
    check_page(await browser.get(f"/jobs?day={day}&state=odd"), 400)
    check_page(await browser.get("/jobs?day=x"), 404)
    check_page(await browser.get("/statistics?days=0x1"), 400)


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_what_is_counted_of_jobs_leads_to_them(
    watch: Watch, scheduled: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "PAGE_JOBS", 2)
    now = now_of(watch)
    lives(watch, scheduled)
    for _ in range(6):
        scheduled.add(now)
    made = scheduled.make(now)
    for job in scheduled.start(*made[:2])[:1]:
        scheduled.end(job, JobState.PERMANENT, now=now)
    await watch.look()
    browser = await watch.visitor()
    page = check_page(await browser.get("/tasks"))
    counted = {
        a.text.split()[1]: (int(a.text.split()[0]), a.get("href")) for a in page.xpath("//*[@id='scheduler']//a")
    }
    assert {name: count for name, (count, _) in counted.items()} == {"running": 1, "waiting": 4, "task": 1, "of": 0}
    for name in ("running", "waiting", "task"):
        count, path = counted[name]
        seen = []
        while path:
            page = check_page(await browser.get(path))
            seen += page.xpath("//tbody/tr/th/a/@href")
            path = next(iter(page.xpath("//a[@rel='next']/@href")), "")
        assert len(seen) == len(set(seen)) == count, name


@pytest_twisted.ensureDeferred
async def test_a_job_is_tried_again_and_killed(watch: Watch, scheduled: Tasks) -> None:
    browser = await watch.visitor()
    task = scheduled.add(now_of(watch))
    running = scheduled.run(now_of(watch))
    await pressed(browser, f"/job/{running.id}", "kill")
    scheduled.carry_out()
    assert scheduled.last_killed() == [(running.id, 1, "ended by ann in the monitor")]
    rows = Effects(logs=(LogRow(now_of(watch), "warn", "half of it"),))
    scheduled.end(running, JobState.PERMANENT, exit_code=2, message="no", output="out\nput", effects=rows)
    shown = await browser.get(f"/job/{running.id}")
    check_page(shown)
    assert "half of it" in shown.text("log") and shown.page.xpath("//pre")[0].text == "out\nput"
    assert "permanent-error" in shown.text("state") and "Exit code2" in shown.text("state")
    order = await pressed(browser, f"/job/{running.id}", "rerun")
    scheduled.carry_out()
    told = await browser.get(f"/job/{running.id}?order=3")
    assert "is given" in words(order) and told.page.xpath("//*[@id='ordered']//a/@href") == ["/job/2"]
    assert scheduled.job(2).task == task
    await pressed(browser, f"/job/{running.id}", "rerun")
    scheduled.carry_out()
    refused = await browser.get(f"/job/{running.id}?order=4")
    assert f"was not carried out: task {task} has an open job already" in words(refused)
    check_page(await browser.get("/job/77"), 404)


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_feeds(watch: Watch, scheduled: Tasks) -> None:
    browser = await watch.visitor()
    refused = await filled(browser, "/feeds", url="javascript:void")
    check_page(refused, 400)
    url = "http://www.example.org/feed.xml"
    refused = await filled(browser, "/feeds", url=url, listed="yes")
    check_page(refused, 400)
    assert "have these fetched, too" in words(refused)
    seen = await filled(browser, "/feeds", url="HTTP://www.example.org:80/feed.xml", full_content="yes", listed="yes")
    check_page(seen)
    assert "ordered: the scheduler adds it" in words(seen)
    assert (await filled(browser, "/feeds", url=url)).text("feed")  # the page of the one that is there
    scheduled.carry_out()
    task = scheduled.task(1)
    assert (task.spec.args, task.auto) == ((url, "--full-content", "--listed"), True)
    info = f'{{"title": "<i>{TURNED}", "link": "x"}}'
    columns = ("task", "policy", "record", "read_time", "changed_time")
    scheduled.database.now(lambda txn: txn.insert("feeds", columns, [(1, "id", info, now_of(watch), 0)]))
    listed = await browser.get("/feeds")
    check_page(listed)
    assert "<i>\ufffdgpj.exe" in words(listed) and "never" in words(listed)
    page = await browser.get("/feed/1")
    check_page(page)
    assert "no worker has read it yet" in page.text("why") and "its document:" in page.text("why")
    await pressed(browser, "/feed/1", "set", every="600")
    scheduled.carry_out()
    assert (scheduled.task(1).when.every_seconds, scheduled.task(1).auto) == (600, False)
    await pressed(browser, "/feed/1", "suspend")
    scheduled.carry_out()
    assert "suspended" in (await browser.get("/feed/1")).text("feed")
    await pressed(browser, "/feed/1", "remove")
    scheduled.carry_out()
    check_page(await browser.get("/feed/1"), 404)


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_hostile_texts_are_texts(watch: Watch, scheduled: Tasks) -> None:
    browser = await watch.visitor()
    spec = JobSpec(CANARY[:50], "c", (CANARY, TURNED, "\x1b[2J"), CANARY[:60], data=CANARY)
    scheduled.add(now_of(watch), spec=spec)
    logs = (LogRow(now_of(watch), "info", CANARY),)
    running = scheduled.run(now_of(watch))
    scheduled.end(
        running, JobState.TEMPORARY, message=CANARY + TURNED, output=CANARY * 500, effects=Effects(logs=logs)
    )
    status = ManagerStatus(CANARY, CANARY, "r", 1, 1, now_of(watch), 1, kinds=(KindLimits(CANARY, 1),))
    lives(watch, scheduled, status)
    await watch.look()
    for path in ("/", "/tasks", "/task/1", "/jobs", f"/job/{running.id}", "/machines", "/statistics"):
        reply = await browser.get(path)
        text = reply.body.decode()
        assert reply.status == 200 and "<script>alert" not in text and "\u202e" not in text and "\x1b" not in text, (
            path
        )
        assert not reply.page.xpath("//script[not(@src)] | //b"), path


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_onlookers_and_other_sites_order_nothing(watch: Watch, scheduled: Tasks) -> None:
    watch.add_user("guest", operates=False)
    scheduled.add(now_of(watch))
    job = scheduled.run(now_of(watch))
    guest, ann = await watch.visitor("guest"), await watch.visitor()
    for path in ("/task/1", f"/job/{job.id}", "/feeds", "/task-add", "/tasks"):
        seen = await guest.get(path)
        check_page(seen)
        assert {form.action for form in seen.page.forms if form.method == "POST"} == {"/logout"}
        seal = seen.page.xpath("//input[@name='form']/@value")[0]
        for browser, form in ((guest, seal), (ann, "0" * 32)):
            sent = {"form": form, "do": "suspend", "url": "http://www.example.org/", "command": "c", "every": "9"}
            reply = await deferToThread(browser.visitor.post, path, sent)
            assert reply.status in (403, 405), (path, reply.status)
    assert scheduled.database.query("SELECT COUNT(*) FROM taskorders WHERE done_time IS NULL") == [(0,)]


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_managers_and_what_is_wrong(watch: Watch, scheduled: Tasks) -> None:
    now = now_of(watch)
    up = ManagerStatus("up", "alpha", "r", 1, now - 600, now, capacity=4, kinds=(KindLimits("feed", 2, 600),))
    down = ManagerStatus("down", "beta", "r", 1, now - 900, now - 300, now - 300)
    lives(watch, scheduled, up, down)
    await watch.look()
    browser = await watch.visitor()
    shown = words(await browser.get("/machines"))
    assert "up for 10 minutes, 0 of 4 jobs running" in shown and "feed: 2, 600 s" in shown
    page = await browser.get("/")
    assert "Manager down on beta is down" in page.text("troubles") and page.text("sentence") != "All is well."
    reply = await deferToThread(lambda: press(browser, page, lambda fields: fields.get("kind") == "manager"))
    assert reply.status == 303 and watch.monitor.members.managers_dismissed == {"down"}
    assert watch.monitor.sentence == "All is well."
    lives(watch, scheduled, attrs.evolve(down, down_time=None, heard_time=now))
    await watch.look()
    assert watch.monitor.members.managers_dismissed == set()  # missed again, should it go again


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_held_deletions_of_sitemaps(watch: Watch, scheduled: Tasks) -> None:
    lives(watch, scheduled)
    columns = ("task", "site", "kind", "urls", "gone", "held", "left_out", "pid", "connorder", "read_time")
    row = (1, 1, "urlset", 10, 290, 290, 0, 1, 1, 1, 1, 0)
    scheduled.database.now(lambda txn: txn.insert("sitemaps", (*columns, "gone_time", "confirmed"), [row]))
    await watch.look()
    shown = words(await (await watch.visitor()).get("/tasks?kind=sitemap"))
    assert "deletions of 290 URLs of 1 sitemap HELD: lcc-admin sitemap list, then why and confirm" in shown


@sqlite_only
def test_pages_walk_along_indexes(scheduled: Tasks) -> None:
    """However many tasks and jobs there are."""
    questions: dict[str, Any] = {
        "tasks": lambda txn: tasks_page(txn, 5, limit=50),
        "of a kind": lambda txn: tasks_page(txn, 5, "feed", 50),
        "suspended": lambda txn: tasks_page(txn, 5, "", 50, state=tasks.TaskState.SUSPENDED),
        "failing": lambda txn: failing_tasks(txn, (7, 5), 50),
        "a task": lambda txn: tasks.see_task(txn, 1, 1),
        "jobs": lambda txn: jobs_page(txn, 9, limit=50),
        "in a state": lambda txn: jobs_page(txn, 9, states=("lost",), limit=50),
        "of a task": lambda txn: jobs_page(txn, 9, 1, limit=50),
        "waiting": lambda txn: waiting_jobs(txn, (7, 5), 50),
        "of a day": lambda txn: ended_jobs(txn, (0, 86400), (9, 9), ("lost",), "feed", 50),
        "a job": lambda txn: jobs.see_job(txn, 1, 1),
        "feeds": lambda txn: feeds._page(txn, 1),
        "a feed": lambda txn: feeds.see_feed(txn, 1, 1),
        "its id": lambda txn: feed_named(txn, "http://x/"),
        "days": lambda txn: statistics(txn, 1),
        "figures": lambda txn: task_figures(txn, 1.0),
    }

    def explained(txn: Txn, question: Any) -> list[tuple[str, str]]:
        explaining = ExplainingSqlite(txn)
        question(explaining)
        return explaining.plans

    few = ("GROUP BY manager", "FROM sitemaps WHERE gone_time > 0")
    scheduled.add()
    for name, question in questions.items():
        for sql, step in scheduled.database.now(explained, question):
            walks = step.startswith("SCAN") and not step.startswith(
                ("SCAN some", "SCAN managers", "SCAN schedulerfence")
            )
            sorts = "TEMP B-TREE" in step and not any(each in sql for each in few)
            assert not walks and not sorts, (name, sql, step)
