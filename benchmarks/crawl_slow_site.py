"""What a site that answers after 20 s costs the others of a crawl.

``python benchmarks/crawl_slow_site.py [--pages 16000] [--sites 32] [--runs 5] [--seconds 20] [--interval 0]``

A whole LCC on a private MariaDB crawls sites on nginx and one more, in turns: each of whose pages takes so long (its
robots.txt does not), or which answers its only page at once.  The rate is that of the other sites' pages, until all
but a twentieth were read: the last ones are those of whichever site had the most to do.  The robot has a place
for each site, as where it is not the bottleneck: else the slow one takes one of the others' places for good, 3 % of
32.

With an interval between the fetches of a site the sites decide the rate, not the machine: that shows on a busy one,
too, whether anybody waits for the slow one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common import free_port, scratch
from crawl_sites import SETTINGS, CrawlingLcc, LinkedSites, linked_sites
from rows import Row, add_options, at_least, give

from lcc.testing.mariadb import PrivateMariaDb

SLOW_ADDRESS = "127.0.1.9"
SLOW_SERVER = """
import sys
from twisted.internet import reactor
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

SECONDS = float(sys.argv[3])

class Slow(Resource):
    isLeaf = True

    def render_GET(self, request):
        if request.path == b"/robots.txt":
            request.setResponseCode(404)
            return b""
        request.notifyFinish().addErrback(lambda _: timer.active() and timer.cancel())
        timer = reactor.callLater(SECONDS, self.answer, request)
        return NOT_DONE_YET

    def answer(self, request):
        request.setHeader(b"content-type", b"text/html")
        request.write(b"".join(b"<a href=/%d>more</a>" % each for each in range(200 if SECONDS else 0)))
        request.finish()

reactor.listenTCP(int(sys.argv[2]), Site(Slow()), interface=sys.argv[1])
reactor.run()
"""


@contextmanager
def slow_site(seconds: float) -> Iterator[str]:
    """Its root; with 0 seconds it has one page."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", SLOW_SERVER, SLOW_ADDRESS, str(port), str(seconds)])
    try:
        yield f"http://{SLOW_ADDRESS}:{port}/"
    finally:
        process.terminate()
        process.wait()


def crawl(folder: Path, server: PrivateMariaDb, sites: LinkedSites, slow: str, interval_seconds: float) -> float:
    """Pages a second of the sites.

    :param slow: the root of one more site.
    """
    settings = {
        "bot": {"concurrency": len(sites.roots) + 1},
        "watched": {**SETTINGS["watched"], "interval": interval_seconds},
    }
    lcc = CrawlingLcc(folder, server.new_database(), settings)
    try:
        lcc.start()
        time.sleep(3)
        os.sync()
        lcc.crawl([slow, *sites.roots])
        count = sites.count * 19 // 20
        first, early, ended = lcc.wait(count, but_of=slow)
        return (count - early) / (ended - first)
    finally:
        lcc.stop()


def main() -> None:
    """Take turns, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pages", type=int, default=16_000)
    parser.add_argument("--sites", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--interval", type=float, default=0.0, help="seconds between two fetches of a site")
    add_options(parser)
    options = parser.parse_args()
    rates: dict[str, list[float]] = {"slow": [], "quick": []}
    with (
        scratch() as work,
        linked_sites(work, options.sites, options.pages // options.sites) as sites,
        slow_site(options.seconds) as slow,
        slow_site(0.0) as quick,
        PrivateMariaDb(durable=True) as server,
    ):
        for run in range(options.runs):
            # Whoever comes first has no advantage over all runs.
            for which in ("slow", "quick") if run % 2 else ("quick", "slow"):
                rate = crawl(
                    work / f"{which}{run}", server, sites, slow if which == "slow" else quick, options.interval
                )
                rates[which].append(rate)
                print(f"run {run + 1}, {which}: {rate:.0f}/s", file=sys.stderr)
    name = f"crawl beside a site that answers after {options.seconds:g} s"
    give(
        options,
        [Row(name, "pages/s", rates["slow"], "the same, which answers at once", rates["quick"], at_least(0.95))],
    )


if __name__ == "__main__":
    main()
