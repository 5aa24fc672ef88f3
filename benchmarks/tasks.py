"""100,000 feeds that are polled hourly, 28 a second: CPU of the scheduler for a poll, and its memory.

``python benchmarks/tasks.py [--tasks 100000] [--seconds 60] [--runs 3]``

A real ``twistd lcc-scheduler`` on SQLite, with real ``lcc-uns``, ``lcc-qm``, ``lcc-botm`` and ``lcc-bot``; nginx
answers all fetches with 304, so that no worker runs, and no manager is there.  The scheduler's CPU is that of its
whole process, what it does every second included.  A run is so many seconds of it; then all polls but the last few
have to be confirmed in the cache.
"""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from random import Random

from common import cpu_seconds_of, nginx, scratch
from lcc_site import LccSite
from queue_fill import note_chores_done
from rows import Row, add_options, at_most, give

from lcc.config import DatabaseConfig, load_config
from lcc.domain.keys import url_key
from lcc.model.tasks import JobSpec, Task, When
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import TASKS as SERIES
from lcc.storage.database.place import place_of
from lcc.storage.database.tables.rows import CACHE, CACHED, POLLED, empty_cache_row
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.rows import TASKS, task_values

HOUR = 3600
SITE_PAGES = 10
ROLES = ("scheduler", "uns", "qm", "botm", "bot")
MACHINE = 2
"""Whose content is said to be cached; its BOT-M never comes, so nobody misses the files."""
WARM_SECONDS = 20
"""From the start of the roles to the first task that is due; then as long until the first run."""
LATE_SECONDS = 10
"""So old a poll is confirmed."""


class Feeds:
    """What is polled.

    :ivar begin: when the first task is due; all others in the hour from then on.
    """

    def __init__(self, count: int, web: int) -> None:
        self.count = count
        self.roots = {pid: f"http://127.0.0.1:{web}/{pid}/" for pid in range(1, -(-count // SITE_PAGES) + 1)}
        self.begin = int(time.time())

    def place(self, number: int) -> tuple[int, str]:
        """Provider and URL."""
        pid = number // SITE_PAGES + 1
        return pid, f"{self.roots[pid]}{number}/feed.xml"

    def fill_cache(self, txn: Txn) -> None:
        """A page of each."""
        rows = []
        for number in range(self.count):
            pid, url = self.place(number)
            row = empty_cache_row(url_key(pid, url, "*/*"), pid)
            row |= {"state": CACHED, "source": POLLED, "change_number": number + 1, "curl": url, "mimetype": "*/*"}
            row |= {"status": 200, "etag": '"x"', "revalidate": 1, "md5": "0" * 32, "len": 1, "generation": 1}
            row |= {"fetched_machineid": MACHINE, "fetched_fileid": number + 1}
            row |= {"fetched_time": self.begin - HOUR, "confirmed_time": self.begin - HOUR + 1}
            rows.append(tuple(row.values()))
        CACHE.insert(txn, rows)
        txn.execute("UPDATE counters SET value = ? WHERE name = 'change'", [self.count])

    def fill_tasks(self, txn: Txn) -> None:
        """A task for each, whose last poll was an hour ago."""
        columns = (*TASKS.columns, "polled", "pid", "urlkey", "asked_time", "seen")
        rows = []
        for number in range(self.count):
            pid, url = self.place(number)
            due = self.begin + number * HOUR // self.count
            task = Task(number + 1, JobSpec("feed", "", (url,)), When(HOUR), due_time=due, started_time=due - HOUR)
            rows.append((*task_values(task), 1, pid, url_key(pid, url, ""), due - HOUR, number + 1))
        txn.insert("tasks", columns, rows)

    def polled(self, txn: Txn, since: float, until: float) -> int:
        """How many polls have begun in these seconds."""
        sql = "SELECT COUNT(*) FROM tasks WHERE started_time >= ? AND started_time < ?"
        return int(txn.value(sql, [int(since), int(until)]))

    def confirmed(self, txn: Txn, since: float) -> int:
        """How many pages are confirmed since then."""
        return int(txn.value("SELECT COUNT(*) FROM lccurl WHERE confirmed_time >= ?", [int(since)]))


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=60)
    add_options(parser, runs=3)
    options = parser.parse_args()
    with ExitStack() as stack:
        work = stack.enter_context(scratch())
        (work / "www").mkdir()
        web = stack.enter_context(nginx(work / "www", work / "nginx", "location / { return 304; }"))
        feeds = Feeds(options.tasks, web)
        site = LccSite(work / "lcc", None, roles=ROLES)
        site.add_providers(feeds.roots)
        note_chores_done(site.url, site.home)
        place = place_of(load_config(site.config), SERIES)
        tables = BlockingDatabase(place.url, place.home, DatabaseConfig(), random=Random(), series=place.series)
        stack.callback(tables.close)
        feeds.begin = int(time.time()) + WARM_SECONDS
        site.database.write(feeds.fill_cache)
        tables.write(feeds.fill_tasks)
        site.start()
        stack.callback(site.stop)
        scheduler = site.processes["scheduler"].pid
        time.sleep(max(0.0, feeds.begin + WARM_SECONDS - time.time()))
        costs, peaks = [], []
        for number in range(options.runs):
            since, cpu = time.time(), cpu_seconds_of(scheduler)
            time.sleep(options.seconds)
            until, used = time.time(), cpu_seconds_of(scheduler) - cpu
            site.check()
            polls = tables.interact(feeds.polled, since, until)
            costs.append(1000 * used / max(1, polls))
            peaks.append(site.peaks_mb()["scheduler"])
            print(f"run {number + 1}: {polls} polls, {costs[-1]:.3f} ms of CPU each, {peaks[-1]:.1f} MB", flush=True)
        late = tables.interact(feeds.polled, feeds.begin, time.time() - LATE_SECONDS)
        if site.database.interact(feeds.confirmed, feeds.begin) < late:
            raise SystemExit("polls are missing:\n" + site.log("scheduler")[-3000:])
    note = f"{options.tasks:,} feeds, hourly; SQLite"
    give(
        options,
        [
            Row("CPU of the scheduler for a poll", "ms", costs, goal=at_most(0.3), note=note),
            Row("peak memory of the scheduler", "MB", peaks, goal=at_most(60), peak=True, note=note),
        ],
    )


if __name__ == "__main__":
    main()
