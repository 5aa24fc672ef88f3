"""A database, or a spool, that has gone back in time is noticed from what the peers remember."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from lcc.protocols.flat import Flat
from lcc.protocols.hello import Hello, Ready
from lcc.protocols.uns_qm import FROM_QM, Absorbed, Damage, NewEpoch, Noted
from lcc.protocols.work import DOWN, Mark, Names, RecordedUpto
from lcc.roles.cu.query import Query
from lcc.roles.cu.selection import pages as answer_pages
from lcc.roles.cu.tokens import StartAgain
from lcc.storage.database.tables.status import database_epoch
from lcc.storage.database.tables.timeline import position
from lcc.storage.queue.machine_range import limit_machines
from lcc.storage.queue.maintenance.repair import JUMP
from lcc.testing.inline_database import InlineDatabase
from tests.support.roles.qm import FakeBotm, FakeUns, MakeWorld, Remote, World, page, pages


@pytest.fixture(params=[0, 1, 2])
def hops(request: pytest.FixtureRequest) -> int:
    """Directly, and behind central BOT-Ms."""
    return int(request.param)


class Uns(FakeUns):
    """A UNS that remembers."""

    def __init__(self, world: World, acked: int, upto: int, name: str = "uns", epoch: str = "e1") -> None:
        self.answers: list[Absorbed] = []
        self.others: list[Flat] = []
        self.epoch = epoch
        hello = Hello(role="uns", name=name, epoch=epoch, acked=acked, numbers_upto=upto)
        Remote.__init__(self, world, True, hello, FROM_QM)

    def heard(self, message: Flat) -> None:
        if isinstance(message, Absorbed):
            self.answers.append(message)
        else:
            self.others.append(message)


class Botm(FakeBotm):
    """A BOT-M that remembers the marks that it was told."""

    def __init__(self, world: World, mark: tuple[str, int] = ("", 0), names_upto: int = 1, machine: int = 1) -> None:
        self.mark = mark
        self.names: list[int] = []
        self.heard_first: Flat | None = None
        self.heard_all: list[Flat] = []
        self.machine, self.run = machine, "r1"
        self.out, self.deletes, self.seen, self.kept = {}, [], [], []
        self.upto = self.number = 0
        self.file = machine * 1000
        hello = Hello(
            role="botm",
            name="b",
            epoch=mark[0],
            acked=mark[1],
            machine=machine,
            names_upto=names_upto,
            run="r1",
            capacity=4,
        )
        Remote.__init__(self, world, False, hello, DOWN)
        self.say(Ready())

    def heard(self, message: Flat) -> None:
        self.heard_first = self.heard_first or message
        self.heard_all.append(message)
        if isinstance(message, Mark):
            self.mark = (message.epoch, message.change)
        elif isinstance(message, Names):
            self.names.append(message.upto)
        else:
            super().heard(message)


def wanted(world: World, pid: int) -> str:
    return str(world.database.now(lambda txn: txn.value("SELECT wantfullset FROM pstats WHERE pid = ?", [pid], "")))


def counter(world: World, name: str) -> int:
    return int(world.database.now(lambda txn: txn.value("SELECT value FROM counters WHERE name = ?", [name])))


def epoch(world: World) -> str:
    return world.database.now(database_epoch)


def progress_of(world: World) -> tuple[str, int]:
    return world.database.now(position)


def follow(world: World, token: str) -> tuple[dict[str, str], str]:
    """What a content user is told: the state of each page that has changed, and the token to come back with."""
    rows: dict[str, str] = {}
    for answer in answer_pages(world.database.now, Query(since=token)):
        rows.update({row.curl.rpartition("/")[2]: row.state for row in answer.rows})
        token = str(answer.token)
    return rows, token


def backup(world: World, folder: Path) -> None:
    """Copy the database as it is now."""
    world.database.now(lambda txn: None)
    world.database._database._holder.connect().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    folder.mkdir(exist_ok=True)
    shutil.copy(world.home / "lcc.db", folder / "lcc.db")


def restore(world: World, folder: Path) -> None:
    """Everything is stopped, the database is put back, the queue manager is started."""
    for remote in list(world.remotes):
        remote.close()
    world.fetching.clear()
    world.engine.stop()
    world.database.close()
    for name in ("lcc.db-wal", "lcc.db-shm"):
        (world.home / name).unlink(missing_ok=True)
    shutil.copy(folder / "lcc.db", world.home / "lcc.db")
    world.database = InlineDatabase(world.home, world.random)
    world.start()


@pytest.fixture
def world(make_world: MakeWorld, tmp_path: Path) -> World:
    world = make_world()
    world.home = tmp_path / "0"  # type: ignore[attr-defined]
    return world


def test_a_uns_remembers_more_than_the_database(world: World, tmp_path: Path, logged: list[Any]) -> None:
    pid, other = world.provider(), world.provider("http://other.example/")
    uns, botm = Uns(world, 0, 1), Botm(world)
    uns.send_set(1, pid, pages(1, 2))
    botm.finish_all()
    before, changes, generation = epoch(world), counter(world, "change"), counter(world, "batch")
    backup(world, tmp_path / "backup")
    uns.send_set(2, pid, pages(3))
    restore(world, tmp_path / "backup")
    uns = Uns(world, 2, 3)
    assert wanted(world, pid) == wanted(world, other) == "cache-crash"
    assert epoch(world) != before and world.engine.repair.epoch == epoch(world)
    assert counter(world, "change") == changes + JUMP and counter(world, "batch") == generation + JUMP
    assert any(event["log_level"].name == "critical" for event in logged)
    # It goes on, and connects again without another alarm.
    uns.send_set(3, pid, pages(4))
    assert uns.answers[-1].number == 3 and uns.answers[-1].code == 0
    now = epoch(world)
    uns.close()
    Uns(world, 3, 4)
    world.start()
    Uns(world, 3, 4)
    assert epoch(world) == now and counter(world, "change") == changes + JUMP
    Botm(world).finish_all()
    assert min(row.change for row in world.cached().values() if row.curl.endswith("4.html")) > JUMP


def test_a_botm_remembers_more_than_the_database(world: World, tmp_path: Path, logged: list[Any]) -> None:
    pid = world.provider()
    uns, botm = Uns(world, 0, 1), Botm(world)
    uns.send_set(1, pid, pages(1, 2, 3))
    botm.done(next(iter(botm.out.values())))
    world.advance(4)
    before = epoch(world)
    timeline = progress_of(world)[0]
    assert botm.mark == (timeline, 1)
    backup(world, tmp_path / "backup")
    botm.finish_all()
    world.advance(4)
    assert botm.mark == (timeline, 3) and timeline.startswith(f"{before}-")
    mark = botm.mark
    restore(world, tmp_path / "backup")
    Uns(world, 1, 2)
    assert epoch(world) == before, "the UNS remembers nothing that is lost"
    botm = Botm(world, mark)
    assert epoch(world) != before and wanted(world, pid) == "cache-crash"
    assert counter(world, "change") == 3 + JUMP
    botm.finish_all()
    world.advance(4)
    assert botm.mark == progress_of(world) == (botm.mark[0], 5 + JUMP)
    assert botm.mark[0].startswith(f"{epoch(world)}-")
    # One that was away names the former epoch: that is no new loss.
    now = epoch(world)
    world.start()
    Botm(world, mark, machine=2)
    Botm(world, botm.mark)
    assert epoch(world) == now


def test_the_database_has_come_as_far_again_when_a_botm_says_hello(
    world: World, tmp_path: Path, logged: list[Any]
) -> None:
    pid = world.provider()
    uns, botm = Uns(world, 0, 1), Botm(world)
    uns.send_set(1, pid, pages(1, 2, 3, 4, 5))
    botm.done(next(iter(botm.out.values())))
    backup(world, tmp_path / "backup")
    botm.done(next(iter(botm.out.values())))
    botm.done(next(iter(botm.out.values())))
    world.advance(4)
    mark, before = botm.mark, epoch(world)
    assert mark[1] == 3
    restore(world, tmp_path / "backup")
    Uns(world, 1, 2)
    Botm(world, names_upto=20_001).finish_all()
    world.advance(4)
    assert epoch(world) == before and progress_of(world)[1] == 5, "nobody has noticed yet"
    Botm(world, mark, machine=2)
    assert epoch(world) != before and wanted(world, pid) == "cache-crash"


def test_a_botm_knows_how_far_the_cache_has_come_when_it_forgets_a_result(world: World, logged: list[Any]) -> None:
    uns, botm = Uns(world, 0, 1), Botm(world)
    uns.send_set(1, world.provider(), pages(1, 2, 3))
    botm.heard_all.clear()
    botm.done(next(iter(botm.out.values())))
    world.advance(0.2)
    told = [message for message in botm.heard_all if isinstance(message, Mark | RecordedUpto)]
    assert told == [Mark(*progress_of(world)), RecordedUpto(1)] and progress_of(world)[1] == 1
    # It hears so also when it connects.
    botm.finish_all()
    botm.close()
    assert Botm(world, names_upto=20_001).mark == progress_of(world)


@pytest.mark.parametrize("noticed", [False, True])
def test_a_content_user_who_has_seen_what_is_lost_starts_again(
    world: World, tmp_path: Path, logged: list[Any], noticed: bool
) -> None:
    """Also where nobody else has noticed it, and the numbers that it has seen have been given again."""
    pid = world.provider()
    uns, botm = Uns(world, 0, 1), Botm(world)
    uns.send_set(1, pid, pages(1, 2, 3, 4))
    botm.done(next(iter(botm.out.values())))
    rows, in_backup = follow(world, "0")
    assert len(rows) == 1
    backup(world, tmp_path / "backup")
    botm.done(next(iter(botm.out.values())))
    rows, lost = follow(world, in_backup)
    assert len(rows) == 1
    mark = botm.mark
    restore(world, tmp_path / "backup")
    Uns(world, 1, 2)
    Botm(world, names_upto=20_001).finish_all()
    world.advance(4)
    assert progress_of(world)[1] == 4 and world.engine.repair.losses == 0
    if noticed:
        Botm(world, mark, machine=2)
        assert world.engine.repair.losses == 1
        with pytest.raises(StartAgain):
            follow(world, in_backup)
    else:
        assert len(follow(world, in_backup)[0]) == 3, "it has seen nothing that is lost"
    with pytest.raises(StartAgain):
        follow(world, lost)


def test_a_content_user_goes_on_when_the_queue_manager_was_started_again(world: World) -> None:
    pid = world.provider()
    token, told = "0", []
    for number in range(1, 5):
        uns, botm = Uns(world, number - 1, number), Botm(world, names_upto=20_001)
        uns.send_set(number, pid, pages(number))
        botm.finish_all()
        rows, token = follow(world, token)
        told.append(set(rows))
        uns.close()
        botm.close()
        world.start()
        rows, token = follow(world, token)
        assert not rows
    assert told == [{f"{number}.html"} for number in range(1, 5)]


def test_several_peers_notice_one_loss(world: World, logged: list[Any]) -> None:
    pid = world.provider()
    first = Uns(world, 5, 6, "a", "ea")
    now = epoch(world)
    assert wanted(world, pid) == "cache-crash" and world.engine.repair.losses == 1
    Uns(world, 9, 10, "b", "eb")
    Botm(world, ("elsewhere", 77))
    assert epoch(world) == now and world.engine.repair.losses == 1
    # But one that was in order before, in this run, and is not any more, has lost something new.
    first.close()
    Uns(world, 8, 9, "a", "ea")
    assert epoch(world) != now and world.engine.repair.losses == 2


def test_no_false_alarms(world: World, logged: list[Any]) -> None:
    pid = world.provider()
    before = epoch(world)
    uns = Uns(world, 0, 1)
    uns.send_set(1, pid, pages(1))
    uns.send_set(2, 99, pages(1))  # no such provider: 1105
    uns.send_set(3, pid, pages(2), count=7)  # damaged: refused
    uns.send_set(4, pid, pages(3))
    uns.send_set(5, pid, pages(4), count=9, answered=False)
    assert [answer.code for answer in uns.answers] == [0, 1105, 1103, 0, 1103]
    uns.close()
    Uns(world, 5, 6)  # all that was answered, refusals as well
    world.start()
    Uns(world, 5, 6)
    Uns(world, 5, 6, name="renamed")
    Uns(world, 0, 1, "fresh", "e2")
    Uns(world, 3, 1000)  # its note of the last answer is older than what it had: it is not synced
    # The commit is made, the answer is lost.
    world.database.lose_results = 1
    late = Uns(world, 5, 6)
    late.send_set(6, pid, pages(6))
    world.advance(2)
    late.close()
    Uns(world, 5, 7)
    Uns(world, 6, 7)
    assert epoch(world) == before and wanted(world, pid) == "" and world.engine.repair.losses == 0
    assert world.engine.repair.spools_behind == 0


def test_a_uns_that_has_gone_back_begins_a_new_epoch(world: World, logged: list[Any]) -> None:
    pid = world.provider()
    uns = Uns(world, 0, 1)
    for number in range(1, 6):
        uns.send_set(number, pid, pages(number))
    uns.close()
    before = epoch(world)
    back = Uns(world, 2, 4)
    back.write(back.set_text(4, pid, pages(44)))
    assert back.others == [NewEpoch("e1")] and not back.answers and back.closed
    assert wanted(world, pid) == "cache-crash" and epoch(world) == before
    assert any("restored from a backup" in event.get("log_format", "") for event in logged)
    Botm(world).finish_all()
    assert not any(row.endswith("/44.html") for row in world.cached())
    new = Uns(world, 0, 4, epoch="e9")
    new.send_set(4, pid, pages(44), connseq=9)
    assert new.answers[-1].code == 0
    world.advance(1)
    assert world.count("qdb") + world.cached_count == 6


def test_what_a_peer_says_waits_until_its_hello_is_examined(world: World, logged: list[Any]) -> None:
    pid = world.provider()
    world.database.unavailable = True
    uns = Uns(world, 0, 1)
    uns.send_set(1, pid, pages(1))
    assert uns.paused and not uns.answers
    world.database.unavailable = False
    world.advance(3)
    assert uns.answers[-1].code == 0 and not uns.paused
    # Nonsense that came with the hello is nonsense when it is looked at.
    world.database.unavailable = True
    bad = Uns(world, 0, 1, "bad", "eb")
    bad.write("<nonsense/>")
    world.database.unavailable = False
    world.advance(3)
    assert bad.closed


def test_a_loss_whose_repair_is_interrupted_is_repaired_by_the_next_run(world: World, logged: list[Any]) -> None:
    pid = world.provider()
    before = epoch(world)
    world.database.hold_back()
    Uns(world, 5, 6)
    world.database.step()  # its hello is compared
    world.database.step()  # the providers are asked for full sets
    world.database.waiting.clear()
    world.database.let_go()
    world.start()
    assert epoch(world) == before
    Uns(world, 5, 6)
    assert epoch(world) != before and wanted(world, pid) == "cache-crash"


def test_damage_is_noted(world: World, logged: list[Any]) -> None:
    pid, other = world.provider(), world.provider("http://other.example/")
    uns = Uns(world, 0, 1)
    uns.say(Damage(pid))
    assert uns.others == [Noted(pid)]
    assert (wanted(world, pid), wanted(world, other)) == ("cache-crash", "")
    uns.say(Damage(0))
    assert uns.others[-1] == Noted(0) and wanted(world, other) == "cache-crash"
    uns.say(Damage(pid, 5))
    assert uns.others[-1] == Noted(pid, 5)
    # What the UNS remembers of it from now on, this database knows, and one from before would not.
    before = epoch(world)
    Uns(world, 5, 6).close()
    assert epoch(world) == before
    Uns(world, 6, 7).close()
    assert epoch(world) != before
    uns.write(uns.set_text(1, pid, pages(1)).split("<end")[0] + Damage(pid).to_xml())
    assert uns.closed, "within a set it makes no sense"


def test_a_content_folder_that_was_put_back_is_told_loudly(world: World, logged: list[Any]) -> None:
    Botm(world, names_upto=20_001).close()
    world.advance(1)
    behind = Botm(world, names_upto=10_001)
    assert behind.names == [20_001] and behind.heard_first == Names(20_001)
    assert any("content folder" in event.get("log_format", "") for event in logged)
    behind.close()
    assert Botm(world, names_upto=20_001).names == []


def test_a_content_folder_that_is_new_gives_no_file_of_the_old_one(world: World, logged: list[Any]) -> None:
    """Its machine had reserved more names since it connected; and files that are to be removed count as well."""
    first = Botm(world, names_upto=500)
    uns = FakeUns(world)
    pid = world.provider()
    uns.send_set(1, pid, pages(1, 2, 3))
    first.finish_all()
    uns.send_set(2, pid, [page(3, delete=True)])
    first.close()
    back = Botm(world, names_upto=1)
    assert back.names == [1004] and back.heard_first == Names(1004)
    assert Botm(world, names_upto=1, machine=2).names == []


def test_a_machine_that_is_not_of_the_range_of_its_sub_lcc_is_not_let_in(world: World, logged: list[Any]) -> None:
    world.database.now(limit_machines, 11, 20)
    good, bad = Botm(world, machine=11), Botm(world, machine=2)
    assert [machine.number for machine in world.engine.machines] == [11]
    assert bad.closed and not good.closed
    assert any("machine 2 is not of the range 11 to 20" in str(event) for event in logged)
