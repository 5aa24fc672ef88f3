"""A whole LCC in one process, on connections in memory: UNS, QM, a central and a machine's BOT-M, BOTs, the API.

The services are those that ``twistd`` runs, put together by the same functions; only the reactor, the threads, the
web server and the disk's fsync are replaced.  The database is SQLite.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from hashlib import md5
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import attrs
from twisted.application.service import IService, MultiService, Service
from twisted.internet.defer import Deferred, succeed
from twisted.internet.endpoints import UNIXClientEndpoint
from twisted.internet.interfaces import IDelayedCall
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.config import Config, DatabaseConfig, parse_config
from lcc.errors import FetchError, code
from lcc.fetchers.http import FetchCancelled
from lcc.interfaces import IAttemptFile, IFetcher
from lcc.model import CachedUrl, Fetched, FetchOrder, Provider
from lcc.protocols.cp_uns import InitAccepted
from lcc.provider.client import Submission, Unreachable, submit
from lcc.services import bot, botm, cu, qm, uns
from lcc.services.process.environment import real_environment
from lcc.storage.database.migrations import CONNECTIONS, MAIN
from lcc.storage.database.transactions import Txn
from lcc.storage.disk.content_folder import ROBOTS, content_path
from lcc.storage.disk.file_system import AnyPath, Disk
from lcc.storage.providers.passwords import hash_password
from lcc.storage.providers.providers import add_provider
from lcc.storage.providers.sessions import CONNECTIONS_FILE
from lcc.testing.inline_database import InlineDatabase
from lcc.transport.http.client import HttpClient
from tests.support import stored
from tests.support.net import Cut, Net

T = TypeVar("T")
NOW = 1_700_000_000
ROOT, OTHER_ROOT = "http://site.example/", "http://other.example/"
PASSWORD = "0123456789abcdef"
PID, OTHER_PID = 1, 2
FULL_SETS = 1_000_000
PROVIDERS = (
    Provider(PID, (ROOT,), hash_password(PASSWORD, generated=True), full_sets=FULL_SETS),
    Provider(OTHER_PID, (OTHER_ROOT,), hash_password(PASSWORD, generated=True), full_sets=FULL_SETS),
)
TRIES = 100
CUT_OFF = code("cut-off")
SILENT_SECONDS = 400
"""Longer than anybody waits for a sign of life."""
SQLITE = "sqlite:lcc.db"
_CONFIG = """
home = "."
mimetypes = ["text/*"]
[uns]
listen = "unix:{home}/uns"
connect = "unix:{home}/qm"
[qm]
listen = "unix:{home}/qm"
listen_botm = "unix:{home}/qm-botm"
delete_grace = 0
[botm]
machine = 3
parent = "unix:{home}/central"
listen = "unix:{home}/botm"
content_listen = "unix:{home}/content"
content_idle_timeout = 30.0
[bot]
connect = "unix:{home}/botm"
concurrency = 4
[cu]
listen = "unix:{home}/cu"
listen_xml = "unix:{home}/cu-xml"
content = "unix:{home}/central-content"
idle_timeout = 60.0
"""
_CENTRAL = """
home = "central"
[botm]
name = "central"
serves = "botms"
connect = "unix:{home}/../qm-botm"
listen = "unix:{home}/../central"
content_listen = "unix:{home}/../central-content"
content_idle_timeout = 30.0
"""
ROLES = (qm, botm, bot, uns)


class _Disk(Disk):
    """The disk, which will not lose its power."""

    def sync_file(self, path: AnyPath) -> None:
        pass

    sync_folder = sync_all = sync_file


class _Database(InlineDatabase):
    """As the roles take one; ``home`` holds it."""

    def start(self) -> None:
        pass

    def stop(self) -> Deferred[None]:
        return succeed(None)


def _as_process(service: IService) -> MultiService:
    """Services of one parent differ in their names, as those of processes need not."""
    process = MultiService()
    service.setServiceParent(process)
    return process


def prepare(folder: Path) -> None:
    """Make the databases of an LCC with its providers there, to be copied."""
    main = InlineDatabase(folder, Random(1))
    for provider in PROVIDERS:
        main.now(add_provider, provider)
    main.close()
    InlineDatabase(folder, Random(1), f"sqlite:{CONNECTIONS_FILE}", CONNECTIONS).close()


@implementer(IFetcher)
class Origin:
    """The web server of all providers.

    :ivar pages: URL -> what is there; what is not there is a 404.
    :ivar says: URL -> how the fetch ends, if it does not give a page.
    :ivar overlaps: times when it was asked for two pages of one provider at once.
    :ivar fetches: how often each URL was asked for.
    """

    schemes = ("http",)

    def __init__(self, net: Net, fetch_seconds: Callable[[int], float]) -> None:
        self._net = net
        self._fetch_seconds = fetch_seconds
        self.pages: dict[str, bytes] = {}
        self.says: Callable[[str], Fetched | FetchError | None] = lambda _: None
        self.overlaps = 0
        self.fetches: Counter[str] = Counter()
        self._running: Counter[int] = Counter()

    def fetch(self, order: FetchOrder, sink: IAttemptFile, follow: Callable[[str, str], str]) -> Deferred[Fetched]:
        self.fetches[order.url] += 1
        self.overlaps += self._running[order.pid]
        self._running[order.pid] += 1

        def over(result: Any) -> Any:
            self._running[order.pid] -= 1
            return result

        def cancel(deferred: Deferred[Fetched]) -> None:
            call.cancel()
            deferred.errback(FetchCancelled(0))

        def answer() -> None:
            said = self.says(order.url)
            data = self.pages.get(order.url)
            if isinstance(said, FetchError) or (said is None and data is None):
                done.errback(said or FetchError.from_status(404))
                return
            sink.write(data or b"")
            done.callback(said or Fetched(200, order.url, "text/html", wire_bytes=len(data or b"")))

        done: Deferred[Fetched] = Deferred(cancel)
        call: IDelayedCall = self._net.callLater(self._fetch_seconds(order.pid), answer)
        return done.addBoth(over)

    def close(self) -> Deferred[None]:
        return succeed(None)


@attrs.frozen
class Heard:
    """What a provider heard of one submission.

    :ivar answer: None: it got none; ``uncertain``: the set may have been accepted all the same.
    """

    answer: Submission | None
    uncertain: bool = False


class World:
    """The LCC.

    :param prepared: a folder that :func:`prepare` has filled; None: begin with an empty database.
    :param to_cut: see :class:`~tests.support.net.Net`.
    :param fetch_seconds: how long each fetch of a provider takes.
    :param users: there is an API for content users, too.
    :param url: of the database.
    :param more: lines for sections of the configuration.
    :ivar welcomes: all that the provider was told at the beginning of its connections.
    """

    def __init__(
        self,
        folder: Path,
        prepared: Path | None,
        to_cut: Cut | None = None,
        fetch_seconds: Callable[[int], float] = lambda pid: 0.01,
        users: bool = False,
        url: str = SQLITE,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.net = Net(to_cut)
        self.random = Random(1)
        for file in prepared.iterdir() if prepared is not None else ():
            shutil.copy(file, folder)
        self._url = url
        self._more = more or {}
        self._databases: dict[str, _Database] = {}
        self.database = self._database(url, folder)
        if prepared is None:
            for provider in PROVIDERS:
                self.database.now(add_provider, provider)
        self.origin = Origin(self.net, fetch_seconds)
        self.welcomes: list[InitAccepted] = []
        self.robots = 1
        self._asks = HttpClient(self.net, 1, 30.0)
        self.services = self._services((*ROLES, cu) if users else ROLES)
        self.services.startService()
        self.net.skip(1)

    def _services(self, roles: Iterable[Any]) -> MultiService:
        runs = count()
        environment = self._environment = attrs.evolve(
            real_environment(self.net),
            now=lambda: NOW + self.net.seconds(),
            chance=self.random,
            token=lambda: f"{next(runs):016x}",
            disk=_Disk(),
            lock=lambda _: Service(),  # nobody else is there
            database=self._database,
            boot_id=lambda: "boot",
            fetchers=lambda *_: {"http": self.origin},
        )
        services = MultiService()
        config, central = self._config(_CONFIG), self._config(_CENTRAL)
        central.home.mkdir()
        for service in (*(role.build(config, environment) for role in roles), botm.build(central, environment)):
            _as_process(service).setServiceParent(services)
        return services

    def add_robot(self) -> None:
        """Start another robot."""
        self.robots += 1
        _as_process(bot.build(self._config(_CONFIG), self._environment)).setServiceParent(self.services)
        self.net.settle()

    def _config(self, text: str) -> Config:
        for section, lines in self._more.items():
            text = text.replace(f"[{section}]\n", f"[{section}]\n{lines}\n")
        return parse_config(f'{text}\n[database]\nurl = "{self._url}"\n', self.folder)

    def _database(
        self, url: str, home: Path, reactor: Any = None, settings: DatabaseConfig | None = None, **more: Any
    ) -> Any:
        """One connection for all roles: they ask it one after the other."""
        if url not in self._databases:
            self._databases[url] = _Database(self.folder, self.random, url, more.get("series", MAIN))
        return self._databases[url]

    # The provider.

    def submit(self, urls: list[dict[str, str]] | None, full: bool = False, pid: int = PID) -> Heard:
        """One connection; without ``urls`` it only hears what it is told."""
        endpoint = UNIXClientEndpoint(self.net, self.address("uns"))
        done = submit(
            self.net,
            endpoint,
            pid,
            PASSWORD,
            urls,
            full=full,
            urlprefix=ROOT if pid == PID else OTHER_ROOT,
            on_welcome=self._welcomed,
            timeout_seconds=60.0,
        )
        try:
            return Heard(self.result_of(done))
        except Unreachable as error:
            return Heard(None, error.uncertain)

    def result_of(self, asked: Deferred[T]) -> T:
        """What this fires with, in due time.

        :raises Exception: what it fails with.
        """
        told: list[Any] = []
        asked.addBoth(told.append)
        for _ in range(1000):
            self.net.settle()
            if told:
                break
            self.net.skip(0.5)
        assert told, "somebody waits for ever"
        if isinstance(told[0], Failure):
            told[0].raiseException()
        result: T = told[0]
        return result

    def _welcomed(self, welcome: InitAccepted) -> bool:
        self.welcomes.append(welcome)
        return True

    def publish(self, urls: list[dict[str, str]], full: bool = False, pid: int = PID) -> int:
        """Submit until it is accepted; how often that was tried."""
        for tries in range(1, TRIES):
            heard = self.submit(urls, full, pid)
            if heard.answer is not None and heard.answer.code != CUT_OFF:
                assert heard.answer.accepted and not heard.answer.faults, heard.answer
                return tries
            self.net.skip(1)
        raise AssertionError("it is never accepted")

    # What the end is.

    def drain(self, seconds: float = 900) -> float:
        """Until nothing is left to do; how long that took.

        :raises AssertionError: something is left.
        """
        begun = self.net.seconds()
        while left := self.left():
            assert self.net.seconds() - begun < seconds, f"after {seconds} s: {left}"
            self.net.skip(0.5)
        return self.net.seconds() - begun

    def address(self, name: str) -> str:
        """Of a port: its socket's path."""
        return str(self.folder / name)

    def left(self) -> str:
        """What is still to be done."""
        rows = {table: self.count(table) for table in ("qdb", "qpsdb", "fsmdb")}
        rows["spooled"] = len(list((self.folder / "spool").glob("*.set")))
        return " ".join(f"{name}={number}" for name, number in rows.items() if number)

    def count(self, table: str, where: str = "1 = 1") -> int:
        return int(self.database.now(lambda txn: txn.value(f"SELECT COUNT(*) FROM {table} WHERE {where}")))

    def error_count(self) -> int:
        """Errors of the provider's pages that were ever counted."""
        return int(self.database.now(lambda txn: txn.value("SELECT errseq FROM pstats WHERE pid = ?", [PID])))

    def tables(self) -> dict[str, list[tuple[Any, ...]]]:
        """All rows of the database, but for what the queue manager notes of itself as time goes by."""

        def read(txn: Txn) -> dict[str, list[tuple[Any, ...]]]:
            names = {row[0] for row in txn.query("SELECT name FROM sqlite_master WHERE type = 'table'")}
            return {
                name: sorted(txn.query(f"SELECT * FROM {name}"), key=repr)
                for name in sorted(names - {"machines", "qmstate"})
            }

        return self.database.now(read)

    @property
    def changes(self) -> int:
        """Changes of the cache, ever."""
        return int(self.database.now(lambda txn: txn.value("SELECT value FROM counters WHERE name = 'change'")))

    def cached(self) -> dict[str, CachedUrl]:
        rows = self.database.now(stored.urls, None, None, 100_000)
        return {row.curl: row for row in rows if row.state == "cached"}

    def check_content(self, expected: dict[str, bytes]) -> None:
        """The cache has exactly these pages, each with its file, and there is no other file."""
        rows = self.cached()
        assert rows.keys() == expected.keys()
        files = set()
        for url, data in expected.items():
            row = rows[url]
            path = content_path(row.fetched_fileid)
            files.add(path)
            assert (self.folder / "content" / path).read_bytes() == data, url
            assert (row.md5, row.length) == (md5(data).hexdigest(), len(data)), row
        folder = self.folder / "content"
        found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        locks = {name for name in found if name.startswith(f"{ROBOTS}/")}
        assert found - locks - {"counter", "synced", "mark", "owner"} == files, "files that no row names"

    def check_at_rest(self, silent: bool) -> None:
        """Nothing hangs: the links are up again, all other connections are over, nothing waits in the spool.

        :param silent: an end may have to find out by its timeout that its connection is over.
        """
        self.net.skip(SILENT_SECONDS if silent else 3)
        wires = Counter(connection.wire for connection in self.net.open_connections)
        assert wires == {"qm": 1, "qm-botm": 1, "central": 1, "botm": self.robots}, wires
        left = [path.name for path in (self.folder / "spool" / "incoming").iterdir()]
        assert not left, left
        held = self._botm_status()
        assert not held["files"], f"the BOT-M still holds {held}"
        assert not held["attempts"], f"the BOT-M still holds {held}"
        assert self.origin.overlaps == 0, "two fetches at once"

    def _botm_status(self) -> dict[str, Any]:
        """What the BOT-M tells of itself at its content port."""
        told: list[bytes] = []
        asked = self._asks.get(f"unix:{self.address('content')}", "/status")
        asked.addCallback(lambda answer: answer.read(100_000)).addCallback(told.append)
        self.net.settle()
        self._asks.close()
        self.net.settle()
        status: dict[str, Any] = json.loads(told[0])
        return status

    def stop(self) -> None:
        """Stop everything; no timer and no connection may be left."""
        stopped: list[Any] = []
        self.services.stopService().addCallback(stopped.append)
        self.net.settle()
        assert stopped, "a service does not stop"
        assert not self.net.getDelayedCalls(), self.net.getDelayedCalls()
        assert not self.net.open_connections
        assert not self.net.ports
        self.close()

    def close(self) -> None:
        """Give back what the system gave, also where something has failed."""
        if self.services.running:
            self.services.stopService()
            self.net.settle()
        for database in self._databases.values():
            database.close()
        self._databases.clear()
