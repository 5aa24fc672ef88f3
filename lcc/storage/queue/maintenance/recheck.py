"""What others than its provider name, and nobody has confirmed for long.

Content is asked for again, by conditional requests ([qm] reverify): it is queued as what it is known as, and named by
the same as before.  Documents that nobody polls any longer are deleted ([qm] age_expired).
"""

from __future__ import annotations

from collections.abc import Sequence

from lcc.interfaces import IQueueRules
from lcc.model import KeyedNotice, SetHeader, Source, UrlNotice
from lcc.storage.database.tables.rows import CACHED, TOLD_COLUMNS, told_notice
from lcc.storage.queue.intake.batch import Batch, SetPart
from lcc.storage.queue.registered import registered_providers
from lcc.storage.queue.write_transaction import WriteTransaction

QUEUE_SHARE = 0.5
"""A queue that is filled to this share of [qm] queue_rows_max gets none of them: there is time."""


def recheck(write: WriteTransaction, rules: IQueueRules, keys: Sequence[bytes], share: float = QUEUE_SHARE) -> int:
    """Queue these, but for those that are queued already, or that the queue has no room for.

    :param share: of the queue, that may be filled.
    :returns: the number of rows that are queued.
    """
    txn = write.txn
    room = int(share * write.settings.queue_rows_max) - write.queue_size
    queued = {key for (key,) in txn.query_in("SELECT urlkey FROM qdb WHERE urlkey IN ({in})", keys)}
    wanted = [key for key in keys if key not in queued][: max(0, room)]
    sql = f"SELECT urlkey, pid, connseq, {TOLD_COLUMNS} FROM lccurl WHERE state = {CACHED} AND urlkey IN ({{in}})"
    found = sorted(txn.query_in(sql, wanted))
    registered = registered_providers(txn, {row[1] for row in found})
    write.load_stats(registered)
    batch = Batch(write, rules, registered)
    batch.rows.load([row[0] for row in found])
    sets: dict[int, tuple[int, int]] = {}
    for key, pid, connseq, *told in found:
        if pid not in registered:
            continue  # it is being removed
        psetid, count = sets.get(pid) or (write.next("psetid"), 0)
        sets[pid] = (psetid, count + 1)
        header = SetHeader("", "", 0, pid, connseq, full=False, errors_upto=0, answered=True, time=write.now)
        notice = told_notice(told, key)._replace(sent="[]")
        batch.queue_again(SetPart(header, psetid, count, (KeyedNotice(bytes(key), notice),)))
    batch.commit()
    return sum(count for _, count in sets.values())


def stop_polling(write: WriteTransaction, rules: IQueueRules, keys: Sequence[bytes]) -> None:
    """Delete these documents, which are only polled, but for those that are queued: they are being polled."""
    txn = write.txn
    queued = {key for (key,) in txn.query_in("SELECT urlkey FROM qdb WHERE urlkey IN ({in})", keys)}
    sql = f"SELECT urlkey, pid, {TOLD_COLUMNS} FROM lccurl WHERE state = {CACHED} AND urlkey IN ({{in}})"
    found = sorted(txn.query_in(sql, [key for key in keys if key not in queued]))
    registered = registered_providers(txn, {row[1] for row in found})
    write.load_stats(registered)
    batch = Batch(write, rules, registered)
    batch.rows.load([row[0] for row in found])
    for key, pid, *told in found:
        if pid not in registered:
            continue  # it is being removed
        header = SetHeader(
            "", "", 0, pid, 0, full=False, errors_upto=0, answered=True, time=write.now, source=Source.POLLED
        )
        known = told_notice(told, key)
        notice = UrlNotice(known.curl, mimetype=known.mimetype, sent="[]", retract=True)
        batch.apply(SetPart(header, 0, 0, (KeyedNotice(bytes(key), notice),)))
    batch.commit()
