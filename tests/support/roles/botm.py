"""A BOT-M on a bench: its queue manager and its robots are played by the test."""

from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred

from lcc.config import BotmConfig
from lcc.protocols.work import (
    Fetch,
)
from lcc.roles.botm.engine import BotMaster
from lcc.storage.disk.content_folder import ContentFolder
from lcc.storage.disk.content_sync import ContentSync
from lcc.storage.disk.durable import DurableCounter
from lcc.storage.disk.file_system import Disk
from tests.support.transports import Wire

from .robots import READY, FakePeer, World, done, fake_bot, fake_qm


def at_once(function: Any, *args: Any) -> Deferred[Any]:
    """In place of a thread."""
    return maybeDeferred(function, *args)


class SyncedDisk(Disk):
    """Notes that it is synced, instead of waiting for it."""

    def __init__(self) -> None:
        self.synced: list[Any] = []

    def sync_all(self, folder: Any) -> None:
        self.synced.append(folder)


class Bench(World):
    """A BOT-M with its folder."""

    def __init__(self, path: Path, disk: Disk | None = None, **settings: Any) -> None:
        super().__init__()
        self.path = path
        self.settings = BotmConfig(machine=7, **{"content_reserve": 0, **settings})
        reserve = self.settings.content_reserve
        self.content = ContentFolder(path, lambda file: DurableCounter(file, 100), disk or Disk(), reserve)
        self.content.open()
        self.hellos = 0
        self.disk = SyncedDisk()
        self.sync = ContentSync(path, "boot1", self.disk)
        self.sync.open(self.content.names_upto)
        self.engine = BotMaster(self.settings, self.clock, self.content, self.sync, at_once, "m1")
        self.factory = self.engine.upstream_factory(self._good_hello)

    def _good_hello(self) -> None:
        self.hellos += 1

    def qm(self) -> tuple[FakePeer, Wire]:
        peer = fake_qm(self.clock)
        wire = self.connect(self.factory.buildProtocol(None), peer.build_stream())
        self.settle()
        return peer, wire

    def bot(
        self, capacity: int = 4, run: str = "b1", folder: str = "", owner: str = "", knows: str = ""
    ) -> tuple[FakePeer, Wire]:
        peer = fake_bot(self.clock, capacity, run, folder, owner, knows)
        stream = self.engine.downstream_factory().buildProtocol(None)
        assert stream is not None
        wire = self.connect(peer.build_stream(), stream)
        peer.say(READY)
        self.settle()
        return peer, wire

    def say(self, peer: FakePeer, *messages: Any) -> None:
        for message in messages:
            peer.say(message)
        self.settle()

    def write(self, fetch: Fetch, data: bytes = b"abc") -> None:
        (self.path / fetch.attempt).write_bytes(data)

    def finish(self, bot: FakePeer, fetch: Fetch) -> None:
        self.write(fetch)
        self.say(bot, done(fetch))

    def files(self) -> list[str]:
        return sorted(
            str(file.relative_to(self.path))
            for file in self.path.rglob("*")
            if file.is_file() and file.name not in ("counter", "synced", "owner")
        )


def ids(peer: FakePeer) -> list[str]:
    return [fetch.id for fetch in peer.of(Fetch)]
