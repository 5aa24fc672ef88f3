"""The hub of content users with many subscribers: its memory, and what a delivery costs.

``python benchmarks/hub_subscribers.py [--subscribers 10000] [--topics 1] [--runs 3]``

A real ``twistd lcc-cu`` on SQLite, twice: without subscribers, and with so many, who stand in its tables.  A page
changes, and each subscriber of the first topic is delivered to, at a server of this process, each over a connection
of its own.  With more topics the subscribers are spread over them, and fewer hear of the change.
"""

from __future__ import annotations

import argparse
import socketserver
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random

import attrs
from cache_fill import change_some, fill_cache
from common import free_port, scratch
from lcc_site import LccSite
from rows import Row, add_options, at_most, give

from lcc.config import DatabaseConfig, load_config
from lcc.model.push.hub import HubSubscriber
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.migrations import HUB
from lcc.storage.database.place import place_of
from lcc.storage.database.transactions import Txn
from lcc.storage.hub.subscribers import SUBSCRIBERS, digest

MEMORY_GOAL_MB = 60
_CHANGED = "http://s1.example/"
_LEASE_SECONDS = 86_400
_SETTLE_SECONDS = 2.0
_PATIENCE_SECONDS = 600.0


class Callbacks(socketserver.ThreadingTCPServer):
    """All callbacks: takes any delivery.

    :ivar taken: so many.
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Delivery)
        self.taken = 0
        self.lock = threading.Lock()


class Delivery(socketserver.StreamRequestHandler):
    """One request."""

    server: Callbacks

    def handle(self) -> None:
        length = 0
        while line := self.rfile.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        self.rfile.read(length)
        self.wfile.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        with self.server.lock:
            self.server.taken += 1


def subscribe(database: BlockingDatabase, url: str, port: int, count: int, topics: int) -> None:
    """So many subscribers stand in the tables of the hub."""
    now = int(time.time())

    def put(txn: Txn) -> None:
        rows = []
        for number in range(count):
            prefix = _CHANGED if number % topics == 0 else f"http://other{number % topics}.example/"
            topic, callback = f"{url}atom?prefix={prefix}", f"http://127.0.0.1:{port}/{number}"
            found = HubSubscriber(
                *(digest(callback, topic), digest(topic), callback, topic, "secret", 0, "", 0, 0, 0),
                *(now + _LEASE_SECONDS, now, f"http://127.0.0.1:{port}/"),
            )
            rows.append(attrs.astuple(found))
        SUBSCRIBERS.upsert(txn, rows)

    database.write(put)


def has_begun(txn: Txn) -> bool:
    """Whether a hub has noted from where on it follows."""
    return txn.value("SELECT value FROM meta WHERE name = 'hub_position'") is not None


def measure(folder: Path, count: int, topics: int) -> tuple[float, float, float]:
    """Peak of memory in MB, deliveries a second, and CPU milliseconds of one."""
    with ExitStack() as stack:
        callbacks = stack.enter_context(Callbacks())
        threading.Thread(target=callbacks.serve_forever, daemon=True).start()
        stack.callback(callbacks.shutdown)
        port = free_port()
        url = f"http://127.0.0.1:{port}/"
        cu = {"listen": f"tcp:{port}:interface=127.0.0.1", "url": url, "hub": True, "hub_allow_private": True}
        site = LccSite(folder, None, {"cu": {**cu, "without_token": "content"}}, roles=("cu",))
        stack.callback(site.stop)
        fill_cache(site.url, site.home, 100)
        place = place_of(load_config(site.config), HUB)
        hub = BlockingDatabase(place.url, place.home, DatabaseConfig(), random=Random(), series=place.series)
        stack.callback(hub.close)
        subscribe(hub, url, callbacks.server_address[1], count, topics)
        site.start()
        while not hub.interact(has_begun):
            site.check()
            time.sleep(0.1)
        time.sleep(_SETTLE_SECONDS)
        wanted = -(-count // topics)
        before, begun = site.cpu_seconds()["cu"], time.monotonic()
        change_some(site.url, site.home, 100, 100)
        while callbacks.taken < wanted:
            site.check()
            if time.monotonic() - begun > _PATIENCE_SECONDS:
                raise SystemExit(f"{callbacks.taken} of {wanted} were delivered to:\n{site.log('cu')[-2000:]}")
            time.sleep(0.05)
        seconds = time.monotonic() - begun
        cpu_ms = 1000 * (site.cpu_seconds()["cu"] - before) / max(1, wanted)
        if not wanted:
            time.sleep(_SETTLE_SECONDS)
        return site.peaks_mb()["cu"], wanted / seconds, cpu_ms


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--subscribers", type=int, default=10_000)
    parser.add_argument("--topics", type=int, default=1)
    add_options(parser)
    options = parser.parse_args()
    with scratch() as folder:
        found = []
        for number in range(options.runs):
            alone, _, _ = measure(folder / f"{number}-alone", 0, 1)
            peak, rate, cpu_ms = measure(folder / f"{number}", options.subscribers, options.topics)
            found.append((peak - alone, peak, rate, cpu_ms))
    added, peaks, rates, costs = zip(*found, strict=True)
    who = f"{options.subscribers:,} subscribers, {options.topics:,} topics"
    rows = [
        Row("memory of hub subscribers", "MB", added, goal=at_most(MEMORY_GOAL_MB), peak=True, note=who),
        Row("peak memory of lcc-cu with its hub", "MB", peaks, peak=True, note=who),
        Row("deliveries of the hub", "deliveries/s", rates, note="each over a new connection"),
        Row("CPU of lcc-cu for a delivery", "ms", costs),
    ]
    give(options, rows)


if __name__ == "__main__":
    main()
