"""Connections between real processes, cut after random bytes: a slice of what ``make cuts`` does in memory.

Full sets of 200 pages, each a little other than the one before; with each the next connection of one wire is cut, in
either direction: the provider's, or that of UNS, BOT-M or robot, which are made to connect anew.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from hashlib import md5
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.task import deferLater

from lcc.config import load_config
from lcc.errors import code
from lcc.model import CachedUrl
from lcc.provider.client import Submission, Unreachable, submit, uns_endpoint
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.disk.content_folder import ROBOTS, content_path
from tests.support import stored
from tests.support.processes.cutter import Cutter
from tests.support.processes.system import ROLES, OriginServer, Site, System, files_of
from tests.support.switches import LONG
from tests.support.waiting import PATIENCE_SECONDS, wait_for

from .databases import SQLITE_ALWAYS

PAGES = 200
ROUNDS = 200 if LONG else 6
CUT_OFF = code("cut-off")
BYTES = {"uns": (20_000, 600), "qm": (6_000, 600), "qm-botm": (3_000, 3_000), "botm": (3_000, 3_000)}
"""How far into a connection it is cut at most, upwards and downwards; a full set has some 20,000 bytes."""
CONFIG = """
[botm]
listen = "unix:{home}/botm-behind.sock"
[qm]
listen = "unix:{home}/qm-behind.sock"
listen_botm = "unix:{home}/qm-botm-behind.sock"
delete_grace = 0
"""


def _to_unix(path: Path) -> Callable[[], socket.socket]:
    def connect() -> socket.socket:
        one = socket.socket(socket.AF_UNIX)
        try:
            one.connect(str(path))
        except OSError:
            one.close()
            raise
        return one

    return connect


class _World:
    """An LCC with a cutter before each port, and a provider."""

    def __init__(self, folder: Path, origin: OriginServer, database_url: str | None, random: Random) -> None:
        self.random = random
        self.system = System(folder, origin, database_url, CONFIG)
        config = load_config(self.system.config)
        self.content = config.under_home(config.botm.content)
        self.database = BlockingDatabase(config.database.url, config.home, config.database, random=random)
        self.cutters = {
            wire: Cutter(self._unix(config.home / f"{wire}.sock"), _to_unix(config.home / f"{wire}-behind.sock"))
            for wire in ("qm", "qm-botm", "botm")
        }
        public = socket.socket()
        public.bind(("127.0.0.1", 0))
        self.endpoint = uns_endpoint(reactor, f"127.0.0.1:{public.getsockname()[1]}")
        self.cutters["uns"] = Cutter(public, lambda: socket.create_connection(("127.0.0.1", self.system.port)))
        self.site: Site

    @staticmethod
    def _unix(path: Path) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        return listener

    def close(self) -> None:
        self.system.stop_all()
        for cutter in self.cutters.values():
            cutter.close()
        self.database.close()

    def begin(self) -> None:
        folder = self.system.origin.root / "site"
        folder.mkdir()
        for number in range(PAGES):
            (folder / f"{number:04}.html").write_text(f"page {number}")
        self.system.start(*ROLES)
        self.site = self.system.add_site("site", "--full-sets", "none")
        wait_for("the UNS listens", lambda: "Connected to" in self.system.log("uns"))

    def change(self, number: int) -> None:
        """Another page is new, one is gone, some have changed."""
        pages = sorted(self.site.folder.iterdir())
        *changed, gone = self.random.sample(pages, 4)
        for page in changed:
            page.write_text(f"changed in round {number}")
        gone.unlink()
        (self.site.folder / f"n{number:03}.html").write_text(f"new in round {number}")

    async def publish(self) -> Submission | Unreachable:
        """The site as it is, as a full set."""
        urls = [
            {
                "c": page.name,
                "m": "text/html",
                "md5": md5(page.read_bytes()).hexdigest(),
                "len": str(size),
                "mtime": "1",
            }
            for page in sorted(self.site.folder.iterdir())
            for size in [page.stat().st_size]
        ]
        try:
            return await submit(
                reactor, self.endpoint, self.site.pid, self.site.password, urls, full=True, urlprefix=self.site.url
            )
        except Unreachable as error:
            return error

    def rows(self) -> dict[str, CachedUrl]:
        rows = self.database.interact(stored.urls, self.site.pid, None, 10_000)
        return {row.curl.removeprefix(self.site.url): row for row in rows if row.state == "cached"}

    def is_exact(self) -> bool:
        """The cache has what the site has, and no file besides."""
        rows = self.rows()
        if {path: row.md5 for path, row in rows.items()} != dict(files_of(self.site.folder)):
            return False
        files = {content_path(row.fetched_fileid) for row in rows.values() if row.fetched_fileid is not None}
        found = {str(path.relative_to(self.content)) for path in self.content.rglob("*") if path.is_file()}
        return {name for name in found if "/" in name and not name.startswith(f"{ROBOTS}/")} == files


@pytest.fixture
def world(tmp_path: Path, origin: OriginServer, database_url: str | None) -> Iterator[_World]:
    seed = int(os.environ.get("LCC_CUTS_SEED", 0)) or Random().randrange(1, 1 << 32)
    print(f"LCC_CUTS_SEED={seed}")
    folder = tmp_path / "lcc"
    folder.mkdir()
    world = _World(folder, origin, database_url, Random(seed))
    yield world
    world.close()


async def _until(what: str, check: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not check():
        assert time.monotonic() < end, f"never happened: {what}"
        await deferLater(reactor, 0.05)  # type: ignore[arg-type]  # the reactor is a module


@SQLITE_ALWAYS
@pytest_twisted.ensureDeferred
async def test_cut_connections_between_processes(world: _World) -> None:
    world.begin()
    heard = await world.publish()
    assert isinstance(heard, Submission)
    assert heard.accepted
    await _until("the first set is cached", world.is_exact)
    for number in range(ROUNDS):
        wire = list(BYTES)[number % len(BYTES)]
        up, reset = world.random.random() < 0.6, world.random.random() < 0.5
        after = world.random.randrange(BYTES[wire][not up])
        before = world.rows()
        cutter = world.cutters[wire]
        cutter.cut_next(up, after, reset)
        cutter.drop_all()
        world.change(number)
        heard = await world.publish()
        if isinstance(heard, Unreachable):
            assert wire == "uns", heard
            if not heard.uncertain:
                await deferLater(reactor, 0.2)  # type: ignore[arg-type]
                assert world.rows() == before, f"{wire} {up} {after} {reset}: a set that was cut off has an effect"
            heard = await world.publish()
        elif wire == "uns" and heard.code == CUT_OFF:
            assert world.rows() == before, f"{wire} {up} {after} {reset}: a set that was cut off has an effect"
            heard = await world.publish()
        assert isinstance(heard, Submission), f"{wire} {up} {after} {reset}: {heard}"
        assert heard.accepted
        await _until(f"all is cached after a cut of {wire}, {up=}, {after=}, {reset=}", world.is_exact)
    assert world.cutters["uns"].cuts >= ROUNDS // 8
    await _until("the queue is empty", lambda: not world.system.rows("queue"))
    world.system.assert_serial()
