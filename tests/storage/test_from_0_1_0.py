"""Databases that version 0.1.0 has filled (``fixtures/make_0_1_0.py``), opened by this version."""

from __future__ import annotations

import json
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.admin.context import Admin
from lcc.model import UrlNotice
from lcc.storage.database import conversions
from lcc.storage.database.dialects import Dialect, dialect_for
from lcc.storage.database.migrations import CONNECTIONS, migrations
from lcc.storage.database.tables.order_rows import RETRY, add_order
from lcc.storage.database.tables.stored_notices import read_notice, write_notice
from lcc.storage.providers.providers import provider_status
from lcc.testing.mariadb import PrivateMariaDb
from tests.support.admin import Lcc
from tests.support.databases import Backend, DirectDatabase
from tests.support.queue import Queue

from .test_schema import SETTINGS, _connect, _migrate, _shape

FIXTURES = Path(__file__).with_name("fixtures")
NOW = 1_700_000_000
ANSWERS: dict[str, Any] = json.loads((FIXTURES / "0_1_0.json").read_text("utf-8"))
"""What version 0.1.0 said of it: the rows of ``lcc-admin … --json``, what providers were shown, notices of errors."""
NOTICES = [(pid, number, UrlNotice(**notice)) for pid, number, notice in ANSWERS["notices"]]
"""Attributes that it did not know have their defaults."""
Rows = dict[str, list[tuple[Any, ...]]]


def load(dialect: Dialect, name: str) -> None:
    text = (FIXTURES / name).read_text("utf-8")
    connection = _connect(dialect)
    if dialect.name == "sqlite":
        connection.executescript(text)
    else:
        with connection.cursor() as cursor:
            for statement in text.split(";\n"):
                if statement:
                    cursor.execute(statement)
        connection.commit()
    connection.close()


def rows_of(dialect: Dialect) -> Rows:
    """Table -> its rows."""
    tables = _shape(dialect)
    connection = _connect(dialect)
    cursor = connection.cursor()
    found = {}
    for table in tables:
        cursor.execute(f"SELECT * FROM {table}")
        found[table] = sorted(cursor.fetchall(), key=repr)
    connection.close()
    return found


def notices_of_any_kind() -> st.SearchStrategy[UrlNotice]:
    text, number = st.text(max_size=5), st.none() | st.integers(-(2**62), 2**62)
    texts = dict.fromkeys(("curl", "furl", "burl", "mimetype", "subtype", "md5", "hours", "sent"), text)
    flags = {name: st.booleans() for name in ("delete", "ifabsent", "named_only")}
    return st.builds(UrlNotice, **texts, **flags, length=number, mtime=number)


@pytest.fixture
def old(backend: Backend) -> Dialect:
    """The database as 0.1.0 has left it."""
    dialect = dialect_for(backend.url, backend.home, SETTINGS)
    load(dialect, f"0_1_0.{'sqlite' if dialect.name == 'sqlite' else 'mariadb'}.sql")
    return dialect


def notices(dialect: Dialect) -> list[tuple[Any, ...]]:
    connection = _connect(dialect)
    cursor = connection.cursor()
    cursor.execute("SELECT pid, number, notice, sent FROM urlerrs WHERE notice IS NOT NULL ORDER BY pid, number")
    rows = list(cursor.fetchall())
    connection.close()
    return rows


def told(dialect: Dialect) -> list[tuple[int, int, UrlNotice]]:
    return [(pid, number, read_notice(text, sent)) for pid, number, text, sent in notices(dialect)]


def test_all_that_is_stored_stays(old: Dialect, backend: Backend) -> None:
    before = rows_of(old)
    assert told(old) == NOTICES and all(text.startswith("[") for *_, text, _ in notices(old))
    assert _migrate(old) == len(migrations(old.name)) - 1
    after = rows_of(old)
    for table, rows in before.items():
        schema = ("schema", str(len(migrations(old.name))))
        kept = {
            "meta": [schema],
            "connections": [],
            "counters": [(name, 0) for name in ("change_time", "held", "followed", "touched")],
        }.get(table, [])
        columns = (len(rows[0]) - (table == "urlerrs")) if rows else None
        expected = [row for row in rows if table != "meta" or row[0] != "schema"]
        assert [row[:columns] for row in after[table] if row not in kept] == [row[:columns] for row in expected], (
            table
        )
    assert told(old) == NOTICES


def test_notices_are_named_fields_then(old: Dialect) -> None:
    _migrate(old)
    stored = {number: json.loads(text) for _, number, text, _ in notices(old)}
    assert stored[5] == {"curl": "http://site/busy", "mimetype": "application/pdf", "length": 0}
    assert stored[4] == {"curl": "http://site/mtime", "burl": "http://site/b", "mimetype": "text/html", "mtime": 0}
    assert {*stored[2], "hours", "delete", "named_only", "sent"} == set(ANSWERS["notices"][0][2])


def test_the_schema_is_that_of_a_new_database(old: Dialect, mariadb: PrivateMariaDb, tmp_path: Path) -> None:
    _migrate(old)
    url = "sqlite:fresh.db" if old.name == "sqlite" else mariadb.new_database()
    fresh = dialect_for(url, tmp_path, SETTINGS)
    _migrate(fresh)
    assert _shape(fresh) == _shape(old)


