"""Counters in ``meta`` that several processes draw from."""

from __future__ import annotations

from lcc.storage.database.transactions import Txn


def locked_counter(txn: Txn, name: str) -> int:
    """The value of a counter (0: new), locked until the transaction ends."""
    txn.upsert("meta", ["name", "value"], [(name, "0")], ["name"], ["name"])
    return int(txn.value(f"SELECT value FROM meta WHERE name = ?{txn.for_update}", [name], "0"))


def draw(txn: Txn, name: str) -> int:
    """The next number of a counter, from 1; nobody else draws until the transaction ends."""
    number = locked_counter(txn, name) + 1
    txn.execute("UPDATE meta SET value = ? WHERE name = ?", [str(number), name])
    return number
