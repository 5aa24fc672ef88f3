"""Orders to the queue manager, as ``lcc-admin`` writes them: rows of ``orders``."""

from __future__ import annotations

from lcc.storage.database.transactions import Txn

RETRY = "retry"
REBUILD = "rebuild"
WANT_FULL_SET = "want-full-set"
FETCH_AGAIN = "fetch-again"
"""What ``damaged`` names."""

ALLOW_DELETIONS = "allow-deletions"
"""Delete what is held (:mod:`lcc.storage.queue.held_deletions`); the text is the
``psetid`` of the full set."""

DROP_DELETIONS = "drop-deletions"
"""Do not: what the set did not name stays."""

TEXT_CHARS = 64
"""The longest reason for a full set."""


def add_order(txn: Txn, kind: str, pid: int = 0, code: int = 0, text: str = "") -> int:
    """Order something; gives the order's number.

    :param pid: 0: all providers.
    :param code: 0: all codes.
    """
    # The counter is locked until the transaction ends, so that two orders never get one number.
    txn.upsert("meta", ["name", "value"], [("order", "0")], ["name"], ["name"])
    number = int(txn.value(f"SELECT value FROM meta WHERE name = 'order'{txn.for_update}", (), "0")) + 1
    txn.execute("UPDATE meta SET value = ? WHERE name = 'order'", [str(number)])
    txn.insert("orders", ["id", "kind", "pid", "code", "text"], [(number, kind, pid, code, text[:TEXT_CHARS])])
    return number


def is_open(txn: Txn, number: int) -> bool:
    """The order is not carried out yet."""
    return txn.one("SELECT 1 FROM orders WHERE id = ?", [number]) is not None
