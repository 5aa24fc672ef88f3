"""Many small sets: sessions of one page, and sets of one page over connections that stay open.

``python benchmarks/small_sets.py [--sessions 6000] [--sets 20000] [--providers 1000] [--at-once 48] [--runs 5]
[--sqlite]``

Real ``twistd lcc-uns`` and ``lcc-qm``, on a private MariaDB whose commits are synced, or on SQLite; no robot runs.
One process plays all providers (small_sets_provider.py), on the same cores.  A session connects, logs in, waits for
``init_accepted``, tells one new page, waits for ``set_accepted`` and leaves.  The rate is that of ``set_accepted``;
the CPU is that until the last page is in the queue, whose table is looked at in the end.  Both kinds take turns on
one LCC, after some that do not count.  Nobody else does this: there is no peer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
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

from lcc.testing.mariadb import PrivateMariaDb

WARM_UP = 300
QUEUED_SECONDS_MAX = 120.0
KINDS = {"sessions": ("sessions of one page", 1000, 1.3), "sets": ("sets of one page, open connections", 3000, 0.35)}
"""By kind: its name, and the goals: a second, and CPU milliseconds of UNS and queue manager."""


class SmallSets:
    """A UNS and a queue manager, and what was told so far.

    :param server: process id of the database server; None: SQLite.
    """

    def __init__(self, site: LccSite, providers: int, at_once: int, server: int | None) -> None:
        self._site = site
        self._providers = providers
        self._at_once = at_once
        self._server = server
        self._told = 0

    def run(self, kind: str, count: int) -> dict[str, Any]:
        """Tell so many pages, each in a session or a set of its own; CPU is in milliseconds for one."""
        site = self._site
        pids = {name: process.pid for name, process in site.processes.items()}
        if self._server is not None:
            pids["mariadbd"] = self._server
        before = {name: cpu_seconds_of(pid) for name, pid in pids.items()}
        command = [sys.executable, Path(__file__).with_name("small_sets_provider.py"), site.port, kind]
        command += [self._providers, self._at_once, count, self._told]
        said = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE).stdout
        found = json.loads(said)
        self._told += count
        self._wait_until_queued()
        cpu = {name: 1000 * (cpu_seconds_of(pid) - before[name]) / count for name, pid in pids.items()}
        times = found["times_ms"]
        return {
            "rate": count / (found["ended"] - found["begun"]),
            "cpu_ms": cpu | {"provider": 1000 * found["cpu_seconds"] / count},
            "p50_ms": times[len(times) // 2],
            "p99_ms": times[len(times) * 99 // 100],
        }

    def _wait_until_queued(self) -> None:
        end = time.monotonic() + QUEUED_SECONDS_MAX
        while (queued := self._site.queued()) < self._told:
            self._site.check()
            if time.monotonic() > end:
                raise SystemExit(f"only {queued} of {self._told} pages are queued after {QUEUED_SECONDS_MAX:.0f} s")
            time.sleep(0.02)

    def check(self) -> None:
        """See that the queue has each page once.

        :raises SystemExit: it has not.
        """
        rows = self._site.database.interact(lambda txn: txn.query("SELECT curl FROM qdb"))
        if len(rows) != self._told or len(set(rows)) != self._told:
            raise SystemExit(f"{len(rows)} rows are queued, {self._told} pages were told")


def measure(work: Path, url: str, server: int | None, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """One run on a new LCC."""
    site = LccSite(work, url, roles=("uns", "qm"))
    site.add_providers({pid: ROOT.format(pid=pid) for pid in range(1, options.providers + 1)})
    note_chores_done(url, site.home)
    try:
        site.start()
        small = SmallSets(site, options.providers, options.at_once, server)
        for kind in KINDS:
            small.run(kind, WARM_UP)
        found = {kind: small.run(kind, getattr(options, kind)) for kind in KINDS}
        small.check()
        return found
    finally:
        site.stop()


def report(runs: list[dict[str, dict[str, Any]]], where: str) -> None:
    """Print what each process has used."""
    for kind, (name, _, _) in KINDS.items():
        found = [run[kind] for run in runs]
        rows = [
            [role, f"{statistics.median(each['cpu_ms'][role] for each in found):.3f}"] for role in found[0]["cpu_ms"]
        ]
        rows += [[f"{part}, ms", f"{statistics.median(e[part] for e in found):.1f}"] for part in ("p50_ms", "p99_ms")]
        print(f"\n{name}, {where}:\n\n" + table(["who", "CPU ms"], rows))


def main() -> None:
    """Measure."""
    parser = argument_parser(__doc__)
    parser.add_argument("--sessions", type=int, default=6000)
    parser.add_argument("--sets", type=int, default=20_000)
    parser.add_argument("--providers", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=48, help="connections at any time")
    parser.add_argument("--sqlite", action="store_true", help="SQLite instead of MariaDB")
    add_options(parser)
    options = parser.parse_args()
    runs = []
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        server = None if options.sqlite else stack.enter_context(PrivateMariaDb(durable=True))
        for number in range(options.runs):
            url = "sqlite:lcc.db" if server is None else server.new_database()
            process = None if server is None else server.process
            runs.append(measure(folder / str(number), url, process.pid if process else None, options))
            print({kind: round(found["rate"]) for kind, found in runs[-1].items()}, file=sys.stderr)
    where = "SQLite" if options.sqlite else "MariaDB"
    report(runs, where)
    rows = []
    for kind, (name, per_second, cpu_ms) in KINDS.items():
        found = [run[kind] for run in runs]
        both = [each["cpu_ms"]["uns"] + each["cpu_ms"]["qm"] for each in found]
        note = f"{options.at_once} at once, {options.providers:,} providers"
        rates = [each["rate"] for each in found]
        goal = at_least(per_second, of_ratio=False)
        rows.append(Row(f"{name}, {where}", f"{kind}/s", rates, goal=goal, note=f"to set_accepted; {note}"))
        rows.append(Row(f"CPU of UNS and QM, {name}, {where}", "ms", both, goal=at_most(cpu_ms)))
    give(options, rows)


if __name__ == "__main__":
    main()
