"""Providers: ``pidb`` and ``proots``, written by lcc-admin and the registration server, read by all.

Changes reach the queue manager as rows of ``orders``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from zope.interface import implementer

from lcc.errors import LccError
from lcc.interfaces import IProviderReader
from lcc.model import Provider, ProviderStatus, StoredError
from lcc.model.frontend.moves import Fence
from lcc.storage.database.database import Database
from lcc.storage.database.gathering import Gathering
from lcc.storage.database.tables.locked_counter import locked_counter
from lcc.storage.database.tables.order_rows import CHANGED, DELETE_OUTSIDE, REMOVED, ROOTS_TAKEN, add_order
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.pid_range import PID_MAX, last_pid

CARRIES = "none: move "
"""What the passwords of carriers begin with: providers of the LCC's own that carry the content of a move."""
_COLUMNS = (
    "pid",
    "password",
    "bandwidth",
    "timeofday",
    "timezone",
    "priority",
    "filesmax",
    "spacemax",
    "fullsetsallowed",
    "allow_private",
    "insecure",
    "removed",
    "contact",
    "interval_seconds",
    "watched",
    "interval_by",
    "hours_by",
    "token",
)
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM pidb"
_COLUMNS_OF_P = ", ".join(f"p.{name}" for name in _COLUMNS)
_WITH_ROOTS = (
    f"SELECT {_COLUMNS_OF_P}, 0 AS former, r.position, r.root FROM pidb p LEFT JOIN proots r ON r.pid = p.pid"
)
_SELECT_WITH_ROOTS = f"{_WITH_ROOTS} WHERE p.pid IN ({{in}})"
_FORMER_ROOTS = "1, f.position, f.root FROM formerroots f WHERE f.pid IN ({in})"


def _and_former(select: str, columns: int) -> str:
    """This SELECT of so many columns and a root for each row, and the former roots, of which only the id is told."""
    return f"{select} UNION ALL SELECT f.pid, {'NULL, ' * (columns - 1)}{_FORMER_ROOTS}"


_SELECT_WITH_ALL_ROOTS = _and_former(_SELECT_WITH_ROOTS, len(_COLUMNS))


class ProviderExists(Exception):
    """A provider with this id exists."""


class NoSuchProvider(Exception):
    """No provider has this id."""


class ProviderMoves(LccError):
    """A provider stands still, because it moves to another sub-LCC: it cannot be changed now (doc/moves.md)."""

    def __init__(self, pid: int) -> None:
        super().__init__("try-later", f"provider {pid} is moving to another sub-LCC")


