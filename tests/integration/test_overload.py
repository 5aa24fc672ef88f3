"""Overload and lost databases, with real processes."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .system import OriginServer, Site, System, wait_for

REJECTED = 3


def configure(system: System, qm: str, uns: str = "") -> None:
    """Settings that make it small."""
    text = system.config.read_text().replace("[uns]\n", f"[uns]\n{uns}")
    system.config.write_text(f"{text}[qm]\n{qm}")


def change(site: Site, text: str) -> None:
    """Each page of the site has new content."""
    for path in sorted(site.folder.rglob("*")):
        if path.is_file():
            path.write_bytes(text.encode() + path.read_bytes())


def test_the_queue_is_full_then_the_spool_and_all_reverses_by_itself(
    system: System, lay_out: Callable[[str, int], Path]
) -> None:
    configure(system, "queue_rows_max = 20\noverload_low = 0.5\n", "spool_max_bytes = 65536\n")
    lay_out("a", 40)
    lay_out("b", 30)
    sites = [system.add_site(name) for name in "ab"]
    first, second = sites
    system.start("uns", "qm")
    system.publish_when_up(first)
    socket = system.folder / "home" / "qm.sock"
    wait_for("the port is closed", lambda: "Overload" in system.log("qm") and not socket.exists())
    wait_for("the UNS has noticed", lambda: "The queue manager is gone" in system.log("uns"))
    spool = system.folder / "home" / "spool"
    accepted = rejected = 0
    for number in range(40):
        change(second, f"version {number} ")
        result = system.publish(second, expect=(0, REJECTED))
        accepted += result.returncode == 0
        rejected += result.returncode == REJECTED
        if rejected >= 2:
            break
    assert accepted >= 2 and rejected >= 1
    assert sum(path.stat().st_size for path in spool.glob("*.set")) <= 65536
    assert len(list(spool.glob("*.set"))) == accepted
    assert len(system.cached(first)) == 0
    # Robots come: the queue drains, the port opens, the spool drains, providers are welcome again.
    system.start("botm", "bot")
    wait_for("UNSes are let in again", lambda: "The overload is over" in system.log("qm"))
    wait_for("the spool is empty", lambda: not list(spool.glob("*.set")))
    wait_for("providers are welcome", lambda: system.publish(second, expect=(0, REJECTED)).returncode == 0)
    for site in sites:
        system.wait_cached(site)
    system.assert_serial()
    for role in ("bot", "botm", "uns", "qm"):
        system.stop(role)


def test_a_restart_over_the_limit_still_drains(system: System, lay_out: Callable[[str, int], Path]) -> None:
    configure(system, "queue_rows_max = 10\n")
    lay_out("a", 60)
    site = system.add_site("a")
    system.start("uns", "qm", "botm")
    system.publish_when_up(site)
    wait_for("it is overloaded", lambda: "Overload" in system.log("qm"))
    system.kill("qm")
    system.start("qm", "bot")
    system.wait_cached(site)
    wait_for("UNSes are let in again", lambda: "The overload is over" in system.log("qm"))
    wait_for("it takes sets", lambda: system.publish(site, expect=(0, 4)).returncode == 0)
    system.assert_serial()


@pytest.fixture
def on_sqlite(tmp_path: Path, origin: OriginServer) -> Iterator[System]:
    """An LCC on SQLite, whose database is a file that can be put back."""
    folder = tmp_path / "lcc"
    folder.mkdir()
    system = System(folder, origin, None)
    yield system
    system.stop_all()


def copy_database(source: Path, target: Path) -> None:
    """A backup as doc/operating.md has it."""
    with sqlite3.connect(source) as here, sqlite3.connect(target) as there:
        here.backup(there)
    there.close()
    here.close()


def test_a_database_that_was_put_back(on_sqlite: System, lay_out: Callable[[str, int], Path]) -> None:
    system = on_sqlite
    folder = lay_out("a", 20)
    site = system.add_site("a")
    system.start("uns", "qm", "botm", "bot")
    system.publish_when_up(site)
    system.wait_cached(site)
    home = system.folder / "home"
    copy_database(home / "lcc.db", system.folder / "backup.db")
    lay_out("a2", 10)
    shutil.move(folder.parent / "a2", folder / "more")
    system.publish_when_up(site)
    system.wait_cached(site)
    for role in ("qm", "botm", "bot", "uns"):
        system.kill(role)
    for name in ("lcc.db-wal", "lcc.db-shm"):
        (home / name).unlink(missing_ok=True)
    shutil.copy(system.folder / "backup.db", home / "lcc.db")
    assert len(system.cached(site)) == 20
    system.start("uns", "qm", "botm", "bot")
    wait_for("it is noticed", lambda: "The database has gone back in time" in system.log("qm"))
    # The provider is asked for a full set; until it sends one it is asked each time.
    answer = wait_for("the provider is asked", lambda: wanted(system, site))
    assert answer == "cache-crash"
    site.state.unlink()
    system.publish_when_up(site)
    system.wait_cached(site)
    assert system.log("qm").count("The database has gone back in time") == 1
    for role in ("bot", "botm", "uns", "qm"):
        system.stop(role)


def wanted(system: System, site: Site) -> str:
    """Why a full set is wanted, as the tables say."""
    with sqlite3.connect(f"file:{system.folder / 'home' / 'lcc.db'}?mode=ro", uri=True) as database:
        row = database.execute("SELECT wantfullset FROM pstats WHERE pid = ?", [site.pid]).fetchone()
    database.close()
    return str(row[0]) if row else ""
