"""What sites have pushed: their keys, and the sets of URLs on their way to the UNS.

Owns ``pushkey`` and ``pushset``; :mod:`lcc.storage.push.subscriptions` has those at hubs.

Strategy: pushes that arrive together share a transaction, in the writer thread, and those of one key sets; they are
answered once it is committed.  A set waits for the proof of its key, then gets a new number, under which it is told:
numbers rise in the order of telling.  A told set keeps a row without its URLs, for the report.

Failures: a newer push server fences older ones off, whose writes fail with Busy.  What was written and not heard of
is told again, or stands there twice: the UNS applies each number once, and a URL that is pushed twice is fetched
once more.
"""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import attrs
from twisted.internet.defer import Deferred, succeed

from lcc.model.push.pushes import KeyState, PushClaim, PushRecord, PushSet, SiteKey, Submission
from lcc.storage.database.database import Database
from lcc.storage.database.gathering import Gathering
from lcc.storage.database.table import Table, due_where
from lcc.storage.database.tables.claimed import ClaimedTables
from lcc.storage.database.tables.locked_counter import locked_counter
from lcc.storage.database.tables.set_epochs import claim_epoch
from lcc.storage.database.transactions import Txn
from lcc.storage.push.subscriptions import SubscriptionStore

SET_URLS = 500
"""URLs of one set, as of other notifiers."""
WHY_CHARS = 1000
REFUSED_BY_OPERATOR = "the operator has refused this site"
RECORDS_SHOWN = 20
RECORDS_MAX = 1_000_000
"""Answered sets that are kept, however young they are."""
PURGED_AT_ONCE = 2000
PROVEN_KEPT = 1000
"""Proven keys that are in memory."""
_UNPROVEN, _READY, _TOLD, _REFUSED = range(4)
_STATES = ("waiting", "accepted", "told", "refused")
KEYS = Table(
    "pushkey",
    ["id"],
    (
        *("id", "site", "keytext", "location", "folder", "state", "pid", "why"),
        *("made_time", "proven_time", "due_time", "failures"),
    ),
)
_SETS = Table(
    "pushset",
    ["number"],
    ("number", "keyid", "state", "pid", "connorder", "urls", "urlcount", "answer", "time"),
)


class Arrival(NamedTuple):
    """A push that is to be stored.

    :ivar order: order number of the asking, of this provider; 0: none could be drawn.
    """

    submission: Submission
    pid: int
    order: int
    now: int


class Answer(NamedTuple):
    """What the UNS has answered to a set.

    :ivar told: it was accepted.
    :ivar text: what of it is refused, and why; empty: nothing.
    """

    number: int
    told: bool
    text: str = ""


class LongestWait(NamedTuple):
    """How long a key may wait, in seconds.

    :ivar failures: of keys in this state those with so many; None: all.
    """

    state: KeyState
    seconds: int
    failures: int | None = None


def key_id(key: str, location: str) -> bytes:
    """What a key is known by."""
    return blake2b(f"{key}\n{location}".encode(), digest_size=16).digest()


def as_key(row: Sequence[Any]) -> SiteKey:
    """The key of a row of :data:`KEYS`."""
    ident, site, key, location, folder, state, *others = row
    return SiteKey(bytes(ident), site, key, location, folder, KeyState(state), *others)


def _row(key: SiteKey) -> tuple[Any, ...]:
    return (
        *(key.id, key.site, key.key, key.location, key.folder, key.state.value, key.pid, key.why[:WHY_CHARS]),
        *(key.made_time, key.proven_time, key.due_time, key.failures),
    )


def _json(urls: Sequence[Mapping[str, str]]) -> str:
    return json.dumps(list(urls), separators=(",", ":"), ensure_ascii=False)