@implementer(IProviderReader)
class ProviderReader:
    """Reads providers for a UNS; for all that log in together at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._logins: Gathering[int, tuple[Provider, ProviderStatus] | None] = Gathering(
            lambda pids: database.select(logging_in, pids)
        )

    def provider(self, pid: int) -> Deferred[Provider | None]:
        return self._database.select(registered_provider, pid)

    def login(self, pid: int) -> Deferred[tuple[Provider, ProviderStatus] | None]:
        return self._logins.ask(pid)

    def has_left(self, pid: int) -> Deferred[bool]:
        return self._database.select(_has_left, pid)

    def status(self, pid: int, errors_max: int) -> Deferred[ProviderStatus]:
        return self._database.select(provider_status, pid, errors_max)


def _has_left(txn: Txn, pid: int) -> bool:
    return txn.one("SELECT 1 FROM fenced WHERE pid = ? AND state = ?", [pid, Fence.LEFT.value]) is not None


def registered_provider(txn: Txn, pid: int) -> Provider | None:
    """The provider; None: unknown id, or being removed."""
    provider = get_provider(txn, pid)
    return None if provider is None or provider.removed else provider


def get_provider(txn: Txn, pid: int) -> Provider | None:
    """The provider with its former roots, even if it is being removed; None: unknown id."""
    return _with_all_roots(txn, [pid]).get(pid)


def _with_all_roots(txn: Txn, pids: Sequence[int]) -> dict[int, Provider]:
    """Those of these providers that exist; not more than the values of one IN list."""
    some = sorted({pid for pid in pids if 0 < pid <= PID_MAX})
    if not some:
        return {}
    marks = ",".join("?" * len(some))
    return _providers(txn.query(_SELECT_WITH_ALL_ROOTS.replace("{in}", marks), [*some, *some]))


def locked_provider(txn: Txn, pid: int) -> Provider | None:
    """The same, locked until this transaction ends."""
    txn.query(f"SELECT pid FROM pidb WHERE pid = ?{txn.for_update}", [pid])
    return get_provider(txn, pid)


def get_providers(txn: Txn, pids: Iterable[int]) -> dict[int, Provider]:
    """Those of these providers that exist, even if they are being removed; without their former roots."""
    return _providers(txn.query_in(_SELECT_WITH_ROOTS, [pid for pid in pids if 0 < pid <= PID_MAX]))


def provider_roots(txn: Txn) -> list[tuple[int, bool, list[str]]]:
    """See :meth:`lcc.interfaces.IQueueStore.provider_roots`."""
    roots: defaultdict[tuple[int, bool], list[str]] = defaultdict(list)
    for pid, watched, root in txn.query("SELECT p.pid, p.watched, r.root FROM proots r JOIN pidb p ON p.pid = r.pid"):
        roots[pid, bool(watched)].append(root)
    return [(pid, watched, each) for (pid, watched), each in roots.items()]


def _providers(rows: Iterable[tuple[Any, ...]]) -> dict[int, Provider]:
    """Providers of rows with one root each."""
    return {provider.pid: provider for provider, _ in _with_more(rows)}


def _with_more(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Provider, list[Any]]]:
    """The same, with whatever columns stand behind those of a provider."""
    values: dict[int, list[Any]] = {}
    roots: defaultdict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for *row, former, position, root in rows:
        if not former:
            values[row[0]] = row
        if root is not None:
            roots[row[0]].append((former, position, root))
    count = len(_COLUMNS)
    for pid, row in values.items():
        in_order = sorted(roots[pid])
        now = tuple(root for former, _, root in in_order if not former)
        former_roots = tuple(root for former, _, root in in_order if former)
        yield _provider(row[:count], now, former_roots), row[count:]


def list_providers(txn: Txn) -> list[Provider]:
    """All providers by id, including those being removed."""
    roots: dict[int, list[str]] = {}
    for pid, root in txn.query("SELECT pid, root FROM proots ORDER BY pid, position"):
        roots.setdefault(pid, []).append(root)
    return [_provider(row, tuple(roots.get(row[0], ()))) for row in txn.query(f"{_SELECT} ORDER BY pid")]


def provider_files(txn: Txn) -> dict[int, int]:
    """How many files of each registered provider are cached; watched sites and carriers are left out."""
    sql = (
        "SELECT p.pid, COALESCE(s.files_used, 0) FROM pidb p LEFT JOIN pstats s ON s.pid = p.pid"
        " WHERE p.removed = 0 AND p.watched = 0 AND p.password NOT LIKE ? ORDER BY p.pid"
    )
    return dict(txn.query(sql, [f"{CARRIES}%"]))


def add_provider(txn: Txn, provider: Provider) -> int:
    """Register a provider.

    :param provider: pid 0: it gets the next unused id of this LCC's range.
    :returns: its id.
    :raises ProviderExists: the id is or was in use, or the range is used up.
    """
    # A repeated interaction finds the (salted, so unique) hash if the first attempt was committed.
    if provider.password_hash:
        done = txn.value("SELECT pid FROM pidb WHERE password = ?", [provider.password_hash])
        if done is not None and provider.pid in (0, done):
            return int(done)
    highest = locked_counter(txn, "pid")
    pid, last = provider.pid or highest + 1, last_pid(txn)
    if not 0 < pid <= (PID_MAX if provider.pid else last):
        raise ProviderExists(f"no provider id is free up to {last}")
    if provider.pid:
        used = txn.one("SELECT 1 FROM pidb WHERE pid = ?", [pid]) or txn.one(
            "SELECT 1 FROM pstats WHERE pid = ?", [pid]
        )
        if used:
            raise ProviderExists(f"provider {pid} exists, or existed")
    if highest < pid <= last:
        txn.execute("UPDATE meta SET value = ? WHERE name = 'pid'", [str(pid)])
    _write(txn, attrs.evolve(provider, pid=pid))
    return pid


def change_provider(txn: Txn, provider: Provider, *, delete_outside: bool = False) -> None:
    """Replace a provider, and order the queue manager to apply the change.  Removed roots become former ones.

    :param delete_outside: if roots were removed, delete what is cached outside of the remaining ones; else it stays,
        until :func:`order_deletion_outside`.
    :raises NoSuchProvider: it is not registered.
    :raises ProviderMoves: it stands still.
    """
    before = registered_provider(txn, provider.pid)
    if before is None:
        raise NoSuchProvider(f"there is no provider {provider.pid}")
    _check_home(txn, provider.pid)
    former = dict.fromkeys([*before.former_roots, *before.roots])
    _write(txn, attrs.evolve(provider, former_roots=tuple(root for root in former if root not in provider.roots)))
    add_order(txn, CHANGED, provider.pid)
    if set(before.roots) - set(provider.roots):
        add_order(txn, ROOTS_TAKEN, provider.pid)
        if delete_outside:
            add_order(txn, DELETE_OUTSIDE, provider.pid)


def _check_home(txn: Txn, pid: int) -> None:
    """What is changed here would be lost, if the provider were about to be elsewhere.

    The queue manager writes the row in the transaction that has the provider stand still: one of the two comes first,
    or (on Galera) only one is committed.

    :raises ProviderMoves: it is.
    """
    txn.execute("UPDATE fenced SET edits = edits + 1 WHERE pid = ?", [pid])
    state = txn.value("SELECT state FROM fenced WHERE pid = ?", [pid])
    if state is not None and Fence(state).holds:
        raise ProviderMoves(pid)


def order_deletion_outside(txn: Txn, pid: int) -> None:
    """Order the deletion of what is cached of a provider outside of its roots.

    :raises NoSuchProvider: it is not registered.
    """
    if registered_provider(txn, pid) is None:
        raise NoSuchProvider(f"there is no provider {pid}")
    add_order(txn, DELETE_OUTSIDE, pid)


def order_removal(txn: Txn, pid: int) -> None:
    """Disable a provider, and order its removal: its queue, its content, then the provider.

    :raises NoSuchProvider: unknown id.
    :raises ProviderMoves: it stands still.
    """
    if get_provider(txn, pid) is None:
        raise NoSuchProvider(f"there is no provider {pid}")
    _check_home(txn, pid)
    txn.execute("UPDATE pidb SET removed = 1 WHERE pid = ?", [pid])
    add_order(txn, REMOVED, pid)


_STATUS = (
    "p.fullsetsallowed, s.files_used, s.space_used, s.nurlproc, s.errseq, s.errcleared, s.fullsets_used,"
    " s.wantfullset, s.wantid, h.deletions, h.told"
)
_FROM = " FROM pidb p LEFT JOIN pstats s ON s.pid = p.pid LEFT JOIN heldsweeps h ON h.pid = p.pid"
_STATUS_COLUMNS = _STATUS.count(",") + 1
_NO_STATUS = (None,) * _STATUS_COLUMNS
_ERROR = ", e.number, e.code, e.message, e.url, e.sent, e.time"
_JOIN_ERRORS = " LEFT JOIN urlerrs e ON e.pid = p.pid AND e.number > s.errcleared"


def provider_status(txn: Txn, pid: int, errors_max: int) -> ProviderStatus:
    """The status in ``<init_accepted>``; zeros for a provider without statistics.

    A single SELECT, so that the count matches the list, at the cost of one round trip for each login.

    :param errors_max: limit of the listed errors, the latest ones.
    """
    shown = bool(errors_max)
    rows = txn.query(
        f"SELECT {_STATUS}{_ERROR if shown else ''}{_FROM}"
        f"{_JOIN_ERRORS if shown else ''} WHERE p.pid = ?{' ORDER BY e.number DESC LIMIT ?' if shown else ''}",
        [pid, errors_max] if shown else [pid],
    )
    errors = [row[_STATUS_COLUMNS:] for row in rows if shown and row[_STATUS_COLUMNS] is not None]
    return _status(rows[0][:_STATUS_COLUMNS] if rows else _NO_STATUS, errors)


_LOGGING_IN = _and_former(
    f"SELECT {_COLUMNS_OF_P}, {_STATUS}, 0 AS former, r.position, r.root{_FROM} LEFT JOIN proots r ON r.pid = p.pid"
    " WHERE p.pid IN ({in})",
    len(_COLUMNS) + _STATUS_COLUMNS,
)


def logging_in(txn: Txn, pids: Sequence[int]) -> list[tuple[Provider, ProviderStatus] | None]:
    """Each of these providers, with its status as :func:`provider_status` gives it, without the errors themselves.

    :returns: None for an unknown id, or one that is being removed.
    """
    some = sorted({pid for pid in pids if 0 < pid <= PID_MAX})
    if not some:
        return [None] * len(pids)
    rows = txn.query(_LOGGING_IN.replace("{in}", ",".join("?" * len(some))), [*some, *some])
    found = {
        provider.pid: (provider, _status(more, ())) for provider, more in _with_more(rows) if not provider.removed
    }
    return [found.get(pid) for pid in pids]


def _status(columns: Sequence[Any], errors: Sequence[tuple[Any, ...]]) -> ProviderStatus:
    """A provider's status.

    :param errors: the newest ones, newest first.
    """
    allowed, *stats, held, held_of = columns
    files, space, processing, errseq, cleared, full_used, wanted, wantid = (
        (0, 0, 0, 0, 0, 0, "", 0) if stats[0] is None else stats
    )
    return ProviderStatus(
        files_used=files,
        space_used_bytes=space,
        full_sets_left=None if allowed is None else max(0, allowed - full_used),
        full_set_wanted=wanted,
        error_count=errseq - cleared,
        errors_upto=errseq,
        errors=tuple(StoredError(*error) for error in reversed(errors)),
        processing=processing,
        wantid=wantid if wanted else 0,
        deletions_held=held or 0,
        deletions_of=held_of or 0,
    )


def provider_ids(txn: Txn, among: Collection[int] | None, limit: int) -> list[int]:
    """The ids of providers that are not being removed, in order.

    :param among: only of these; None: of all.
    """
    sql = "SELECT pid FROM pidb WHERE removed = 0"
    if among is None:
        return [pid for (pid,) in txn.query(f"{sql} ORDER BY pid LIMIT ?", [limit])]
    return sorted(pid for (pid,) in txn.query_in(f"{sql} AND pid IN ({{in}})", sorted(among)))[:limit]


def _provider(row: Sequence[Any], roots: tuple[str, ...], former_roots: tuple[str, ...] = ()) -> Provider:
    pid, password, bandwidth, hours, timezone, priority, files, space, full_sets, *flags = row
    private, insecure, removed, contact, interval, watched, interval_by, hours_by, token = flags
    return Provider(
        pid=pid,
        roots=roots,
        password_hash=password,
        bandwidth_bytes=bandwidth,
        hours=hours,
        timezone=timezone,
        priority=priority,
        files_max=files,
        space_max_bytes=space,
        full_sets=full_sets,
        allow_private=bool(private),
        insecure=bool(insecure),
        removed=bool(removed),
        contact=contact,
        interval_seconds=interval,
        watched=bool(watched),
        interval_by=interval_by,
        hours_by=hours_by,
        token_hash=token,
        former_roots=former_roots,
    )


def _write(txn: Txn, provider: Provider) -> None:
    row = (
        provider.pid,
        provider.password_hash,
        provider.bandwidth_bytes,
        provider.hours,
        provider.timezone,
        provider.priority,
        provider.files_max,
        provider.space_max_bytes,
        provider.full_sets,
        provider.allow_private,
        provider.insecure,
        provider.removed,
        provider.contact,
        provider.interval_seconds,
        int(provider.watched),
        provider.interval_by,
        provider.hours_by,
        provider.token_hash,
    )
    txn.upsert("pidb", _COLUMNS, [row], ["pid"])
    for table, roots in (("proots", provider.roots), ("formerroots", provider.former_roots)):
        txn.execute(f"DELETE FROM {table} WHERE pid = ?", [provider.pid])
        rows = [(provider.pid, position, root) for position, root in enumerate(roots)]
        txn.insert(table, ["pid", "position", "root"], rows)
