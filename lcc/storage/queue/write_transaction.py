"""Write transactions of the queue manager: fence, counters, delete orders, stored errors, statistics of providers.

A :class:`WriteTransaction` first locks the counters and checks that no newer queue manager has claimed the database;
last it writes what has changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

import attrs

from lcc.config import QmConfig
from lcc.errors import Busy, entry_for
from lcc.model import SITE, UrlNotice
from lcc.storage.database.tables.rows import TOLD, last_generation
from lcc.storage.database.tables.stored_notices import write_notice
from lcc.storage.database.transactions import Question, Txn
from lcc.storage.queue.moves.following import TouchedRows
from lcc.storage.queue.notifications import PendingNotifications

_STATS = (
    *("files_used", "space_used", "nurlproc", "errseq", "errcleared", "maxconnseq"),
    *("fullconnseq", "fullsets_used", "fullsets_since", "wantfullset", "wantid"),
    *("last_set_time", "last_full_time", "files_pending", "space_pending", "errothers", "untyped"),
)
_SELECT_STATS = f"SELECT pid, {', '.join(_STATS)} FROM pstats WHERE pid IN ({{in}})"
_NURLPROC = _STATS.index("nurlproc")
_ERRORS = (
    *("pid", "number", "code", "message", "url", "sent", "time", "urlkey", "connseq", "generation", "notice"),
    "source",
)
_SITE = int(SITE)
_AGES = ("old-files", "expired-files")
_REASONS = ("", *_AGES)
_CACHE_CRASH = "cache-crash"
_REASON_CHARS = 64


@attrs.define
class Stats:
    """A row of ``pstats``."""

    files_used: int = 0
    space_used: int = 0
    nurlproc: int = 0
    errseq: int = 0
    errcleared: int = 0
    maxconnseq: int = 0
    fullconnseq: int = 0
    fullsets_used: int = 0
    fullsets_since: int = 0
    wantfullset: str = ""
    wantid: int = 0
    last_set_time: int = 0
    last_full_time: int = 0
    files_pending: int = 0
    space_pending: int = 0
    errothers: int = 0
    untyped: int = 0

    def pend(self, count: int, length: int | None) -> None:
        """Add pending URLs without content, each with this length told; a negative count removes them."""
        self.files_pending += count
        self.space_pending += count * (length or 0)

    def want(self, reason: str, wantid: int) -> None:
        """Ask for a full set; a more severe reason stays.

        :param wantid: names this request.

        Only a full set whose provider was told of this request ends it: an earlier one may lack what is lost.  If
        files are only old, any solicited one will do.
        """
        if _severity(reason) >= _severity(self.wantfullset):
            if not (self.wantfullset in _AGES and reason in _AGES):
                self.wantid = wantid
            self.wantfullset = reason[:_REASON_CHARS]


_CHANGE_TIME = "change_time"
_CHANGE_FENCE = "UPDATE counters SET value = value + 1 WHERE name = 'fence'"
_values: Callable[[Stats], tuple[Any, ...]] = attrgetter(*_STATS)
_NO_STATS = _values(Stats())


def _severity(reason: str) -> int:
    if reason == _CACHE_CRASH:
        return len(_REASONS) + 1
    return _REASONS.index(reason) if reason in _REASONS else len(_REASONS)


class WriteTransaction:
    """One transaction of the queue manager, and what every such transaction keeps.

    :param run: of the queue manager that writes.
    :param now: needed where files are deleted or errors are kept; so are the settings.
    :param pending: what the queue manager has to be told afterwards.
    :param questions: asked together with its own; their rows are in ``answers``.
    :param pids: providers whose statistics are read at once.
    :raises Busy: a newer queue manager has claimed the database.
    """

    def __init__(
        self,
        txn: Txn,
        run: int,
        now: int = 0,
        settings: QmConfig | None = None,
        pending: PendingNotifications | None = None,
        questions: Sequence[Question] = (),
        pids: Iterable[int] = (),
    ) -> None:
        self.txn = txn
        self.now = now
        self.pending = PendingNotifications() if pending is None else pending
        self.settings = QmConfig() if settings is None else settings
        if txn.dialect.certifies:
            # Locks are local to a node.  A claim changes this row, too, so that only one of the two commits.
            txn.execute(_CHANGE_FENCE)
        wanted = sorted(set(pids))
        # The first one takes the lock under which the others are read.
        counters = Question(f"SELECT name, value FROM counters{txn.for_update}")
        rows, stats, *self.answers = txn.query_several([counters, Question(_SELECT_STATS, wanted), *questions])
        self._counters: dict[str, int] = dict(rows)
        self._counters_before = dict(self._counters)
        if self._counters["qm_run"] != run:
            raise Busy(f"a newer queue manager (run {self._counters['qm_run']}) has claimed the database")
        if self._counters["followed"]:
            txn.journal = TouchedRows(txn, self._counters["touched"])
        self._stats: dict[int, Stats] = {}
        self._stats_before: dict[int, tuple[Any, ...]] = {}
        self._add_stats(wanted, stats)
        self._files: list[tuple[int, int, int, int]] = []
        self._errors: defaultdict[int, list[tuple[Any, ...]]] = defaultdict(list)

    def next(self, counter: str) -> int:
        """Increment a counter, and return it."""
        self._counters[counter] += 1
        return self._counters[counter]

    def reach(self, counter: str, least: int) -> int:
        """Have a counter be this much at least; returns it."""
        self._counters[counter] = max(self._counters[counter], least)
        return self._counters[counter]

    @property
    def change_time(self) -> int:
        """When the changes of this transaction were, seconds since 1970: never before those of an earlier one."""
        time = self._counters[_CHANGE_TIME] = max(self.now, self._counters[_CHANGE_TIME])
        return time

    def next_change(self) -> dict[str, int]:
        """The number and the time of the next change, as columns
        (:data:`lcc.storage.database.tables.rows.CHANGE`)."""
        return {"change_number": self.next("change"), "change_time": self.change_time}

    def next_changes(self, count: int) -> tuple[int, int]:
        """The number before those of the next changes, which follow on each other, and their time."""
        before = self._counters["change"]
        self._counters["change"] += count
        return before, self.change_time

    def load_stats(self, pids: Iterable[int]) -> None:
        """Load the statistics of these providers in one query."""
        missing = sorted(set(pids) - self._stats.keys())
        self._add_stats(missing, self.txn.query_in(_SELECT_STATS, missing))

    def _add_stats(self, pids: Iterable[int], rows: Iterable[tuple[Any, ...]]) -> None:
        found = {row[0]: row[1:] for row in rows}
        for pid in pids:
            self._stats[pid] = Stats(*found[pid]) if pid in found else Stats()
            self._stats_before[pid] = found.get(pid, ())

    def stats(self, pid: int) -> Stats:
        """The statistics of a provider, which may be changed."""
        if pid not in self._stats:
            self.load_stats([pid])
        return self._stats[pid]

    def want_full_set(self, pid: int, reason: str) -> None:
        """Ask a provider for a full set (:meth:`Stats.want`)."""
        self.stats(pid).want(reason, self.txn.random_bits(62) | 1)

    def delete_file(self, machine: int | None, file: int | None) -> None:
        """Write a delete order for a content file."""
        if machine is not None and file is not None:
            self._files.append((self.next("file_order"), machine, file, self.now + self.settings.delete_grace))

    def error(
        self,
        pid: int,
        key: bytes,
        connseq: int,
        code: int,
        detail: str,
        notice: UrlNotice,
        generation: int | None = None,
        source: int = TOLD,
    ) -> None:
        """Count an error of a URL, and store it: for the provider, if the URL is the site's own word.

        :param connseq: the order number of the set with the notice.
        :param detail: appended to the text of the code; may be empty.
        :param generation: of the queue row; None: no fetch failed, so it is newer than all rows.
        :param source: mask of those whose word it is.  Errors that are not for the provider have numbers below 0.
        """
        if generation is None:
            generation = last_generation(self._counters["batch"])
        stats = self.stats(pid)
        if source & _SITE:
            stats.errseq += 1
            number = stats.errseq
        else:
            stats.errothers += 1
            number = -stats.errothers
        text = entry_for(code).text
        message = f"{text}: {detail}" if detail else text
        url = notice.furl or notice.curl
        told = write_notice(notice)
        self._errors[pid].append(
            (pid, number, code, message, url, notice.sent, self.now, key, connseq, generation, told, source)
        )

    def forgotten(self, change: int) -> None:
        """Deletions up to this change number are forgotten."""
        self._counters["forgotten"] = max(self._counters["forgotten"], change)

    def count_queue(self) -> tuple[int, int]:
        """Set the queue size to the sum over the providers; returns the old and the new value.  Call it before any
        change of the statistics."""
        before = self._counters["queued"]
        self._counters["queued"] = int(self.txn.value("SELECT SUM(nurlproc) FROM pstats", (), 0))
        return before, self._counters["queued"]

    @property
    def queue_size(self) -> int:
        """Rows that are to be fetched, as this transaction has found them."""
        return self._counters["queued"]

    @property
    def change(self) -> int:
        """The number of the cache's last change."""
        return self._counters["change"]

    def flush(self) -> None:
        """Write what has changed.  Called last."""
        self.pending.deletes |= bool(self._files)
        self.txn.insert("fsmdb", ("id", "machine", "file", "not_before"), self._files)
        self._save_errors()
        self._save_stats()
        before = self._counters_before
        counters = [(name, value) for name, value in self._counters.items() if value != before[name]]
        self.txn.upsert("counters", ("name", "value"), counters, ("name",))

    def _save_stats(self) -> None:
        new: list[tuple[Any, ...]] = []
        changed: list[tuple[int, tuple[Any, ...]]] = []
        columns: set[int] = set()
        for pid, stats in sorted(self._stats.items()):
            before, values = self._stats_before[pid], _values(stats)
            if values == (before or _NO_STATS):
                continue
            self._counters["queued"] += values[_NURLPROC] - (before or _NO_STATS)[_NURLPROC]
            if before:
                changed.append((pid, values))
                columns.update([column for column, value in enumerate(values) if value != before[column]])
            else:
                new.append((pid, *values))
        self.txn.upsert("pstats", ("pid", *_STATS), new, ("pid",))
        # A batch of results changes many providers, but few of the columns.
        written = sorted(columns)
        names = [_STATS[column] for column in written]
        rows = [(pid, *[values[column] for column in written]) for pid, values in changed]
        self.txn.upsert("pstats", ("pid", *names), rows, ("pid",))

    def _save_errors(self) -> None:
        for pid, rows in sorted(self._errors.items()):
            stats, kept = self.stats(pid), self.settings.errors_kept
            for told, last in ((True, stats.errseq), (False, stats.errothers)):
                some = [row for row in rows if (row[1] > 0) == told]
                if not some:
                    continue
                oldest = last - kept
                between = [1, oldest] if told else [-oldest, -1]
                self.txn.execute("DELETE FROM urlerrs WHERE pid = ? AND number BETWEEN ? AND ?", [pid, *between])
                left = [row for row in some if abs(row[1]) > oldest]
                self.txn.upsert("urlerrs", _ERRORS, left, ("pid", "number"))


def claim_run(txn: Txn) -> int:
    """Begin a new run; it fences off the writes of all older ones."""
    txn.execute("UPDATE counters SET value = value + 1 WHERE name IN ('qm_run', 'fence')")
    return int(txn.value("SELECT value FROM counters WHERE name = 'qm_run'"))