def test_a_second_opening_changes_nothing(old: Dialect) -> None:
    _migrate(old)
    before = rows_of(old)
    assert _migrate(old) == 0
    assert rows_of(old) == before


def test_the_connections_of_sqlite(tmp_path: Path) -> None:
    dialect = dialect_for("sqlite:connections.db", tmp_path, SETTINGS)
    load(dialect, "0_1_0.connections.sqlite.sql")
    before = rows_of(dialect)["connections"]
    assert _migrate(dialect, migrations("sqlite", CONNECTIONS), CONNECTIONS) == 1
    assert [row[: len(before[0])] for row in rows_of(dialect)["connections"]] == before


def answered(now: Any, then: Any) -> None:
    """All that was said then is said now; there may be more."""
    if isinstance(then, dict):
        for key, value in then.items():
            answered(now[key], value)
    elif isinstance(then, list):
        assert len(now) == len(then)
        for here, there in zip(now, then, strict=True):
            answered(here, there)
    else:
        assert now == then


def test_commands_show_the_same(old: Dialect, backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Admin, "now", lambda _: NOW)
    lcc = Lcc(backend.home, backend.url)
    lcc.config_path.write_text(f'timezone = "UTC"\nhome = "."\n[database]\nurl = "{backend.url}"\n')
    for asked in deepcopy(ANSWERS["commands"]):
        if asked["command"] == ["queue"]:
            asked["rows"][2]["queued"] -= 1  # 0.1.0 counted what a deletion has cancelled
        text = lcc.admin(*asked["command"], "--json").stdout.replace(str(backend.home), "HOME")
        answered([json.loads(line) for line in text.splitlines()], asked["rows"])


def test_providers_are_shown_the_same(old: Dialect, backend: Backend) -> None:
    database = DirectDatabase(backend.url, backend.home)
    for pid, status in ANSWERS["status"].items():
        answered(json.loads(json.dumps(attrs.asdict(database.now(provider_status, int(pid), 100)))), status)
    database.blocking.close()


def test_what_failed_then_is_tried_again_as_it_was_told(old: Dialect, backend: Backend) -> None:
    """Behind the orders that were open."""
    database = DirectDatabase(backend.url, backend.home)
    queue = Queue(database)
    database.now(add_order, RETRY, 1)
    queue.carry_out(NOW)
    failed = {notice.curl: notice for _, _, notice in NOTICES}
    queued = {row.notice.curl: row.notice for row in queue.rows(1)}
    assert {curl: queued[curl] for curl in failed} == failed and "http://site/gone" not in queued
    assert database.query("SELECT pid FROM pidb WHERE pid = 3 OR removed = 1") == []
    queue.pid = 1
    queue.check_books()
    database.blocking.close()


def test_a_queue_manager_of_that_version_may_still_write_lists() -> None:
    listed = json.dumps(["http://site/a", "", "-", "text/html", "", "", None, 3, "", False, True, False])
    expected = UrlNotice("http://site/a", burl="-", mimetype="text/html", mtime=3, ifabsent=True, sent="[]")
    assert read_notice(listed, "[]") == expected


@given(notices_of_any_kind())
def test_what_is_written_is_read(notice: UrlNotice) -> None:
    assert read_notice(write_notice(notice), notice.sent) == notice


def test_names_that_are_not_known_are_ignored() -> None:
    stored = json.dumps({"curl": "http://site/a", "colour": {"of": "a later version"}, "sent": "not here"})
    assert read_notice(stored, "[]") == UrlNotice("http://site/a", sent="[]")
    assert write_notice(UrlNotice("http://site/a", sent="[]")) == '{"curl":"http://site/a"}'


KILLED = """
import os, signal, sys
from pathlib import Path
from lcc.storage.database import conversions, migrations
from tests.storage.test_schema import SETTINGS, _migrate
from lcc.storage.database.dialects import dialect_for

conversions.PAGE_ROWS = 1
pages = int(sys.argv[3])

def convert(txn, after):
    global pages
    if not pages:
        os.kill(os.getpid(), signal.SIGKILL)
    pages -= 1
    return conversions.name_fields(txn, after)

migrations.CONVERSIONS["named_notices"] = convert
_migrate(dialect_for(sys.argv[1], Path(sys.argv[2]), SETTINGS))
"""


@pytest.mark.parametrize("pages", [0, 2])
def test_killed_in_the_middle_it_goes_on(
    old: Dialect, backend: Backend, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [sys.executable, "-c", KILLED, backend.url, str(backend.home), str(pages)]
    assert subprocess.run(arguments, timeout=60, check=False).returncode == -9
    named = [text.startswith("{") for *_, text, _ in notices(old)]
    # On SQLite it is one transaction.
    assert sum(named) == (0 if old.name == "sqlite" else pages)
    monkeypatch.setattr(conversions, "PAGE_ROWS", 1)
    assert _migrate(old) == len(migrations(old.name)) - 1
    assert all(text.startswith("{") for *_, text, _ in notices(old))
    assert told(old) == NOTICES
