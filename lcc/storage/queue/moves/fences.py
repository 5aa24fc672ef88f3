"""Fences of providers that move (``fenced``), and the sets that are held behind them (``heldsets``); doc/moves.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import attrs

from lcc.model import KeyedNotice, SetHeader, SetPiece, Source, UrlNotice
from lcc.model.frontend.moves import Fence, HeldPiece
from lcc.model.frontend.traces import FencedAt
from lcc.model.notifiers import NoticeId
from lcc.storage.database.tables.status import database_epoch
from lcc.storage.database.transactions import Question, Txn
from lcc.storage.queue.moves.following import NOTED, count_followed
from lcc.storage.queue.write_transaction import WriteTransaction

_HELD = ("id", "pid", "uns", "epoch", "number", "firstindex", "whole", "header", "notices", "time")
_HOLDING = ", ".join(f"'{state.value}'" for state in Fence if state.holds)
_FENCED = f"SELECT pid, state FROM fenced WHERE state IN ({_HOLDING})"
_LEAVING = (
    "pid > ? AND (state = 'frozen' OR (state = 'left' AND"
    " COALESCE((SELECT MAX(time) FROM flips WHERE flips.pid = fenced.pid AND arrived = 0), ?) >= ?))"
)
"""Providers that are leaving, or have left after a time."""
PIECES_AT_ONCE = 20
PAGE_ROWS = 1000
"""Of one transaction."""
HELD_SECONDS = 60 * 86400
"""How long sets are kept for a provider's new home; if it comes only then, it asks for a full set."""
_FOREVER = 2**31 - 1
"""When what is left of old sets was held: it is never too old."""
_LOST = "lost"
"""In place of a UNS's name: nobody knows what was lost."""
_JUMP = 1 << 32
"""No database holds this many sets between two losses."""
_HELD_EPOCH = "held_epoch"
"""In ``meta``: the epoch of the database for which it was looked whether sets are lost."""
INCOMPLETE = ", ".join(f"'{state.value}'" for state in (Fence.ARRIVING, Fence.LEFT))
"""Fences of providers some of whose rows are not here yet, or no longer."""


class Known(NamedTuple):
    """
    :ivar fence: that is obeyed, or was; None: there never was any.
    :ivar newest_flip: the last one that is noted, of whatever provider.
    """

    fence: FencedAt | None
    newest_flip: int


def fence_question(pids: Iterable[int]) -> Question:
    """The query for the fences of these providers: (pid, state) of those whose sets are held."""
    return Question(f"{_FENCED} AND pid IN ({{in}})", sorted(pids))


def fences(txn: Txn) -> dict[int, Fence]:
    """All providers of which nothing is fetched."""
    return {pid: Fence(state) for pid, state in txn.query(_FENCED)}


def is_incomplete(txn: Txn, pid: int) -> bool:
    """Some of its rows are not here yet, or no longer: its counters are ahead of them."""
    return txn.one(f"SELECT 1 FROM fenced WHERE pid = ? AND state IN ({INCOMPLETE})", [pid]) is not None


def fence_epochs(txn: Txn) -> dict[int, int]:
    """The epochs of all fences that are obeyed, or were."""
    return dict(txn.query("SELECT pid, epoch FROM fenced"))


def known_of(txn: Txn, pid: int) -> Known:
    """What this LCC knows of the moves of a provider."""
    row = txn.one("SELECT epoch, state FROM fenced WHERE pid = ?", [pid])
    newest = txn.value("SELECT MAX(flip) FROM flips") or 0
    return Known(None if row is None else FencedAt(row[0], Fence(row[1])), int(newest))


def standing_fences(txn: Txn) -> dict[int, int]:
    """The epochs of those of providers that are here, and may be about to leave."""
    states = [state.value for state in NOTED]
    return dict(txn.query("SELECT pid, epoch FROM fenced WHERE state IN (?, ?)", states))


def leaving(txn: Txn) -> dict[int, int]:
    """The epochs of the fences of providers that have left, and some of whose rows may be here yet."""
    sql = "SELECT f.pid, f.epoch FROM fenced f JOIN pidb p ON p.pid = f.pid WHERE f.state = ?"
    return dict(txn.query(sql, [Fence.LEFT.value]))


def fence_epoch(txn: Txn, pid: int) -> int:
    """The epoch of the last fence of a provider."""
    return int(txn.value("SELECT epoch FROM fenced WHERE pid = ?", [pid], -1))


def has_fence(txn: Txn, pid: int, epoch: int, state: Fence) -> bool:
    """Whether just this fence is obeyed."""
    sql = "SELECT 1 FROM fenced WHERE pid = ? AND epoch = ? AND state = ?"
    return txn.one(sql, [pid, epoch, state.value]) is not None


