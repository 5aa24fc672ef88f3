"""A scheduler with its managers in a simulated world: tasks, the site that they poll and notify of, an operator.

The oracle (:class:`TaskPromises`) reads a history that triggers write into the scheduler's tables, each row with the
transaction that it tells of, and compares it with what the workers (:mod:`tests.simulation.workers`) have done.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from twisted.application.service import Service
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater

from lcc.model.tasks import JobSpec, Task, When
from lcc.storage.database.migrations import TASKS
from lcc.storage.tasks import orders
from lcc.testing.simulated.database import DatabaseServer
from lcc.testing.simulated.process import Process
from lcc.testing.simulated.timeline import Timeline

from .sites import OriginProtocol, Page, Site, in_background
from .workers import Hall

SCHEDULER = "10.0.0.10"
MANAGERS = ("10.0.0.11", "10.0.0.12", "10.0.0.13")
MANAGER_NAMES = ("manager1", "manager2", "manager3")
TASK_SITE = "10.3.0.1"
LEASE_SECONDS = 10
"""The least that ``[scheduler] lease`` may be."""
ROBOTS_TXT = "robots.txt"
SHARED = "shared"
"""A resource that has an interval."""
PLAIN = "plain"
"""One that has none."""
SHARED_SECONDS = 4

CONFIGURATION = """
[scheduler]
name = "scheduler"
listen = "{wire}:9006"
connect = "{wire}:{uns}:9005"
lease = 10
retries = {retries}
retry_initial = {retry_initial}
ready_max = {ready_max}
[manager]
name = "{name}"
host = "{name}"
connect = "{wire}:10.0.0.10:9006"
content = "http://{content}:9004"
kinds = ["follow jobs=3", "feed jobs=1"]
jobs_max = 4
jobs = 2
seconds = {seconds}
grace_seconds = 1
stop_seconds = 2
scan_interval = 10
"""


class TaskSite(Site):
    """A site that nobody has registered: feeds that tasks poll, and pages that jobs notify of.

    :ivar feeds: path of a feed -> its contents so far, each by its md5.
    :ivar has_robots: it has a robots.txt, which forbids some of the pages.
    """

    def __init__(self, timeline: Timeline, number: int, address: str) -> None:
        super().__init__(timeline, number, address)
        self.pages.clear()
        self.untold.clear()
        self.broken.clear()
        self.wants_full = self.stays_open = False
        self.feeds: dict[str, list[str]] = {}
        self.has_robots = self.chance.random() < 0.5
        if self.has_robots:
            self.leftovers[ROBOTS_TXT] = Page(1, b"User-agent: *\nDisallow: /no/\n")

    def page_at(self, path: str) -> Page | None:
        """As of any site; whatever jobs notify of is there."""
        found = super().page_at(path)
        return Page(1, path.encode()) if found is None and path.startswith(("n/", "no/")) else found

    def hours_of(self, path: str) -> str:
        """None: jobs tell none."""
        return ""

    def change_feed(self, path: str) -> None:
        """A feed has a new content."""
        versions = self.feeds.setdefault(path, [])
        page = Page(len(versions) + 1, f"{path} {len(versions) + 1}".encode())
        versions.append(page.md5)
        self.leftovers[path] = page


class TaskSiteServer(Service):
    """Its web server; its feeds change now and then.

    :ivar changes_seconds: how long they last, on the average.
    """

    changes_seconds = 9.0

    def __init__(self, site: TaskSite, process: Process) -> None:
        self._site = site
        self._reactor = process.reactor

    def startService(self) -> None:
        super().startService()
        factory = Factory.forProtocol(lambda: OriginProtocol(self._site, self._reactor))
        factory.noisy = False
        self._reactor.listenTCP(80, factory)
        in_background(self._change())

    async def _change(self) -> None:
        site = self._site
        while self.running:
            await deferLater(self._reactor, site.chance.expovariate(1 / self.changes_seconds))
            if site.changing and site.feeds:
                site.change_feed(site.chance.choice(sorted(site.feeds)))


class TaskWorld:
    """Tasks, their site, and an operator who gives orders.

    :ivar clock_ahead: by how many seconds the scheduler's clock is ahead of the simulated one, unless it was set.
    :ivar clock_was_set: that of the scheduler, so that its times are no measure any longer.
    :ivar killed: jobs that the operator wanted killed.
    :ivar suspended: all tasks are, so that it comes to an end.
    :param is_busy: there are tasks; else the scheduler polls robots.txt only, and there is no operator.
    """

    def __init__(self, timeline: Timeline, database: DatabaseServer, site: TaskSite, is_busy: bool = True) -> None:
        self.timeline = timeline
        self.database = database
        self.site = site
        self.hall = Hall(site.root, timeline.random("workers").choice((0.8, 0.8, 3.0)))
        self.chance = timeline.random("tasks")
        self.clock_ahead = 0.0
        self.clock_was_set = False
        self.killed: set[int] = set()
        self.suspended = False
        self.tasks: list[int] = []
        self.polled: dict[int, str] = {}
        """Tasks that poll: id -> path."""
        self.order(orders.RESOURCE_SET, 0, name=SHARED, interval_seconds=SHARED_SECONDS)
        self._is_busy = is_busy
        for _ in range(self.chance.randint(2, 7) if is_busy else 0):
            resource = self.chance.choice(("", "", SHARED, PLAIN))
            hosts = ("deny:manager2",) if self.chance.random() < 0.15 else ()
            spec = JobSpec("command", "work", ("a",), resource, hosts)
            self.tasks.append(self.add(spec, self.chance.choice((1, 2, 5, 9, 14))))
        for number in range(self.chance.randint(0, 2) if is_busy else 0):
            path = f"feed{number}.html"
            site.change_feed(path)
            task = self.add(JobSpec("feed", "", (site.url(path),)), self.chance.choice((3, 6, 12)))
            self.polled[task] = path

    def add(self, spec: JobSpec, every: int) -> int:
        """A task with a period.

        :returns: its number.
        """
        task, _ = self._order(orders.order_task, Task(0, spec, When(every)), int(self.timeline.now))
        return int(task)

    def _order(self, function: Any, *args: Any) -> Any:
        return self.database.now(function, *args, series=TASKS)

    def order(self, kind: str, target: int, **body: Any) -> None:
        """The operator gives an order."""
        self._order(orders.ORDERS.give, kind, target, body, int(self.timeline.now))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """From the scheduler's tables as they are now."""
        return self.database.connection(TASKS).execute(sql).fetchall()

    def begin(self) -> None:
        """The operator is there."""
        if self._is_busy:
            self.timeline.call_later(self.chance.expovariate(1 / 5.0), None, self._operate)

    def _operate(self) -> None:
        if not self.site.changing:
            return
        luck = self.chance.random()
        if luck < 0.4:
            jobs = [job for (job,) in self.rows("SELECT id FROM jobs WHERE ended_time IS NULL AND kind <> 'robots'")]
            if jobs:
                job = self.chance.choice(jobs)
                self.killed.add(job)
                self.order(orders.JOB_KILL, job)
        elif luck < 0.6:
            task = self.chance.choice(self.tasks)
            self.order(orders.TASK_SUSPEND, task)
            self.timeline.call_later(self.chance.uniform(0, 6), None, partial(self.order, orders.TASK_RESUME, task))
        self.begin()

    def suspend_all(self) -> None:
        """So that it comes to an end."""
        self.suspended = True
        for task in (*self.tasks, *self.polled):
            self.order(orders.TASK_SUSPEND, task)
