"""What is staged of a provider that comes from another sub-LCC, and its content's carrier; doc/moves.md.

Rows of the cache and the queue are staged in tables of their own (:mod:`lcc.storage.queue.moves.paged`), everything
else in ``staged``.

Content is fetched from the source's content port as pages of a *carrier*, a provider of this LCC: by the queue, the
robots and the fsck that there are.  It is polled, so nobody sees it; when the provider is here, its rows take the
files over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from lcc.interfaces import IQueueRules
from lcc.model import KeyedNotice, Provider, SetHeader, SetPiece, Source
from lcc.model.content_batches import count_of
from lcc.model.frontend.moves import Fence, Move
from lcc.storage.database.tables.key_ranges import provider_range
from lcc.storage.database.tables.order_rows import REMOVED, add_order
from lcc.storage.database.tables.rows import FETCH
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.providers import CARRIES, add_provider
from lcc.storage.queue.moves.carried import MISSED, carried_key, carried_names, carried_notice
from lcc.storage.queue.moves.departing import (
    COUNTERS_KIND,
    ERRORS,
    SAID_KIND,
    TAKEN_KIND,
    WHOLE,
    Page,
    StagedRow,
    as_text,
    from_text,
)
from lcc.storage.queue.moves.following import Position
from lcc.storage.queue.moves.paged import (
    CACHE_ROWS,
    PAGED,
    STAGED,
    START,
    PagedTable,
    Place,
    count_rows,
    next_page,
    pids_in,
)
from lcc.storage.queue.write_transaction import WriteTransaction

CURSOR = "cursor"
TASK_IDS_KIND = "taskids"
_ONLY = b"\0"
"""Key where a kind has one row."""
_GONE = (404, 410)
"""Answers of a content port that has lost a file."""


class Staged(NamedTuple):
    """What became of a page.

    :ivar changed: rows that were not staged, or otherwise.
    :ivar wanted: content that nobody has asked for yet: then nothing is staged.
    """

    changed: int
    wanted: list[str]


def make_carrier(txn: Txn, move: Move, source: str, content: str, now: int) -> int:
    """The provider that carries the content of a move; it is made once, whoever is killed before its id is noted.

    :param source: name of the sub-LCC.
    :param content: URL of its content port.
    """
    known = find_carrier(txn, move)
    if known:
        return known
    # What is staged names the content that a former one was to bring.
    _remove(txn, move.pid, CURSOR, [_ONLY])
    provider = Provider(
        0,
        (content.rstrip("/") + "/",),
        _password(move),
        bandwidth_bytes=move.progress.get("bandwidth"),
        full_sets=None,
        allow_private=True,
        insecure=True,
        contact=f"content of provider {move.pid} from {source} (move {move.id})",
    )
    return add_provider(txn, provider)


def find_carrier(txn: Txn, move: Move) -> int:
    """The carrier of a move; 0: there is none."""
    return int(txn.value("SELECT pid FROM pidb WHERE password = ? AND removed = 0", [_password(move)], 0))


def is_carrier(txn: Txn, pid: int) -> bool:
    """Whether this provider carries, or has carried, the content of a move."""
    return txn.one("SELECT 1 FROM pidb WHERE pid = ? AND password LIKE ?", [pid, f"{CARRIES}%"]) is not None


def is_carrier_of(txn: Txn, move: Move, pid: int) -> bool:
    """Whether this is the carrier of a move."""
    sql = "SELECT 1 FROM pidb WHERE pid = ? AND password = ? AND removed = 0"
    return txn.one(sql, [pid, _password(move)]) is not None


def _password(move: Move) -> str:
    """In place of a hashed one: nobody can log in; and nobody else has it."""
    return f"{CARRIES}{move.id} of {move.made_time}"


class Unfinished(NamedTuple):
    """What moves have left to do here, as far as this database knows.

    :ivar carriers: the providers that carry content, and the numbers of their moves.
    :ivar pids: providers that arrive, or have staged rows.
    """

    carriers: dict[int, int]
    pids: set[int]


def unfinished(txn: Txn) -> Unfinished:
    """The same.  Looks through all providers."""
    rows = txn.query("SELECT pid, password FROM pidb WHERE password LIKE ? AND removed = 0", [f"{CARRIES}%"])
    carriers = {pid: int(password.removeprefix(CARRIES).split()[0]) for pid, password in rows}
    pids = txn.query(
        "SELECT DISTINCT pid FROM staged UNION SELECT pid FROM fenced WHERE state = ?", [Fence.ARRIVING.value]
    )
    paged = [pids_in(txn, table.staged.name) for table in PAGED.values()]
    return Unfinished(carriers, {pid for (pid,) in pids}.union(*paged))


def remove_carrier(txn: Txn, pid: int) -> None:
    """It has carried all; files that nobody took over are removed."""
    if txn.one("SELECT 1 FROM pidb WHERE pid = ? AND removed = 0", [pid]) is not None:
        txn.execute("UPDATE pidb SET removed = 1 WHERE pid = ?", [pid])
        txn.execute("DELETE FROM staged WHERE pid = ? AND kind = ?", [pid, MISSED])
        add_order(txn, REMOVED, pid)


@attrs.frozen
class Cursor:
    """How far a provider is copied (staged as a row of the kind ``cursor``, with what it is about).

    :ivar move: number of the move; what another one has left counts for nothing.
    :ivar position: changes up to here are staged, once the first comparison has ended.
    :ivar base: table and key where that goes on; None: it has ended.
    """

    move: int
    position: Position
    base: Place | None = START


def read_cursor(txn: Txn, pid: int) -> Cursor | None:
    """How far a provider is copied; None: it has not begun."""
    text = txn.value("SELECT rowtext FROM staged WHERE pid = ? AND kind = ? AND rowkey = ?", [pid, CURSOR, _ONLY])
    if text is None:
        return None
    row = from_text(text)
    base = None if row["base"] is None else (row["base"][0], bytes.fromhex(row["base"][1]))
    return Cursor(row["move"], Position(*row["position"]), base)


def save_cursor(write: WriteTransaction, pid: int, cursor: Cursor) -> None:
    """Note how far it is."""
    base = None if cursor.base is None else (cursor.base[0], cursor.base[1].hex())
    text = as_text(("move", "position", "base"), (cursor.move, cursor.position, base))
    _put(write.txn, pid, CURSOR, [StagedRow(_ONLY, text)])


def stage_page(
    write: WriteTransaction,
    rules: IQueueRules,
    pid: int,
    after: Place,
    page: Page,
    carrier: int,
    content: str,
    cursor: Cursor,
    look: bool = False,
) -> Staged:
    """Make what is staged of a page of keys as it is at the source.

    Rows and cursor are of one transaction.  Were the cursor behind, nobody would notice that the source was put back
    to a moment between the two, and the rows would stay.

    :param after: table, and key of the last row before the page.
    :param cursor: how far it is with this page.
    :param look: not if there is content that is yet to be asked for.
    """
    kind, key = after
    table = PAGED[kind]
    first, last = provider_range(pid)
    between = [key or first, last if page.upto is None else page.upto]
    staged = write.txn.query(f"{table.staged.select} WHERE urlkey > ? AND urlkey <= ?", between)
    rows, names = _as_staged(table, page.rows, rules, carrier, content)
    wanted = unasked(write.txn, rules, carrier, content, names) if look else []
    if wanted:
        return Staged(0, wanted)
    changed = _stage(write.txn, table, staged, rows)
    save_cursor(write, pid, cursor)
    return Staged(changed, [])


def stage_touched(
    write: WriteTransaction,
    rules: IQueueRules,
    pid: int,
    keys: Sequence[bytes],
    found: Mapping[str, Sequence[tuple[Any, ...]]],
    carrier: int,
    content: str,
    cursor: Cursor,
    look: bool = False,
) -> Staged:
    """Make what is staged of these keys as it is at the source.

    :param found: the rows that it has, by table.
    :param look: as for :func:`stage_page`.
    """
    txn = write.txn
    new: dict[PagedTable, list[tuple[Any, ...]]] = {}
    names: list[str] = []
    for kind, source in found.items():
        table = PAGED[kind]
        new[table], some = _as_staged(table, source, rules, carrier, content)
        names += some
    wanted = unasked(txn, rules, carrier, content, names) if look else []
    if wanted:
        return Staged(0, wanted)
    changed = 0
    for table, rows in new.items():
        changed += _stage(txn, table, txn.query_in(f"{table.staged.select} WHERE urlkey IN ({{in}})", keys), rows)
    save_cursor(write, pid, cursor)
    return Staged(changed, [])


_MACHINE, _FILE = (CACHE_ROWS.columns.index(f"fetched_{name}") for name in ("machineid", "fileid"))


def _as_staged(
    table: PagedTable, rows: Sequence[tuple[Any, ...]], rules: IQueueRules, carrier: int, content: str
) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Rows of the source, as they are staged; and the names of their content files."""
    if table is not CACHE_ROWS:
        return list(rows), []
    staged: list[tuple[Any, ...]] = []
    names: list[str] = []
    for row in rows:
        key = None
        if row[_FILE] is not None:
            name = f"{row[_MACHINE]}/{row[_FILE]}"
            key = carried_key(rules, carrier, content, name)
            names.append(name)
        staged.append((*row, key))
    return staged, names


