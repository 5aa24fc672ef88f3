"""The queue manager as a service: real sockets, threads and databases; stopped in the middle and started again."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.application.service import MultiService
from twisted.internet import reactor as global_reactor
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory

from lcc.config import Config, parse_config
from lcc.errors import Busy
from lcc.model import Provider
from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello, Ready
from lcc.protocols.uns_qm import FROM_QM, Absorbed, EndSet, Set, write_notice
from lcc.protocols.work import DOWN, Done, Fetch, RecordedUpto
from lcc.roles.peer import Peer
from lcc.services import qm
from lcc.services.process.environment import real_environment
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.providers.providers import add_provider
from lcc.transport.links import RetryPolicy, link_service
from tests.support import stored
from tests.support.databases import Backend
from tests.support.roles.qm import NOW, page
from tests.support.waiting import until

reactor: Any = global_reactor
PROVIDERS, PAGES = 5, 60


class Sender:
    """A UNS: sends all that was not answered, at each connection."""

    def __init__(self, sets: list[tuple[int, str]]) -> None:
        self.sets = sets
        self.answered = 0


class SenderPeer(Peer):
    def __init__(self, sender: Sender) -> None:
        super().__init__(reactor, Hello(role="uns", name="uns", epoch="e"), frozenset(["qm"]), FROM_QM)
        self.sender = sender

    def peer_ready(self, hello: Hello) -> None:
        for number, (pid, body) in enumerate(self.sender.sets, 1):
            if number > self.sender.answered:
                self.say(Set("e", number, pid, number, False, 0, True, NOW))
                self.stream.send(body)
                self.say(EndSet(body.count("<u ")))

    def messages_received(self, messages: list[Flat]) -> None:
        for message in messages:
            if isinstance(message, Absorbed):
                assert (message.number, message.code) == (self.sender.answered + 1, 0)
                self.sender.answered += 1


class Fetcher:
    """A BOT-M that has fetched at once."""

    def __init__(self) -> None:
        self.kept: list[Done] = []
        self.number = 0


class FetcherPeer(Peer):
    def __init__(self, fetcher: Fetcher) -> None:
        hello = Hello(role="botm", name="botm", machine=1, run="r", capacity=8)
        super().__init__(reactor, hello, frozenset(["qm"]), DOWN)
        self.fetcher = fetcher

    def peer_ready(self, hello: Hello) -> None:
        for done in self.fetcher.kept:
            self.say(done)
        self.say(Ready())

    def messages_received(self, messages: list[Flat]) -> None:
        fetcher = self.fetcher
        for message in messages:
            if isinstance(message, Fetch):
                fetcher.number += 1
                number = fetcher.number
                done = Done(
                    number,
                    message.id,
                    message.pid,
                    message.key,
                    message.generation,
                    0,
                    200,
                    url=message.url,
                    size_bytes=1,
                    md5=f"{number:032x}",
                    machine=1,
                    file=number,
                )
                fetcher.kept.append(done)
                self.say(done)
            elif isinstance(message, RecordedUpto):
                fetcher.kept = [done for done in fetcher.kept if done.number > message.number]


class Links(Factory):
    noisy = False

    def __init__(self, make: Callable[[], Peer]) -> None:
        self.make = make

    def buildProtocol(self, addr: Any) -> Any:
        return self.make().build_stream()


def configure(backend: Backend) -> Config:
    text = f'home = "h"\n[database]\nurl = "{backend.url}"\n[qm]\nabsorb_batch = 25\nrecord_batch = 10\n'
    return parse_config(text, backend.home)


async def stop(service: MultiService) -> None:
    result = service.stopService()
    if isinstance(result, Deferred):
        await result


@pytest_twisted.ensureDeferred
async def test_stopped_in_the_middle_and_started_again(backend: Backend) -> None:
    config = configure(backend)
    database = BlockingDatabase(config.database.url, config.home, config.database, random=random.Random(1))
    bodies = []
    for number in range(PROVIDERS):
        provider = Provider(pid=0, roots=("http://site.example/",), password_hash=f"{number}")
        pid = database.write(add_provider, provider)
        bodies.append((pid, "".join(write_notice(page(at)) for at in range(PAGES))))
    sender, fetcher = Sender(bodies), Fetcher()
    links = MultiService()
    for endpoint, make in (("qm.sock", lambda: SenderPeer(sender)), ("qm-botm.sock", lambda: FetcherPeer(fetcher))):
        policy = RetryPolicy(random.random, 0.01, 0.05)
        link_service(reactor, f"unix:{config.home}/{endpoint}", Links(make), policy).setServiceParent(links)
    links.startService()
    try:

        def cached(wanted: int) -> bool:
            return len(database.interact(stored.urls, None, None, 1000)) >= wanted

        for reached in (
            lambda: cached(PROVIDERS * PAGES // 3),
            lambda: cached(PROVIDERS * PAGES) and sender.answered == PROVIDERS,
        ):
            service = qm.build(config, real_environment(reactor))
            service.startService()
            try:
                await until(reached)
            finally:
                await stop(service)
        assert database.interact(lambda txn: txn.value("SELECT COUNT(*) FROM qdb")) == 0
    finally:
        await stop(links)
        database.close()


@pytest_twisted.ensureDeferred
async def test_a_second_one_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    config = configure(Backend("sqlite", "sqlite:lcc.db", tmp_path))
    first, second = qm.build(config, real_environment(reactor)), qm.build(config, real_environment(reactor))
    first.startService()
    try:
        with pytest.raises(Busy):
            second.startService()
        engine = next(service.engine for service in first if isinstance(service, qm._Engine))
        await until(lambda: bool(engine.started))
    finally:
        await stop(first)


def test_options_read_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "lcc.toml"
    path.write_text("[qm]\nlease = 77\n")
    options = qm.Options()
    options.parseOptions(["--config", str(path)])
    assert options.config.qm.lease == 77.0
    assert len(list(qm.makeService(options, real_environment(reactor)))) == 6
