"""Counters in ``meta`` that several processes draw from."""

from __future__ import annotations

from lcc.storage.database.transactions import Txn


def locked_counter(txn: Txn, name: str) -> int:
    """The value of a counter (0: new), locked until the transaction ends."""
    txn.upsert("meta", ["name", "value"], [(name, "0")], ["name"], ["name"])
    return int(txn.value(f"SELECT value FROM meta WHERE name = ?{txn.for_update}", [name], "0"))