def _stage(txn: Txn, table: PagedTable, staged: Sequence[tuple[Any, ...]], rows: Sequence[tuple[Any, ...]]) -> int:
    """Replace what is staged by these rows; gives how many of them differ."""
    before = {row[0]: row for row in staged}
    new = [row for row in rows if before.get(row[0]) != row]
    old = sorted(before.keys() - {row[0] for row in rows} | before.keys() & {row[0] for row in new})
    txn.execute_in(f"DELETE FROM {table.staged.name} WHERE urlkey IN ({{in}})", old)
    _insert(txn, table, new)
    return len(new) + len(before.keys() - {row[0] for row in rows})


def _insert(txn: Txn, table: PagedTable, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows, but for columns that are NULL in all of them."""
    columns = list(zip(*rows, strict=True))
    there = [number for number, column in enumerate(columns) if column.count(None) < len(rows)]
    names = [table.staged.columns[number] for number in there]
    txn.insert(table.staged.name, names, list(zip(*[columns[number] for number in there], strict=True)))


def _put(txn: Txn, pid: int, kind: str, rows: Iterable[StagedRow]) -> None:
    STAGED.upsert(txn, [(pid, kind, key, text) for key, text in rows])


def _remove(txn: Txn, pid: int, kind: str, keys: Iterable[bytes]) -> None:
    txn.execute_in("DELETE FROM staged WHERE pid = ? AND kind = ? AND rowkey IN ({in})", keys, [pid, kind])


def staged_keys(txn: Txn, pid: int, kind: str) -> list[bytes]:
    """Keys of what is staged of a table."""
    return [bytes(key) for (key,) in txn.query("SELECT rowkey FROM staged WHERE pid = ? AND kind = ?", [pid, kind])]


def stage_errors(write: WriteTransaction, pid: int, new: Sequence[StagedRow], gone: Sequence[bytes]) -> None:
    """Stage errors, and forget those that are there no longer."""
    _put(write.txn, pid, ERRORS.name, new)
    _remove(write.txn, pid, ERRORS.name, gone)


def stage_whole(write: WriteTransaction, pid: int, rows: dict[str, list[StagedRow]]) -> None:
    """Stage the rows of the small tables."""
    txn = write.txn
    for kind, found in rows.items():
        txn.execute("DELETE FROM staged WHERE pid = ? AND kind = ?", [pid, kind])
        _put(txn, pid, kind, found)


def is_whole(txn: Txn, move: Move) -> bool:
    """Whether a provider that has flipped is staged as it stood still at its source; it is not if this database was
    put back from a backup."""
    text = txn.value("SELECT rowtext FROM staged WHERE pid = ? AND kind = ?", [move.pid, COUNTERS_KIND])
    return text is not None and from_text(text).get("epoch") == move.epoch - 1


def staged_counts(txn: Txn, pid: int) -> dict[str, int]:
    """How many rows of the paged tables are staged."""
    return {kind: count_rows(txn, table.staged.name, pid) for kind, table in PAGED.items()}


def forget_staged(write: WriteTransaction, pid: int, limit: int) -> bool:
    """Forget the next rows of what is staged; True: there are more."""
    txn = write.txn
    # The cursor first: what is left would be taken for whole.
    _remove(txn, pid, CURSOR, [_ONLY])
    for table in PAGED.values():
        if _forget_page(txn, table, pid, limit):
            return True
    for kind in (ERRORS.name, *WHOLE, COUNTERS_KIND, SAID_KIND, TAKEN_KIND, TASK_IDS_KIND):
        keys = [
            key
            for (key,) in txn.query(
                "SELECT rowkey FROM staged WHERE pid = ? AND kind = ? ORDER BY rowkey LIMIT ?", [pid, kind, limit]
            )
        ]
        if keys:
            _remove(txn, pid, kind, keys)
            return True
    return False


def _forget_page(txn: Txn, table: PagedTable, pid: int, limit: int) -> bool:
    """Forget the next rows that are staged of a table; False: there were none."""
    page = next_page(txn, table.staged.name, pid, b"", limit)
    if page is not None:
        txn.execute(f"DELETE FROM {table.staged.name} WHERE urlkey BETWEEN ? AND ?", page)
    return page is not None


# Tasks.


def stage_task_ids(txn: Txn, pid: int, ids: Mapping[int, int]) -> None:
    """Note which ids the tasks of a provider get here.

    :param ids: id at the source -> here.
    """
    rows = [StagedRow(there.to_bytes(8, "big"), as_text(("id",), (here,))) for there, here in ids.items()]
    _put(txn, pid, TASK_IDS_KIND, rows)


def staged_task_ids(txn: Txn, pid: int) -> dict[int, int]:
    """The same."""
    rows = txn.query("SELECT rowkey, rowtext FROM staged WHERE pid = ? AND kind = ?", [pid, TASK_IDS_KIND])
    return {int.from_bytes(key, "big"): from_text(text)["id"] for key, text in rows}


# Content.


def unasked(txn: Txn, rules: IQueueRules, carrier: int, content: str, names: Iterable[str]) -> list[str]:
    """Content that is neither here nor queued, nor has failed."""
    keys = {carried_key(rules, carrier, content, name): name for name in names}
    if not keys:
        return []
    known: set[bytes] = set()
    for table in ("lccurl", "qdb", "urlerrs"):
        found = txn.query_in(f"SELECT urlkey FROM {table} WHERE urlkey IN ({{in}})", sorted(keys.keys() - known))
        known.update([bytes(key) for (key,) in found])
    batched = _batched(txn, carrier)
    return [name for key, name in keys.items() if key not in known and name not in batched]


def _batched(txn: Txn, carrier: int) -> set[str]:
    """Files of batches that are queued."""
    sql = "SELECT curl FROM qdb WHERE urlkey > ? AND urlkey <= ? AND subtype <> ''"
    return {name for (url,) in txn.query(sql, provider_range(carrier)) for name in carried_names(url)[1]}


def carried_set(
    rules: IQueueRules,
    move: Move,
    carrier: int,
    content: str,
    names: Sequence[str],
    epoch: str,
    number: int,
    now: int,
) -> SetPiece:
    """The set that has content fetched.

    :param names: of files, or of batches (:func:`lcc.storage.queue.moves.carried.batch_names`).
    :param epoch, number: name it; the number grows within the epoch.
    """
    header = SetHeader(
        f"move/{move.id}",
        epoch,
        number,
        carrier,
        0,
        full=False,
        errors_upto=0,
        answered=True,
        time=now,
        source=Source.POLLED,
    )
    notices = tuple(
        [KeyedNotice(carried_key(rules, carrier, content, name), carried_notice(content, name)) for name in names]
    )
    return SetPiece(header, 0, notices, last=True)


def content_left(txn: Txn, carrier: int) -> int:
    """Content files that are still to be fetched."""
    sql = (
        f"SELECT subtype, COUNT(*) FROM qdb WHERE urlkey > ? AND urlkey <= ? AND operation = {FETCH} GROUP BY subtype"
    )
    queued = txn.query(sql, provider_range(carrier))
    return sum(int(rows) * max(1, count_of(subtype)) for subtype, rows in queued)


def asked_in_vain(txn: Txn, carrier: int) -> bool:
    """Some of them were asked for, and did not come."""
    sql = "SELECT 1 FROM qdb WHERE urlkey > ? AND urlkey <= ? AND (attempts > 0 OR unreached > 0) LIMIT 1"
    return txn.one(sql, provider_range(carrier)) is not None


class Missed(NamedTuple):
    """What batches did not bring.

    :ivar keys: of the rows that say so.
    :ivar names: of the files.
    """

    keys: list[bytes]
    names: list[str]


def missed(txn: Txn, carrier: int) -> Missed:
    """What batches did not bring: it is to be asked for one by one."""
    rows = txn.query("SELECT rowkey, rowtext FROM staged WHERE pid = ? AND kind = ?", [carrier, MISSED])
    return Missed([bytes(key) for key, _ in rows], [name for _, text in rows for name in from_text(text)["names"]])


def forget_missed(write: WriteTransaction, carrier: int, keys: Iterable[bytes]) -> None:
    """That has been asked for."""
    _remove(write.txn, carrier, MISSED, keys)


class Uncopied(NamedTuple):
    """Content that could not be copied.

    :ivar gone: files that the source has lost.
    :ivar failed: files that it may have.
    :ivar message: of one of the latter.
    """

    gone: int
    failed: int
    message: str


def uncopied(txn: Txn, carrier: int) -> Uncopied:
    """What could not be copied, as far as errors are kept."""
    rows = txn.query("SELECT code, COUNT(*), MAX(message) FROM urlerrs WHERE pid = ? GROUP BY code", [carrier])
    gone = sum(count for code, count, _ in rows if code in _GONE)
    failed = [(count, message) for code, count, message in rows if code not in _GONE]
    return Uncopied(int(gone), int(sum(count for count, _ in failed)), failed[0][1] if failed else "")
