"""What is promised of crawls, looked at after each transaction of a spider, and in the end."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from lcc.domain.spider.keys import host_of_root
from lcc.domain.urls import site_of
from lcc.model.spider.crawls import UrlState, bucket_of
from lcc.roles.cu.tokens import parse_token
from lcc.storage.database.migrations import SPIDER
from lcc.storage.database.tables.rows import CACHED
from lcc.testing.simulated.process import Machine

from .crawl import CrawlWorld
from .web import ROBOTS_TXT, pages_of

_AUDIT = """
CREATE TABLE simulated_history (
    seq INTEGER PRIMARY KEY, what TEXT, bucket INTEGER, before TEXT, after TEXT, urlkey BLOB
);
CREATE TRIGGER simulated_token AFTER UPDATE OF token ON spclaim WHEN NEW.token <> OLD.token BEGIN
    INSERT INTO simulated_history (what, bucket, before, after) VALUES ('token', NEW.bucket, OLD.token, NEW.token);
END;
CREATE TRIGGER simulated_url AFTER INSERT ON spurl BEGIN
    INSERT INTO simulated_history (what, urlkey) VALUES ('url', NEW.urlkey);
END;
CREATE TRIGGER simulated_backlog AFTER DELETE ON spbacklog BEGIN
    INSERT INTO simulated_history (what, before, urlkey) VALUES ('backlog', OLD.change_number, OLD.pagekey);
