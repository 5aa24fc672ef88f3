"""What is seen of all processes, databases and folders, by time."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import attrs
from lcc_site import LccSite

from lcc.workers.linux import parents
from soak.roles.inside import Inside
from soak.roles.lccs import Lccs

LOOK_SECONDS, SIZE_SECONDS = 5.0, 30.0
ARCHIVED_SECONDS = 30.0
"""A closed file of a store is moved away (here: removed) once it is so old, as an operator would."""


@attrs.frozen
class Look:
    """The processes at a moment; each by its name, such as ``one qm``.

    :ivar own_mb: anonymous memory that is resident: what the process has allocated.
    :ivar file_mb: resident pages of files and shared memory: programs, libraries, the mapped index.  The kernel reads
        and drops them as it likes.
    :ivar children_mb: anonymous memory of all processes below it, together.
    :ivar handles: open files, sockets and pipes of its own.
    """

    time: float
    own_mb: dict[str, float]
    file_mb: dict[str, float]
    children_mb: dict[str, float]
    handles: dict[str, int]


@attrs.frozen
class Sizes:
    """Databases and folders at a moment.

    :ivar rows: by table, such as ``one lccurl``.
    :ivar database_bytes: by LCC, those of the front end as ``front``.
    :ivar folder_bytes: of the index of the search, and of spools.
    :ivar content_files: by LCC.
    :ivar segments: files of stores that were closed so far.
    :ivar segment_bytes: the longest file that a store has or had, by store.
    """

    time: float
    rows: dict[str, int]
    database_bytes: dict[str, int]
    folder_bytes: dict[str, int]
    content_files: dict[str, int]
    segments: int
    segment_bytes: dict[str, int]


class Watch:
    """Looks whenever :meth:`look` is called and something is due.

    :param inside: what the processes tell of their memory; None: they are not asked.
    """

    def __init__(self, lccs: Lccs, inside: Inside | None = None) -> None:
        self.looks: list[Look] = []
        self.sizes: list[Sizes] = []
        self._lccs = lccs
        self._inside = inside
        self._segments = 0
        self._longest: dict[str, int] = {}
        self._look_due = self._size_due = 0.0

    def look(self) -> None:
        """Look at what is due.

        :raises SystemExit: a process has ended.
        """
        now = time.monotonic()
        if now >= self._look_due:
            self._look_due = now + LOOK_SECONDS
            self._lccs.check()
            self.looks.append(self._processes())
        if now >= self._size_due:
            self._size_due = now + SIZE_SECONDS
            if self._inside is not None:
                self._inside.ask(self._lccs.processes())
            self.sizes.append(self._sizes())

    def _processes(self) -> Look:
        below: dict[int, list[int]] = {}
        for pid, parent in parents().items():
            below.setdefault(parent, []).append(pid)
        own, files, children, handles = {}, {}, {}, {}
        for name, pid in self._lccs.processes():
            own[name], files[name] = resident_mb(pid)
            children[name] = sum(resident_mb(each)[0] for each in _descendants(pid, below))
            handles[name] = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
        return Look(time.time(), own, files, children, handles)

    def _sizes(self) -> Sizes:
        rows: dict[str, int] = {}
        sizes: dict[str, int] = {}
        folders, files = {}, {}
        for name, site in self._lccs.subs.items():
            sizes[name] = _database(name, site, rows)
            files[name] = sum(1 for path in (site.home / "content").rglob("*") if path.is_file())
            for folder in ("spool", "search"):
                if (site.home / folder).exists():
                    folders[f"{name} {folder}"] = _size(site.home / folder)
        sizes["front"] = _sqlite("front", Path(self._lccs.front.database.removeprefix("sqlite:")), rows)
        self._archive(self._lccs.subs["one"].home / "spider")
        return Sizes(time.time(), rows, sizes, folders, files, self._segments, dict(self._longest))

    def _archive(self, stores: Path) -> None:
        for path in stores.glob("*/*"):
            with suppress(FileNotFoundError):
                found = path.stat()
                store = path.parent.name
                self._longest[store] = max(found.st_size, self._longest.get(store, 0))
                if not path.name.endswith(".open") and time.time() - found.st_mtime > ARCHIVED_SECONDS:
                    path.unlink()
                    self._segments += not path.name.endswith(".cdxj")


def resident_mb(pid: int) -> tuple[float, float]:
    """Anonymous memory of a process, and that of files and shared memory; zero if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0, 0.0
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith("Rss")}
    if not kilobytes:  # it has just ended
        return 0.0, 0.0
    return kilobytes["RssAnon"] * 1024 / 1e6, (kilobytes["RssFile"] + kilobytes["RssShmem"]) * 1024 / 1e6


def _descendants(pid: int, below: dict[int, list[int]]) -> Iterator[int]:
    for each in below.get(pid, ()):
        yield each
        yield from _descendants(each, below)


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size if path.is_file() else 0
    return total


def _database(name: str, site: LccSite, rows: dict[str, int]) -> int:
    """Count the rows of an LCC's tables; the size of its database."""
    files = sorted(path for path in site.home.iterdir() if path.suffix in (".db", ".sqlite"))
    total = sum(_sqlite(name, path, rows) for path in files)
    if site.url.startswith("sqlite:"):
        return total
    tables = site.database.interact(
        lambda txn: txn.query(
            "SELECT table_name, data_length + index_length FROM information_schema.tables"
            " WHERE table_schema = DATABASE()"
        )
    )
    for table, _ in tables:
        rows[f"{name} {table}"] = site.database.interact(
            lambda txn, table=table: int(txn.value(f"SELECT COUNT(*) FROM {table}"))
        )
    return total + sum(int(size) for _, size in tables)


def _sqlite(name: str, path: Path, rows: dict[str, int]) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            rows[f"{name} {table}"] = int(database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])
    return path.stat().st_size
