"""Refetches lost content: cached rows whose content file is missing or damaged.

``lcc-admin fsck``, or a BOT-M after a crash of the machine, only names the file.  Here, one transaction a page, a row
that still refers to it loses its content (file, md5, validators, what was told) and is queued; a delete order is
written for the file.  From then on the row is cached without a file until the fetch has ended; if that fails for
good, the row is deleted, because nothing is left of it.

A row that is queued already is fetched anyway; its generation is incremented, so that a running fetch, which may
report the lost content as "not modified", does not complete it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from lcc.interfaces import IQueueRules
from lcc.model import KeyedNotice, SetHeader
from lcc.storage.database.tables.rows import CACHED, FETCH, TOLD_COLUMNS, told_notice
from lcc.storage.queue.intake.batch import Batch, SetPart
from lcc.storage.queue.registered import registered_providers
from lcc.storage.queue.write_transaction import WriteTransaction

PAGE_FILES = 500
"""Files of one transaction."""


def fetch_damaged(write: WriteTransaction, rules: IQueueRules) -> bytes | None:
    """Refetch the next of the files in ``damaged``; None: done."""
    txn = write.txn
    rows = txn.query("SELECT machine, file FROM damaged ORDER BY machine, file LIMIT ?", [PAGE_FILES])
    named: defaultdict[int, list[int]] = defaultdict(list)
    for machine, file in rows:
        named[machine].append(file)
    for machine, files in sorted(named.items()):
        fetch_again(write, rules, machine, files)
        txn.execute_in("DELETE FROM damaged WHERE machine = ? AND file IN ({in})", files, [machine])
    return b"%d %d" % rows[-1] if len(rows) == PAGE_FILES else None


def fetch_again(
    write: WriteTransaction, rules: IQueueRules, machine: int, files: Sequence[int], *, delete: bool = True
) -> int:
    """Refetch the URLs of these files; files that no row refers to are ignored.

    :param delete: what is left of them is deleted; they are none of another sub-LCC.
    :returns: the number of URLs.
    """
    txn = write.txn
    sql = (
        f"SELECT urlkey, pid, connseq, {TOLD_COLUMNS}, fetched_fileid FROM lccurl"
        f" WHERE state = {CACHED} AND fetched_machineid = ? AND fetched_fileid IN ({{in}})"
    )
    found = txn.query_in(sql, files, [machine])
    if not found:
        return 0
    registered = registered_providers(txn, {row[1] for row in found})
    # A provider that is being removed loses its content anyway.
    lost = sorted(row for row in found if row[1] in registered)
    if not lost:
        return 0
    keys = [key for key, *_ in lost]
    txn.execute_in(
        "UPDATE lccurl SET fetched_machineid = NULL, fetched_fileid = NULL, md5 = '', mtime = NULL, etag = '',"
        " modified = NULL, revalidate = 0, told_md5 = '', told_len = NULL, told_mtime = NULL WHERE urlkey IN ({in})",
        keys,
    )
    for *_, file in lost if delete else ():
        write.delete_file(machine, file)
    sql = f"SELECT urlkey FROM qdb WHERE operation = {FETCH} AND urlkey IN ({{in}})"
    queued = {key for (key,) in txn.query_in(sql, keys)}
    txn.execute_in("UPDATE qdb SET generation = generation + 1 WHERE urlkey IN ({in})", sorted(queued))
    write.pending.touched |= {bytes(key) for key in queued}
    write.load_stats(registered)
    batch = Batch(write, rules, registered)
    batch.rows.load(keys)
    sets: dict[int, tuple[int, int]] = {}
    for key, pid, connseq, *told, _file in lost:
        if key in queued:
            continue
        psetid, count = sets.get(pid) or (write.next("psetid"), 0)
        sets[pid] = (psetid, count + 1)
        header = SetHeader("", "", 0, pid, connseq, full=False, errors_upto=0, answered=True, time=write.now)
        notice = told_notice(told, key)._replace(sent="[]")
        batch.queue_again(SetPart(header, psetid, count, (KeyedNotice(bytes(key), notice),)))
    batch.commit()
    # A full set that is arriving has named them already: what it does not name is dropped once it is complete.
    seen = "(SELECT seen FROM lccurl WHERE lccurl.urlkey = qdb.urlkey)"
    new = [key for key in keys if key not in queued]
    txn.execute_in(f"UPDATE qdb SET seen = {seen} WHERE urlkey IN ({{in}})", new)
    return len(lost)
