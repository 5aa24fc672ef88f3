"""A notifier and real processes: UNS and queue manager are killed while many sets are under way, nothing is lost and
nothing applied twice."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest_twisted
from twisted.internet import reactor

from lcc.config import load_config
from lcc.model import Source
from lcc.model.notifiers import NoticeOutcome, SourcedSet
from lcc.roles.notifier import NotifierLink
from lcc.storage.database.database import BlockingDatabase
from lcc.transport.links import RetryPolicy, link_service
from tests.support.processes.system import System
from tests.support.waiting import until

from .databases import SQLITE_ALWAYS, by_turns

SITES = 20
SETS = 1500


class Notifier:
    """What a role would do: tells sets, and notes their answers.

    :ivar outcomes: by number.
    """

    def __init__(self, system: System, role: str, epoch: str = "e1") -> None:
        policy = RetryPolicy(random.Random(1).random)
        self.link = NotifierLink(role, "test", epoch, "run", reactor, policy.good_hello)  # type: ignore[arg-type]
        path = system.folder / "home" / f"notify-{role}.sock"
        self.service = link_service(reactor, f"unix:{path}", self.link.factory(), policy)
        self.service.startService()
        self.outcomes: dict[int, NoticeOutcome] = {}

    def tell(
        self, number: int, pid: int, *urls: dict[str, str], source: Source = Source.POLLED, order: int = 0
    ) -> None:
        def answered(outcome: NoticeOutcome) -> None:
            assert outcome.number not in self.outcomes
            self.outcomes[outcome.number] = outcome

        self.link.tell(SourcedSet(number, pid, source, urls, order)).addCallback(answered)

    async def all_accepted(self, count: int) -> None:
        await until(lambda: len(self.outcomes) == count)
        assert {(outcome.code, outcome.refused) for outcome in self.outcomes.values()} == {(0, ())}


@asynccontextmanager
async def notifier(system: System, role: str, epoch: str = "e1") -> AsyncIterator[Notifier]:
    one = Notifier(system, role, epoch)
    try:
        yield one
    finally:
        one.link.close()
        await one.service.stopService()


def sites(system: System, count: int) -> list[int]:
    found = []
    for number in range(count):
        root = f"http://site{number}.example/"
        found.append(json.loads(system.admin("provider", "add", "--root", root, "--json"))["pid"])
    return found


def asked(system: System, sql: str) -> list[tuple[Any, ...]]:
    config = load_config(system.config)
    database = BlockingDatabase(config.database.url, config.home, config.database, random=random.Random(1))
    try:
        return database.interact(lambda txn: txn.query(sql))
    finally:
        database.close()


def queued(system: System) -> list[str]:
    """What is queued; each URL as often as it was taken from a set."""
    return sorted(url for (url,) in asked(system, "SELECT curl FROM qdb"))


def applied(system: System) -> int:
    """How many sets were applied."""
    ((value,),) = asked(system, "SELECT value FROM counters WHERE name = 'psetid'")
    return int(value)


def page(number: int) -> str:
    return f"http://site{number % SITES}.example/page{number}"


@by_turns("victim", "uns", "qm", "both")
@pytest_twisted.ensureDeferred
async def test_killed_while_sets_are_under_way(system: System, victim: str) -> None:
    pids = sites(system, SITES)
    roles = ("uns", "qm")
    system.start(*roles)
    async with notifier(system, "scheduler") as one:
        for number in range(1, SETS + 1):
            one.tell(number, pids[number % SITES], {"c": page(number)})
        for turn in range(2):
            seen = len(one.outcomes)
            await until(lambda seen=seen: len(one.outcomes) > min(seen + 50, SETS - 1))  # type: ignore[misc]
            for role in roles:
                if victim in (role, "both"):
                    system.kill(role)
            if turn == 1 and victim != "uns":
                # For a while there is no queue manager: everything is in the spool.
                system.start(*({"uns"} if victim == "both" else ()))
                await one.all_accepted(SETS)
                system.start("qm")
            else:
                system.start(*(role for role in roles if victim in (role, "both")))
        await one.all_accepted(SETS)
    await until(lambda: len(queued(system)) == SETS)
    assert queued(system) == sorted(map(page, range(1, SETS + 1)))
    assert applied(system) == SETS, "each was applied once"


@SQLITE_ALWAYS
@pytest_twisted.ensureDeferred
async def test_a_notifier_that_starts_again_tells_all_again(system: System) -> None:
    """It has no memory but its outbox: numbers and epoch."""
    pids = sites(system, 2)
    system.start("uns", "qm")
    for turn in range(4):
        async with notifier(system, "scheduler") as one:
            for number in range(1, 301 + 100 * turn):
                one.tell(number, pids[number % 2], {"c": f"http://site{number % 2}.example/{number}"})
            await until(lambda: len(one.outcomes) >= 100)
    async with notifier(system, "scheduler") as one:
        for number in range(1, 601):
            one.tell(number, pids[number % 2], {"c": f"http://site{number % 2}.example/{number}"})
        await one.all_accepted(600)
    await until(lambda: len(queued(system)) == 600)
    assert applied(system) == 600


@SQLITE_ALWAYS
@pytest_twisted.ensureDeferred
async def test_the_words_of_a_site_are_in_the_order_of_their_asking(system: System) -> None:
    (pid,) = sites(system, 1)
    system.start("uns", "qm")
    async with notifier(system, "push") as one:
        older = await one.link.draw(pid)
        newer = await one.link.draw(pid)
        assert newer > older and await one.link.draw(pid, newer) == newer
        url = {"c": "http://site0.example/a", "m": "text/html"}
        one.tell(1, pid, url, source=Source.PUSHED, order=newer)
        one.tell(2, pid, {**url, "op": "delete"}, source=Source.PUSHED, order=older)
        one.tell(3, pid, url, source=Source.PUSHED, order=newer + 10)
        one.tell(4, pid, url, source=Source.POLLED)
        await until(lambda: len(one.outcomes) == 4)
        assert [one.outcomes[number].code for number in range(1, 5)] == [0, 0, 1107, 1103]
        await until(lambda: queued(system) == ["http://site0.example/a"])


@pytest_twisted.ensureDeferred
async def test_watched_providers_are_made_once(system: System) -> None:
    pids = sites(system, 1)
    system.start("uns", "qm")
    async with notifier(system, "spider") as one:
        roots = [f"http://watched{number % 5}.example/" for number in range(20)]
        found = [await one.link.watch(root) for root in roots]
        assert len(set(found)) == 5 and found[:5] == found[5:10]
        assert await one.link.watch("http://site0.example/") == pids[0]
        system.kill("uns")
        system.start("uns")
        assert [await one.link.watch(root) for root in roots] == found
        for number, pid in enumerate(found[:5], 1):
            one.tell(number, pid, {"c": f"http://watched{number - 1}.example/robots.txt"})
        await one.all_accepted(5)
    await until(lambda: len(queued(system)) == 5)
    rows = {row["pid"]: row for row in system.rows("provider", "list")}
    assert all(rows[pid]["watched"] for pid in found) and not rows[pids[0]]["watched"]


@SQLITE_ALWAYS
@pytest_twisted.ensureDeferred
async def test_a_uns_that_is_stopped_answers_what_is_under_way(system: System) -> None:
    (pid,) = sites(system, 1)
    system.start("uns")
    async with notifier(system, "scheduler") as one:
        for number in range(1, 201):
            one.tell(number, pid, {"c": f"http://site0.example/{number}"})
        await until(lambda: one.outcomes)
        process = system.processes.pop("uns")
        process.send_signal(signal.SIGTERM)
        await until(lambda: process.poll() is not None)
        log = system.log("uns")
        assert "Server Shut Down" in log and "Traceback" not in log
        await until(lambda: not one.link.connected)
        system.start("uns", "qm")
        await one.all_accepted(200)
    await until(lambda: len(queued(system)) == 200)
    assert applied(system) == 200
