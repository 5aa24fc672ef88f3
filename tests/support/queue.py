"""A queue store with one provider, asked in plain calls."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import attrs

from lcc.config import QmConfig
from lcc.domain.fetches.timeslots import TimeSlots
from lcc.domain.keys import url_key
from lcc.domain.notices.rules import QueueRules
from lcc.model import (
    Absorbed,
    CarriedOut,
    Cursor,
    FetchResult,
    Kept,
    KeyedNotice,
    Provider,
    QueueRow,
    Recorded,
    SetHeader,
    SetPiece,
    UrlNotice,
    retry_time,
)
from lcc.storage.providers.providers import add_provider, provider_status
from lcc.storage.queue.store import QueueStore
from tests.support.databases import DirectDatabase, result_of

_COUNTED = "source & 31 <> 0"
"""It is not only polled."""


class Queue:
    """A queue store with one provider, asked in plain calls."""

    def __init__(self, database: DirectDatabase, settings: QmConfig | None = None) -> None:
        self.database = database
        self.settings = settings or QmConfig(delete_grace=0)
        self.rules = QueueRules.configured(self.settings, TimeSlots(timezone="UTC"))
        self.store = self.another_store()
        self.pid = self.add_provider()
        self.claim()
        self.number = 0
        self.file = 0

    def another_store(self) -> QueueStore:
        return QueueStore(self.database, self.rules, self.settings)  # type: ignore[arg-type]  # stands in for a Database

    def claim(self) -> None:
        result_of(self.store.claim(1))

    def add_provider(self, **more: Any) -> int:
        hashed = str(Random().getrandbits(64))
        return self.database.now(add_provider, Provider(0, ("http://site/",), hashed, priority=1, **more))

    def header(
        self, connseq: int, *, full: bool = False, number: int = 0, uns: str = "uns", **more: Any
    ) -> SetHeader:
        if not number:
            self.number += 1
            number = self.number
        values = {"pid": self.pid, "errors_upto": 0, "answered": False, "time": 5, "epoch": "e"} | more
        if full and "wantid" not in more:
            values["wantid"] = self.wantid(values["pid"])
        return SetHeader(uns=uns, number=number, connseq=connseq, full=full, **values)

    def wantid(self, pid: int = 0) -> int:
        """What a provider that connects now is told."""
        return self.database.now(provider_status, pid or self.pid, 0).wantid

    def key(self, path: str, mimetype: str = "text/html") -> bytes:
        return url_key(self.pid, f"http://site/{path}", mimetype)

    def keyed(self, notice: UrlNotice) -> KeyedNotice:
        return KeyedNotice(url_key(self.pid, notice.curl, notice.mimetype), notice)

    def pieces(self, header: SetHeader, notices: Sequence[UrlNotice], size: int = 1000) -> list[SetPiece]:
        keyed = [self.keyed(notice) for notice in notices]
        starts = range(0, max(1, len(keyed)), size)
        return [
            SetPiece(header, start, tuple(keyed[start : start + size]), start + size >= len(keyed))
            for start in starts
        ]

    def absorb(self, pieces: Sequence[SetPiece], now: int = 10) -> Absorbed:
        return result_of(self.store.absorb(pieces, now))

    def send(self, connseq: int, *notices: UrlNotice, full: bool = False, now: int = 10, **more: Any) -> Absorbed:
        """Absorb a whole set."""
        return self.absorb(self.pieces(self.header(connseq, full=full, **more), notices), now)

    def rows(self, pid: int = 0) -> list[QueueRow]:
        """All that is queued, in order."""
        (ahead,), _ = result_of(self.store.read_ahead([Cursor(pid or self.pid, 0, 0, 10_000)]))
        return ahead.rows

    def fetched(self, row: QueueRow, content: str = "x", **more: Any) -> FetchResult:
        """The result of a fetch that brought content."""
        self.file += 1
        values: dict[str, Any] = {
            "code": 0,
            "status": 200,
            "size_bytes": len(content),
            "md5": f"{abs(hash(content)):032x}"[:32],
            "machine": 1,
            "file": self.file,
            "url": row.notice.furl or row.notice.curl,
        }
        return FetchResult(row.pid, row.key, row.generation, **(values | more))

    def failed(self, row: QueueRow, code: int, detail: str = "") -> FetchResult:
        return FetchResult(row.pid, row.key, row.generation, code, detail=detail)

    def record(self, *results: FetchResult, removed: Sequence[tuple[bytes, int]] = (), now: int = 20) -> Recorded:
        return result_of(self.store.record(results, removed, now))

    def fetch_all(self, now: int = 20) -> None:
        """Fetch all that is queued."""
        while rows := self.rows():
            removed = [(row.key, row.generation) for row in rows if row.delete]
            self.record(*[self.fetched(row) for row in rows if not row.delete], removed=removed, now=now)

    def waiting(self) -> dict[str, int]:
        """What waits to be tried again: the end of its URL -> when it is due."""
        rows = self.database.query("SELECT curl, slot FROM qdb WHERE pid = ? AND slot < -1", [self.pid])
        return {curl[12:]: retry_time(slot) for curl, slot in rows}

    def open_retries(self, now: int, limit: int = 100) -> dict[int, tuple[int, int]]:
        """Open all that is due; gives the earliest place of each provider."""
        queued: dict[int, tuple[int, int]] = {}
        while True:
            page = result_of(self.store.open_retries(now, limit))
            for pid, psetid, seq, _priority in page.earliest:
                queued[pid] = min((psetid, seq), queued.get(pid, (psetid, seq)))
            if page.next_time is None or page.next_time > now:
                return queued

    def keep_house(self, now: int) -> list[Kept]:
        """Do all that is due in the background."""
        done = [result_of(self.store.housekeeping(now))]
        while done[-1].more:
            done.append(result_of(self.store.housekeeping(now)))
        return done

    def carry_out(self, now: int = 50) -> CarriedOut:
        """Carry out all orders; gives all that was done."""
        finished: tuple[tuple[str, int, int], ...] = ()
        queued: dict[int, tuple[int, int]] = {}
        while True:
            done = result_of(self.store.carry_out_orders(now))
            finished += done.finished
            for pid, place in done.work.queued.items():
                queued[pid] = min(place, queued.get(pid, place))
            if not done.more:
                return CarriedOut(finished, attrs.evolve(done.work, queued=queued), more=False)

    # Looking.

    def cached(self) -> dict[str, str]:
        """Conceptual URL and mime type -> state, of all that content users see of the provider."""
        rows = self.database.query(
            "SELECT curl, mimetype, state FROM lccurl WHERE pid = ? AND change_number > 0", [self.pid]
        )
        return {f"{curl} {mimetype}": "cached" if state else "deleted" for curl, mimetype, state in rows}

    def stats(self, column: str) -> Any:
        return self.database.query(f"SELECT {column} FROM pstats WHERE pid = ?", [self.pid])[0][0]

    def files_to_delete(self) -> list[int]:
        return [file for (file,) in self.database.query("SELECT file FROM fsmdb ORDER BY id")]

    def check_books(self) -> None:
        """All that is counted must be what there is."""
        query = self.database.query
        files, space = query(
            f"SELECT COUNT(*), COALESCE(SUM(len), 0) FROM lccurl WHERE pid = ? AND state = 1 AND {_COUNTED}",
            [self.pid],
        )[0]
        queued = query("SELECT COUNT(*) FROM qdb WHERE pid = ? AND operation = 1", [self.pid])[0][0]
        pending = query(
            f"SELECT COUNT(*), COALESCE(SUM(len), 0) FROM qdb WHERE pid = ? AND operation = 1 AND {_COUNTED} AND NOT"
            f" EXISTS (SELECT 1 FROM lccurl WHERE lccurl.urlkey = qdb.urlkey AND state = 1 AND lccurl.{_COUNTED})",
            [self.pid],
        )[0]
        stats = query(
            "SELECT files_used, space_used, nurlproc, files_pending, space_pending FROM pstats WHERE pid = ?",
            [self.pid],
        )
        assert (stats or [(0,) * 5])[0] == (files, space, queued, *pending)
        sets = query(
            "SELECT psetid, slot, COUNT(*), MIN(seq), MAX(seq) FROM qdb WHERE pid = ?"
            " GROUP BY psetid, slot ORDER BY psetid, slot",
            [self.pid],
        )
        stored = query(
            "SELECT psetid, slot, nurls, firstseq, lastseq FROM qpsdb WHERE pid = ? ORDER BY psetid, slot", [self.pid]
        )
        assert [row[:3] for row in stored] == [row[:3] for row in sets]
        for (*_, first, last), (*_, lowest, highest) in zip(stored, sets, strict=True):
            assert first <= lowest and highest <= last
        assert (
            query("SELECT COALESCE(SUM(nurlproc), 0) FROM pstats")[0][0]
            == query("SELECT value FROM counters WHERE name = 'queued'")[0][0]
        )
        # Content is named by the same as what is queued of it, unless it was only polled.
        assert not query(
            "SELECT q.source, c.source FROM qdb q JOIN lccurl c ON c.urlkey = q.urlkey WHERE q.pid = ?"
            f" AND q.operation = 1 AND c.state = 1 AND c.{_COUNTED} AND c.source <> q.source",
            [self.pid],
        )
        assert not query(
            "SELECT curl FROM lccurl WHERE pid = ? AND state = 1 AND source = 0 UNION ALL"
            " SELECT curl FROM qdb WHERE pid = ? AND operation = 1 AND source = 0",
            [self.pid, self.pid],
        )
        nothing = query("SELECT urlkey FROM qdb WHERE pid = ? AND operation = 0 ORDER BY urlkey", [self.pid])
        noted = query(
            "SELECT q.urlkey FROM cancelled c JOIN qdb q ON q.urlkey = c.urlkey AND q.operation = 0"
            " WHERE q.pid = ? ORDER BY q.urlkey",
            [self.pid],
        )
        assert noted == nothing
        assert query(
            "SELECT COUNT(*) FROM cancelled c LEFT JOIN qdb q ON q.urlkey = c.urlkey WHERE q.pid IS NULL"
        ) == [(0,)]
        numbers = [number for (number,) in query("SELECT change_number FROM lccurl WHERE change_number > 0")]
        assert len(set(numbers)) == len(numbers)
        assert max(numbers, default=0) <= query("SELECT value FROM counters WHERE name = 'change'")[0][0]


def notice(path: str, md5: str = "", **more: Any) -> UrlNotice:
    """A notice of a page; with a md5, length and mtime are told as well."""
    told = {"md5": md5 * (32 // len(md5)), "length": 1, "mtime": 2} if md5 else {}
    return UrlNotice(f"http://site/{path}", **({"mimetype": "text/html"} | told | more))  # type: ignore[arg-type]
