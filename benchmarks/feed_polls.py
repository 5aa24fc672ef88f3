"""Feeds without news: CPU of the whole LCC for a poll, beside reader (PyPI), sfeed, and a page that was told.

``python benchmarks/feed_polls.py [--feeds 1000] [--items 20] [--runs 5] [--sqlite]
[--peers reader,sfeed]``

Real ``twistd lcc-scheduler``, ``lcc-uns``, ``lcc-qm``, ``lcc-botm`` and ``lcc-bot``, each a process, on a private
MariaDB whose commits are synced, or on SQLite; nginx answers all conditional requests with 304.  Each feed has a
provider and an address of its own, as sites on the Web have.  They take turns:

* the LCC: all tasks are due now; until all pages are confirmed.  No worker runs, since nothing has changed; so no
  manager is there.
* the LCC again: each provider tells one page that has not changed, on a connection that is open; until all are
  confirmed.
* reader: ``update_feeds``, in one process that knows the feeds, without the start of the interpreter.
* sfeed: ``sfeed_update``, with curl and its ETags, as sfeed's README has it.

CPU is that of all processes of each, the database's, too, but not nginx's or this one's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

from common import cpu_seconds_of, cpu_seconds_of_children, nginx, peer_python, scratch, table
from feed_speed import document
from lcc_site import PASSWORD, LccSite
from queue_fill import note_chores_done
from rows import Row, add_options, at_most, give

from lcc.config import DatabaseConfig, load_config
from lcc.domain.keys import url_key
from lcc.model.tasks import JobSpec, Task, When
from lcc.protocols.cp_uns_client import init
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import TASKS as SERIES
from lcc.storage.database.place import place_of
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.rows import TASKS, task_values
from lcc.testing.mariadb import PrivateMariaDb

ROLES = ("scheduler", "uns", "qm", "botm", "bot")
ROUND_SECONDS_MAX = 300.0
LOOK_SECONDS = 0.2
EVER_SEEN = 1 << 40
"""A change number that no page reaches: what is found was read by a worker already."""
TOLD = "a page that was told"
_ACCEPTED = b"</lococa:set_result>\n"
_LOGGED_IN = b"</lococa:init_accepted>\n"


def address_of(pid: int) -> str:
    """Of loopback."""
    return f"127.1.{pid >> 8}.{pid & 255}"


class Site:
    """The LCC, its feeds and its pages.

    :param server: process id of the database; None: SQLite.
    """

    def __init__(self, work: Path, url: str, server: int | None, web: int, count: int) -> None:
        limits = {"connections_max": 2 * count + 100, "connections_per_address": 2 * count + 100}
        self.lcc = LccSite(work, url, {"uns": limits}, roles=ROLES)
        self.roots = {pid: f"http://{address_of(pid)}:{web}/p{pid}/" for pid in range(1, count + 1)}
        self._server = server
        self.lcc.add_providers(self.roots)
        note_chores_done(url, self.lcc.home)
        place = place_of(load_config(self.lcc.config), SERIES)
        self._tasks = BlockingDatabase(place.url, place.home, DatabaseConfig(), random=Random(), series=place.series)
        self._tasks.write(self._add_tasks)
        self.lcc.start()
        self._connections = [self._logged_in(pid) for pid in self.roots]

    def stop(self) -> None:
        """End it."""
        for connection in self._connections:
            connection.close()
        self._tasks.close()
        self.lcc.stop()

    def _add_tasks(self, txn: Txn) -> None:
        now = int(time.time())
        rows = []
        for pid, root in self.roots.items():
            spec = JobSpec("feed", "", (f"{root}feed.xml",))
            task = Task(pid, spec, When(86400), due_time=now + 864_000, started_time=now)
            rows.append((*task_values(task), 1, pid, url_key(pid, f"{root}feed.xml", ""), EVER_SEEN))
        txn.insert("tasks", (*TASKS.columns, "polled", "pid", "urlkey", "seen"), rows)

    def _logged_in(self, pid: int) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.lcc.port))
        connection.sendall(init(pid, PASSWORD).encode())
        _read_until(connection, _LOGGED_IN)
        return connection

    def poll(self) -> None:
        """Have all feeds polled now."""
        sql = "UPDATE tasks SET due_time = ? WHERE polled = 1"
        self._tasks.write(lambda txn: txn.execute(sql, [int(time.time())]))

    def tell(self) -> None:
        """Have each provider tell its page."""
        for connection, root in zip(self._connections, self.roots.values(), strict=True):
            text = (
                f'<lococa:set set="partial" urlprefix="{root}">\n<url c="page.html" m="text/html"/>\n</lococa:set>\n'
            )
            connection.sendall(text.encode())
        for connection in self._connections:
            _read_until(connection, _ACCEPTED)

    def measure(self, begin: Callable[[], None], name: str) -> dict[str, float]:
        """CPU milliseconds of each process for each page of this name, from the beginning until all are confirmed."""
        time.sleep(1.1 - time.time() % 1)  # times of the cache are whole seconds
        since = int(time.time())
        before = self._cpu_seconds()
        begin()
        end = time.monotonic() + ROUND_SECONDS_MAX
        while (count := self._confirmed(name, since)) < len(self.roots):
            self.lcc.check()
            if time.monotonic() > end:
                raise SystemExit(f"only {count} of {len(self.roots)} pages after {ROUND_SECONDS_MAX:.0f} s")
            time.sleep(LOOK_SECONDS)
        return {
            name: 1000 * (seconds - before[name]) / len(self.roots) for name, seconds in self._cpu_seconds().items()
        }

    def _confirmed(self, name: str, since: int) -> int:
        sql = "SELECT COUNT(*) FROM lccurl WHERE confirmed_time >= ? AND state = 1 AND curl LIKE ?"
        return int(self.lcc.database.interact(lambda txn: txn.value(sql, [since, f"%/{name}"])))

    def _cpu_seconds(self) -> dict[str, float]:
        found = self.lcc.cpu_seconds()
        if self._server is not None:
            found["mariadbd"] = cpu_seconds_of(self._server)
        return found


def _read_until(connection: socket.socket, end: bytes) -> None:
    said = b""
    while not said.endswith(end):
        data = connection.recv(65536)
        if not data or b"rejected" in data or b"<url" in data:
            raise SystemExit(f"the UNS has answered {(said + data)[-500:]!r}")
        said += data


class Reader:
    """PyPI's reader, and its database.

    :raises SystemExit: from :meth:`run`: feeds were not read, or had news.
    """

    def __init__(self, work: Path, urls: list[str]) -> None:
        work.mkdir()
        (work / "list").write_text("\n".join(urls))
        self._arguments = [str(work / "reader.sqlite"), str(work / "list")]
        self._urls = urls
        self._read(news=True)

    def run(self) -> float:
        """CPU milliseconds a feed."""
        return self._read(news=False)

    def _read(self, *, news: bool) -> float:
        command = [str(peer_python()), str(Path(__file__).with_name("reader_peer.py")), *self._arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"reader failed: {done.stderr[-2000:]}")
        read, changed, cpu = done.stdout.split()
        if int(read) != len(self._urls) or (int(changed) > 0) is not news:
            raise SystemExit(f"reader has read {read} of {len(self._urls)} feeds, and found news in {changed}")
        return 1000 * float(cpu) / len(self._urls)


class Sfeed:
    """sfeed, and its folder."""

    def __init__(self, work: Path, urls: list[str]) -> None:
        self._folder = work
        self._urls = urls
        (work / "etags").mkdir(parents=True)
        feeds = "\n".join(f"    feed 'f{number}' '{url}'" for number, url in enumerate(urls))
        fetch = '    curl -f -s -m 15 --etag-save "$etag" --etag-compare "$etag" -z "$etag" "$2" 2>/dev/null'
        (work / "sfeedrc").write_text(
            f'sfeedpath="{work}/feeds"\nfetch() {{\n    etag="{work}/etags/$(basename "$3")"\n{fetch}\n}}\n'
            f"feeds() {{\n{feeds}\n}}\n"
        )
        self.run()

    def run(self) -> float:
        """CPU milliseconds a feed."""
        cpu = cpu_seconds_of_children()
        command = ["sfeed_update", str(self._folder / "sfeedrc")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        read = sum(1 for path in (self._folder / "feeds").iterdir() if path.stat().st_size)
        if read != len(self._urls):
            raise SystemExit(f"sfeed has read {read} of {len(self._urls)} feeds")
        return 1000 * (cpu_seconds_of_children() - cpu) / len(self._urls)


PEERS: dict[str, Any] = {"reader": Reader, "sfeed": Sfeed}
SHOWN = {"reader": "reader, update_feeds", "sfeed": "sfeed_update, with ETags"}
GOALS = {"reader": at_most(0.5, of_ratio=True)}


def make_feeds(folder: Path, count: int, items: int) -> None:
    """A folder for each provider, with a feed and a page."""
    for pid in range(1, count + 1):
        (folder / f"p{pid}").mkdir(parents=True)
        (folder / f"p{pid}" / "feed.xml").write_bytes(document("rss", items, 0, seed=pid))
        (folder / f"p{pid}" / "page.html").write_text(f"<title>{pid}</title>")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--feeds", type=int, default=1000)
    parser.add_argument("--items", type=int, default=20)
    parser.add_argument("--sqlite", action="store_true", help="SQLite instead of MariaDB")
    parser.add_argument("--peers", default="reader,sfeed")
    add_options(parser)
    options = parser.parse_args()
    if "sfeed" in options.peers and shutil.which("sfeed_update") is None:
        raise SystemExit("sfeed is not installed: run 'make system'")
    rounds: list[dict[str, dict[str, float]]] = []
    theirs: dict[str, list[float]] = {name: [] for name in options.peers.split(",")}
    with ExitStack() as stack:
        work = stack.enter_context(scratch())
        make_feeds(work / "www", options.feeds, options.items)
        web = stack.enter_context(
            nginx(work / "www", work / "nginx", addresses=map(address_of, range(1, options.feeds + 1)))
        )
        server = None if options.sqlite else stack.enter_context(PrivateMariaDb(durable=True))
        url = "sqlite:lcc.db" if server is None else server.new_database()
        process = server.process.pid if server is not None and server.process else None
        site = Site(work / "lcc", url, process, web, options.feeds)
        stack.callback(site.stop)
        urls = [f"{root}feed.xml" for root in site.roots.values()]
        peers = {name: PEERS[name](work / name, urls) for name in options.peers.split(",")}
        for _ in range(2):  # what is fetched first, and confirmed first
            site.measure(site.poll, "feed.xml")
            site.measure(site.tell, "page.html")
        for number in range(options.runs):
            os.sync()
            polled = site.measure(site.poll, "feed.xml")
            told = site.measure(site.tell, "page.html")
            rounds.append({"polled": polled, "told": told})
            for each, peer in peers.items():
                theirs[each].append(peer.run())
            ours = {what: round(sum(found.values()), 3) for what, found in rounds[-1].items()}
            shown = ours | {each: round(found[-1], 3) for each, found in theirs.items()}
            print(f"run {number + 1}: CPU ms a feed: {shown}", file=sys.stderr)
    where = "SQLite" if options.sqlite else "MariaDB"
    lines = [
        [
            role,
            *(f"{sorted(each[what][role] for each in rounds)[len(rounds) // 2]:.3f}" for what in ("polled", "told")),
        ]
        for role in rounds[0]["polled"]
    ]
    print(table(["CPU ms a page", "polled", "told"], lines))
    name = f"CPU of an unchanged poll, {where}"
    polled, told = ([sum(each[what].values()) for each in rounds] for what in ("polled", "told"))
    note = f"all roles and database; {options.feeds:,} feeds"
    rows = [Row(f"{name}, against told", "ms", polled, TOLD, told, at_most(1.5, of_ratio=True), note=note)]
    for peer, found in theirs.items():
        rows.append(Row(f"{name}, against {peer}", "ms", polled, SHOWN[peer], found, GOALS.get(peer)))
    give(options, rows)


if __name__ == "__main__":
    main()
