"""``lcc-admin fsck``: do the content folder of this machine and the database agree?

It is exact, also beside a working LCC, by the order in which things are looked at:

* *A row's file* is opened after the row was read, and the row is read once more if something is wrong: a row gives up
  its file before the file is removed, and never takes it back.
* *An orphan* was in its folder; then the BOT-M said that it holds nothing of it, and that no result of an earlier run
  of it is on its way into the database; then the database was seen to know nothing of it; and it is still there.
  From the moment that the BOT-M has forgotten it, nobody can ever name it again.
* *A leftover* was among the attempts; then the BOT-M said that it is none of its own; and it is still there.

* *The index of the search server*, if there is one on this machine: :mod:`lcc.admin.search.comparison`.

Only orphans and leftovers are removed here, because they are nobody's.  Rows are the queue manager's: it is given an
order, and fetches again; the search server builds its index anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import click
from attrs import define, frozen

from lcc.admin.context import Admin, pass_admin
from lcc.admin.output import Column, Listing, json_option
from lcc.admin.processes.botm_status import BotmStatus, NotAsked, ask_botm
from lcc.admin.queue.repair import warn_if_not_running
from lcc.admin.search.comparison import INDEX_FAULTS, beside_index, compare_index, index_folder
from lcc.admin.search.index import order_rebuild
from lcc.commands.errors import Failed
from lcc.commands.progress import is_watched, progress
from lcc.config import Config
from lcc.model import ContentRow
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.tables.content_rows import rows_of_files
from lcc.storage.disk.content_paths import content_path
from lcc.storage.disk.content_scan import Leaf, attempts, leaves, names_upto
from lcc.storage.disk.content_sync import SYNCED
from lcc.storage.disk.content_verify import fault_of
from lcc.storage.views.content_check import count_rows, known_of, names_of_urls, order_again, page_of_rows

PAGE_ROWS = 1000
ORDER_FILES = 500
_ID_MAX = 2**63 - 1

ROW_FAULTS = ("missing", "length", "hash", "unreadable")
REMOVABLE = ("orphan", "leftover")
REMOVED = "removed"
REPORTED = ("beyond", "undecided")
"""Faults that cannot be repaired here."""

_COLUMNS = (
    Column("kind", 10),
    Column("file", 12, "number"),
    Column("pid", 5, "number"),
    Column("curl"),
    Column("path"),
)


@frozen
class Finding:
    """Something that is not as it must be.

    :ivar kind: ``missing``, ``length``, ``hash``, ``unreadable`` (what is wrong with a row's file), ``orphan``,
        ``leftover`` (of an attempt), ``beyond`` (its id was never given out: the folder's counter has gone back),
        ``undecided`` (the BOT-M could not be asked), ``stray`` (does not belong in the folder); those of
        :data:`lcc.admin.search.comparison.INDEX_FAULTS`.
    :ivar path: relative to the content folder; of the index the key, or what is wrong or left of it.
    """

    kind: str
    path: str
    file: int | None = None
    pid: int | None = None
    curl: str = ""


class Pace:
    """Waits, so that reading goes no faster than so many bytes a second."""

    def __init__(self, bytes_per_second: int, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._free_at = 0.0

    def __call__(self, size_bytes: int) -> None:
        now = self._clock()
        self._free_at = max(self._free_at, now) + size_bytes / self._rate
        if self._free_at > now:
            self._sleep(self._free_at - now)


@define
class Check:
    """One check of a content folder.

    :ivar quick: content is not read.
    :ivar ask: asks the BOT-M.
    :ivar files, rows: looked at.
    :ivar looked: is told of each row.
    :ivar trouble: why the BOT-M could not be asked, or its answer does not help; empty: all is well.
    """

    folder: Path
    machine: int
    database: BlockingDatabase
    ask: Callable[[], BotmStatus]
    pace: Callable[[int], None]
    quick: bool = False
    files: int = 0
    rows: int = 0
    trouble: str = ""
    looked: Callable[[int], None] = lambda _: None

    def run(self) -> Iterator[Finding]:
        """Everything that is found."""
        strays: list[str] = []
        yield from self._attempts(attempts(self.folder, strays))
        position = 0
        for leaf in leaves(self.folder, strays):
            yield from self._rows(position, leaf.first)
            yield from self._rows(leaf.first, leaf.upto)
            yield from self._unknown(leaf)
            position = leaf.upto
        yield from self._rows(position, _ID_MAX)
        for path in strays:
            if (self.folder / path).exists():
                yield Finding("stray", path)

    def _botm(self) -> BotmStatus | None:
        """What it holds; None: it cannot be asked, or cannot tell."""
        try:
            status = self.ask()
        except NotAsked as error:
            self.trouble = str(error)
            return None
        if status.machine != self.machine:
            self.trouble = f"the BOT-M here belongs to machine {status.machine}"
            return None
        return status

    def _attempts(self, found: list[str]) -> Iterator[Finding]:
        if not found:
            return
        status = self._botm()
        for path in found:
            if status is not None and path in status.attempts:
                continue
            if (self.folder / path).exists():
                yield Finding("leftover" if status is not None else "undecided", path)

    # Files without rows.

    def _unknown(self, leaf: Leaf) -> Iterator[Finding]:
        self.files += len(leaf.files)
        upto = names_upto(self.folder)
        beyond = {file for file in leaf.files if upto and file >= upto}
        for file in sorted(beyond):
            yield Finding("beyond", content_path(file), file)
        unknown = leaf.files - beyond
        unknown -= self._known(unknown)
        if not unknown:
            return
        status = self._botm()
        if status is not None and not status.settled:
            self.trouble = "the BOT-M has not been in contact with a queue manager yet"
            status = None
        if status is not None:
            unknown -= status.files
        unknown -= self._known(unknown)
        for file in sorted(unknown):
            if (self.folder / content_path(file)).exists():
                yield Finding("orphan" if status is not None else "undecided", content_path(file), file)

    def _known(self, files: Iterable[int]) -> set[int]:
        known: set[int] = self.database.interact(known_of, self.machine, files)
        return known

    # Rows and their files.

    def _rows(self, first: int, upto: int) -> Iterator[Finding]:
        while first < upto:
            page: list[ContentRow] = self.database.interact(page_of_rows, self.machine, first, upto, PAGE_ROWS)
            faults = {}
            for row in page:
                self.rows += 1
                self.looked(1)
                fault = fault_of(self.folder, row.file, row.size_bytes, "" if self.quick else row.md5, self.pace)
                if fault:
                    faults[row.file] = fault
            if faults:
                yield from self._still(faults)
            if len(page) < PAGE_ROWS:
                return
            first = page[-1].file + 1

    def _still(self, faults: dict[int, str]) -> Iterator[Finding]:
        rows: dict[int, ContentRow] = self.database.interact(rows_of_files, self.machine, faults)
        names = self.database.interact(names_of_urls, [row.key for row in rows.values()])
        for file, row in sorted(rows.items()):
            pid, curl = names.get(row.key, (None, ""))
            yield Finding(faults[file], content_path(file), file, pid, curl)


@click.command("fsck")
@click.option("--repair", is_flag=True, help="Remove orphans and leftovers; have lost content fetched again.")
@click.option("--quick", is_flag=True, help="Check only existence and size of files, not their content.")
@click.option("--machine", type=click.IntRange(1), help="Machine of this content folder.  Default: [botm] machine.")
@click.option(
    "--rate",
    type=click.IntRange(10_000),
    help="Maximum read rate in bytes per second.  Default: [botm] verify_bytes.",
)
@json_option
@pass_admin
def fsck_command(
    admin: Admin, repair: bool, quick: bool, machine: int | None, rate: int | None, as_json: bool
) -> None:
    """Compare the content folder, and the index of the search, with the database.

    The LCC may be running.  Exit code 1: problems were found that are neither repaired nor ordered to be.  With
    --json, print one object per finding, then one with the summary.
    """
    config = admin.config
    if config.botm.serves == "botms":
        raise Failed("this is the configuration of a central BOT-M", "run fsck on the machines with content")
    folder = config.under_home(config.botm.content)
    if not folder.is_dir():
        raise Failed(
            f"no content folder {folder}",
            "mount it, start the BOT-M, or give the configuration with --config",
        )
    if not (folder / SYNCED).is_file():
        raise Failed(
            f"{folder} has no file {SYNCED!r}: never used by a BOT-M, or not mounted",
            "mount it, start the BOT-M, or give the configuration with --config",
        )
    number = machine or config.botm.machine
    _check_owner(config, number, repair)
    pace = Pace(rate or config.botm.verify_bytes, time.monotonic, time.sleep)
    listing = Listing((*_COLUMNS[:1], Column("done", 8), *_COLUMNS[1:]) if repair else _COLUMNS, as_json)
    counts: dict[str, int] = {}
    left = ordered = 0
    with admin.database() as database:
        check = Check(folder, number, database, lambda: ask_botm(config), pace, quick)
        damaged: list[int] = []
        try:
            for finding in chain(_watched(check), _of_index(config, database)):
                counts[finding.kind] = counts.get(finding.kind, 0) + 1
                done = ""
                if repair and finding.kind in REMOVABLE:
                    done = _remove(folder / finding.path)
                    left += done != REMOVED
                elif repair and finding.kind in ROW_FAULTS and finding.file is not None:
                    damaged.append(finding.file)
                    done = "ordered"
                elif repair and finding.kind in INDEX_FAULTS:
                    order_rebuild(config)
                    done = "ordered"
                elif finding.kind != "stray":
                    left += 1
                listing.row(_record(finding, check.machine, done))
                if len(damaged) >= ORDER_FILES:
                    ordered += _order(database, check.machine, damaged)
        except OSError as error:
            raise Failed(f"cannot check the content folder: {error}", "run this as the user of the BOT-M") from None
        finally:
            ordered += _order(database, check.machine, damaged)
        _summary(check, counts, repair, as_json)
        if ordered and not as_json:
            click.echo(f"ordered: {ordered:,} URLs will be fetched again")
            warn_if_not_running(admin, database)
    if left:
        raise SystemExit(Failed.exit_code)


def _watched(check: Check) -> Iterator[Finding]:
    """The findings, with a progress bar on a terminal."""
    total = check.database.interact(count_rows, check.machine) if is_watched() else None
    with progress("checking", total) as check.looked:
        yield from check.run()


def _of_index(config: Config, database: BlockingDatabase) -> Iterator[Finding]:
    """What the index of the search server has otherwise than the cache."""
    folder = index_folder(config)
    differing = compare_index(config, folder, database) if folder is not None else ()
    if config.search.listen:
        for fault in chain(beside_index(config), differing):
            yield Finding(fault.kind, fault.text or fault.key, None, fault.pid, fault.curl)


def _check_owner(config: Config, machine: int, repair: bool) -> None:
    """Check that this is the machine's folder: with another machine's rows all files would be missing.

    :raises Failed: it belongs to another machine, or that is unknown and matters.
    """
    try:
        owner = ask_botm(config).machine
    except NotAsked as error:
        if repair and machine != config.botm.machine:
            raise Failed(
                f"cannot tell whether this is the folder of machine {machine}: {error}; nothing was repaired",
                "start the BOT-M of this folder, then try again",
            ) from None
        return
    if owner != machine:
        raise Failed(
            f"this is the content folder of machine {owner}, not of machine {machine}",
            "set [botm] machine accordingly, or leave out --machine",
        )


def _remove(path: Path) -> str:
    """Remove a file; what to say of that."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        return f"not removed: {error.strerror}"
    return REMOVED


def _order(database: BlockingDatabase, machine: int, files: list[int]) -> int:
    """Order them to be fetched again; returns their number, and clears the list."""
    count = len(files)
    if files:
        database.write(order_again, machine, list(files))
        files.clear()
    return count


def _record(finding: Finding, machine: int, done: str) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "machine": machine,
        "file": finding.file,
        "path": finding.path,
        "pid": finding.pid,
        "curl": finding.curl,
        "done": done,
    }


def _summary(check: Check, counts: dict[str, int], repair: bool, as_json: bool) -> None:
    if as_json:
        kinds = (*ROW_FAULTS, *REMOVABLE, *REPORTED, "stray", *INDEX_FAULTS)
        found = {kind: counts.get(kind, 0) for kind in kinds}
        summary = {"files": check.files, "rows": check.rows, "found": found, "trouble": check.trouble}
        click.echo(json.dumps({"summary": summary}))
        return
    found_text = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items())) or "no fault"
    click.echo(f"machine {check.machine}: {check.files:,} files, {check.rows:,} rows: {found_text}")
    if counts.get("undecided"):
        click.echo(f"undecided, because {check.trouble}: run this again when queue manager and BOT-M are running")
    if counts.get("beyond"):
        click.echo("beyond: the folder's counter has gone back (restored from a backup?); see doc/troubles.md")
    if not repair and any(counts.get(kind) for kind in (*ROW_FAULTS, *REMOVABLE)):
        click.echo("--repair removes orphans and leftovers, and has lost content fetched again")
    if not repair and any(counts.get(kind) for kind in INDEX_FAULTS):
        click.echo("--repair has the index of the search built anew (lcc-admin search rebuild)")