def put_fence(write: WriteTransaction, pid: int, epoch: int, state: Fence) -> bool:
    """Obey a fence.

    :returns: False: a later one is obeyed already.
    """
    txn = write.txn
    known = txn.value("SELECT epoch FROM fenced WHERE pid = ?", [pid], -1)
    if known > epoch:
        return False
    # UNSes look at fences together with the provider's statistics.
    txn.upsert("pstats", ("pid",), [(pid,)], ("pid",), ("pid",))
    txn.upsert("fenced", ("pid", "epoch", "state"), [(pid, epoch, state.value)], ("pid",))
    count_followed(txn)
    return True


def hold_piece(write: WriteTransaction, piece: SetPiece, lost: bool = False) -> None:
    """Keep a piece of a set of a fenced provider.

    :param lost: a part of it is applied here.
    """
    txn, header = write.txn, piece.header
    where = [header.uns.encode(), header.epoch.encode(), header.number]
    # It may have come before, cut in another way.
    txn.execute(
        "DELETE FROM heldsets WHERE uns = ? AND epoch = ? AND number = ? AND firstindex >= ?",
        [*where, piece.first_index],
    )
    number = write.next("held")
    told = _written(header) | ({"lost": True} if lost else {})
    notices = json.dumps([[key.hex(), list(notice)] for key, notice in piece.notices])
    row = (number, header.pid, *where, piece.first_index, 0, json.dumps(told), notices, write.now)
    txn.insert("heldsets", _HELD, [row])
    if piece.last:
        txn.execute("UPDATE heldsets SET whole = ? WHERE uns = ? AND epoch = ? AND number = ?", [number, *where])


def holds_part(txn: Txn, header: SetHeader) -> bool:
    """Whether elements of this set are held, and others are yet to come."""
    where = [header.uns.encode(), header.epoch.encode(), header.number]
    sql = "SELECT 1 FROM heldsets WHERE uns = ? AND epoch = ? AND number = ? AND whole = 0 LIMIT 1"
    return txn.one(sql, where) is not None


def held_here(txn: Txn) -> list[int]:
    """Providers that are fenced no longer, with sets that are still held."""
    rows = txn.query(
        "SELECT DISTINCT h.pid FROM heldsets h JOIN fenced f ON f.pid = h.pid AND f.state IN ('open', 'followed')"
        " WHERE h.whole > 0"
    )
    return [pid for (pid,) in rows]


def applied_upto(txn: Txn, uns: str, epoch: str) -> int:
    """The last set of a stream that is applied."""
    sql = "SELECT last_number FROM setspos WHERE uns = ? AND epoch = ?"
    return int(txn.value(sql, [uns.encode(), epoch.encode()], 0))


def held_elsewhere(txn: Txn) -> tuple[str, dict[int, int]]:
    """Epoch of this database; and of each provider that has left the last set that is held for its new home."""
    rows = txn.query(
        "SELECT h.pid, MAX(h.whole) FROM heldsets h JOIN fenced f ON f.pid = h.pid AND f.state = 'left'"
        " WHERE h.whole > 0 GROUP BY h.pid"
    )
    return database_epoch(txn), dict(rows)


def give_up_old_held(
    write: WriteTransaction, before: int, pid: int | None = None, limit: int = PAGE_ROWS
) -> int | None:
    """Remove some sets that were held before this time for a provider's new home.

    If they were not applied there, it is to hear of that: one row stays, a set that is lost.  It is written before
    any other row is removed, and hides those (:func:`held_pieces`).

    :param pid: the provider to go on with; None: whoever has some.
    :returns: the provider to go on with; None: there are no more.
    """
    txn = write.txn
    if pid is None:
        pid = txn.value(
            "SELECT MIN(h.pid) FROM heldsets h JOIN fenced f ON f.pid = h.pid AND f.state = 'left' WHERE h.time < ?",
            [before],
        )
    if pid is None:
        return None
    given_up = _given_up(txn, pid)
    if given_up is not None:
        sql = "SELECT id FROM heldsets WHERE pid = ? AND time < ? AND id <= ? LIMIT ?"
        old = txn.query(sql, [pid, before, given_up.upto, limit])
        if old:
            txn.execute_in("DELETE FROM heldsets WHERE id IN ({in})", [number for (number,) in old])
            return pid
    sql = "SELECT id, whole, header FROM heldsets WHERE pid = ? AND time < ? ORDER BY whole DESC, id DESC LIMIT 1"
    found = txn.one(sql, [pid, before])
    if found is None:
        return give_up_old_held(write, before)
    kept, whole, header = found
    number = kept
    if txn.one("SELECT 1 FROM heldsets WHERE pid = ? AND time < ? AND whole = 0 LIMIT 1", [pid, before]) is not None:
        number = whole = write.next("held")  # one has come in part: that may be the last
    elif given_up is not None and given_up.whole > whole:
        number, whole = given_up.id, given_up.whole
    upto = txn.value("SELECT MAX(id) FROM heldsets WHERE pid = ? AND time < ?", [pid, before])
    lost = json.dumps(json.loads(header) | {"lost": True, "upto": upto})
    txn.execute("DELETE FROM heldsets WHERE pid = ? AND time = ?", [pid, _FOREVER])
    txn.execute(
        "UPDATE heldsets SET id = ?, whole = ?, header = ?, notices = '[]', time = ? WHERE id = ?",
        [number, whole, lost, _FOREVER, kept],
    )
    return pid


