"""What is different on a cluster: locks of one node, conflicts at COMMIT, nodes that go and come back."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pymysql
import pytest

from lcc.errors import Busy, StoreUnavailable
from lcc.model import Provider, SetStart
from lcc.storage.database.tables.order_rows import add_order
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.providers import add_provider, list_providers
from lcc.storage.providers.sessions import Login, count_sessions
from lcc.storage.providers.sessions import _Draw as Draw
from lcc.storage.queue.write_transaction import WriteTransaction, claim_run
from lcc.testing.galera import GaleraNode
from tests.support.waiting import wait_for

from .kit import Place, counter, node_of

pytestmark = pytest.mark.long


def test_tables_are_made_at_all_nodes(place: Place) -> None:
    first, second, third = place.cluster.nodes
    assert place.open(first).write(claim_run) == 1
    assert [place.open(node).interact(counter, "qm_run") for node in (second, third)] == [1, 1]
    tables = {str(node.execute(f"SHOW TABLES FROM {place.name}")) for node in (first, second, third)}
    assert len(tables) == 1 and "lccurl" in tables.pop()
    database = place.open(first)
    database.interact(node_of)
    assert database.dialect.certifies


def test_who_reads_elsewhere_sees_what_was_committed_before(place: Place) -> None:
    writer, *readers = [place.open(node) for node in place.cluster.nodes]
    # The other nodes have much to do, so that they are behind.
    writer.write(lambda txn: txn.execute("CREATE TABLE heap (i INT NOT NULL PRIMARY KEY, t VARCHAR(255))"))
    for number in range(30):
        rows = [(number * 1000 + row, "x" * 200) for row in range(1000)]
        writer.write(lambda txn, rows=rows: txn.insert("heap", ("i", "t"), rows))
        run = writer.write(claim_run)
        assert [reader.interact(counter, "qm_run") for reader in readers] == [run, run]


class Stall:
    """Lets a node not apply what the others commit; it certifies it all the same."""

    def __init__(self, place: Place, node: GaleraNode) -> None:
        self._place = place
        self._node = node
        self._lock: Any = None
        self._ending = threading.Lock()

    def begin(self) -> None:
        other = next(each for each in self._place.cluster.nodes if each is not self._node)
        writer = self._place.open(other)
        writer.write(lambda txn: txn.execute("CREATE TABLE stall (i INT NOT NULL PRIMARY KEY)"))
        self._place.open(self._node).interact(lambda txn: txn.query("SELECT * FROM stall"))
        self._lock = pymysql.connect(unix_socket=str(self._node.socket), user="root", database=self._place.name)
        with self._lock.cursor() as cursor:
            cursor.execute("LOCK TABLES stall WRITE")
        writer.write(lambda txn: txn.execute("INSERT INTO stall VALUES (1)"))

    def end(self) -> None:
        with self._ending:
            if self._lock is not None:
                self._lock.close()
                self._lock = None


def test_a_claim_at_another_node_fences_what_is_under_way(place: Place) -> None:
    """The older queue manager's node has not applied the claim, so that its locks say nothing."""
    first, second, _ = place.cluster.nodes
    old, new = place.open(first), place.open(second)
    run = old.write(claim_run)
    stall = Stall(place, first)
    tries = []

    def record(txn: Txn) -> None:
        tries.append(None)
        WriteTransaction(txn, run)
        txn.upsert("meta", ["name", "value"], [("mine", str(len(tries)))], ["name"])
        if len(tries) == 1:
            stall.begin()
            new.write(claim_run)
            threading.Timer(1.0, stall.end).start()

    try:
        with pytest.raises(Busy):
            old.write(record)
    finally:
        stall.end()
    assert len(tries) == 2
    assert new.interact(lambda txn: txn.value("SELECT value FROM meta WHERE name = 'mine'")) is None


ROUNDS = 25
COUNTS: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("connections", lambda txn: count_sessions(txn, [Login(1, "ip", 0, 0)], {})[0].order, ()),
    ("orders", add_order, ("rebuild",)),
    ("runs", claim_run, ()),
]


