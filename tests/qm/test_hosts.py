"""Providers that share a host: the rules alone, the scheduler against a model, and the queue manager as a whole."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lcc.domain.registration.sites import hosts_of
from lcc.model import Ahead, Cursor, Provider, ProviderHosts, QueueRow, Waiting
from lcc.roles.qm.schedule.hosts import HostGroups
from lcc.roles.qm.schedule.scheduler import Scheduler
from lcc.roles.qm.schedule.work import FetchInfo, Limits, ProviderWork
from lcc.storage.providers.providers import add_provider, change_provider, get_provider, order_removal, provider_roots
from tests.support.roles.qm import FakeBotm, FakeUns, MakeWorld, World, pages

from .model import NOW, ModelStore, random_limits, random_step, row_of, scheduler
from .test_scheduler import NOTHING

PIDS = (1, 2, 3)
HOSTS = ("a", "b")
SERIAL = st.sampled_from(["no", "watched", "all"])


def at(pid: int, *hosts: str, watched: bool = False) -> ProviderHosts:
    return ProviderHosts(pid, hosts, watched)


def partition(groups: HostGroups, pids: range = range(1, 9)) -> set[frozenset[int]]:
    return {group.members for pid in pids if (group := groups.get(pid)) is not None}


def expected(known: dict[int, ProviderHosts], serial: str) -> set[frozenset[int]]:
    """By the definition: who shares a serial host, and whoever these share one with."""
    groups = {pid: {pid} for pid in known}
    for host in {host for each in known.values() for host in each.hosts}:
        there = [pid for pid, each in known.items() if host in each.hosts]
        if serial == "all" or (serial == "watched" and any(known[pid].watched for pid in there)):
            union = set[int]().union(*(groups[pid] for pid in there))
            for pid in union:
                groups[pid] = union
    return {frozenset(group) for group in groups.values() if len(group) > 1}


PROVIDERS = st.builds(
    ProviderHosts,
    st.integers(1, 8),
    st.lists(st.sampled_from("abcd"), max_size=3, unique=True).map(tuple),
    st.booleans(),
)


@given(SERIAL, st.lists(PROVIDERS, max_size=8, unique_by=lambda each: each.pid), st.lists(PROVIDERS, max_size=12))
def test_groups_are_who_shares_a_serial_host(
    serial: str, first: list[ProviderHosts], changes: list[ProviderHosts]
) -> None:
    groups = HostGroups(serial)
    groups.load(first, NOW)
    known = {each.pid: each for each in first}
    assert partition(groups) == expected(known, serial)
    for each in changes:
        before = {pid: groups.get(pid) for pid in range(1, 9)}
        done = groups.learn(each, NOW)
        known[each.pid] = each
        assert partition(groups) == expected(known, serial)
        changed = {pid for pid, group in before.items() if group is not groups.get(pid)}
        assert changed <= (done.members if done is not None else set())


def test_what_is_out_keeps_a_provider_at_its_former_hosts() -> None:
    groups = HostGroups()
    groups.load([at(1, "a", watched=True), at(2, "a"), at(3, "b")], NOW)
    groups.learn(at(2, "b"), NOW, busy=True)
    assert partition(groups) == {frozenset([1, 2])}
    groups.free(2, NOW)
    assert partition(groups) == set()
    groups.learn(at(2, "a"), NOW)
    groups.removed(2, 2, NOW)
    group = groups.get(1)
    assert group is not None and group.occupied
    assert groups.answered(2, NOW) is None and group.occupied
    assert groups.answered(2, NOW) is not None and groups.get(1) is None


class SharedHosts(ModelStore):
    """The same model, with hosts; the model of politeness: one of a group, and the longest of intervals."""

    def __init__(self, serial: str, hosts: dict[int, ProviderHosts], limits: dict[int, Limits], most: int) -> None:
        subject = scheduler(3, run_rows=most, quantum_urls=4, hosts=HostGroups(serial))
        super().__init__(subject, limits, 0, most)
        self.quantum = 4
        self.hosts = hosts
        self.serial = serial
        self.out_at: dict[int, ProviderHosts] = {}
        subject.hosts.load(hosts.values(), NOW)

    def info_of(self, pid: int) -> FetchInfo:
        hosts = self.hosts[pid]
        return super().info_of(pid)._replace(hosts=hosts.hosts, watched=hosts.watched)

    def _out(self, work: ProviderWork) -> None:
        pid = work.pid
        mine = self.out_at[pid] = self.hosts[pid] if pid not in self.orders else self.out_at[pid]
        for other in self.orders.keys() - {pid}:
            assert not shares(mine, self.out_at[other], self.serial), "two fetches at once from one host"
        for other in self.withheld:
            assert not shares(mine, self.hosts[other], self.serial), "may be being fetched from there"
        super()._out(work)

    def restart(self, running: set[int]) -> None:
        """As the queue manager does it: what is running is said once the queue is loaded."""
        super().restart(set())
        for pid in sorted(running & self.withheld):
            first = min((row for row in self.rows.values() if row.pid == pid), key=lambda row: (row.psetid, row.seq))
            self.orders[pid] = [first]
            self.subject.running(pid, first.key, first.generation)
        self.withheld -= running

    def move(self, pid: int, hosts: ProviderHosts) -> None:
        self.hosts[pid] = hosts
        self.subject.provider_changed(pid, self.limits_of(pid), self.now)
        self.subject.roots_changed(hosts)


def shares(one: ProviderHosts, other: ProviderHosts, serial: str) -> bool:
    if serial == "no" or not set(one.hosts) & set(other.hosts):
        return False
    return serial == "all" or one.watched or other.watched


def random_hosts(random: Random, pid: int) -> ProviderHosts:
    return at(pid, *random.sample(HOSTS, random.choice([0, 1, 1, 1, 2])), watched=random.random() < 0.6)


@settings(max_examples=250)
@given(st.integers(0, 2**32), SERIAL, st.sampled_from([1, 2, 16]), st.booleans())
def test_one_of_a_group_at_a_time_and_nobody_starves(seed: int, serial: str, run_rows: int, plain: bool) -> None:
    random = Random(seed)
    limits = {} if plain else {pid: random_limits(random) for pid in PIDS}
    if not plain:
        limits = {pid: each._replace(interval=random.choice([0.0, 0.5, 20.0])) for pid, each in limits.items()}
    store = SharedHosts(serial, {pid: random_hosts(random, pid) for pid in PIDS}, limits, run_rows)
    running = {pid for pid in PIDS if random.random() < 0.3}
    if random.random() < 0.3:
        for pid in PIDS:
            store.absorb(pid, [(url, False) for url in range(random.randrange(4))])
        # What is out is what an earlier queue manager of the same rules may have sent.
        for pid in sorted(running):
            if any(shares(store.hosts[pid], store.hosts[other], serial) for other in running - {pid}):
                running.discard(pid)
        store.out_at = dict(store.hosts)
        store.restart(running)
    for _ in range(random.randrange(300)):
        random_step(store, random)
        if random.random() < 0.05:
            pid = random.choice(PIDS)
            store.move(pid, random_hosts(random, pid))
        if random.random() < 0.02:
            store.let_go()
    store.drain()
    assert store.subject.taken_count == 0 and store.subject.buffered_count == 0
    assert store.subject.hosts.waiting_count == 0


def test_turns_go_round_and_a_lower_priority_waits() -> None:
    """Quanta of two rows: those of one priority take turns, however full their queues are."""
    subject = scheduler(8, quantum_urls=2, hosts=HostGroups())
    subject.hosts.load([at(pid, "a", watched=True) for pid in PIDS], NOW)
    waiting = [Waiting(1, 1), Waiting(2, 2), Waiting(3, 3)]
    assert fetched(subject, waiting, 12) == [1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3]
    subject = scheduler(8, quantum_urls=2, hosts=HostGroups())
    subject.hosts.load([at(pid, "a", watched=True) for pid in PIDS], NOW)
    waiting = [Waiting(1, 1), Waiting(2, 2, 1), Waiting(3, 3, 1)]
    assert fetched(subject, waiting, 8, {2: 1, 3: 1}) == [2, 2, 3, 3, 2, 2, 3, 3]


def fetched(
    subject: Scheduler, waiting: list[Waiting], count: int, priorities: dict[int, int] | None = None
) -> list[int]:
    """Whom the first so many rows are of; all of them have work, always."""
    rows: list[QueueRow] = [row_of(entry.pid, entry.psetid, seq) for entry in waiting for seq in range(1, 30)]
    order: list[int] = []
    subject.load(waiting)
    while len(order) < count:
        subject.fill(10)
        for cursor in (cursors := subject.wants_read_ahead(10)):
            limits = Limits(priority=(priorities or {}).get(cursor.pid, 0))
            give(subject, cursor, rows, FetchInfo("", limits=limits, hosts=("a",), watched=True))
        work = subject.take(NOW)
        assert work is not None or cursors
        if work is not None:
            assert subject.take(NOW) is None
            ((row, _),) = work.rows_out
            order.append(row.pid)
            rows.remove(row)
            subject.finished(row.pid, row.key, 0, 1, NOW)
            subject.recorded([(row.key, row.generation)], NOTHING, NOW)
    return order


def give(subject: Scheduler, cursor: Cursor, rows: list[QueueRow], info: FetchInfo) -> None:
    place = (cursor.psetid, cursor.seq)
    mine = [row for row in rows if row.pid == cursor.pid and (row.psetid, row.seq) > place]
    subject.rows_read([cursor], [Ahead(cursor.pid, mine[: cursor.limit])], {cursor.pid: info})


def pids_out(botm: FakeBotm) -> list[int]:
    return sorted({fetch.pid for fetch in botm.out.values()})


def two(world: World, **watched: Any) -> tuple[int, int]:
    """A registered provider, and a watched one of the same host; both have something to fetch."""
    registered, other = world.provider(), world.provider(watched=True, **watched)
    uns = FakeUns(world)
    uns.send_set(1, registered, pages(1, 2, 3))
    uns.send_set(2, other, pages(4, 5, 6))
    return registered, other


@pytest.mark.parametrize(
    ("serial", "watched", "together"),
    [("watched", True, 1), ("watched", False, 2), ("all", False, 1), ("no", True, 2)],
)
def test_the_setting(make_world: MakeWorld, serial: str, watched: bool, together: int) -> None:
    world = make_world(serial_by_host=serial)
    uns, botm = FakeUns(world), FakeBotm(world)
    uns.send_set(1, world.provider(), pages(1, 2))
    uns.send_set(2, world.provider(watched=watched), pages(3, 4))
    most = 0
    while botm.out:
        most = max(most, len(pids_out(botm)))
        botm.done(next(iter(botm.out.values())))
        world.settle()
    assert most == together and len(botm.seen) == 4


def test_a_lost_machine_holds_all_of_its_host(make_world: MakeWorld) -> None:
    world = make_world(lease=50.0)
    botm, other = FakeBotm(world), FakeBotm(world, 2)
    registered, _ = two(world)
    lost, there = (botm, other) if botm.out else (other, botm)
    (order,) = lost.out.values()
    assert order.pid == registered and not there.out
    lost.close()
    world.advance(49)
    assert not there.out
    world.order_ended(order)
    world.advance(2)
    assert len(there.out) == 1


def test_what_runs_at_a_restart_holds_all_of_its_host(world: World) -> None:
    botm = FakeBotm(world)
    registered, _ = two(world)
    assert pids_out(botm) == [registered]
    (order,) = botm.out.values()
    world.start()
    back = FakeBotm(world, earlier=botm)
    world.advance(5)
    assert list(back.out) == [order.id]
    back.done(order)
    world.advance(1)
    assert len(back.out) == 1
    back.finish_all()
    assert len(back.seen) == 5 and not world.count("qdb")


def test_what_may_run_at_a_missing_machine_holds_all_of_its_host(make_world: MakeWorld) -> None:
    """Also those that had nothing to fetch then, and those that are registered meanwhile."""
    world = make_world(lease=50.0)
    botm = FakeBotm(world)
    uns = FakeUns(world)
    registered, watched = world.provider(), world.provider(watched=True)
    uns.send_set(1, registered, pages(1, 2))
    (order,) = botm.out.values()
    world.start()
    other, uns = FakeBotm(world, 2), FakeUns(world)
    uns.send_set(2, watched, pages(3))
    uns.send_set(3, world.provider(), pages(4))
    far = world.database.now(add_provider, Provider(0, ("http://far.example/",), "x"))
    uns.send_set(4, far, [page._replace(curl="http://far.example/5") for page in pages(5)])
    world.advance(5)
    other.finish_all()
    world.advance(55)
    assert {fetch.pid for fetch in other.seen} == {far}
    world.order_ended(order)
    world.advance(5)
    assert len(other.out) == 1
    other.finish_all()
    assert {fetch.pid for fetch in other.seen} >= {registered, watched}


def test_a_fetch_of_one_counts_for_the_interval_of_the_other(world: World) -> None:
    botm = FakeBotm(world, orders_max=1000)
    registered, watched = world.provider(), world.provider(watched=True, interval_seconds=10.0)
    uns = FakeUns(world)
    uns.send_set(1, watched, pages(1, 2))
    assert not botm.out  # what others began before is not known
    world.advance(10.5)
    (order,) = botm.out.values()
    assert order.pid == watched
    uns.send_set(2, registered, pages(3))
    world.advance(2)
    botm.done(order, elapsed_ms=2000)
    world.settle()
    (order,) = botm.out.values()
    assert order.pid == registered  # it has no interval of its own
    world.advance(5)
    botm.done(order, elapsed_ms=5000)
    world.advance(4.4)
    assert not botm.out  # the other one's own last fetch began 11 seconds ago
    world.advance(1)
    assert pids_out(botm) == [watched]


def test_a_long_interval_comes_to_its_turn_beside_a_busy_provider(make_world: MakeWorld) -> None:
    world = make_world(quantum_urls=3, run_rows=2)
    botm = FakeBotm(world, orders_max=1000)
    registered, watched = world.provider(), world.provider(watched=True, interval_seconds=5.0)
    uns = FakeUns(world)
    uns.send_set(1, registered, pages(*range(60)))
    uns.send_set(2, watched, pages(*range(60, 64)))
    begun: list[tuple[float, int]] = []
    for _ in range(600):
        for fetch in list(botm.out.values()):
            begun.append((world.clock.seconds(), fetch.pid))
            botm.done(fetch, elapsed_ms=0)
        world.advance(0.5)
    pids = [pid for _, pid in begun]
    assert pids.count(registered) == 60 and pids.count(watched) == 4
    assert pids[:50].count(watched) >= 2
    for (before, _), (time, pid) in pairwise(begun):
        assert pid == registered or time - before >= 5.0 - 0.5


def test_a_higher_priority_recalls_what_is_not_begun(make_world: MakeWorld) -> None:
    world = make_world(run_rows=8)
    botm, uns = FakeBotm(world, orders_max=1000), FakeUns(world)
    low, high = world.provider(watched=True), world.provider(priority=1)
    uns.send_set(1, low, pages(*range(8)))
    assert len(botm.out) == 8
    uns.send_set(2, high, pages(20, 21))
    assert botm.recalls == [low] and pids_out(botm) == [low]
    (begun,) = botm.hand_back(low)
    botm.done(begun)
    world.settle()
    assert pids_out(botm) == [high]
    botm.finish_all()
    assert len({fetch.url for fetch in botm.seen}) == 10 and not world.count("qdb")


def test_one_that_becomes_watched_removed_or_moves(world: World) -> None:
    botm, uns = FakeBotm(world), FakeUns(world)
    first, second = world.provider(), world.provider()
    uns.send_set(1, first, pages(1, 2, 3))
    uns.send_set(2, second, pages(4, 5, 6))
    assert pids_out(botm) == [first, second]

    def change(pid: int, **fields: Any) -> None:
        provider = world.database.now(get_provider, pid)
        assert provider is not None
        world.database.now(change_provider, attrs.evolve(provider, **fields))
        world.advance(1.5)

    change(first, watched=True)
    for fetch in list(botm.out.values()):
        botm.done(fetch)
    world.settle()
    assert len(botm.out) == 1  # from now on one at a time
    change(first, watched=False)
    world.settle()
    assert pids_out(botm) == [first, second]
    change(first, watched=True)
    for fetch in list(botm.out.values()):
        if fetch.pid == second:
            botm.done(fetch)
    world.settle()
    assert pids_out(botm) == [first]
    world.database.now(order_removal, first)
    world.advance(2)
    assert pids_out(botm) == [first]  # its last fetch has not ended
    botm.finish_all(1)
    world.advance(1)
    assert pids_out(botm) == [second]


def test_the_hosts_in_the_table(world: World) -> None:
    one = world.provider("http://a.example:8080/x/", "https://a.example/", "http://[::1]:81/")
    two = world.provider(watched=True)
    assert [
        at(pid, *hosts_of(roots), watched=watched)
        for pid, watched, roots in sorted(world.database.now(provider_roots))
    ] == [
        at(one, "[::1]", "a.example", "site.example"),
        at(two, "site.example", watched=True),
    ]
