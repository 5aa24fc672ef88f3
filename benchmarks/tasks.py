"""100,000 tasks that are polled hourly, 28 a second: CPU of the scheduler for a poll, and its memory.

Real tables on SQLite, the scheduler's engine, polls and outbox on a clock of the benchmark; the UNS takes each set at
once, and every page is found unchanged.  What managers and the wire to the UNS cost is not in it.

    make bench-tasks ARGS="--tasks 100000 --seconds 120"
"""

from __future__ import annotations

import argparse
import sys
import time
from multiprocessing import Process
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from lcc.config import SchedulerConfig
from lcc.domain.items import ItemRules
from lcc.domain.keys import url_key
from lcc.domain.task_rules import TaskRules
from lcc.model import Provider
from lcc.model.notifiers import NoticeOutcome, SourcedSet
from lcc.model.tasks import JobSpec, Task, When
from lcc.roles.scheduler.engine import Scheduler
from lcc.roles.scheduler.notices import Notices
from lcc.roles.scheduler.polls import Polls
from lcc.storage.database.migrations import TASKS as SERIES
from lcc.storage.database.rows import CACHE, CACHED, POLLED, empty_cache_row
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.providers import add_provider
from lcc.storage.tasks.items import ItemStore
from lcc.storage.tasks.rows import TASKS, task_values
from lcc.storage.tasks.store import TaskStore
from lcc.testing.inline_database import InlineDatabase

HOUR = 3600
NOW = 1_780_000_000
SITE_PAGES = 10


class Link:
    """A UNS that takes everything."""

    connected = has_room = True
    waiting_count = 0

    def tell(self, told: SourcedSet) -> Deferred[NoticeOutcome]:
        return succeed(NoticeOutcome(told.number))

    def close(self) -> None: ...


def url_of(number: int) -> tuple[int, str]:
    site = number // SITE_PAGES
    return site, f"http://site{site}.example/{number}/feed.xml"


def fill_main(txn: Txn, count: int) -> list[int]:
    """Providers and pages; the ids of the providers."""
    sites = -(-count // SITE_PAGES)
    pids = [add_provider(txn, Provider(0, (f"http://site{site}.example/",), str(site))) for site in range(sites)]
    rows = []
    for number in range(count):
        site, url = url_of(number)
        row = empty_cache_row(url_key(pids[site], url, "*/*"), pids[site])
        row |= {"state": CACHED, "source": POLLED, "change_number": number + 1, "curl": url, "mimetype": "*/*"}
        row |= {"fetched_machineid": 1, "fetched_fileid": number + 1, "confirmed_time": NOW + 10 * HOUR}
        rows.append(tuple(row.values()))
    CACHE.insert(txn, rows)
    return pids


def fill_tasks(txn: Txn, count: int, pids: list[int]) -> None:
    """The tasks: their polls are spread over the hour, each has one open."""
    columns = (*TASKS.columns, "polled", "pid", "urlkey", "asked_time", "seen")
    rows = []
    for number in range(count):
        site, url = url_of(number)
        due = NOW + number * HOUR // count
        task = Task(number + 1, JobSpec("feed", "", (url,)), When(HOUR), due_time=due, started_time=due - HOUR)
        rows.append((*task_values(task), 1, pids[site], url_key(pids[site], url, ""), due - HOUR, number + 1))
    txn.insert("tasks", columns, rows)


def databases(folder: Path) -> tuple[InlineDatabase, InlineDatabase]:
    """That of the queue, and that of the tasks."""
    return (
        InlineDatabase(folder, Random(1)),
        InlineDatabase(folder, Random(1), "sqlite:tasks.sqlite", SERIES),
    )


def fill(count: int, folder: Path) -> None:
    main, tables = databases(folder)
    tables.now(fill_tasks, count, main.now(fill_main, count))


def memory_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def run(count: int, seconds: int, folder: Path) -> None:
    # In a process of its own: its memory is not the scheduler's.
    filling = Process(target=fill, args=(count, folder))
    filling.start()
    filling.join()
    clock = Clock()
    main, tables = databases(folder)
    store = TaskStore(tables, TaskRules(), ItemStore(ItemRules()), 1_000_000)  # type: ignore[arg-type]
    engine = Scheduler(SchedulerConfig(), store, clock, lambda: NOW + clock.seconds(), "run", lambda: None)
    notices = Notices(Link(), store, main, engine.now, engine.counters)  # type: ignore[arg-type]
    polls = Polls(engine, store, main, lambda: True, lambda root: succeed(0), lambda pid: succeed(0))  # type: ignore[arg-type]
    engine.background += [notices.tick, polls.tick]
    engine.start()
    clock.advance(1)
    polled = engine.counters.polled
    begun, cpu = time.perf_counter(), time.process_time()
    for _ in range(seconds):
        clock.advance(1)
    used = time.process_time() - cpu
    polled = engine.counters.polled - polled
    print(f"{count:,} tasks, {seconds} s: {polled:,} polls, {polled / seconds:.1f} a second")
    print(f"CPU a poll: {1000 * used / max(1, polled):.3f} ms ({time.perf_counter() - begun:.1f} s of wall time)")
    print(f"CPU of an idle second and its polls: {1000 * used / seconds:.2f} ms")
    print(f"memory: {memory_mb():.0f} MB")
    engine.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=120)
    options = parser.parse_args()
    with TemporaryDirectory(dir="/dev/shm") as place:
        run(options.tasks, options.seconds, Path(place))
