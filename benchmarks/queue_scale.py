"""What a fetched page costs the queue manager and the database, with a small queue and with a huge one.

``python benchmarks/queue_scale.py [--runs 5] [--small 10x10000] [--large 100000x5000000] [--pages-small N]
[--pages-large 60000] [--sqlite]``

Two private MariaDBs, one for each size, are filled with that many providers and queued URLs.  Real ``twistd
lcc-qm`` work on the one and on the other in turn; this process plays a BOT-M whose fetches end at once.  Counted is
the CPU of the queue manager and of mariadbd from the thousandth result on (each process warms up with as many),
reading ahead and recording included.  The small queue gives nearly all that it has, and is soon empty: it is filled
anew several times in a round.  The large one goes on where it was, so
that each page is of a provider that comes to its turn for the first time, as it would be for days; and it goes on
for so many pages that hundreds of providers come and go, for they come in waves at first.  Background work that
goes by the clock (the chores of a day) is noted as done beforehand.  ``--large 20000x1000000`` is quick to fill and
shows nearly the same.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from common import argument_parser, cpu_seconds_of, peak_memory_bytes, scratch, table
from queue_fill import fill, note_chores_done
from rows import Row, add_options, at_most, give
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import clientFromString
from twisted.internet.protocol import Factory
from twisted.internet.task import react

from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello, Ready
from lcc.protocols.work import DOWN, Delete, Deleted, Done, Fetch, RecordedUpto
from lcc.roles.peer import Peer
from lcc.testing.mariadb import PrivateMariaDb

BIN = Path(sys.executable).parent
CAPACITY = 64
WARM_UP = 1000
LEFT_OVER = 2 * CAPACITY
"""Pages that stay in the queue: its end is not measured."""
SMALL_TIMES = 5


class InstantBotm(Peer):
    """A BOT-M whose fetches all end at once.

    :param file: the number of its first content file, less one.
    :ivar warm: fires when the warm-up is recorded, with the number of what is: recording goes by batches.
    :ivar done: fires when all is recorded, in the same way.
    """

    def __init__(self, pages: int, file: int) -> None:
        hello = Hello(
            "botm", "bench", machine=1, names_upto=1, capacity=CAPACITY, orders_max=100_000, run=f"bench{file}"
        )
        super().__init__(reactor, hello, frozenset({"qm"}), DOWN)  # type: ignore[arg-type]
        self.pages = pages
        self.file = file
        self.number = 0
        self.started = time.monotonic()
        self.first_seconds = 0.0
        self.warm: Deferred[int] = Deferred()
        self.done: Deferred[int] = Deferred()

    def peer_ready(self, hello: Hello) -> None:
        self.say(Ready())

    def messages_received(self, messages: list[Flat]) -> None:
        for message in messages:
            if isinstance(message, Fetch):
                self._fetched(message)
            elif isinstance(message, Delete):
                self.say(Deleted(message.id))
            elif isinstance(message, RecordedUpto):
                if message.number >= WARM_UP and not self.warm.called:
                    self.warm.callback(message.number)
                if message.number >= WARM_UP + self.pages and not self.done.called:
                    self.done.callback(message.number)

    def _fetched(self, order: Fetch) -> None:
        self.number += 1
        if self.number == 1:
            self.first_seconds = time.monotonic() - self.started
        self.say(
            Done(
                number=self.number,
                id=order.id,
                pid=order.pid,
                key=order.key,
                generation=order.generation,
                code=0,
                status=200,
                url=order.url,
                size_bytes=10_240,
                md5=f"{self.file + self.number:032x}",
                mimetype="text/html",
                etag='"5f-1"',
                headers='["Server","nginx","Content-Type","text/html","Content-Length","10240"]',
                wire_bytes=10_480,
                elapsed_ms=2,
                machine=1,
                file=self.file + self.number,
            )
        )


class Site:
    """A database of one size, and the queue managers that work on it one after the other.

    :param server: None: the database is a SQLite file.
    :param size: providers x URLs.
    :ivar rounds: what was found, for each round.
    """

    def __init__(self, server: PrivateMariaDb | None, work: Path, size: str) -> None:
        self.providers, self.urls = (int(part) for part in size.split("x"))
        self.rounds: list[dict[str, float]] = []
        self._server = server
        self._work = work
        self._home = work / "lcc-home"
        self._url = ""
        self._left = 0
        self._databases = 0
        self._files = 0
        work.mkdir()

    def add_database(self) -> None:
        """Make a database and fill it; the next round works on it."""
        begun = time.monotonic()
        self._databases += 1
        name = f"queue{self._databases}.sqlite"
        self._url = f"sqlite:{name}" if self._server is None else self._server.new_database()
        (self._work / "lcc.toml").write_text(f'[database]\nurl = "{self._url}"\n')
        admin = [BIN / "lcc-admin", "--config", self._work / "lcc.toml", "init"]
        subprocess.run(admin, check=True, capture_output=True)
        fill(self._url, self._home, self.providers, self.urls)
        self._left = self.urls
        seconds = time.monotonic() - begun
        print(f"{self.providers} providers, {self.urls} URLs: filled in {seconds:.0f} s", file=sys.stderr)

    async def round(self, pages: int, times: int) -> None:
        """Have so many pages fetched, so many times.

        :param pages: that count; 0: all but the warm-up and what stays.
        """
        pages = pages or self.urls // self.providers * self.providers - WARM_UP - LEFT_OVER
        found = [await self._once(pages) for _ in range(times)]
        self.rounds.append({name: statistics.fmean(each[name] for each in found) for name in found[0]})

    async def _once(self, pages: int) -> dict[str, float]:
        """Start a queue manager, have so many pages fetched, and stop it."""
        needed = WARM_UP + pages + LEFT_OVER
        if self._left < needed:
            self.add_database()
        if self._left < needed:
            raise SystemExit(f"{self.urls} URLs are too few for {needed} pages")
        self._left -= needed
        note_chores_done(self._url, self._home)
        socket = self._home / "qm-botm.sock"
        socket.unlink(missing_ok=True)
        with (self._work / "qm.log").open("ab") as log:
            command = [BIN / "twistd", "-n", "lcc-qm", "--config", self._work / "lcc.toml"]
            qm = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            return await self._measured(qm, socket, pages)
        finally:
            qm.terminate()
            qm.wait()

    async def _measured(self, qm: subprocess.Popen[bytes], socket: Path, pages: int) -> dict[str, float]:
        while not socket.exists():
            if qm.poll() is not None:
                raise SystemExit((self._work / "qm.log").read_text()[-3000:])
            time.sleep(0.02)
        self._files += 2 * self.urls
        botm = InstantBotm(pages, self._files)
        endpoint = clientFromString(reactor, f"unix:{socket}")
        await endpoint.connect(Factory.forProtocol(botm.build_stream))
        first = await botm.warm
        processes = [qm.pid]
        if self._server is not None:
            processes.append(int((self._server.folder / "data" / "pid").read_text()))
        before = [cpu_seconds_of(pid) for pid in processes]
        wall = time.monotonic()
        recorded = await botm.done - first
        wall = time.monotonic() - wall
        if recorded < pages // 2:
            raise SystemExit(f"{pages} pages are too few: most were recorded with the warm-up")
        used = [cpu_seconds_of(pid) - start for pid, start in zip(processes, before, strict=True)]
        return {
            "recorded": float(recorded),
            "qm": 1000 * used[0] / recorded,
            "database": 1000 * sum(used[1:]) / recorded,
            "both": 1000 * sum(used) / recorded,
            "rate": recorded / wall,
            "first": botm.first_seconds,
            "peak": peak_memory_bytes(qm.pid) / 1e6,
        }

    def median(self, name: str) -> float:
        """Of all rounds."""
        return statistics.median(found[name] for found in self.rounds)


async def main(_reactor: Any, options: argparse.Namespace) -> None:
    """Measure both sizes in turn and print the ratio."""
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        sites = []
        for name in ("small", "large"):
            server = None if options.sqlite else stack.enter_context(PrivateMariaDb(durable=True))
            sites.append(Site(server, folder / name, getattr(options, name)))
        for _ in range(options.runs):
            for site, pages, times in (
                (sites[0], options.pages_small, SMALL_TIMES),
                (sites[1], options.pages_large, 1),
            ):
                await site.round(pages, times)
                last = " ".join(f"{name} {value:.3f}" for name, value in site.rounds[-1].items())
                print(f"{site.providers}x{site.urls}: {last}", file=sys.stderr)
    heads = [
        f"queue (medians of {options.runs} rounds)",
        "QM, CPU ms a page",
        "MariaDB, CPU ms a page",  # SQLite's is the queue manager's
        "both",
        "pages/s",
        "to the first order, s",
        "QM, MB",
    ]
    formats = {"qm": ".3f", "database": ".3f", "both": ".3f", "rate": ".0f", "first": ".2f", "peak": ".0f"}
    rows = [
        [
            f"{site.providers:,} providers, {site.urls:,} URLs",
            *(format(site.median(name), how) for name, how in formats.items()),
        ]
        for site in sites
    ]
    print(table(heads, rows))
    small, large = ([round[name] for round in site.rounds] for site in sites for name in ("both",))
    on = "SQLite" if options.sqlite else "MariaDB"
    sizes = f"{sites[1].providers:,} providers, {sites[1].urls:,} URLs, {on}"
    give(
        options,
        [
            Row(
                "CPU for a page, huge queue against small",
                "ms",
                large,
                f"{sites[0].providers:,} providers, {sites[0].urls:,} URLs",
                small,
                at_most(1.2, of_ratio=True),
                note=f"QM and database; {sizes}",
            ),
            Row(
                "peak memory of the QM, huge queue",
                "MB",
                [round["peak"] for round in sites[1].rounds],
                goal=at_most(150),
                peak=True,
                note=sizes,
            ),
        ],
    )


if __name__ == "__main__":
    parser = argument_parser(__doc__)
    add_options(parser)
    parser.add_argument("--small", default="10x10000")
    parser.add_argument("--large", default="100000x5000000")
    parser.add_argument("--pages-small", type=int, default=0, help="default: as many as it can give")
    parser.add_argument("--pages-large", type=int, default=60_000)
    parser.add_argument("--sqlite", action="store_true", help="SQLite instead of MariaDB")
    react(main, [parser.parse_args()])