class PushStore:
    """See :mod:`lcc.storage.push.store`.

    :ivar check: fails with Busy when another push server has claimed the tables; ``write``: runs a function in a
        transaction, or does so.
    :ivar subscriptions: those of feeds at hubs, under the same claim.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._tables = ClaimedTables(database, "push", "push server")
        self.check = self._tables.check
        self.write = self._tables.write
        self._arrivals: Gathering[Arrival, SiteKey] = Gathering(self._accept_all)
        self._finds: Gathering[bytes, SiteKey | None] = Gathering(self._find_all)
        self._proven: OrderedDict[bytes, SiteKey] = OrderedDict()
        self.subscriptions = SubscriptionStore(database, self.write)

    def claim(self) -> Deferred[PushClaim]:
        """Become the one that may write."""
        return self._tables.claim(_claimed)

    def accept(self, arrival: Arrival) -> Deferred[SiteKey]:
        """Put a push on stable storage, as far as its key is not refused.

        :returns: its key, as it is now; REFUSED: nothing was stored.
        """
        return self._arrivals.ask(arrival).addCallback(self._found)

    def _accept_all(self, arrivals: list[Arrival]) -> Deferred[Sequence[SiteKey]]:
        return self.write(_accept, arrivals)

    def _found(self, key: SiteKey) -> SiteKey:
        self._proven.pop(key.id, None)
        if key.state is KeyState.PROVEN:
            self._proven[key.id] = key
            if len(self._proven) > PROVEN_KEPT:
                self._proven.popitem(last=False)
        return key

    def find(self, submission: Submission) -> Deferred[SiteKey | None]:
        """Its key, if it was ever named; one that was proven when it was accepted last may be refused by now, and
        :meth:`accept` says so."""
        ident = key_id(submission.key, submission.location)
        proven = self._proven.get(ident)
        return self._finds.ask(ident) if proven is None else succeed(proven)

    def _find_all(self, idents: list[bytes]) -> Deferred[Sequence[SiteKey | None]]:
        return self.database.select(_find_keys, idents)

    def due_keys(self, now: int, failing: bool, without: Sequence[str], limit: int) -> Deferred[list[SiteKey]]:
        """Keys whose files are to be fetched, or that an operator has approved, the longest waiting first.

        :param failing: of those whose files could not be fetched, or of the others.
        :param without: sites that are left out.
        """
        return self.database.select(_due_keys, now, failing, without, limit)

    def save_key(self, key: SiteKey, order: int = 0) -> Deferred[int]:
        """A key was looked at.  Where it is PROVEN now, its sets are told; where it is REFUSED, they are dropped.

        :param order: order number of its provider for these sets; 0: none could be drawn.
        :returns: how many URLs wait for the proof no longer.
        """
        return self.write(_save_key, key, order)

    def prove_again(self, ident: bytes, number: int) -> Deferred[int]:
        """A key's folder is no provider's any longer: if it was proven it is looked at as if it were new, and those
        of its sets that have this number or a greater one wait for that.

        :returns: how many URLs these have; 0: the key is refused.
        """
        return self.write(_prove_again, ident, number)

    def bound_waits(self, now: int, longest: Sequence[LongestWait]) -> Deferred[None]:
        """The wall clock may have been set back: what was noted by it before is not waited for any longer than usual.

        What an operator has refused stays so.
        """
        return self.write(_bound_waits, now, list(longest))

    def outbox(self, after: int, limit: int) -> Deferred[list[PushSet]]:
        """Sets that are to be told, with greater numbers, in order."""
        return self.database.select(_outbox, after, limit)

    def part(self, number: int, parts: Mapping[int, Sequence[Mapping[str, str]]]) -> Deferred[None]:
        """In the place of this set come several, by provider; that of the set keeps its order number."""
        return self.write(_part, number, dict(parts))

    def set_order(self, orders: Mapping[int, tuple[int, int]]) -> Deferred[None]:
        """Number of a set -> its provider and order number."""
        return self.write(_set_order, dict(orders))

    def again(self, number: int) -> Deferred[None]:
        """A set gets a new number and a new order number, and its provider is looked up once more."""
        return self.write(_again, number)

    def answer(self, answers: Sequence[Answer]) -> Deferred[int]:
        """These were answered.

        :returns: how many URLs they had.
        """
        return self.write(_answer, list(answers))

    def purge(self, before: int) -> Deferred[int]:
        """Forget what was answered before then, all but the last :data:`RECORDS_MAX` that were told, and as many that
        were refused, and keys that were refused before and that nothing waits for.

        :returns: how many; :data:`PURGED_AT_ONCE` or more: there may be others.
        """
        return self.write(_purge, before)

    def counts(self) -> Deferred[tuple[int, int]]:
        """URLs that wait for the proof of a key, and that the UNS has not answered."""
        return self.database.select(waiting_urls)

    def report(self, site_hosts: Sequence[str], key: str) -> Deferred[list[tuple[SiteKey, list[PushRecord]]]]:
        """The keys of these sites with this text, and what was pushed with each lately, newest first."""
        return self.database.interact(_report, list(site_hosts), key)


def _claimed(txn: Txn) -> PushClaim:
    waiting = txn.one("SELECT 1 FROM pushset WHERE state = ? LIMIT 1", [_READY]) is not None
    epoch, left_out = claim_epoch(txn, "push_epoch", waiting)
    _numbers(txn, left_out)
    return PushClaim(epoch, *waiting_urls(txn))


def waiting_urls(txn: Txn) -> tuple[int, int]:
    """See :meth:`PushStore.counts`."""
    counts = dict(txn.query("SELECT state, SUM(urlcount) FROM pushset WHERE state IN (0, 1) GROUP BY state"))
    return int(counts.get(_UNPROVEN, 0)), int(counts.get(_READY, 0))


def _numbers(txn: Txn, count: int) -> range:
    first = locked_counter(txn, "push_number") + 1
    txn.execute("UPDATE meta SET value = ? WHERE name = 'push_number'", [str(first + count - 1)])
    return range(first, first + count)


def _keys_by_id(txn: Txn, idents: Sequence[bytes], lock: str = "") -> dict[bytes, SiteKey]:
    rows = txn.query_in(f"{KEYS.select} WHERE id IN ({{in}}){lock}", sorted(set(idents)))
    return {key.id: key for key in map(as_key, rows)}


def _find_keys(txn: Txn, idents: Sequence[bytes]) -> Sequence[SiteKey | None]:
    keys = _keys_by_id(txn, idents)
    return [keys.get(ident) for ident in idents]


@attrs.define
class _Together:
    """Pushes of one key that are stored together, and told as one.

    :ivar order: the newest of their order numbers: none of them had an answer when it was drawn.
    """

    urls: list[str] = attrs.field(factory=list)
    order: int = 0
    time: int = 0

    def rows(self, key: SiteKey) -> Iterator[tuple[Any, ...]]:
        """Rows of ``pushset`` without their numbers."""
        proven = key.state is KeyState.PROVEN
        for start in range(0, len(self.urls), SET_URLS):
            urls = [{"c": url} for url in self.urls[start : start + SET_URLS]]
            state, pid = (_READY, key.pid) if proven else (_UNPROVEN, 0)
            yield key.id, state, pid, self.order, _json(urls), len(urls), "", self.time


def _accept(txn: Txn, arrivals: Sequence[Arrival]) -> Sequence[SiteKey]:
    idents = [key_id(each.submission.key, each.submission.location) for each in arrivals]
    keys = _keys_by_id(txn, idents, txn.for_update)  # an operator may refuse one at the same time
    changed: dict[bytes, SiteKey] = {}
    # What has no order number yet gets one that is newer than those of the others.
    together: defaultdict[tuple[bytes, bool], _Together] = defaultdict(_Together)
    for ident, (submission, pid, order, now) in zip(idents, arrivals, strict=True):
        key = keys.get(ident)
        if key is None or (key.state is KeyState.REFUSED and key.due_time <= now):
            places = submission.site, submission.key, submission.location, submission.folder
            key = SiteKey(ident, *places, KeyState.WAITING, made_time=now, due_time=now)
            keys[ident] = changed[ident] = key
        if key.state is KeyState.REFUSED:
            continue
        mine = order if key.state is KeyState.PROVEN and key.pid == pid else 0
        one = together[ident, mine > 0]
        one.urls += submission.urls
        one.order, one.time = max(one.order, mine), now
    KEYS.upsert(txn, [_row(key) for key in changed.values()])
    sets = [row for (ident, _), one in together.items() for row in one.rows(keys[ident])]
    if sets:
        _SETS.insert(txn, [(number, *row) for number, row in zip(_numbers(txn, len(sets)), sets, strict=True)])
    return [keys[ident] for ident in idents]


def _due_keys(txn: Txn, now: int, failing: bool, without: Sequence[str], limit: int) -> list[SiteKey]:
    where = f"state IN ('waiting', 'approved', 'proven') AND due_time <= ? AND {due_where(failing, 'site', without)}"
    sql = f"{KEYS.select} WHERE {where} ORDER BY due_time LIMIT ?"
    return [as_key(row) for row in txn.query(sql, [now, *without, limit])]


def _save_key(txn: Txn, key: SiteKey, order: int) -> int:
    if txn.value("SELECT state FROM pushkey WHERE id = ?", [key.id]) == KeyState.REFUSED.value:
        return 0  # an operator has refused it meanwhile
    KEYS.upsert(txn, [_row(key)])
    waiting = [key.id, _UNPROVEN]
    if key.state is KeyState.PROVEN:
        found = txn.query(
            "SELECT number, urlcount FROM pushset WHERE keyid = ? AND state = ? ORDER BY number", waiting
        )
        if found:
            sql = "UPDATE pushset SET number = ?, state = ?, pid = ?, connorder = ? WHERE number = ?"
            for new, (old, _) in zip(_numbers(txn, len(found)), found, strict=True):
                txn.execute(sql, [new, _READY, key.pid, order, old])
        return sum(count for _, count in found)
    if key.state is KeyState.REFUSED:
        count = int(txn.value("SELECT SUM(urlcount) FROM pushset WHERE keyid = ? AND state = ?", waiting, 0))
        sql = "UPDATE pushset SET state = ?, urls = '', answer = ? WHERE keyid = ? AND state = ?"
        txn.execute(sql, [_REFUSED, key.why[:WHY_CHARS], *waiting])
        return count
    return 0


def _prove_again(txn: Txn, ident: bytes, number: int) -> int:
    # Locked: an operator may refuse it at the same time.
    state = txn.value(f"SELECT state FROM pushkey WHERE id = ?{txn.for_update}", [ident])
    if state in (None, KeyState.REFUSED.value):
        return 0
    # Not one that waits for an operator by now: a set that its former provider was told of comes later.
    update = "UPDATE pushkey SET state = ?, pid = 0, due_time = 0, failures = 0 WHERE id = ? AND state = ?"
    txn.execute(update, [KeyState.WAITING.value, ident, KeyState.PROVEN.value])
    sets = "keyid = ? AND state = ? AND number >= ?"
    untold = [ident, _READY, number]
    count = int(txn.value(f"SELECT SUM(urlcount) FROM pushset WHERE {sets}", untold, 0))
    txn.execute(f"UPDATE pushset SET state = ?, pid = 0, connorder = 0 WHERE {sets}", [_UNPROVEN, *untold])
    return count


def _bound_waits(txn: Txn, now: int, longest: Sequence[LongestWait]) -> None:
    for state, seconds, failures in longest:
        sql = "UPDATE pushkey SET due_time = ? WHERE state = ? AND due_time > ? AND why <> ?"
        until = now + seconds
        values: list[Any] = [until, state.value, until, REFUSED_BY_OPERATOR]
        if failures is not None:
            sql += " AND failures = ?"
            values.append(failures)
        txn.execute(sql, values)


def _outbox(txn: Txn, after: int, limit: int) -> list[PushSet]:
    sql = (
        "SELECT s.number, s.keyid, k.folder, s.pid, s.connorder, s.urls"
        " FROM pushset s JOIN pushkey k ON k.id = s.keyid"
        " WHERE s.state = 1 AND s.number > ? ORDER BY s.number LIMIT ?"
    )
    return [
        PushSet(number, bytes(key), folder, pid, order, tuple(json.loads(urls)))
        for number, key, folder, pid, order, urls in txn.query(sql, [after, limit])
    ]


def _open_set(txn: Txn, number: int) -> tuple[Any, ...] | None:
    return txn.one(f"{_SETS.select} WHERE number = ? AND state = ?", [number, _READY])


def _part(txn: Txn, number: int, parts: Mapping[int, Sequence[Mapping[str, str]]]) -> None:
    row = _open_set(txn, number)
    if row is None:
        return  # this was done before
    _, key, state, own, order, _, _, answer, time = row
    rows = [
        (new, key, state, pid, order if pid == own else 0, _json(urls), len(urls), answer, time)
        for new, (pid, urls) in zip(_numbers(txn, len(parts)), parts.items(), strict=True)
    ]
    txn.execute("DELETE FROM pushset WHERE number = ?", [number])
    _SETS.insert(txn, rows)


def _set_order(txn: Txn, orders: Mapping[int, tuple[int, int]]) -> None:
    for number, (pid, order) in sorted(orders.items()):
        txn.execute("UPDATE pushset SET pid = ?, connorder = ? WHERE number = ?", [pid, order, number])


def _again(txn: Txn, number: int) -> None:
    if _open_set(txn, number) is not None:
        (new,) = _numbers(txn, 1)
        txn.execute("UPDATE pushset SET number = ?, pid = 0, connorder = 0 WHERE number = ?", [new, number])


def _answer(txn: Txn, answers: Sequence[Answer]) -> int:
    numbers = [answer.number for answer in answers]
    sql = "SELECT number, urlcount FROM pushset WHERE state = ? AND number IN ({in})"
    counts = dict(txn.query_in(sql, numbers, [_READY]))
    sql = "UPDATE pushset SET state = ?, urls = '', answer = ? WHERE number = ?"
    for answer in answers:
        if answer.number in counts:
            state = _TOLD if answer.told else _REFUSED
            txn.execute(sql, [state, answer.text[:WHY_CHARS], answer.number])
    return sum(counts.values())


def _purge(txn: Txn, before: int) -> int:
    # Numbers rise with time, more or less: the oldest ones are looked at, not all.
    sql = "SELECT number, time FROM pushset WHERE state = ? ORDER BY number LIMIT ?"
    # They have gaps: what is too many is counted.
    beyond = "SELECT number FROM pushset WHERE state = ? ORDER BY number DESC LIMIT 1 OFFSET ?"
    numbers = []
    for state in (_TOLD, _REFUSED):
        too_many = int(txn.value(beyond, [state, RECORDS_MAX], 0))
        rows = txn.query(sql, [state, PURGED_AT_ONCE])
        numbers += [number for number, time in rows if time < before or number <= too_many]
    txn.execute_in("DELETE FROM pushset WHERE number IN ({in})", numbers)
    sql = (
        "SELECT id FROM pushkey WHERE state = 'refused' AND due_time < ?"
        " AND NOT EXISTS (SELECT 1 FROM pushset s WHERE s.keyid = pushkey.id) ORDER BY due_time LIMIT ?"
    )
    keys = [ident for (ident,) in txn.query(sql, [before, PURGED_AT_ONCE])]
    txn.execute_in("DELETE FROM pushkey WHERE id IN ({in})", keys)
    return len(numbers) + len(keys)


def _report(txn: Txn, sites: Sequence[str], key: str) -> list[tuple[SiteKey, list[PushRecord]]]:
    rows = txn.query_in(f"{KEYS.select} WHERE site IN ({{in}}) AND keytext = ? ORDER BY location", sites, after=[key])
    sql = (
        "SELECT number, time, urlcount, state, answer FROM pushset WHERE keyid = ?"
        f" ORDER BY number DESC LIMIT {RECORDS_SHOWN}"
    )
    return [
        (
            found,
            [
                PushRecord(number, time, count, _STATES[state], text)
                for number, time, count, state, text in txn.query(sql, [found.id])
            ],
        )
        for found in map(as_key, rows)
    ]
