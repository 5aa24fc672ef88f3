"""What the scheduler costs a row: few providers against very many.

    make bench-scheduler_scale [ARGS="--rows 200000"]

The queue manager's scheduler alone, without database and network: providers take their turns, rows are read ahead,
handed out, finished and recorded in batches, as under load.  Rows are made before they are "read", outside the
measured time.  It prints CPU microseconds a row; the second line may be at most 1.2 times the first.
"""

from __future__ import annotations

import argparse
import gc
import resource
import time
from collections import deque

from common import spread, table

from lcc.domain.fetches.timeslots import TimeSlots
from lcc.model import FETCH_NOW, Ahead, Cursor, QueueRow, Recorded, UrlNotice, Waiting
from lcc.roles.qm.schedule.delays import Delays
from lcc.roles.qm.schedule.ready_queue import ReadyQueue
from lcc.roles.qm.schedule.scheduler import Scheduler
from lcc.roles.qm.schedule.work import FetchInfo, Limits

NOW = 1_700_000_000.0
ORDERS = 48
BATCH = 500
NOTICE = UrlNotice("http://site.example/page.html", mimetype="text/html")
NOTHING = Recorded((), {}, {}, False)


def rows_behind(cursor: Cursor, urls: int) -> list[QueueRow]:
    """What the database would answer: each provider has one set of this many URLs."""
    pid, psetid, seq, limit = cursor[:4]
    if psetid > pid:
        return []
    prefix = pid.to_bytes(4, "big")
    return [
        QueueRow(prefix + number.to_bytes(16, "big"), pid, pid, FETCH_NOW, number, False, 1, 1, 0, NOTICE)
        for number in range(seq + 1, min(seq + limit, urls) + 1)
    ]


def run(providers: int, urls: int, rows: int) -> tuple[float, float]:
    """CPU microseconds a row, and the mebibytes that the waiting providers need."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    delays, slots = Delays(30.0, 3600.0, lambda: 0.5), TimeSlots(24, 3600, "UTC")
    scheduler = Scheduler(ReadyQueue(), delays, slots, 64, 20_000, 100, 64 << 20, 0.0, 1)
    scheduler.load(Waiting(number, number, number % 3) for number in range(1, providers + 1))
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    infos = [FetchInfo("http://site.example/", limits=Limits(priority=priority)) for priority in range(3)]
    gc.collect()
    out: deque[tuple[int, bytes]] = deque()
    done: list[tuple[bytes, int]] = []
    sent = 0
    cpu = 0.0
    while sent < rows:
        begin = time.process_time()
        scheduler.fill(ORDERS)
        cursors = scheduler.wants_read_ahead(64)
        cpu += time.process_time() - begin
        aheads = [Ahead(cursor.pid, rows_behind(cursor, urls)) for cursor in cursors]
        known = {cursor.pid: infos[cursor.pid % 3] for cursor in cursors}
        begin = time.process_time()
        scheduler.rows_read(cursors, aheads, known)
        while len(out) < ORDERS and (work := scheduler.take(NOW)) is not None:
            ((row, _),) = work.rows_out
            out.append((row.pid, row.key))
            sent += 1
        for _ in range(ORDERS // 2):
            if not out:
                break
            pid, key = out.popleft()
            scheduler.finished(pid, key, 0, 10_000, NOW)
            done.append((key, 1))
        if len(done) >= BATCH or not out:
            scheduler.recorded(done, NOTHING, NOW)
            done = []
        cpu += time.process_time() - begin
        if not out and not cursors and not scheduler.active_count:
            break
    return cpu / sent * 1e6, memory


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000, help="handed out in each run")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    lines = []
    medians = []
    for providers, urls in ((10, options.rows // 10), (100_000, 50)):
        measured = [run(providers, urls, options.rows) for _ in range(options.runs)]
        costs = [cost for cost, _ in measured]
        medians.append(sorted(costs)[len(costs) // 2])
        lines.append([f"{providers:,}", f"{urls:,}", spread(costs), f"{max(memory for _, memory in measured):.0f}"])
    print(table(["providers", "URLs each", "CPU µs a row", "MiB more at load"], lines))
    print(f"\nratio {medians[1] / medians[0]:.2f}")


if __name__ == "__main__":
    main()
