"""Many sets of one page, of many providers, over one connection of a notifier.

``python benchmarks/notifier_sets.py [--sets 50000] [--providers 1000] [--runs 5] [--sqlite] [--without-qm]``

Real ``twistd lcc-uns`` and ``lcc-qm``, on a private MariaDB whose commits are synced, or on SQLite; no robot runs.
This process is the notifier, with :class:`lcc.roles.notifier.NotifierLink`, on the same cores.  Each set polls one
new page of the next provider.  The rate is that of the answers, which are durable; the CPU is that until the last one
is in the queue, whose table is looked at in the end.  ``--without-qm``: no queue manager is there, all sets are
secured in the spool; then one starts, and gets them.  Nobody else does this: there is no peer.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from common import argument_parser, cpu_seconds_of, scratch, table
from lcc_site import LccSite
from queue_fill import note_chores_done
from rows import Row, add_options, at_least, at_most, give
from small_sets_provider import ROOT
from twisted.internet.defer import Deferred
from twisted.internet.task import react

from lcc.model import Source
from lcc.model.notifiers import NoticeOutcome, SourcedSet
from lcc.roles.notifier import NotifierLink
from lcc.testing.mariadb import PrivateMariaDb
from lcc.transport.links import RetryPolicy, link_service

WARM_UP = 2000
QUEUED_SECONDS_MAX = 300.0
RATE_GOAL = 5000
CPU_GOAL_MS = 0.3


class Teller:
    """Tells sets as fast as the link takes them."""

    def __init__(self, clock: Any, home: Path, providers: int) -> None:
        policy = RetryPolicy(lambda: 0.5)
        self.link = NotifierLink("scheduler", "bench", "e1", "run", clock, policy.good_hello)
        self.service = link_service(clock, f"unix:{home}/notify-scheduler.sock", self.link.factory(), policy)
        self.service.startService()
        self._providers = providers
        self._told = self._answered = 0
        self._done: Deferred[None] = Deferred()

    async def tell(self, count: int) -> None:
        """Tell so many sets; returns when all are answered."""
        self._done = Deferred()
        last = self._told + count
        while self._told < last:
            await self.link.wait_for_room()
            while self._told < last and self.link.has_room:
                self._tell_one()
        if self._answered < self._told:
            await self._done

    def _tell_one(self) -> None:
        self._told += 1
        page, pid = self._told, self._told % self._providers + 1
        url = {"c": f"{ROOT.format(pid=pid)}section{page % 97}/page-{page}.html"}
        self.link.tell(SourcedSet(page, pid, Source.POLLED, (url,))).addCallback(self._outcome)

    def _outcome(self, outcome: NoticeOutcome) -> None:
        if outcome.code or outcome.refused:
            raise SystemExit(f"a set was answered with {outcome}")
        self._answered += 1
        if self._answered == self._told and not self._done.called:
            self._done.callback(None)

    @property
    def told(self) -> int:
        """Sets so far."""
        return self._told


async def measure(
    clock: Any, work: Path, url: str, server: int | None, options: argparse.Namespace
) -> dict[str, Any]:
    """One run on a new LCC."""
    site = LccSite(work, url, roles=("uns",) if options.without_qm else ("uns", "qm"))
    site.add_providers({pid: ROOT.format(pid=pid) for pid in range(1, options.providers + 1)})
    note_chores_done(url, site.home)
    teller = None
    try:
        site.start()
        teller = Teller(clock, site.home, options.providers)
        await teller.tell(WARM_UP)
        if not options.without_qm:
            await _wait_until_queued(clock, site, teller.told)
        pids = {name: process.pid for name, process in site.processes.items()}
        if server is not None:
            pids["mariadbd"] = server
        pids["notifier"] = os.getpid()
        before = {name: cpu_seconds_of(pid) for name, pid in pids.items()}
        begun = time.monotonic()
        await teller.tell(options.sets)
        ended = time.monotonic()
        if not options.without_qm:
            await _wait_until_queued(clock, site, teller.told)
        cpu = {name: 1000 * (cpu_seconds_of(pid) - before[name]) / options.sets for name, pid in pids.items()}
        drained = 0.0
        if options.without_qm:
            begun_qm = time.monotonic()
            site.start_role("qm")
            await _wait_until_queued(clock, site, teller.told)
            drained = teller.told / (time.monotonic() - begun_qm)
        _check(site, teller.told)
        return {"rate": options.sets / (ended - begun), "cpu_ms": cpu, "drained": drained}
    finally:
        if teller is not None:
            teller.link.close()
            await teller.service.stopService()
        site.stop()


async def _wait_until_queued(clock: Any, site: LccSite, told: int) -> None:
    end = time.monotonic() + QUEUED_SECONDS_MAX
    while (queued := site.queued()) < told:
        site.check()
        if time.monotonic() > end:
            raise SystemExit(f"only {queued} of {told} pages are queued after {QUEUED_SECONDS_MAX:.0f} s")
        waited: Deferred[None] = Deferred()
        clock.callLater(0.05, waited.callback, None)
        await waited


def _check(site: LccSite, told: int) -> None:
    """See that the queue has each page once.

    :raises SystemExit: it has not.
    """
    rows = site.database.interact(lambda txn: txn.query("SELECT curl FROM qdb"))
    if len(rows) != told or len(set(rows)) != told:
        raise SystemExit(f"{len(rows)} rows are queued, {told} pages were told")


async def run(clock: Any, options: argparse.Namespace) -> None:
    """All runs."""
    runs = []
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        server = None if options.sqlite else stack.enter_context(PrivateMariaDb(durable=True))
        for number in range(options.runs):
            url = "sqlite:lcc.db" if server is None else server.new_database()
            process = None if server is None else server.process
            runs.append(await measure(clock, folder / str(number), url, process.pid if process else None, options))
            print(round(runs[-1]["rate"]), {n: round(c, 3) for n, c in runs[-1]["cpu_ms"].items()}, file=sys.stderr)
    where = "SQLite" if options.sqlite else "MariaDB"
    what = "sets of one page of a notifier" + (", without a queue manager" if options.without_qm else "")
    roles = runs[0]["cpu_ms"]
    lines = [[role, f"{statistics.median(each['cpu_ms'][role] for each in runs):.3f}"] for role in roles]
    print(f"\n{what}, {where}:\n\n" + table(["who", "CPU ms"], lines))
    both = [sum(each["cpu_ms"].get(role, 0.0) for role in ("uns", "qm")) for each in runs]
    note = f"one connection, {options.providers:,} providers"
    give(
        options,
        [
            Row(
                f"{what}, {where}",
                "sets/s",
                [each["rate"] for each in runs],
                goal=at_least(RATE_GOAL, of_ratio=False),
                note=f"to accepted; {note}",
            ),
            Row(f"CPU of UNS and QM, {what}, {where}", "ms", both, goal=at_most(CPU_GOAL_MS)),
        ],
    )


def main() -> None:
    """Measure."""
    parser = argument_parser(__doc__)
    parser.add_argument("--sets", type=int, default=50_000)
    parser.add_argument("--providers", type=int, default=1000)
    parser.add_argument("--sqlite", action="store_true", help="SQLite instead of MariaDB")
    parser.add_argument("--without-qm", action="store_true", help="secure all sets in the spool, then start one")
    add_options(parser)
    options = parser.parse_args()
    react(lambda clock: Deferred.fromCoroutine(run(clock, options)))


if __name__ == "__main__":
    main()
