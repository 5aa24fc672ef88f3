"""A MariaDB database with very many providers and queued URLs, as it stands after their sets were absorbed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pymysql

from lcc.domain.keys import url_key
from lcc.storage.chores import CHORES, FULL_SETS_SECONDS
from lcc.testing.mariadb import PrivateMariaDb

PIDS_AT_ONCE = 2000


@contextmanager
def connected(server: PrivateMariaDb, url: str) -> Iterator[Any]:
    """A connection to this database of the server."""
    name = url.partition("?")[0].rpartition("/")[2]
    connection = pymysql.connect(unix_socket=str(server.socket), user="root", database=name, local_infile=True)
    try:
        yield connection
    finally:
        connection.close()


def fill(server: PrivateMariaDb, url: str, providers: int, urls: int, work: Path) -> None:
    """Fill the tables: a set for each provider, its rows as lcc-admin and the queue manager would have written them.

    The sets came in another order than the providers: who comes to his turn is no neighbour of who came before.
    """
    each = urls // providers
    psetids = list(range(1, providers + 1))
    Random(providers).shuffle(psetids)
    with connected(server, url) as connection:
        cursor = connection.cursor()
        cursor.execute("SET unique_checks = 0")
        for first in range(1, providers + 1, PIDS_AT_ONCE):
            pids = range(first, min(first + PIDS_AT_ONCE, providers + 1))
            cursor.executemany(
                "INSERT INTO pidb (pid, password, timeofday, timezone, priority, allow_private, insecure, removed)"
                " VALUES (%s, '', '', '', 0, 1, 0, 0)",
                [(pid,) for pid in pids],
            )
            cursor.executemany(
                "INSERT INTO proots (pid, position, root) VALUES (%s, 0, %s)",
                [(pid, f"http://s{pid}.example/") for pid in pids],
            )
            cursor.executemany("INSERT INTO pstats (pid, nurlproc) VALUES (%s, %s)", [(pid, each) for pid in pids])
            cursor.executemany(
                "INSERT INTO qpsdb (psetid, slot, pid, pri, connseq, fullset, firstseq, lastseq, nurls, time)"
                " VALUES (%s, -1, %s, 0, 1, 0, 1, %s, %s, 1)",
                [(psetids[pid - 1], pid, each, each) for pid in pids],
            )
            _load_urls(cursor, {pid: psetids[pid - 1] for pid in pids}, each, work / "rows")
            connection.commit()
        cursor.execute("UPDATE counters SET value = %s WHERE name = 'psetid'", (providers + 1,))
        cursor.execute("UPDATE counters SET value = %s WHERE name = 'queued'", (each * providers,))
        cursor.execute("UPDATE counters SET value = GREATEST(value, 10) WHERE name = 'batch'")
        connection.commit()


def _load_urls(cursor: Any, sets: Mapping[int, int], each: int, path: Path) -> None:
    with path.open("w") as out:
        for pid, psetid in sets.items():
            rows = []
            for seq in range(1, each + 1):
                curl = f"http://s{pid}.example/docs/part{seq % 10}/page{seq}.html"
                key = url_key(pid, curl, "text/html").hex()
                rows.append(f"{key}\t{pid}\t{psetid}\t{seq}\t{curl}\tpage{seq}.html\n")
            rows.sort()
            out.writelines(rows)
    cursor.execute(
        f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE qdb CHARACTER SET utf8mb4"
        " (@urlkey, pid, psetid, seq, curl, @sent) SET urlkey = UNHEX(@urlkey), sent = JSON_ARRAY('c', @sent),"
        " slot = -1, operation = 1, generation = 1, connseq = 1, attempts = 0, seen = 0, furl = '', burl = '',"
        " mimetype = 'text/html', subtype = '', md5 = '', hours = '', ifabsent = 0"
    )
    path.unlink()


def note_chores_done(server: PrivateMariaDb, url: str) -> None:
    """Note the chores of the background as just done."""
    due = int(time.time()) + FULL_SETS_SECONDS
    with connected(server, url) as connection:
        cursor = connection.cursor()
        cursor.executemany(
            "REPLACE INTO chores (name, due, progress) VALUES (%s, %s, '')", [(c, due) for c in CHORES]
        )
        connection.commit()
