"""The vital statistics of an LCC, as its front end wants them: a few cheap statements."""

from __future__ import annotations

from lcc.model.frontend.places import Vitals
from lcc.storage.database.tables.status import database_epoch, last_change, queue_size
from lcc.storage.database.transactions import Txn


def vitals(txn: Txn, now: int) -> Vitals:
    """How this LCC is; its number is not known here.

    :param now: seconds since 1970.
    """
    totals = txn.one("SELECT COALESCE(SUM(files_used), 0), COALESCE(SUM(space_used), 0) FROM pstats") or (0, 0)
    return Vitals(
        subid=0,
        time=now,
        epoch=database_epoch(txn),
        providers=int(txn.value("SELECT COUNT(*) FROM pidb WHERE removed = 0", (), 0)),
        files=int(totals[0]),
        space_bytes=int(totals[1]),
        queued=queue_size(txn),
        change_number=last_change(txn),
    )
