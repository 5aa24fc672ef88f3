"""Half of the measured rate for a long time, ten times that for two minutes, and what came of it.

``PYTHONPATH=benchmarks python -m soak --minutes 20 [--sqlite]`` (``make soak MINUTES=20``; --slice 30 is one of
seconds, for a test).  Every role is a process of its own; nginx answers each fetch with another page.  First the
rate is measured: some thousand pages, told at once, and again when they have changed.  Then 32 providers tell, each
of them once a second, of half as many pages; four more tell of single pages, 20 a second, whose way to the cache is
timed.  Then all tell ten times as much, far over what can be fetched: the limits of the queue and the spool, which
are set low, are reached.  When they have ended the backlog has to drain; then half the rate again for a minute.

Prints a verdict for each promise; exit code 1: one of them was not kept.  Writes build/soak.svg, .md and
.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import attrs
from common import nginx, scratch, table
from lcc_site import EVER_NEW, LccSite
from plot import draw
from queue_fill import opened
from suite.versions import commit, machine
from whole_chain import database

from soak.picture import spec
from soak.plan import PROBE_SECONDS, PROBES, PROVIDERS, WINDOW_SECONDS, Plan
from soak.samples import Sampler, Window, read_probes, read_sent, windows
from soak.verdict import (
    Finding,
    accepted_last,
    bounded_memory,
    drained,
    flat_latency,
    flat_memory,
    keeps_up,
    nothing_lost,
    overload_seen,
)

HERE = Path(__file__).parent.parent
BUILD = HERE.parent / "build"
DRAIN_SECONDS_MAX = 3600.0


class Soak:
    """One soak on one LCC that is already running.

    :param web: URL of nginx, with a slash at its end.
    """

    def __init__(self, site: LccSite, web: str, work: Path, plan: Plan, rate: float) -> None:
        self._site = site
        self._web = web
        self._work = work
        self._plan = plan
        self._rate = rate
        self._pages = plan.window_pages(rate)
        self._sent = work / "sent"
        self._probed = work / "probed"
        self.findings: list[Finding] = []
        self.windows: list[Window] = []
        self.spans: list[tuple[float, float, str]] = []

    def run(self) -> None:
        """All parts."""
        plan, half = self._plan, self._rate / 2
        command = [sys.executable, HERE / "probe.py", self._site.config, self._site.port, PROVIDERS + 1, PROBES]
        probe = subprocess.Popen([str(each) for each in [*command, PROBE_SECONDS, self._probed]])
        begun = time.time()
        try:
            with Sampler(self._site) as sampler:
                self._part(sampler, f"half the rate, {half:.0f} pages/s", half, plan.minutes * 60)
                steady = time.time()
                self._part(sampler, f"ten times as much, {10 * half:.0f} pages/s", 10 * half, plan.overload_seconds)
                over = time.time()
                backlog, fetched = sampler.last().queued, sampler.last().changes
                self._drain(sampler)
                gone = time.time()
                # What the spool held has passed the queue, too: all that was fetched since then was backlog.
                backlog = max(backlog, sampler.last().changes - fetched)
                told = accepted_last(read_sent(self._sent), self._pages)
                lost = nothing_lost(told, *self._left())
                self._part(sampler, "half the rate again", half, plan.calm_seconds)
                calm = time.time()
                sampler.last()
            if probe.poll() is not None:
                raise SystemExit("the probes ended")
        finally:
            probe.terminate()
            probe.wait()
        seconds = min(WINDOW_SECONDS, plan.minutes * 60 / 8)
        self.windows = windows(sampler.samples, read_probes(self._probed), begun, seconds)
        during = [window for window in self.windows if window.time < steady - begun]
        after = [window for window in self.windows if gone - begun < window.time < calm - begun]
        overloaded = [each for each in sampler.samples if steady <= each.time <= over]
        sent = [each for each in read_sent(self._sent) if steady <= each.time < over]
        self.spans = [(steady - begun, over - begun, "ten times as much"), (over - begun, gone - begun, "drains")]
        self.findings = [
            keeps_up(during, half),
            flat_memory(during),
            flat_latency(during),
            overload_seen(overloaded, sent),
            bounded_memory([each for each in sampler.samples if each.time >= steady]),
            drained(gone - over, backlog, self._rate),
            lost,
            flat_latency(during, after),
        ]

    def _part(self, sampler: Sampler, name: str, rate: float, seconds: float) -> None:
        print(f"{name}, {seconds:.0f} s …", file=sys.stderr)
        load = subprocess.Popen(
            [
                *(sys.executable, HERE / "load.py", str(self._site.port), self._web, str(PROVIDERS)),
                *(str(rate), str(seconds), str(self._pages), str(self._sent)),
            ]
        )
        shown = time.monotonic()
        while load.poll() is None:
            time.sleep(0.2)
            last = sampler.last()
            if time.monotonic() - shown > 60:
                shown = time.monotonic()
                sizes = ", ".join(f"{role} {size:.0f} MB" for role, size in last.resident_mb.items())
                print(f"  {last.queued} queued; {sizes}", file=sys.stderr)
        if load.returncode:
            raise SystemExit("the load failed")

    def _drain(self, sampler: Sampler) -> None:
        """Wait until the queue and the spool are empty, but for single pages."""
        print("the backlog drains …", file=sys.stderr)
        deadline = time.monotonic() + DRAIN_SECONDS_MAX
        spool = self._site.home / "spool"
        empty = 0
        while empty < 3:
            if time.monotonic() > deadline:
                raise SystemExit("the backlog does not drain")
            time.sleep(1)
            spooled = sum(1 for path in spool.rglob("*") if path.is_file() and path.stat().st_size > 4096)
            small = sampler.last().queued <= PROBES * 20 and not sampler.last().overload
            empty = empty + 1 if small and not spooled else 0

    def _left(self) -> tuple[dict[tuple[int, int], int], int, int]:
        """Of the providers of the load: when each page was fetched last; URLs in the queue; errors."""
        found = {}
        sql = "SELECT curl, fetched_time FROM lccurl WHERE pid = ? AND state = 1"
        database = opened(self._site.url, self._site.home)  # the other connection is the sampler's
        for pid in range(1, PROVIDERS + 1):
            for curl, fetched in database.interact(lambda txn, pid=pid: txn.query(sql, [pid])):
                found[pid, int(curl.rpartition("/")[2].removesuffix(".html"))] = int(fetched)
        sql = "SELECT SUM(nurlproc), SUM(errseq) FROM pstats WHERE pid <= ?"
        queued, errors = database.interact(lambda txn: txn.query(sql, [PROVIDERS]))[0]
        database.close()
        return found, int(queued or 0), int(errors or 0)


def measured_rate(folder: Path, database_url: str | None, web: str, pages: int) -> float:
    """Pages a second that this machine does, on an LCC of its own: all of them once, then all of them changed, which
    counts.  A page that is replaced costs more than a new one: its old file is to be removed."""
    site = LccSite(folder, database_url, {"qm": {"delete_grace": 1}})
    site.add_providers({pid: f"{web}p{pid}/" for pid in range(1, PROVIDERS + 1)})
    try:
        site.start()
        _fetched_in(site, folder / "sent-new", web, pages)
        seconds, fetched = _fetched_in(site, folder / "sent-changed", web, pages)
        return fetched / seconds
    finally:
        site.stop()


def _fetched_in(site: LccSite, sent: Path, web: str, pages: int) -> tuple[float, int]:
    """Tell of so many pages at once; the seconds until all are fetched, and how many they are."""
    begun, before = time.monotonic(), site.changes()
    load = [sys.executable, HERE / "load.py", str(site.port), web, str(PROVIDERS), str(pages), "1", str(pages)]
    subprocess.run([*load, sent], check=True)
    total = sum(each.count for each in read_sent(sent) if each.code == 0)
    while site.changes() < before + total:
        if time.monotonic() - begun > 600:
            raise SystemExit(f"only {site.changes() - before} of {total} pages in 600 s")
        time.sleep(0.05)
    return time.monotonic() - begun, total


def main() -> None:
    """Run it; exit code 1: a promise was not kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--slice", type=float, metavar="SECONDS", help="a short one, for a test")
    parser.add_argument("--rate", type=float, help="do not measure the rate, take this one")
    parser.add_argument("--sqlite", action="store_true", help="SQLite instead of MariaDB")
    parser.add_argument("--out", type=Path, default=BUILD, help="folder for the picture and the figures")
    options = parser.parse_args()
    plan = Plan.slice(options.slice) if options.slice else Plan(options.minutes)
    with (
        scratch() as work,
        nginx(work, work / "nginx", EVER_NEW) as port,
        database(work, options.sqlite) as fresh_url,
    ):
        web = f"http://127.0.0.1:{port}/"
        rate = options.rate or measured_rate(work / "measured", fresh_url(), web, plan.pages)
        print(f"measured: {rate:.0f} pages/s", file=sys.stderr)
        site = LccSite(work / "lcc", fresh_url(), plan.settings(rate))
        site.add_providers({pid: f"{web}p{pid}/" for pid in range(1, PROVIDERS + PROBES + 1)})
        try:
            site.start()
            soak = Soak(site, web, work, plan, rate)
            soak.run()
        finally:
            site.stop()
    report(soak, rate, plan, options.out)
    sys.exit(0 if all(finding.kept for finding in soak.findings) else 1)


def report(soak: Soak, rate: float, plan: Plan, out: Path) -> None:
    """Print the verdict, keep it with the figures, draw the picture."""
    out.mkdir(parents=True, exist_ok=True)
    kept = {
        "rate": rate,
        "plan": attrs.asdict(plan),
        "findings": [attrs.asdict(finding) for finding in soak.findings],
        "windows": [attrs.asdict(window) for window in soak.windows],
    }
    (out / "soak.json").write_text(json.dumps(kept, indent=1))
    spans = [{"from": first / 60, "to": last / 60, "name": name} for first, last, name in soak.spans]
    draw(spec(soak.windows, spans, f"{plan.minutes:.3g} minutes at half of {rate:.0f} pages/s"), out / "soak.svg")
    title = f"{plan.minutes:g} minutes at {rate / 2:.0f} pages/s, half of {rate:.0f} (commit {commit()}; {machine()})"
    cells = [[each.what, "yes" if each.kept else "**no**", each.figures] for each in soak.findings]
    (out / "soak.md").write_text(f"{title}:\n\n{table(['promise', 'kept', 'figures'], cells)}\n")
    for finding in soak.findings:
        print(finding.line())


if __name__ == "__main__":
    main()
