"""A provider that has left for another sub-LCC loses its rows here, a page in each transaction (doc/moves.md)."""

from __future__ import annotations

import attrs

from lcc.model.moves import Move
from lcc.storage.database.key_ranges import provider_range
from lcc.storage.database.rows import CACHED
from lcc.storage.providers.watched import keep_left_roots
from lcc.storage.queue.moves.arrivals import note_flip
from lcc.storage.queue.moves.following import forget_touched
from lcc.storage.queue.moves.paged import CACHE_ROWS, QUEUE_ROWS, last_key_of_page
from lcc.storage.queue.write_transaction import Stats, WriteTransaction

PAGE_ROWS = 1000
_OF_PAGE = "WHERE urlkey > ? AND urlkey <= ?"


def leave_page(write: WriteTransaction, move: Move, page_rows: int = PAGE_ROWS) -> bool:
    """Remove the next rows of a provider that is elsewhere; True: there are more.

    There are no tombstones: its pages are not deleted.  Content files are removed after the usual grace.
    """
    txn, pid = write.txn, move.pid
    note_flip(write, move, arrived=False)
    for table, leave in ((QUEUE_ROWS, _leave_queue), (CACHE_ROWS, _leave_cache)):
        first, last = provider_range(pid)
        upto = last_key_of_page(txn, table.name, pid, page_rows)
        leave(write, (first, last if upto is None else upto))
        if upto is not None:
            return True
    if forget_touched(txn, pid, page_rows):
        return True
    keep_left_roots(txn, pid)
    for name in ("qpsdb", "urlerrs", "heldsweeps", "proots", "formerroots", "pdelays", "pidb"):
        txn.execute(f"DELETE FROM {name} WHERE pid = ?", [pid])
    stats = write.stats(pid)
    kept = Stats(maxconnseq=stats.maxconnseq, fullconnseq=stats.fullconnseq, last_set_time=stats.last_set_time)
    for field in attrs.fields(Stats):
        setattr(stats, field.name, getattr(kept, field.name))
    return False


def _leave_queue(write: WriteTransaction, between: tuple[bytes, bytes]) -> None:
    write.txn.execute(f"DELETE FROM cancelled {_OF_PAGE}", between)
    write.txn.execute(f"DELETE FROM qdb {_OF_PAGE}", between)


def _leave_cache(write: WriteTransaction, between: tuple[bytes, bytes]) -> None:
    txn = write.txn
    files = f"SELECT fetched_machineid, fetched_fileid FROM lccurl {_OF_PAGE} AND state = {CACHED}"
    for machine, file in txn.query(files, between):
        write.delete_file(machine, file)
    # Those of tombstones that were purged stay: whoever has not heard of them is to know.
    there = "EXISTS (SELECT 1 FROM lccurl WHERE lccurl.urlkey = origins.urlkey)"
    txn.execute(f"DELETE FROM origins {_OF_PAGE} AND {there}", between)
    txn.execute(f"DELETE FROM lccurl {_OF_PAGE}", between)