@pytest.mark.parametrize(("function", "args"), [each[1:] for each in COUNTS], ids=[each[0] for each in COUNTS])
def test_numbers_counted_at_several_nodes_are_never_the_same(
    function: Callable[..., Any], args: tuple[Any, ...], place: Place
) -> None:
    place.open(place.cluster.nodes[0]).write(node_of)
    databases = [place.open(node, retries=100) for node in place.cluster.nodes]
    with ThreadPoolExecutor(len(databases)) as threads:
        results = list(threads.map(lambda each: [each.write(function, *args) for _ in range(ROUNDS)], databases))
    numbers = [number for result in results for number in result]
    assert len(set(numbers)) == len(numbers) == ROUNDS * len(databases)


def test_providers_registered_at_several_nodes_get_ids_of_their_own(place: Place) -> None:
    place.open(place.cluster.nodes[0]).write(node_of)
    databases = [place.open(node, retries=100) for node in place.cluster.nodes]

    def register(number: int) -> list[int]:
        return [
            databases[number].write(add_provider, Provider(0, (f"http://s{number}/{each}/",), f"{number}.{each}"))
            for each in range(10)
        ]

    with ThreadPoolExecutor(len(databases)) as threads:
        pids = [pid for result in threads.map(register, range(len(databases))) for pid in result]
    assert len(set(pids)) == len(pids) == 10 * len(databases)
    assert len(databases[0].interact(list_providers)) == len(pids)


def test_a_node_that_hangs_is_left_for_the_next(place: Place) -> None:
    first, second, _ = place.cluster.nodes
    database = place.open(first, second, retries=100, query_timeout=3.0)
    assert database.write(claim_run) == 1
    assert first.process is not None
    first.process.send_signal(signal.SIGSTOP)
    try:
        # What was sent to it is not committed, or is committed and done again: then a number is left out.
        assert database.write(claim_run) in (2, 3)
        assert database.interact(node_of) == "node2"
        wait_for("the others go on without it", lambda: second.status("wsrep_cluster_size") == "2")
    finally:
        first.process.send_signal(signal.SIGCONT)


def test_what_is_left_of_a_cluster_does_not_serve_alone(place: Place) -> None:
    first, second, third = place.cluster.nodes
    database = place.open(first, second, third, retries=1)
    assert database.write(claim_run) == 1
    first.kill()
    wait_for("two are left", lambda: third.status("wsrep_cluster_size") == "2" and third.serves())
    second.kill()
    wait_for("one does not serve", lambda: not third.serves())
    for function in (node_of, claim_run):
        with pytest.raises(StoreUnavailable, match="the node is not ready"):
            database.write(function)
    # The last one that was together with it has to be back.
    second.start_again()
    assert database.write(claim_run) == 2
    first.start_again()
    assert place.open(first).interact(counter, "qm_run") == 2


def test_a_cluster_whose_nodes_were_all_lost_begins_again_with_the_most_advanced(place: Place) -> None:
    first, second, third = place.cluster.nodes
    writer = place.open()
    writer.write(lambda txn: txn.execute("CREATE TABLE heap (i INT NOT NULL PRIMARY KEY)"))
    third.kill()
    wait_for("two serve", lambda: first.serves() and second.serves())
    writer.write(lambda txn: txn.execute("INSERT INTO heap VALUES (1)"))
    assert place.open(second).interact(lambda txn: txn.value("SELECT COUNT(*) FROM heap")) == 1  # it is applied there
    for node in (first, second):
        node.kill()
    assert third.position() < min(first.position(), second.position())
    place.cluster.recover()
    assert place.open(third).interact(lambda txn: txn.value("SELECT COUNT(*) FROM heap")) == 1


def test_full_sets_that_begin_at_two_nodes_at_once_know_of_each_other(place: Place) -> None:
    databases = [place.open(node, retries=100) for node in place.cluster.nodes[:2]]
    held = databases[0].write(count_sessions, [Login(1, "ip", 0, 0)], {})[0].order
    both = threading.Barrier(2)
    starts = [SetStart(1, held, counts=True), SetStart(1, 0, counts=True)]
    draws = [Draw([start], {1: 0}, f"uns{number}", 5, 0, []) for number, start in enumerate(starts)]

    def begin(number: int) -> list[int]:
        def run(txn: Txn) -> list[int]:
            numbers = draws[number].run(txn)
            # At its first run; when it is run again the other one is done.
            with contextlib.suppress(threading.BrokenBarrierError):
                both.wait(5)
            return numbers

        return databases[number].write(run)

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(begin, (0, 1)))
    assert found[0] != found[1]
    assert sorted(draw.under_way.get(1, 0) for draw in draws) == [0, 1], "one of them is the second"
