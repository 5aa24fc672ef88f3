"""Sites that link to each other on nginx, and a whole LCC that crawls them: what the crawls' benchmarks share."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import md5
from pathlib import Path
from random import Random
from typing import Any

from common import cpu_seconds_of, nginx
from lcc_site import BIN, LccSite
from linked_pages import linked_page, linked_site

from lcc.config import load_config
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import SPIDER
from lcc.storage.database.place import place_of

ROLES = ("uns", "qm", "botm", "bot", "cu", "scheduler", "spider")
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "watched": {"interval": 0, "bandwidth_bytes": 0, "files_max": 0, "space_max_bytes": 0},
}
"""As polite as Scrapy is here: one fetch of a site at a time, without a pause."""
CRAWL = "sites"
SECONDS_MAX = 1200.0
_LOOK_SECONDS = 0.05
_FIRST_ADDRESS = 10


def addresses(sites: int) -> list[str]:
    """Of loopback, one for each site."""
    return [f"127.0.1.{_FIRST_ADDRESS + site}" for site in range(sites)]


class LinkedSites:
    """Pages in files, each site on an address of its own.

    :param folder: for the files; it is made.
    :ivar roots: of the sites.
    :ivar count: of all pages.
    """

    def __init__(self, folder: Path, port: int, sites: int, pages: int, page_bytes: int, links: int) -> None:
        self.roots = [f"http://{address}:{port}/" for address in addresses(sites)]
        self.count = sites * pages
        self._digests: dict[str, str] = {}
        for site, root in enumerate(self.roots):
            for number in range(20):
                (folder / addresses(sites)[site] / f"d{number}").mkdir(parents=True)
            for path, targets in linked_site(site, self.roots, pages, links):
                body = linked_page(len(self._digests), page_bytes, targets)
                (folder / addresses(sites)[site] / (path or "index.html")).write_bytes(body)
                self._digests[root + path] = md5(body, usedforsecurity=False).hexdigest()

    def check(self, found: Mapping[str, str]) -> None:
        """See that these are the pages.

        :param found: md5 by URL.
        :raises SystemExit: they are not.
        """
        wrong = [url for url, digest in self._digests.items() if found.get(url) != digest]
        if wrong or len(found) != len(self._digests):
            raise SystemExit(f"{len(wrong)} of {self.count} pages are not what their files are, such as {wrong[:3]}")


@contextmanager
def linked_sites(
    work: Path, sites: int, pages: int, page_bytes: int = 10_240, links: int = 20
) -> Iterator[LinkedSites]:
    """nginx with these sites."""
    folder = work / "www"
    folder.mkdir()
    with nginx(folder / "$server_addr", work / "nginx", addresses=addresses(sites)) as port:
        yield LinkedSites(folder, port, sites, pages, page_bytes, links)


class CrawlingLcc:
    """A whole LCC, every role a process of its own, for one crawl.

    :param database_url: None: SQLite.
    :param settings: more settings, by table.
    :ivar frontier: the database of the spider's tables.
    """

    def __init__(
        self, folder: Path, database_url: str | None, settings: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        self.site = LccSite(folder, database_url, {**SETTINGS, **(settings or {})}, roles=ROLES)
        config = load_config(self.site.config)
        place = place_of(config, SPIDER)
        self.frontier = BlockingDatabase(
            place.url, place.home, config.database, random=Random(1), series=place.series
        )

    def start(self) -> None:
        """Start all roles."""
        self.site.start()

    def stop(self) -> None:
        """End all of them."""
        self.frontier.close()
        self.site.stop()

    def crawl(self, starts: Sequence[str]) -> None:
        """Order a crawl of all that these lead to, on loopback."""
        options = [option for start in starts for option in ("--start", start)]
        scope = ["--restrict-to", r"http://127\.0\.1\.\d+:", "--allow-private"]
        command = [BIN / "lcc-admin", "--config", self.site.config, "spider", "add", CRAWL, *options, *scope]
        subprocess.run(command, check=True, capture_output=True)

    def read(self, but_of: str = "") -> int:
        """Pages that the spider has read.

        :param but_of: those of the site with this root do not count.
        """
        if but_of:
            sql = "SELECT SUM(cached) FROM sphost WHERE root <> ?"
            return int(self.frontier.interact(lambda txn: txn.value(sql, [but_of])) or 0)
        sql = "SELECT SUM(value) FROM spcount WHERE name = 'cached'"
        return int(self.frontier.interact(lambda txn: txn.value(sql)) or 0)

    def wait(self, count: int, but_of: str = "") -> tuple[float, int, float]:
        """Until so many pages were read; gives when the first ones were, how many these are, when the last was.

        :param but_of: as :meth:`read`.
        """
        begun = time.monotonic()
        first = None
        while (done := self.read(but_of)) < count:
            if first is None and done:
                first = time.monotonic(), done
            if time.monotonic() - begun > SECONDS_MAX:
                raise SystemExit(f"only {done} of {count} pages were read after {SECONDS_MAX:.0f} s")
            self.site.check()
            time.sleep(_LOOK_SECONDS)
        ended = time.monotonic()
        return *(first or (begun, 0)), ended

    def cpu_seconds(self) -> dict[str, float]:
        """So far, by role; ``extraction``: of the spider's processes."""
        used = self.site.cpu_seconds()
        used["extraction"] = sum(map(cpu_seconds_of, children_of(self.site.processes["spider"].pid)))
        return used

    def pages(self) -> dict[str, str]:
        """md5 of the pages that are cached, by URL."""
        sql = "SELECT curl, md5 FROM lccurl WHERE state = 1 AND curl NOT LIKE '%/robots.txt'"
        return dict(self.site.database.interact(lambda txn: txn.query(sql)))

    def status(self) -> dict[str, Any]:
        """What ``lcc-admin spider status`` says."""
        command = [BIN / "lcc-admin", "--config", self.site.config, "spider", "status", CRAWL, "--json"]
        return dict(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))


def children_of(pid: int) -> list[int]:
    """Processes that a process has started, and that still run."""
    return [
        int(child) for tasks in Path(f"/proc/{pid}/task").glob("*/children") for child in tasks.read_text().split()
    ]
