"""How long a page takes from being told to being cached, on an idle LCC.

``python benchmarks/latency.py [--urls 200] [--runs 5] [--sqlite]``: every role is a process of its own, nginx answers
on loopback; one provider connects, tells of one new page, hears ``set_accepted`` and hangs up; when a reader of
the database sees the page cached, the next one follows after a short pause.  Nobody else does this: there is no peer.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from common import argument_parser, nginx, scratch
from lcc_site import EVER_NEW, LccSite
from rows import Row, add_options, at_most, give
from whole_chain import database

WARM_UP = 20
PAUSE_SECONDS = 0.01


def percentile(values: list[float], part: float) -> float:
    """The value that this part of all does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def probed(site: LccSite, log: Path, first: int, count: int) -> list[tuple[float, float]]:
    """Tell of so many pages, one after the other, from this name on.

    :returns: milliseconds from the connect until ``set_accepted`` is heard and the provider has hung up, and from
        there to cached.
    """
    log.unlink(missing_ok=True)
    command = [sys.executable, Path(__file__).with_name("probe.py"), site.config, str(site.port), "1", "1"]
    subprocess.run([*command, str(PAUSE_SECONDS), log, str(count), str(first)], check=True)
    lines = [line.split() for line in log.read_text().splitlines()]
    if len(lines) != count or any(line[3] != "0" for line in lines):
        raise SystemExit(f"pages were rejected: {[line for line in lines if line[3] != '0'][:3]}")
    return [(float(line[1]), float(line[2])) for line in lines]


def main() -> None:
    """Measure, and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--urls", type=int, default=200, help="in each run")
    parser.add_argument("--sqlite", action="store_true", help="SQLite instead of MariaDB")
    add_options(parser)
    options = parser.parse_args()
    runs = []
    with (
        scratch() as work,
        nginx(work, work / "nginx", EVER_NEW) as port,
        database(work, options.sqlite) as fresh_url,
    ):
        site = LccSite(work / "lcc", fresh_url())
        site.add_providers({1: f"http://127.0.0.1:{port}/p1/"})
        try:
            site.start()
            probed(site, work / "log", 0, WARM_UP)
            for run in range(options.runs):
                first = WARM_UP + run * options.urls  # an update of a page is another thing than a new one
                runs.append(probed(site, work / "log", first, options.urls))
        finally:
            site.stop()
    on = "SQLite" if options.sqlite else "MariaDB"
    whole = [[told + fetched for told, fetched in each] for each in runs]
    after = [[fetched for _, fetched in each] for each in runs]
    suffix = " on SQLite" if options.sqlite else ""
    note = f"{options.urls} single new pages a run, {on}"
    give(
        options,
        [
            Row(
                f"notification to cached, p50{suffix}",
                "ms",
                [percentile(run, 0.5) for run in whole],
                goal=at_most(10),
                note=f"from the provider's connect; {note}",
            ),
            Row(
                f"notification to cached, p99{suffix}",
                "ms",
                [percentile(run, 0.99) for run in whole],
                goal=at_most(50),
            ),
            Row(f"hung up to cached, p50{suffix}", "ms", [percentile(run, 0.5) for run in after]),
            Row(f"hung up to cached, p99{suffix}", "ms", [percentile(run, 0.99) for run in after]),
        ],
    )


if __name__ == "__main__":
    main()
