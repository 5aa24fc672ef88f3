"""A provider that has left for another sub-LCC loses its rows here, a page in each transaction (doc/moves.md)."""

from __future__ import annotations

import attrs

from lcc.model.frontend.moves import Move
from lcc.storage.database.tables.key_ranges import provider_range
from lcc.storage.database.tables.rows import CACHED
from lcc.storage.providers.watched import keep_left_roots
from lcc.storage.queue.moves.arrivals import note_flip
from lcc.storage.queue.moves.following import forget_touched
from lcc.storage.queue.moves.paged import CACHE_ROWS, PAGE_ROWS, QUEUE_ROWS, Keys, Place, has_rows, next_page
from lcc.storage.queue.write_transaction import Stats, WriteTransaction

FROM: Place = (QUEUE_ROWS.name, b"")
"""Where a provider begins to leave."""
_OF_PAGE = "WHERE urlkey BETWEEN ? AND ?"


def leave_page(write: WriteTransaction, move: Move, place: Place = FROM, page_rows: int = PAGE_ROWS) -> Place | None:
    """Remove the next rows of a provider that is elsewhere; gives how far it is; None: there are no more.

    There are no tombstones: its pages are not deleted.  Content files are removed after the usual grace.

    :param place: as the last page gave it; whoever does not know begins at the start.
    """
    txn, pid = write.txn, move.pid
    kind, after = place
    note_flip(write, move, arrived=False)
    if kind == QUEUE_ROWS.name:
        page = next_page(txn, kind, pid, after, page_rows)
        if page is not None:
            _leave_queue(write, page)
            return kind, page[1]
        kind, after = CACHE_ROWS.name, b""
    page = next_page(txn, kind, pid, after, page_rows)
    if page is not None:
        _leave_cache(write, page)
        return kind, page[1]
    if forget_touched(txn, pid, page_rows):
        return kind, after
    first, _ = provider_range(pid)
    if any(has_rows(txn, table.name, pid, first) for table in (QUEUE_ROWS, CACHE_ROWS)):
        return FROM  # they came behind a page, such as for a file that was found damaged
    keep_left_roots(txn, pid)
    for name in ("qpsdb", "urlerrs", "heldsweeps", "proots", "formerroots", "pdelays", "pidb"):
        txn.execute(f"DELETE FROM {name} WHERE pid = ?", [pid])
    stats = write.stats(pid)
    kept = Stats(maxconnseq=stats.maxconnseq, fullconnseq=stats.fullconnseq, last_set_time=stats.last_set_time)
    for field in attrs.fields(Stats):
        setattr(stats, field.name, getattr(kept, field.name))
    return None


def _leave_queue(write: WriteTransaction, page: Keys) -> None:
    write.txn.execute(f"DELETE FROM cancelled {_OF_PAGE}", page)
    write.txn.execute(f"DELETE FROM qdb {_OF_PAGE}", page)


def _leave_cache(write: WriteTransaction, page: Keys) -> None:
    txn = write.txn
    files = f"SELECT fetched_machineid, fetched_fileid FROM lccurl {_OF_PAGE} AND state = {CACHED}"
    for machine, file in txn.query(files, page):
        write.delete_file(machine, file)
    # Those of tombstones that were purged stay: whoever has not heard of them is to know.
    there = "EXISTS (SELECT 1 FROM lccurl WHERE lccurl.urlkey = origins.urlkey)"
    txn.execute(f"DELETE FROM origins {_OF_PAGE} AND {there}", page)
    txn.execute(f"DELETE FROM lccurl {_OF_PAGE}", page)
