"""Epochs of the numbers under which a role tells its sets at the UNS's port of notifiers (``meta``).

A set whose number was applied before in its epoch is accepted, and does nothing.  So a database that is put back from
a backup must not give out a number twice in one epoch: each claim of the tables begins a new one.  But sets that wait
for their answers may be told already, and keep epoch and numbers; then further numbers begin far behind all that may
have been given out since that backup.
"""

from __future__ import annotations

from lcc.storage.database.transactions import Txn

JUMP = 1 << 32
"""More numbers than are given out between a backup and the end of what it is of."""


def claim_epoch(txn: Txn, name: str, waiting: bool) -> tuple[str, int]:
    """The epoch from now on, and how many numbers are left out.

    :param name: of its row in ``meta``.
    :param waiting: sets wait for their answers.
    """
    epoch = txn.value("SELECT value FROM meta WHERE name = ?", [name])
    if epoch is not None and waiting:
        return str(epoch), JUMP
    epoch = f"{txn.random_bits(64):016x}"
    txn.upsert("meta", ["name", "value"], [(name, epoch)], ["name"], ["value"])
    return epoch, 0
