"""How long a page takes from being told to being found, on an idle LCC with a search server.

    make bench-search_latency [ARGS="--pages 30 --sqlite"]

Every role is a process of its own, nginx answers on loopback.  A provider connects, tells of one new page, hears
``set_accepted`` and hangs up; then somebody searches for a word that only this page has, again and again, until it is
found.  The next page follows after a pause of random length, so that no timer of a role is met at the same place each
time.  Nobody else does this: there is no peer.
"""

from __future__ import annotations

import argparse
import http.client
import json
import time
from random import Random
from typing import Any

from common import free_port, nginx, scratch
from latency import percentile
from lcc_site import PASSWORD, LccSite
from rows import Row, add_options, at_most, give
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater, react
from twisted.internet.threads import deferToThread
from whole_chain import database

from lcc.provider.client import submit, uns_endpoint

WARM_UP = 3
LOOK_SECONDS = 0.005
PAGE_SECONDS_MAX = 60.0
PAGES = 'default_type text/html; location / { return 200 "<title>A page</title><p>All of $uri is here"; }'
"""The text has the words of the URL's path."""


class Searcher:
    """Asks the search server, over one connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)

    def finds(self, word: str) -> bool:
        """Whether one page has it."""
        try:
            self._connection.request("GET", f"/search?q={word}&format=json")
            return bool(json.load(self._connection.getresponse())["total"] == 1)
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return False

    def wait_for(self, word: str) -> None:
        """Until it does."""
        until = time.monotonic() + PAGE_SECONDS_MAX
        while not self.finds(word):
            if time.monotonic() > until:
                raise SystemExit(f"{word} is not found after {PAGE_SECONDS_MAX:g} s")
            time.sleep(LOOK_SECONDS)


async def probe(_reactor: Any, site: LccSite, root: str, searcher: Searcher, count: int, taken: list[float]) -> None:
    """Tell of so many pages, one after the other; what each has taken, in milliseconds, comes into ``taken``."""
    endpoint = uns_endpoint(reactor, f"127.0.0.1:{site.port}")
    chance = Random(1)
    for number in range(count):
        await deferLater(reactor, chance.uniform(0.5, 2.0))  # type: ignore[arg-type]  # a module, to mypy
        word = f"page{number}x{chance.randrange(1 << 30)}"
        begun = time.monotonic()
        answer = await submit(reactor, endpoint, 1, PASSWORD, [{"c": f"{root}{word}.html", "m": "text/html"}])
        if not answer.accepted:
            raise SystemExit(f"{word} was rejected: {answer.code}")
        await deferToThread(searcher.wait_for, word)
        taken.append(1000 * (time.monotonic() - begun))


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--pages", type=int, default=30, help="in each run")
    parser.add_argument("--sqlite", action="store_true", help="SQLite instead of MariaDB")
    add_options(parser)
    options = parser.parse_args()
    taken: list[float] = []
    with (
        scratch() as work,
        nginx(work, work / "nginx", PAGES) as port,
        database(work, options.sqlite) as fresh_url,
    ):
        root, search_port = f"http://127.0.0.1:{port}/p1/", free_port()
        search = {"listen": f"tcp:{search_port}:interface=127.0.0.1", "open": True}
        roles = ("uns", "qm", "botm", "bot", "cu", "search")
        site = LccSite(work / "lcc", fresh_url(), {"search": search}, roles=roles)
        site.add_providers({1: root})
        try:
            site.start()
            count = WARM_UP + options.pages * options.runs
            searcher = Searcher(search_port)
            react(lambda *arguments: Deferred.fromCoroutine(probe(*arguments)), (site, root, searcher, count, taken))
        except SystemExit as end:
            if end.code:
                raise
        finally:
            site.stop()
    if len(taken) != count:
        raise SystemExit("not all pages were found")
    runs = [taken[first : first + options.pages] for first in range(WARM_UP, count, options.pages)]
    suffix = " on SQLite" if options.sqlite else ""
    note = f"{options.pages} single new pages a run, {'SQLite' if options.sqlite else 'MariaDB'}"
    rows = [
        Row(
            f"notification to found, p50{suffix}",
            "ms",
            [percentile(run, 0.5) for run in runs],
            goal=at_most(1000),
            note=f"from the provider's connect; {note}",
        ),
        Row(f"notification to found, p90{suffix}", "ms", [percentile(run, 0.9) for run in runs]),
        Row(f"notification to found, longest{suffix}", "ms", [max(run) for run in runs]),
    ]
    give(options, rows)


if __name__ == "__main__":
    main()
