"""What a cluster at rest shows: its tables, its content files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import attrs

from lcc.protocols.cp_uns import unpack_sent
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.transactions import Txn
from lcc.storage.disk.content_paths import content_path

CACHED = 1


class Folders(Protocol):
    """Where an LCC has its files."""

    def content(self, machine: int, /) -> Path:
        """The content folder of a machine."""

    def spooled(self) -> list[Path]:
        """Sets that UNSes have accepted and not passed on."""


@attrs.frozen
class Row:
    """A row of ``lccurl``; ``data`` is its content file's, None: there is none (or the row is a tombstone)."""

    pid: int
    curl: str
    cached: bool
    change: int
    md5: str
    length: int | None
    machine: int | None
    file: int | None
    data: bytes | None = None


@attrs.frozen
class Kept:
    """An error that is kept for a provider.

    :ivar op: the id of the element (:class:`journal.Op`).
    """

    pid: int
    number: int
    code: int
    op: str
    url: str


@attrs.frozen
class Stats:
    """A row of ``pstats``."""

    pid: int
    files: int
    space: int
    processing: int
    errors: int
    cleared: int
    wanted: str


@attrs.frozen
class Evidence:
    """All of it.

    :ivar left: what -> how much of it waits still.
    """

    rows: list[Row]
    kept: list[Kept]
    stats: dict[int, Stats]
    last_change: int
    left: dict[str, int]


WAITING = {
    "queue rows": "SELECT COUNT(*) FROM qdb",
    "sets in the queue": "SELECT COUNT(*) FROM qpsdb",
    "files to be removed": "SELECT COUNT(*) FROM fsmdb",
    "damaged files": "SELECT COUNT(*) FROM damaged",
    "orders": "SELECT COUNT(*) FROM orders",
    "content that is lost": "SELECT COUNT(*) FROM lccurl WHERE state = 1 AND fetched_machineid IS NULL",
}


def waiting(cluster: Folders, database: BlockingDatabase) -> dict[str, int]:
    """What a cluster still has to do; empty: nothing."""

    def count(txn: Txn) -> dict[str, int]:
        return {what: int(txn.value(sql)) for what, sql in WAITING.items()}

    found = database.interact(count) | {"spooled sets": len(cluster.spooled())}
    return {what: number for what, number in found.items() if number}


def gather(cluster: Folders, database: BlockingDatabase) -> Evidence:
    """Look at everything."""

    def read(txn: Txn) -> tuple[list[Any], list[Any], list[Any], int]:
        rows = txn.query(
            "SELECT pid, curl, state, change_number, md5, len, fetched_machineid, fetched_fileid FROM lccurl"
        )
        kept = txn.query("SELECT pid, number, code, sent, url FROM urlerrs")
        stats = txn.query("SELECT pid, files_used, space_used, nurlproc, errseq, errcleared, wantfullset FROM pstats")
        return rows, kept, stats, int(txn.value("SELECT value FROM counters WHERE name = 'change'"))

    rows, kept, stats, change = database.interact(read)
    data = _reader(cluster)
    return Evidence(
        [
            Row(pid, curl, state == CACHED, number, md5, length, machine, file, data(machine, file))
            for pid, curl, state, number, md5, length, machine, file in rows
        ],
        [Kept(pid, number, code, dict(unpack_sent(sent)).get("x", ""), url) for pid, number, code, sent, url in kept],
        {row[0]: Stats(*row) for row in stats},
        change,
        waiting(cluster, database),
    )


def _reader(cluster: Folders) -> Callable[[int | None, int | None], bytes | None]:
    def read(machine: int | None, file: int | None) -> bytes | None:
        if machine is None or file is None:
            return None
        try:
            return (cluster.content(machine) / content_path(file)).read_bytes()
        except FileNotFoundError:
            return None

    return read
