"""Adds validators of cached content to queued rows, for conditional requests."""

from __future__ import annotations

from collections.abc import Sequence

from lcc.interfaces import IQueueRules
from lcc.model import COUNTED, Ahead, CachedState, QueueRow, Stored, content_token
from lcc.storage.database.tables.rows import CACHED
from lcc.storage.database.transactions import Txn

_SELECT = (
    "SELECT urlkey, curl, furl, source, connseq, told_md5, told_len, told_mtime, md5, len, mtime, etag, modified,"
    " fetched_machineid, fetched_fileid FROM lccurl"
)


def with_stored(txn: Txn, rules: IQueueRules, aheads: Sequence[Ahead]) -> list[Ahead]:
    """The same rows, each with the content that a server may confirm as unchanged."""
    keys = sorted({row.key for ahead in aheads for row in ahead.rows if not row.delete})
    where = f"WHERE urlkey IN ({{in}}) AND state = {CACHED} AND revalidate = 1"
    found: dict[bytes, tuple[CachedState, str, Stored, int]] = {}
    for key, curl, furl, source, *state, etag, modified, machine, file in txn.query_in(f"{_SELECT} {where}", keys):
        cached = CachedState(True, *state)
        stored = Stored(content_token(machine, file), etag, modified, cached.length or 0)
        found[key] = (cached, furl or curl, stored, source)
    if not found:
        return list(aheads)

    def known(row: QueueRow) -> QueueRow:
        of_row = found.get(row.key)
        if of_row is None:
            return row
        cached, url, stored, source = of_row
        notice = row.notice
        # What was only polled may be of another type, or from elsewhere, than what is named by others may be.
        if row.source & COUNTED and not source & COUNTED:
            return row
        # Validators belong to one URL: another URL may use the same for other content.
        if url != (notice.furl or notice.curl) or not rules.may_be_unchanged(notice, cached):
            return row
        return row._replace(stored=stored)

    return [ahead._replace(rows=[known(row) for row in ahead.rows]) for ahead in aheads]
