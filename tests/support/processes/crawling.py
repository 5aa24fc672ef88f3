"""An LCC made of real processes that crawls generated sites on nginx, and what must be there in the end."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lcc.config import load_config
from lcc.model.spider.crawls import CrawlSettings, CrawlStatus
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import SPIDER
from lcc.storage.database.place import place_of
from lcc.storage.spider.orders import CRAWL_ADD, ORDERS, add_body
from lcc.storage.spider.views import crawl_status
from tests.support.processes.system import System
from tests.support.servers.linked_sites import LinkedSites, SiteServer, is_trap

SPIDER_SETTINGS = 'stores = ["links"]\ntold_wait = 3.0\nlease = 10.0\n'
SETTINGS = """
[qm]
lease = 10
retry_initial = 0.5
[watched]
interval = 0
bandwidth_bytes = 0
[manager]
user = "root"
"""
CRAWL = "all"
"""Its name."""


class CrawlingSystem(System):
    """:class:`System` with further spiders, each with a home of its own.

    :ivar files: a folder that robots may read.
    """

    def __init__(
        self, folder: Path, database_url: str | None, spiders: int, spider_settings: str, tables: str = SETTINGS
    ) -> None:
        self.files = folder / "files"
        extra = f'file_folders = ["{self.files}"]\n{tables}[spider]\n{spider_settings}'
        super().__init__(folder, None, database_url, extra=extra)
        self.spiders = ["spider", *(f"spider{number}" for number in range(2, spiders + 1))]
        text = self.config.read_text()
        for name in self.spiders[1:]:
            self.config_of(name).write_text(self.another(text.replace('home = "home"', f'home = "{name}"'), name))

    def another(self, text: str, name: str) -> str:
        """The configuration of a further spider.

        :param text: of the first one, with this one's home.
        """
        home = f"unix:{self.folder}/home"
        return f'{text}name = "{name}"\nconnect = "{home}/notify-spider.sock"\ncache = "{home}/cu.sock"\n'

    def config_of(self, name: str) -> Path:
        further = name.startswith("spider") and name != "spider"
        return self.folder / f"{name}.toml" if further else super().config_of(name)

    def stores(self, store: str) -> list[Path]:
        """The folders of a store, one for each spider that has begun it."""
        homes = ["home", *self.spiders[1:]]
        folders = [self.folder / home / "spider" / store for home in homes]
        return [folder for folder in folders if folder.exists()]


class Crawling:
    """An LCC, and sites that link to each other; all of them are crawled.

    :param server: has the sites.
    :param spiders: how many.
    """

    def __init__(
        self,
        folder: Path,
        database_url: str | None,
        server: SiteServer,
        sites: LinkedSites,
        spiders: int = 1,
        spider_settings: str = SPIDER_SETTINGS,
    ) -> None:
        self.server, self.sites = server, sites
        sites.write(server.root)
        (folder / "lcc").mkdir()
        self.system = self.build_system(folder / "lcc", database_url, spiders, spider_settings)
        config = load_config(self.system.config)
        place = place_of(config, SPIDER)
        self._frontier = BlockingDatabase(
            place.url, place.home, config.database, random=random.Random(1), series=place.series
        )

    def build_system(self, folder: Path, database_url: str | None, spiders: int, settings: str) -> CrawlingSystem:
        """What has the spiders."""
        return CrawlingSystem(folder, database_url, spiders, settings)

    def add(self) -> None:
        """Order the crawl."""
        settings = CrawlSettings(restrict_to=r"http://127\.0\.1\.\d+:", allow_private=True)
        body = add_body(settings, [self.sites.start])
        self._frontier.interact(lambda txn: ORDERS.give(txn, CRAWL_ADD, CRAWL, body, 1))

    def status(self) -> CrawlStatus | None:
        """How far the crawl is; None: the order was not carried out yet."""
        return self._frontier.interact(crawl_status, CRAWL)

    def is_done(self) -> bool:
        """Nothing is left."""
        status = self.status()
        return status is not None and status.counts.get("cached", 0) > 0 and status.is_done

    def cached(self) -> dict[str, dict[str, Any]]:
        """The rows of the cache by their URLs."""
        return {row["curl"]: row for row in self.system.rows("urls")}

    def fetched(self) -> list[str]:
        """Pages that were asked for."""
        return [
            f"http://{asked['server']}:{urlsplit(self.sites.start).port}{asked['path'].replace('/index.html', '/')}"
            for asked in self.server.requests()
            if asked["path"] != "/robots.txt"
        ]

    def kept(self, store: str) -> Iterator[tuple[Path, dict[str, Any]]]:
        """What a store has, with the folder of its spider."""
        for folder in self.system.stores(store):
            for path in sorted(folder.iterdir()):
                for line in gzip.decompress(path.read_bytes()).splitlines():
                    yield folder, json.loads(line)

    def faults(self) -> Iterator[str]:
        """What is not as it must be once the crawl is done; of endless pages and files nothing is said."""
        closure = self.sites.closure()
        cached = {url: row for url, row in self.cached().items() if _is_generated(url)}
        if cached.keys() != closure:
            yield f"cached: {_differences(set(cached), closure)}"
        for url, row in cached.items():
            if row["md5"] != hashlib.md5(self.sites.html(url).encode()).hexdigest():
                yield f"content: {url} is not what its site has"
                break
        links = [each for each in self.kept("links") if _is_generated(each[1]["source"])]
        edges = {(link["source"], link["target"]) for _, link in links}
        if edges != self.sites.edges(closure):
            yield f"link log: {_differences(edges, self.sites.edges(closure))}"
        # A page is read once for each of its changes, and its links stand together.
        times = Counter((folder, link["source"], link["change"], link["target"]) for folder, link in links)
        linked = {page: Counter(target for target, _ in self.sites.links[page]) for page in closure}
        again = [at for at, count in times.items() if at[1] in linked and count > linked[at[1]][at[3]]]
        if again:
            yield f"link log: {len(again)} links stand there twice, such as {again[0]}"

    def close(self) -> None:
        """End all processes."""
        self.system.stop_all()
        self.server.stop()
        self._frontier.close()


def _is_generated(url: str) -> bool:
    return url.startswith("http:") and not is_trap(url)


def _differences(found: set[Any], wanted: set[Any]) -> str:
    lacking, strange = sorted(wanted - found), sorted(found - wanted)
    return f"{len(lacking)} of {len(wanted)} are missing {lacking[:3]}, {len(strange)} are too many {strange[:3]}"
