"""Databases that are put back from a backup, with real processes, on each database."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lcc.testing.mariadb import PrivateMariaDb
from tests.support.processes.system import BIN, Site, System
from tests.support.waiting import wait_for

from .databases import MARIADB_ALWAYS

NO_LONGER_KNOWN = 3
ROLES = ("uns", "qm", "botm", "bot")


class SqliteBackup:
    """A copy as doc/backup.md has it."""

    def __init__(self, system: System) -> None:
        self._database = system.folder / "home" / "lcc.db"
        self._copy = system.folder / "backup.db"

    def make(self) -> None:
        here, there = sqlite3.connect(self._database), sqlite3.connect(self._copy)
        here.backup(there)
        here.close()
        there.close()

    def put_back(self) -> None:
        for suffix in ("-wal", "-shm"):
            self._database.with_name(self._database.name + suffix).unlink(missing_ok=True)
        shutil.copy(self._copy, self._database)


class MariaDbBackup:
    """Every table, as a dump would have it."""

    def __init__(self, server: PrivateMariaDb, url: str) -> None:
        self._server = server
        self._name = url.partition("?")[0].rpartition("/")[2]
        self._copy = server.new_database().partition("?")[0].rpartition("/")[2]

    def _tables(self) -> list[Any]:
        return [table for (table,) in self._server.execute(f"SHOW TABLES IN {self._name}")]

    def make(self) -> None:
        for table in self._tables():
            self._server.execute(f"CREATE TABLE {self._copy}.{table} AS SELECT * FROM {self._name}.{table}")

    def put_back(self) -> None:
        for table in self._tables():
            self._server.execute(f"DELETE FROM {self._name}.{table}")
            self._server.execute(f"INSERT INTO {self._name}.{table} SELECT * FROM {self._copy}.{table}")


@pytest.fixture
def backup(system: System, database_url: str | None, request: pytest.FixtureRequest) -> SqliteBackup | MariaDbBackup:
    if database_url is None:
        return SqliteBackup(system)
    return MariaDbBackup(request.getfixturevalue("mariadb"), database_url)


def wanted(system: System, site: Site) -> str:
    """Why a full set is wanted."""
    (row,) = system.rows("provider", "show", str(site.pid))
    return str(row["full_set_wanted"])


@pytest.mark.long
@MARIADB_ALWAYS
def test_a_database_that_was_put_back(
    system: System, lay_out: Callable[[str, int], Path], backup: SqliteBackup | MariaDbBackup
) -> None:
    folder = lay_out("a", 20)
    site = system.add_site("a")
    system.start(*ROLES)
    system.publish_when_up(site)
    system.wait_cached(site)
    backup.make()
    lay_out("a2", 10)
    shutil.move(folder.parent / "a2", folder / "more")
    system.publish_when_up(site)
    system.wait_cached(site)
    token = system.rows("urls", "--since", "0")[-1]["next"]
    # While the queue manager is away the spool fills, from connections of which the backup knows nothing.
    system.kill("qm")
    pages = sorted(path for path in folder.rglob("*") if path.is_file())
    for number in range(3):
        pages[0].write_text(f"version {number}")
        pages.pop().unlink()
        system.publish(site)
    for role in ("botm", "bot", "uns"):
        system.kill(role)
    backup.put_back()
    assert len(system.cached(site)) == 20
    # On MariaDB this is a connection whose number the spooled sets are already beyond.
    system.start("uns")
    pages[0].write_text("the last version")
    system.publish_when_up(site)
    system.start("qm", "botm", "bot")
    wait_for("it is noticed", lambda: "The database has gone back in time" in system.log("qm"))
    # The provider is asked for a full set; until it sends one it is asked each time.
    assert wait_for("the provider is asked", lambda: wanted(system, site)) == "cache-crash"
    wait_for("the spool is empty", lambda: not list((system.folder / "home" / "spool").glob("*.set")))
    pages[1].write_text("changed")
    system.publish(site)
    assert wanted(system, site) == "cache-crash"
    site.state.unlink()
    system.publish_when_up(site)
    system.wait_cached(site)
    wait_for("it is no longer asked", lambda: not wanted(system, site))
    assert system.log("qm").count("The database has gone back in time") == 1
    command = [BIN / "lcc-admin", "--config", system.config, "urls", "--since", token]
    again = subprocess.run(command, capture_output=True, check=False)
    assert again.returncode == NO_LONGER_KNOWN
    for role in reversed(ROLES):
        system.stop(role)