END;
"""
_URLS = (
    "SELECT h.root || u.path, u.state, u.change_number, lower(hex(u.md5)), u.depth, u.urlkey"
    " FROM spurl u JOIN sphost h ON h.crawl = u.crawl AND h.hostkey = u.hostkey"
)
_NAMES = {state.value: state.name.lower() for state in UrlState}


@attrs.frozen
class Row:
    """A URL of the frontier."""

    state: UrlState
    change: int
    md5: str
    depth: int
    key: bytes


class CrawlPromises:
    """Watches a crawl.

    :param broken: told what was, with the promise that it breaks.
    :param main: gives rows of the tables of the queue.
    :param known_upto: as :func:`lcc.storage.database.tables.timeline.known_upto`, of these tables.
    :param disks: the machines of the spiders, by their names.
    """

    def __init__(
        self,
        world: CrawlWorld,
        broken: Callable[[str, str], None],
        main: Callable[[str], list[tuple[Any, ...]]],
        known_upto: Callable[[str], int | None],
        disks: dict[str, Machine],
    ) -> None:
        self._world = world
        self._web = world.web
        self._broken = broken
        self._main = main
        self._known_upto = known_upto
        self._disks = disks
        self._seq = 0
        self._moment = 0
        """Counts transactions of all tables."""
        self._times_back = 0
        """How often the tables of the queue were put back."""
        self._known: dict[str, int] = {}
        """URL -> when the frontier got it."""
        self._changed: dict[int, tuple[int, str]] = {}
        """Change -> when it was committed, and of which URL."""
        self._given_up: set[tuple[str, int]] = set()
        """URL and change that a link log lacked, as its disk was full, and that was gone before it could be had."""
        self.unreadable: set[tuple[int, int]] = set()
        """Machine and file, of content that could not be read once."""
        world.database.connection(SPIDER).executescript(_AUDIT)

    @property
    def counts(self) -> dict[str, int]:
        """What there was."""
        return {
            "crawls": 1,
            "quiet crawls": int(self._world.is_quiet),
            "linked pages": len(self._web.nodes),
            "URLs in the frontier": len(self._known),
            "requests for linked pages": sum(self._web.asked.values()),
        }

    # While it runs.

    def cached(self, changes: dict[int, str]) -> None:
        """The queue manager has committed: URLs by the numbers of their changes."""
        self._moment += 1
        self._changed.update({change: (self._moment, url) for change, url in changes.items()})

    def put_back(self, last_change: int) -> None:
        """The tables of the queue were put back: numbers above this one are given once more."""
        self._times_back += 1
        self._changed = {change: of for change, of in self._changed.items() if change <= last_change}

    def committed(self) -> None:
        """A spider has committed."""
        self._moment += 1
        for text in self._web.met:
            self._broken("P16", text)
        self._web.met.clear()
        sql = f"SELECT * FROM simulated_history WHERE seq > {self._seq} ORDER BY seq"
        history = self._world.rows(sql)
        if not history:
            return
        self._seq = history[-1][0]
        rows = self._rows()
        for url in rows.keys() - self._known.keys():
            self._known[url] = self._moment
        for _, what, bucket, before, after, key in history:
            if what == "token":
                self._check_token(bucket, before, after, rows)
            elif what == "backlog":
                self._note_given_up(bytes(key), int(before))

    def _note_given_up(self, key: bytes, change: int) -> None:
        """A page is out of the backlog of the link log: it was given, or the cache has that version no longer."""
        for curl, number, state in self._main(
            f"SELECT curl, change_number, state FROM lccurl WHERE urlkey = x'{key.hex()}'"
        ):
            if (number, state) != (change, CACHED):
                self._given_up.add((curl, change))

    def _rows(self) -> dict[str, Row]:
        return {
            url: Row(UrlState(state), change, md5, depth, bytes(key))
            for url, state, change, md5, depth, key in self._world.rows(_URLS)
        }

    def _check_token(self, bucket: int, before: str, after: str, rows: dict[str, Row]) -> None:
        """What the token has passed was read, as far as the frontier knew the page when it was cached."""
        if not before:
            return  # what was cached before there was a crawl
        last, former = parse_token(after), parse_token(before)
        known_upto = self._known_upto(last.timeline)
        if known_upto is None or known_upto < last.number:
            return  # what it has passed is lost: it is refused, and says nothing of what has these numbers now
        first = former.number if former.timeline == last.timeline else 0
        sql = (
            "SELECT change_number, curl, md5, fetched_machineid, fetched_fileid FROM lccurl"
            # Without an md5 its content was lost: it is fetched again.
            f" WHERE state = 1 AND md5 <> '' AND change_number > {first} AND change_number <= {last.number}"
        )
        there = self._main(sql)
        versions = {(url, change, md5) for change, url, md5, _, _ in there}
        for change, url, _, machine, file in there:
            row, known = rows.get(url), self._known.get(url, self._moment)
            when, _ = self._changed.get(change, (0, ""))
            if row is None or known >= when or bucket_of(host_of_root(site_of(url))) != bucket:
                continue
            # Of several providers' one was read last.
            if (url, row.change, row.md5) not in versions and (machine, file) not in self.unreadable:
                self._broken(
                    "P17", f"the token of bucket {bucket} is at {last.number}, change {change} of {url} is not read"
                )

    # In the end.

    def undone(self) -> list[str]:
        """What is left to be done; at first, the frontier has to have read what the sites have now, and stores must
        have it."""
        world = self._world
        left = []
        if not world.paused:
            lacking = world.rows("SELECT spider, store, COUNT(*) FROM spbacklog GROUP BY spider, store")
            left = [
                *self._unread(),
                *(f"{store} of {spider} lacks {count} pages" for spider, store, count in lacking),
            ]
            if left:
                return left
            world.end()
        if world.rows("SELECT 1 FROM sporders WHERE done_time IS NULL"):
            left.append("orders of the operator of the crawl are open")
        elif not world.is_paused:
            left.append("the crawl is not paused")
        told = world.rows("SELECT root, told FROM sphost WHERE told > 0")
        return left + [f"{count} URLs of {root} are told" for root, count in told]

    def _unread(self) -> Iterator[str]:
        """What the spiders have not read as it is."""
        web, rows = self._web, self._rows()
        cached = self._cached()
        for url in sorted(self._expected(rows) | {url for url in rows if url in web.nodes}):
            row, md5 = rows.get(url), web.md5_of(url)
            if row is None:
                yield f"{url} is not in the frontier"
            elif md5 is None:
                if url in cached:
                    yield f"{url} is cached, and gone"
            elif row.state is not UrlState.FAILED and (row.md5, *cached.get(url, ())) != (md5, md5, row.change):
                yield f"{url} is {md5}, cached {cached.get(url)}, read {row.md5} at {row.change} ({row.state.name})"

    def _expected(self, rows: dict[str, Row]) -> set[str]:
        """The pages that a crawl has to have found.  Where nothing is visited again, those are left out that could
        not be fetched, and what they link to."""
        failed = () if self._world.settings.revisit_seconds else self._failed(rows)
        return self._web.closure(failed, self._world.depth_max)

    def _failed(self, rows: dict[str, Row]) -> list[str]:
        return [url for url, row in rows.items() if row.state is UrlState.FAILED]

    def _cached(self) -> dict[str, tuple[str, int]]:
        sql = "SELECT curl, md5, change_number FROM lccurl WHERE state = 1 AND source & 31"
        return {url: (md5, change) for url, md5, change in self._main(sql)}

    def check_the_end(self) -> None:
        """All is over."""
        self.committed()
        web, rows, cached = self._web, self._rows(), self._cached()
        for url, row in rows.items():
            if url not in web.nodes and row.state in (UrlState.CACHED, UrlState.TOLD):
                self._broken("P16", f"{url} is {row.state.name}, and no page of the web")
        expected = self._expected(rows)
        found = expected | {url for url in rows if url in web.nodes and web.nodes[url].is_there and url in cached}
        for site in (*web.sites, *web.providers):
            site.pages |= pages_of(web, site, found)
        self._check_counts()
        self._check_links(rows)
        if self._world.is_quiet:
            for url in sorted(rows.keys() - expected):
                if self._world.depth_max is None and rows[url].state is UrlState.CACHED:
                    self._broken("P16", f"{url} is in the frontier, and no page of the closure")
            self._check_requests(expected)

    def _check_requests(self, expected: set[str]) -> None:
        """Undisturbed, each page is fetched once."""
        web = self._web
        wanted = Counter(dict.fromkeys(expected, 1))
        wanted.update(
            node.site.url(node.answered) for url in expected if (node := web.nodes[url]).path != node.answered
        )
        robots = {site.url(ROBOTS_TXT) for site in web.sites}
        asked = {url: count for url, count in web.asked.items() if url not in robots}
        for url in sorted(wanted.keys() | asked.keys()):
            if asked.get(url, 0) != wanted[url]:
                self._broken("P16", f"{url} was fetched {asked.get(url, 0)} times, not {wanted[url]}")

    def _check_counts(self) -> None:
        """What is counted is what there is."""
        counted = dict(self._world.rows("SELECT name, SUM(value) FROM spcount GROUP BY name"))
        states = Counter(_NAMES[state] for (state,) in self._world.rows("SELECT state FROM spurl"))
        for name in ("waiting", "cached", "failed", "gone", "refused"):
            if counted.get(name, 0) != states[name]:
                self._broken("P8", f"the crawl's books say {counted.get(name, 0)} {name}, there are {states[name]}")
        sql = (
            "SELECT h.root, h.known, h.waiting, h.cached, COUNT(*), SUM(u.state = 0), SUM(u.state = 2)"
            " FROM sphost h JOIN spurl u ON u.crawl = h.crawl AND u.hostkey = h.hostkey"
            " GROUP BY h.root, h.known, h.waiting, h.cached"
        )
        for root, *numbers in self._world.rows(sql):
            if numbers[:3] != numbers[3:]:
                self._broken("P8", f"the books of {root} say {numbers[:3]}, there are {numbers[3:]}")

    def _check_links(self, rows: dict[str, Row]) -> None:
        """The link logs of all spiders have the links of each version that was read, once; a number that was given
        again, as the queue was put back, has those of several versions."""
        logged: dict[tuple[str, int], list[frozenset[str]]] = {}
        for spider in self._disks:
            targets: dict[tuple[str, int], list[str]] = {}
            for line in self._log_of(spider):
                targets.setdefault((line["source"], line["change"]), []).append(line["target"])
            for page, links in targets.items():
                if max(Counter(links).values()) > 1 + self._times_back:
                    self._broken("P17", f"{page} is twice in the link log of {spider}")
                logged.setdefault(page, []).append(frozenset(links))
        for (url, change), links in logged.items():
            versions = self._web.versions.get(url, {})
            if len(links) > 1 + self._times_back:
                self._broken("P17", f"change {change} of {url} is in {len(links)} link logs")
            ever = frozenset().union(*versions.values())
            if links[0] not in versions.values() and not (self._times_back and links[0] <= ever):
                self._broken("P17", f"change {change} of {url} is in a link log with other links than it ever had")
        for url, row in rows.items():
            links_now = self._web.versions.get(url, {}).get(row.md5)
            logs = logged.get((url, row.change), [])
            if (
                row.change > 0
                and links_now
                and (url, row.change) not in self._given_up
                and not any(links_now == links or (self._times_back and links_now <= links) for links in logs)
            ):
                self._broken("P17", f"the links of change {row.change} of {url} are in no link log")

    def _log_of(self, spider: str) -> Iterator[dict[str, Any]]:
        """The lines that count: up to the spider's place."""
        disk = self._disks[spider].disk
        place = self._world.rows(f"SELECT place FROM spplace WHERE spider = '{spider}' AND store = 'links'")
        last, size = map(int, place[0][0].split(":")) if place else (0, 0)
        for path, data in sorted(disk.paths().items()):
            if f"/{spider}/spider/links/links-" not in path:
                continue
            number = int(path.rpartition("links-")[2].partition(".")[0])
            if number <= last:
                yield from map(json.loads, _lines(data[: size if number == last else None]))


def _lines(data: bytes) -> list[bytes]:
    """Of some gzip members."""
    text = b""
    while data:
        member = zlib.decompressobj(zlib.MAX_WBITS + 16)
        text += member.decompress(data)
        data = member.unused_data
    return text.splitlines()