class _GivenUp(NamedTuple):
    """The row that stands for old sets of a provider.

    :ivar upto: their rows are those up to this id.
    """

    id: int
    whole: int
    upto: int


def _given_up(txn: Txn, pid: int) -> _GivenUp | None:
    row = txn.one("SELECT id, whole, header FROM heldsets WHERE pid = ? AND time = ?", [pid, _FOREVER])
    return None if row is None else _GivenUp(row[0], row[1], json.loads(row[2]).get("upto", 0))


def lose_held(write: WriteTransaction, pid: int) -> None:
    """Sets that were held of a provider may be lost: whoever has it in the end asks it for a full set."""
    txn = write.txn
    header = SetHeader(_LOST, database_epoch(txn), pid, pid, 0, False, 0, answered=True, time=write.now)
    hold_piece(write, SetPiece(header, 0, (), last=True), lost=True)


def lose_forgotten(write: WriteTransaction, pid: int, loss: int) -> None:
    """This database is older than a fence of the provider that was obeyed: it was restored from a backup.

    :param loss: a number that no earlier loss had, however often the same backup was restored: from the front end's
        database.
    """
    # Its new home may have taken sets with the numbers that would come next.
    write.reach("held", max(write.reach("held", 0) + _JUMP, loss * _JUMP))
    lose_held(write, pid)


def note_first_epoch(txn: Txn) -> None:
    """Held sets of a database that has never noted its epoch are complete: an earlier version has made it, or it is
    new.  To be called before a UNS can notice that the database was restored."""
    txn.upsert("meta", ("name", "value"), [(_HELD_EPOCH, database_epoch(txn))], ("name",), ("name",))


def has_new_epoch(txn: Txn) -> bool:
    """Whether this database was restored from a backup, and :func:`lose_after_loss` is to be called."""
    known: dict[str, str] = dict(txn.query("SELECT name, value FROM meta WHERE name IN ('epoch', ?)", [_HELD_EPOCH]))
    return known.get(_HELD_EPOCH) != known["epoch"]


def lose_after_loss(write: WriteTransaction, since: int, after: int = 0, limit: int = PAGE_ROWS) -> int | None:
    """This database was restored from a backup: sets may be lost that were held of any provider that is leaving, or
    has left; note that of the next ones.

    :param since: those that have left before this time are left out.
    :param after: the last provider of the page before.
    :returns: the last provider; None: there are no more.
    """
    txn = write.txn
    rows = txn.query(f"SELECT pid FROM fenced WHERE {_LEAVING} ORDER BY pid LIMIT ?", [after, since, since, limit])
    pids: list[int] = [pid for (pid,) in rows]
    for pid in pids:
        lose_held(write, pid)
    if len(pids) == limit:
        return pids[-1]
    txn.upsert("meta", ("name", "value"), [(_HELD_EPOCH, database_epoch(txn))], ("name",))
    return None


def lose_sets(write: WriteTransaction, since: int, after: int = 0, limit: int = PAGE_ROWS) -> int | None:
    """Accepted sets are lost, and it is not known whose: :func:`lose_set` for the next providers that are here, are
    leaving, or have left.  One that goes or comes meanwhile is among them in any case.

    The parameters, and what is returned, are those of :func:`lose_after_loss`.
    """
    sql = f"SELECT pid FROM pidb WHERE pid > ? AND removed = 0 UNION SELECT pid FROM fenced WHERE {_LEAVING}"
    rows = write.txn.query(f"{sql} ORDER BY pid LIMIT ?", [after, after, since, since, limit])
    pids: list[int] = [pid for (pid,) in rows]
    _lose(write, pids)
    return pids[-1] if len(pids) == limit else None


def lose_set(write: WriteTransaction, pid: int) -> None:
    """An accepted set of a provider is lost: it is asked for a full set, by whoever has it in the end."""
    _lose(write, [pid])


def _lose(write: WriteTransaction, pids: Sequence[int]) -> None:
    fenced = dict(write.txn.query_in(f"{_FENCED} AND pid IN ({{in}})", pids))
    write.load_stats(pid for pid in pids if pid not in fenced)
    for pid in pids:
        if pid in fenced:
            lose_held(write, pid)
        else:
            write.want_full_set(pid, "cache-crash")


