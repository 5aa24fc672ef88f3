"""Half of the measured rate for a long time, ten times that for two minutes, and what came of it.

``PYTHONPATH=benchmarks python -m soak --minutes 20 [--sqlite]`` (``make soak MINUTES=20``; --slice 30 is one of
seconds, for a test).  Every role is a process of its own; nginx answers each fetch with another page.  First the
rate is measured: some thousand pages, told at once, and again when they have changed.  Then 32 providers tell, each
of them once a second, of half as many pages; four more tell of single pages, 20 a second, whose way to the cache is
timed.  Then all tell ten times as much, far over what can be fetched: the limits of the queue and the spool, which
are set low, are reached.  When they have ended the backlog has to drain; then half the rate again for a minute.

Prints a verdict for each promise, with its limit; exit code 1: one of them was not kept.  Writes build/soak.svg, .md
and .json; ``--judge build/soak.json`` gives the verdict of such a file anew.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import attrs
from common import argument_parser, nginx, scratch, table
from lcc_site import EVER_NEW, LccSite
from plot import draw
from queue_fill import opened
from suite.versions import commit, machine
from whole_chain import database

from soak.facts import Counted, Facts, Times, answers, peaks, reasons
from soak.finding import Finding
from soak.losses import accepted_last, left_over
from soak.picture import spec
from soak.plan import HERE, PROBE_SECONDS, PROBES, PROVIDERS, WINDOW_SECONDS, Plan
from soak.rate import measured_rate
from soak.samples import ACCEPTED, NEVER_CACHED, Sampler, read_probes, read_sent, windows
from soak.verdict import judge

BUILD = HERE.parent / "build"
DRAIN_SECONDS_MAX = 3600.0
SETTLE_SECONDS_MAX = 60.0
COUNTED = "SELECT (SELECT value FROM counters WHERE name = 'change'), (SELECT COUNT(*) FROM qdb WHERE operation = 1)"
"""In one statement, so that both are of one moment."""


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

    def run(self) -> Facts:
        """All parts."""
        plan, half = self._plan, self._rate / 2
        begun, changes = time.time(), self._site.changes()
        with Sampler(self._site) as sampler:
            with self._probes():
                self._part(sampler, f"half the rate, {half:.0f} pages/s", half, plan.minutes * 60)
            steady = time.time()
            counted = self._counted(changes)
            settled = time.time()
            with self._probes():
                self._part(sampler, f"ten times as much, {10 * half:.0f} pages/s", 10 * half, plan.overload_seconds)
                over = time.time()
                backlog, fetched = sampler.last().queued, sampler.last().changes
                self._drain(sampler)
                drained = time.time()
                # What the spool held has passed the queue, too: all that was fetched since then was backlog.
                backlog = max(backlog, sampler.last().changes - fetched)
                left = left_over(accepted_last(read_sent(self._sent), self._pages), *self._left())
                self._part(sampler, "half the rate again", half, plan.calm_seconds)
                calm = time.time()
            sampler.last()
        sent, probes = read_sent(self._sent), read_probes(self._probed)
        times = Times(*(moment - begun for moment in (steady, settled, over, drained, calm)))
        seconds = min(WINDOW_SECONDS, plan.minutes * 60 / 8)
        return Facts(
            self._rate,
            times,
            windows(sampler.samples, probes, sent, begun, seconds),
            answers(each for each in sent if times.judged_part(each.time - begun)),
            answers(each for each in probes if times.judged_part(each.time - begun)),
            answers(each for each in sent if settled <= each.time < over),
            reasons([each for each in sampler.samples if settled <= each.time <= over]),
            peaks(each for each in sampler.samples if each.time >= settled),
            counted,
            backlog,
            attrs.evolve(left, single_missing=sum(each.code == NEVER_CACHED for each in probes)),
        )

    @contextmanager
    def _probes(self) -> Iterator[None]:
        """Single pages are told meanwhile; afterwards all of them are cached, and in the log."""
        command = [sys.executable, "-m", "soak.probing", self._site.config, self._site.port, PROVIDERS + 1, PROBES]
        with subprocess.Popen(
            [str(each) for each in [*command, PROBE_SECONDS, self._probed]], stdin=subprocess.PIPE
        ) as probe:
            try:
                yield
                if probe.poll() is not None:
                    raise SystemExit("the probes ended")
            except BaseException:
                probe.kill()
                raise
            # Leaving ends its input, and waits for it.
        if probe.returncode:
            raise SystemExit("the probes failed")

    def _counted(self, before: int) -> Counted:
        """What was told and what came of it, when that has settled: nothing is told now."""
        told = sum(each.count for each in read_sent(self._sent) if each.code == ACCEPTED)
        single = sum(each.code == ACCEPTED for each in read_probes(self._probed))
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        database = opened(self._site.url, self._site.home)  # the other connection is the sampler's
        while True:
            changes, queued = database.interact(lambda txn: txn.query(COUNTED))[0]
            found = Counted(told, single, int(changes) - before, int(queued))
            # A set that was accepted may not have reached the queue yet.
            if (found.changes >= told + single and not found.queued) or time.monotonic() > deadline:
                database.close()
                return found
            time.sleep(0.2)

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


def main() -> None:
    """Run it; exit code 1: a promise was not kept."""
    parser = argument_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--slice", type=float, metavar="SECONDS", help="a short one, for a test")
    parser.add_argument("--rate", type=float, help="do not measure the rate, take this one")
    parser.add_argument("--sqlite", action="store_true", help="SQLite instead of MariaDB")
    parser.add_argument("--out", type=Path, default=BUILD, help="folder for the picture and the figures")
    parser.add_argument("--judge", type=Path, metavar="FILE", help="judge what a soak has kept (build/soak.json)")
    options = parser.parse_args()
    if options.judge:
        end(judge(Facts.load(options.judge)))
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
            facts = soak.run()
        finally:
            site.stop()
    findings = judge(facts)
    report(facts, findings, plan, options.out)
    end(findings)


def end(findings: Sequence[Finding]) -> NoReturn:
    """Print the verdict; it is the exit code."""
    for finding in findings:
        print(finding.line())
    sys.exit(0 if all(finding.kept for finding in findings) else 1)


def report(facts: Facts, findings: Sequence[Finding], plan: Plan, out: Path) -> None:
    """Keep the verdict and the figures, draw the picture."""
    out.mkdir(parents=True, exist_ok=True)
    facts.save(out / "soak.json", plan=attrs.asdict(plan), findings=[attrs.asdict(each) for each in findings])
    times, rate = facts.times, facts.rate
    spans = [
        {"from": times.settled / 60, "to": times.overload / 60, "name": "ten times as much"},
        {"from": times.overload / 60, "to": times.drained / 60, "name": "drains"},
    ]
    draw(spec(facts.windows, spans, f"{plan.minutes:.3g} minutes at half of {rate:.0f} pages/s"), out / "soak.svg")
    title = f"{plan.minutes:g} minutes at {rate / 2:.0f} pages/s, half of {rate:.0f} (commit {commit()}; {machine()})"
    cells = [[each.what, "yes" if each.kept else "**no**", each.figures, each.limit] for each in findings]
    (out / "soak.md").write_text(f"{title}:\n\n{table(['promise', 'kept', 'figures', 'limit'], cells)}\n")


if __name__ == "__main__":
    main()
