"""Which rows of a provider have changed since it is followed, because it is being copied elsewhere (``touched``).

The number of a change (``lccurl.change_number``) would not do: it is for content users, who are not told that a page
was confirmed, or named by another set.  So each transaction of the queue manager notes the keys that it writes, while
somebody is followed; the destination reads the rows of these keys again (doc/moves.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from lcc.model.frontend.moves import Fence
from lcc.storage.database.tables.key_ranges import provider_of
from lcc.storage.database.tables.status import last_change
from lcc.storage.database.tables.timeline import current_timeline, known_upto
from lcc.storage.database.transactions import Txn

NOTED = (Fence.FOLLOWED, Fence.FROZEN)
"""While a provider is in these states its changes are noted."""
_TABLES = ("lccurl", "qdb")
_STATEMENTS = tuple(f"{verb} {table} " for verb in ("UPDATE", "DELETE FROM") for table in _TABLES)
_STATES = ", ".join(f"'{state.value}'" for state in NOTED)


class TouchedRows:
    """The journal of a transaction (:class:`lcc.storage.database.transactions.RowJournal`).

    :param number: of the last transaction that has noted something.
    """

    def __init__(self, txn: Txn, number: int) -> None:
        self._followed = {pid for (pid,) in txn.query(f"SELECT pid FROM fenced WHERE state IN ({_STATES})")}
        self._number = number + 1
        self._noted: set[bytes] = set()

    def written(self, txn: Txn, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        if table in _TABLES:
            at = columns.index("urlkey")
            self._note(txn, (row[at] for row in rows))

    def changed(self, txn: Txn, sql: str, keys: Sequence[Any]) -> None:
        if sql.startswith(_STATEMENTS):
            self._note(txn, keys)

    def _note(self, txn: Txn, keys: Iterable[Any]) -> None:
        new = {bytes(key) for key in keys if provider_of(key) in self._followed} - self._noted
        if not new:
            return
        if not self._noted:
            txn.execute("UPDATE counters SET value = ? WHERE name = 'touched'", [self._number])
        self._noted |= new
        rows = [(key, provider_of(key), self._number) for key in sorted(new)]
        txn.upsert("touched", ("urlkey", "pid", "number"), rows, ("urlkey",), ("number",))


def count_followed(txn: Txn) -> None:
    """Have transactions look for who is followed only while somebody is."""
    count = txn.value(f"SELECT COUNT(*) FROM fenced WHERE state IN ({_STATES})")
    txn.execute("UPDATE counters SET value = ? WHERE name = 'followed'", [count])


def forget_touched(txn: Txn, pid: int, limit: int) -> bool:
    """Forget the next keys that were noted of a provider; True: there are more."""
    keys = [key for (key,) in txn.query("SELECT urlkey FROM touched WHERE pid = ? LIMIT ?", [pid, limit])]
    txn.execute_in("DELETE FROM touched WHERE urlkey IN ({in})", keys)
    return len(keys) == limit


class Position(NamedTuple):
    """How far the changes of a provider are known.

    :ivar timeline, change: where the history of the source's cache was then.
    :ivar number: of the last transaction.
    :ivar key: of the last row that it has changed; empty: all are known.
    """

    timeline: str
    change: int
    number: int
    key: str = ""


def position_now(txn: Txn) -> Position:
    """Behind all that has changed."""
    return Position(current_timeline(txn), last_change(txn), _last_number(txn))


def is_known(txn: Txn, position: Position) -> bool:
    """Whether what has changed since is known: not after the source was put back from a backup."""
    upto = known_upto(txn, position.timeline)
    return upto is not None and upto >= position.change and _last_number(txn) >= position.number


def touched_after(txn: Txn, pid: int, position: Position, limit: int) -> tuple[list[bytes], Position]:
    """The next keys of rows that have changed; fewer than ``limit``: these are the last ones."""
    rows = txn.query(
        "SELECT number, urlkey FROM touched WHERE pid = ? AND (number > ? OR (number = ? AND urlkey > ?))"
        " ORDER BY number, urlkey LIMIT ?",
        [pid, position.number, position.number, bytes.fromhex(position.key) or b"\xff" * 20, limit],
    )
    keys = [bytes(key) for _, key in rows]
    if len(rows) < limit:
        return keys, position_now(txn)
    return keys, Position(current_timeline(txn), last_change(txn), rows[-1][0], keys[-1].hex())


def _last_number(txn: Txn) -> int:
    return int(txn.value("SELECT value FROM counters WHERE name = 'touched'", (), 0))