def take_lost(write: WriteTransaction, header: SetHeader) -> None:
    """A set that was held of a provider is lost: it is asked for a full set, by whoever has it in the end.

    :param header: named as :func:`set_pieces` does.
    """
    txn, pid = write.txn, header.pid
    if txn.one(f"{_FENCED} AND pid = ?", [pid]) is not None:
        hold_piece(write, SetPiece(header, 0, (), last=True), lost=True)
    elif txn.one("SELECT 1 FROM pidb WHERE pid = ? AND removed = 0", [pid]) is not None:
        write.want_full_set(pid, "cache-crash")
    position = (header.uns.encode(), header.epoch.encode(), header.number, header.number)
    txn.upsert("setspos", ("uns", "epoch", "last_number", "answered_number"), [position], ("uns", "epoch"))


def held_pieces(txn: Txn, pid: int, after: tuple[int, int] = (0, 0)) -> tuple[str, list[HeldPiece]]:
    """The next pieces of sets that are held of a provider and have come as a whole.

    :param after: set and piece that were read last.
    :returns: epoch of this database, which sets are named by; and the pieces.
    """
    # What else the row of old sets stands for may be there yet.
    given_up = _given_up(txn, pid)
    marker, upto = (0, 0) if given_up is None else (given_up.id, given_up.upto)
    rows = txn.query(
        "SELECT id, whole, firstindex, header, notices FROM heldsets"
        " WHERE pid = ? AND whole > 0 AND (whole > ? OR (whole = ? AND id > ?)) AND (id > ? OR id = ?)"
        " ORDER BY whole, id LIMIT ?",
        [pid, after[0], *after, upto, marker, PIECES_AT_ONCE],
    )
    begun = txn.query_in(
        "SELECT whole FROM heldsets WHERE whole IN ({in}) AND pid = ? AND firstindex = 0 AND id > ?",
        sorted({row[1] for row in rows}),
        after=[pid, upto],
    )
    complete = {whole for (whole,) in begun}
    return database_epoch(txn), [_piece(row, is_lost=row[1] not in complete) for row in rows]


def forget_held(write: WriteTransaction, pid: int, upto: int) -> None:
    """Sets that are held of a provider, up to this one, are applied here."""
    write.txn.execute("DELETE FROM heldsets WHERE pid = ? AND whole > 0 AND whole <= ?", [pid, upto])


def forget_parts(write: WriteTransaction, before: int, limit: int = PAGE_ROWS) -> bool:
    """Forget some pieces, held of providers that are here, of sets that will not come as a whole: they have come anew
    and are applied, or these pieces were held before this time and their UNS has lost the others.

    :returns: there may be more.
    """
    sql = (
        "SELECT h.id FROM heldsets h JOIN fenced f ON f.pid = h.pid AND f.state IN ('open', 'followed')"
        " LEFT JOIN setspos s ON s.uns = h.uns AND s.epoch = h.epoch"
        " WHERE h.whole = 0 AND (h.time < ? OR s.last_number >= h.number) LIMIT ?"
    )
    ids = [number for (number,) in write.txn.query(sql, [before, limit])]
    write.txn.execute_in("DELETE FROM heldsets WHERE id IN ({in})", ids)
    return len(ids) == limit


def set_pieces(held: Sequence[HeldPiece], uns: str, epoch: str) -> list[SetPiece]:
    """What is held, as pieces of sets of another UNS.

    :param uns: its name; each provider's is another, because their sets do not come in one order.
    """
    return [
        SetPiece(
            attrs.evolve(piece.header, uns=uns, epoch=epoch, number=piece.whole),
            piece.first_index,
            piece.notices,
            piece.id == piece.whole,
        )
        for piece in held
    ]


def _written(header: SetHeader) -> dict[str, Any]:
    fields = attrs.asdict(header, recurse=False)
    said = header.said
    return fields | {"source": int(header.source), "said": None if said is None else attrs.astuple(said)}


def _piece(row: tuple[Any, ...], is_lost: bool) -> HeldPiece:
    """
    :param is_lost: the beginning of its set was given up.
    """
    number, whole, first_index, header, notices = row
    fields = json.loads(header)
    lost = fields.pop("lost", False) or is_lost
    fields.pop("upto", None)
    fields["source"] = Source(fields["source"])
    fields["said"] = None if fields["said"] is None else NoticeId(*fields["said"])
    keyed = tuple([KeyedNotice(bytes.fromhex(key), UrlNotice._make(values)) for key, values in json.loads(notices)])
    return HeldPiece(number, whole, SetHeader(**fields), first_index, keyed, lost)
