"""Rows of ``orders``: what lcc-admin, the registration server and the web monitor want of the queue manager."""

from __future__ import annotations

from typing import NamedTuple

from lcc.storage.database.tables.locked_counter import locked_counter
from lcc.storage.database.transactions import Txn

CHANGED = "provider-changed"
REMOVED = "provider-removed"

ROOTS_TAKEN = "roots-taken"
"""The provider has lost roots: queued URLs outside of the remaining ones are not fetched."""

DELETE_OUTSIDE = "delete-outside"
"""Delete cached content outside of the provider's roots."""

RETRY = "retry"
REBUILD = "rebuild"
WANT_FULL_SET = "want-full-set"

FETCH_AGAIN = "fetch-again"
"""Fetch the files in ``damaged`` again."""

FETCH_PAGE = "fetch-page"
"""Fetch a page of the provider in all its types; the text is the key of one of them, in hexadecimal."""

ALLOW_DELETIONS = "allow-deletions"
"""Carry out held deletions (:mod:`lcc.storage.queue.intake.held_deletions`); the text is the ``psetid`` of the full
set."""

DROP_DELETIONS = "drop-deletions"
"""Drop held deletions: what the set did not name stays."""

TEXT_CHARS = 64
"""The longest reason for a full set."""


class AdminOrder(NamedTuple):
    """A row of ``orders``.

    :ivar pid: 0: all providers.
    :ivar code: 0: all errors.
    :ivar progress: where the next page starts; empty: not started.
    """

    id: int
    kind: str
    pid: int
    code: int
    text: str
    progress: bytes


_SELECT = f"SELECT {', '.join(AdminOrder._fields)} FROM orders"


def add_order(txn: Txn, kind: str, pid: int = 0, code: int = 0, text: str = "") -> int:
    """Add an order; returns its number.

    :param pid: 0: all providers.
    :param code: 0: all codes.
    """
    # The counter stays locked until the transaction ends, so that two orders never get the same number.
    number = locked_counter(txn, "order") + 1
    txn.execute("UPDATE meta SET value = ? WHERE name = 'order'", [str(number)])
    txn.insert("orders", ["id", "kind", "pid", "code", "text"], [(number, kind, pid, code, text[:TEXT_CHARS])])
    return number


def next_order(txn: Txn) -> AdminOrder | None:
    """The oldest order; None: there is none."""
    row = txn.one(f"{_SELECT} ORDER BY id LIMIT 1")
    return None if row is None else AdminOrder(*row)


def is_open(txn: Txn, number: int) -> bool:
    """The order is not carried out yet."""
    return txn.one("SELECT 1 FROM orders WHERE id = ?", [number]) is not None


def has_orders(txn: Txn, pid: int) -> bool:
    """Whether an order about this provider is still to be carried out."""
    return txn.one("SELECT 1 FROM orders WHERE pid = ? LIMIT 1", [pid]) is not None
