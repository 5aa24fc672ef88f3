"""What ``lcc-admin fsck`` asks the database about content files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lcc.model import ContentRow
from lcc.storage.database.tables.content_rows import content_rows, note_damaged, rows_of_files
from lcc.storage.database.tables.order_rows import FETCH_AGAIN, add_order
from lcc.storage.database.transactions import Txn


def known_of(txn: Txn, machine: int, files: Iterable[int]) -> set[int]:
    """Those of these files that are the content of a URL, or have a delete order.

    Queried in this order, because a file goes from the one to the other, never back.
    """
    wanted = sorted(files)
    found = set(rows_of_files(txn, machine, wanted))
    sql = f"SELECT file FROM fsmdb {txn.by_index('fsmdb_file')} WHERE machine = ? AND file IN ({{in}})"
    return found | {file for (file,) in txn.query_in(sql, wanted, [machine])}


def page_of_rows(txn: Txn, machine: int, first: int, upto: int, limit: int) -> list[ContentRow]:
    """The rows of the cache whose files are ``first <= file < upto``, by file."""
    return content_rows(txn, machine, first - 1, upto, limit)


def count_rows(txn: Txn, machine: int) -> int:
    """Number of cached rows with their file on this machine."""
    return int(txn.value("SELECT COUNT(*) FROM lccurl WHERE fetched_machineid = ?", [machine]))


def names_of_urls(txn: Txn, keys: Iterable[bytes]) -> dict[bytes, tuple[int, str]]:
    """Provider and conceptual URL of these keys."""
    sql = "SELECT urlkey, pid, curl FROM lccurl WHERE urlkey IN ({in})"
    return {bytes(key): (pid, curl) for key, pid, curl in txn.query_in(sql, sorted(keys))}


def order_again(txn: Txn, machine: int, files: Sequence[int]) -> int:
    """Order a refetch of the URLs of these files; returns the number of the order."""
    note_damaged(txn, machine, files)
    return add_order(txn, FETCH_AGAIN)
