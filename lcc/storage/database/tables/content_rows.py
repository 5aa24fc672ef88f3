"""Which content files the cache has rows for, by machine and file id; and those that are damaged (``damaged``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lcc.model import ContentRow
from lcc.storage.database.transactions import Txn


def content_rows(txn: Txn, machine: int, after: int, upto: int, limit: int) -> list[ContentRow]:
    """The cached rows with content on this machine, in the order of the files.

    :param after, upto: ``after < file < upto``.
    """
    sql = (
        f"SELECT fetched_fileid, urlkey, len, md5 FROM lccurl {txn.by_index('lccurl_file')}"
        " WHERE fetched_machineid = ? AND fetched_fileid > ? AND fetched_fileid < ? ORDER BY fetched_fileid LIMIT ?"
    )
    return [
        ContentRow(file, bytes(key), length or 0, md5)
        for file, key, length, md5 in txn.query(sql, [machine, after, upto, limit])
    ]


def rows_of_files(txn: Txn, machine: int, files: Iterable[int]) -> dict[int, ContentRow]:
    """The rows of these files, by file."""
    sql = (
        f"SELECT fetched_fileid, urlkey, len, md5 FROM lccurl {txn.by_index('lccurl_file')}"
        " WHERE fetched_machineid = ? AND fetched_fileid IN ({in})"
    )
    rows = txn.query_in(sql, sorted(files), [machine])
    return {file: ContentRow(file, bytes(key), length or 0, md5) for file, key, length, md5 in rows}


def note_damaged(txn: Txn, machine: int, files: Sequence[int]) -> None:
    """Note files for an order :data:`lcc.storage.database.tables.order_rows.FETCH_AGAIN` (written by
    ``lcc-admin``)."""
    rows = [(machine, file) for file in files]
    txn.upsert("damaged", ("machine", "file"), rows, ("machine", "file"), ("file",))
