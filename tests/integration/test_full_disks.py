"""Disks that fill up under a whole LCC of real processes: what is said, what is kept, how it goes on by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from lcc.config import load_config
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.transactions import Txn
from lcc.testing.mariadb import PrivateMariaDb
from tests.support.logs import LoggedErrors
from tests.support.processes.system import ROLES, OriginServer, System
from tests.support.small_disk import SmallDisk
from tests.support.waiting import wait_for

from .raw_provider import RawProvider

MIB = 1 << 20
REJECTED = 3
SET_URLS = 8000
LayOut = Callable[[str, int], Path]
SmallDisks = Callable[..., SmallDisk]
NewSystem = Callable[..., System]


@pytest.fixture
def new_system(tmp_path: Path, origin: OriginServer) -> Iterator[NewSystem]:
    """``new_system(database_url, extra, **settings)``: an LCC of which nothing runs yet (:class:`System`)."""
    folder = tmp_path / "lcc"
    folder.mkdir()
    with ExitStack() as stack:

        def new_system(database_url: str | None = None, extra: str = "", **settings: str) -> System:
            system = System(folder, origin, database_url, extra, settings)
            stack.callback(system.stop_all)
            return system

        yield new_system


def wait_status(system: System, *words: str) -> str:
    """Wait until ``lcc-admin status`` shows all of these."""

    def shown() -> str:
        text = system.admin("status")
        return text if all(word in text for word in words) else ""

    return str(wait_for(f"the status shows {words}", shown))


def blamed(system: System) -> int:
    """URLs for which an attempt was counted, or an error is to be told."""
    config = load_config(system.config)
    database = BlockingDatabase(config.database.url, config.home, config.database, random=Random(1))

    def count(txn: Txn) -> int:
        attempts = txn.value("SELECT COUNT(*) FROM qdb WHERE attempts > 0 OR unreached > 0")
        return int(attempts) + int(txn.value("SELECT COUNT(*) FROM urlerrs"))

    try:
        return database.interact(count)
    finally:
        database.close()


def queued(system: System) -> int:
    """URLs that wait."""
    return sum(waiting["urls"] for waiting in system.rows("status")[0]["queue"])


def assert_well(system: System, origin: OriginServer) -> None:
    """Nothing has died, nothing is wrong with any file, and no URL was blamed for anything."""
    assert all(process.poll() is None for process in system.processes.values())
    assert blamed(system) == 0
    system.assert_serial()
    for name in system.processes:
        log = system.log(name)
        assert "Traceback" not in log and "Unhandled" not in log, f"{name}: {log[-4000:]}"
    wait_for("fsck finds nothing", lambda: "no fault" in system.admin("fsck"))


# The disk of the content.


def with_content_on(new_system: NewSystem, disk: SmallDisk, reserve_bytes: int) -> System:
    line = f'content = "{disk.path}/content"\n'
    return new_system(extra=f"[botm]\ncontent_reserve = {reserve_bytes}\n{line}", bot=f"concurrency = 8\n{line}")


@pytest.mark.long
def test_a_content_disk_that_is_as_good_as_full(
    small_disk: SmallDisks, new_system: NewSystem, lay_out: LayOut, origin: OriginServer
) -> None:
    """Nothing is fetched in vain."""
    disk = small_disk(64 * MIB)
    system = with_content_on(new_system, disk, 2 * MIB)
    site = system.add_site("a")
    system.start(*ROLES)
    disk.fill(MIB)
    wait_status(system, "cannot store content", f"{disk.path}/content", "[botm] content_reserve", "make room")
    lay_out("a", 40)
    (site.folder / "more.txt").write_text("more")
    system.publish_when_up(site)
    wait_for("they wait", lambda: queued(system) > 0)
    assert "no machine has room for content" in system.admin("why", f"{site.url}more.txt")
    time.sleep(2.0)
    assert not origin.requests()
    disk.make_room()
    system.wait_cached(site)
    assert_well(system, origin)


def test_a_full_content_disk(
    small_disk: SmallDisks, new_system: NewSystem, lay_out: LayOut, origin: OriginServer
) -> None:
    """To the last byte, while it is at work: that no reserve can prevent."""
    disk = small_disk(64 * MIB)
    system = with_content_on(new_system, disk, 2 * MIB)
    lay_out("a", 150)
    site = system.add_site("a")
    system.start(*ROLES)
    system.publish_when_up(site)
    wait_for("it is at work", lambda: len(origin.requests()) > 20)
    disk.fill()
    wait_status(system, "cannot store content")
    asked = len(origin.requests())
    time.sleep(1.0)
    assert len(origin.requests()) <= asked + 1, "no more than what a robot had in hand"
    assert blamed(system) == 0
    disk.make_room()
    system.wait_cached(site)
    assert system.log("botm").count("No room for content") == 1
    assert system.log("botm").count("There is room for content again") == 1
    assert_well(system, origin)


# The disk of the spool.


@pytest.mark.long
def test_a_full_spool_disk(
    small_disk: SmallDisks, new_system: NewSystem, lay_out: LayOut, origin: OriginServer
) -> None:
    disk = small_disk(8 * MIB)
    spool = disk.path / "spool"
    system = new_system(uns=f'spool = "{spool}"\nspool_reserve = {MIB}\n')
    a, b = lay_out("a", 10), lay_out("b", 10)
    one, other = system.add_site("a"), system.add_site("b")
    system.start("uns")
    system.publish_when_up(one)
    assert len(list(spool.glob("*.set"))) == 1
    # As good as full: said at once, at the door.
    disk.fill(MIB // 2)
    assert "1012" in system.publish(other, expect=(REJECTED,)).stderr
    wait_status(system, "accepts no more sets", str(spool), "[uns] spool_reserve", "make room")
    assert system.log("uns").count("The spool is full") == 1
    # Full to the last byte, while a set arrives that begun in time.
    disk.make_room()
    with RawProvider(system, other) as connection:
        connection.send_elements(100)
        wait_for("it arrives", lambda: list((spool / "incoming").iterdir()))
        disk.fill()
        assert 'set_rejected code="1012"' in connection.send_until_answered()
    assert not list((spool / "incoming").iterdir()) and len(list(spool.glob("*.set"))) == 1
    assert "No space left on device: make room" in system.log("uns")
    # Killed and started on a disk that is full to the last byte: what was accepted is kept.
    system.kill("uns")
    system.start("uns")
    wait_for("it is up", lambda: system.publish(other, expect=(REJECTED, 4)).returncode == REJECTED)
    assert len(list(spool.glob("*.set"))) == 1
    disk.make_room()
    system.publish(other)
    (a / "late.txt").write_text("late")
    system.publish(one)
    assert len(list(spool.glob("*.set"))) == 3
    system.start("qm", "botm", "bot")
    system.wait_cached(one)
    system.wait_cached(other)
    assert b.is_dir() and not list(spool.glob("*.set"))
    assert_well(system, origin)


# The disk of the database.


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "mariadb"])
def test_a_full_database_disk(
    small_disk: SmallDisks,
    new_system: NewSystem,
    lay_out: LayOut,
    origin: OriginServer,
    kind: str,
    logged_errors: LoggedErrors,
) -> None:
    with ExitStack() as stack:
        if kind == "sqlite":
            disk = small_disk(16 * MIB)
            url = f"sqlite:{disk.path}/lcc.db"
        else:
            disk = small_disk(160 * MIB)
            url = stack.enter_context(PrivateMariaDb(folder=disk.path, log_mib=16, durable=True)).new_database()
        system = new_system(url)
        lay_out("a", 10)
        site = system.add_site("a")
        big = system.add_site("b")
        system.start(*ROLES)
        system.publish_when_up(site)
        system.wait_cached(site)
        far = (time.gmtime().tm_hour + 12) % 24
        with RawProvider(system, big, f'hours="{far}"') as connection:
            disk.fill()
            connection.send_elements(SET_URLS)  # more than fits into what the files have left
            connection.end_set()
            wait_for("it is said", lambda: "Cannot write to the database" in system.log("qm"))
            assert "make room on the disk of" in system.log("qm")
            wait_status(system, "free some space")
            logged_errors.flush("Cannot write to the database")  # of status, which opens the tables of tasks
            lay_out("a", 60)
            # A SQLite file has the order numbers beside it: nobody is let in.  Else the set waits in the spool.
            code = system.publish(site, expect=(0, REJECTED)).returncode
            assert code == (REJECTED if kind == "sqlite" else 0)
            assert all(process.poll() is None for process in system.processes.values())
            disk.make_room()
            assert "set_accepted" in connection.answer()
        if code:
            system.publish_when_up(site)
        system.wait_cached(site)
        wait_for("all of it is queued", lambda: queued(system) == SET_URLS)
        wait_for("that is said", lambda: "Database writable again" in system.log("qm"))
        assert_well(system, origin)
