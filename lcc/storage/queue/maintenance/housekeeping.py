"""Background jobs of the queue manager, one bounded page at a time (table ``chores``).

Each job scans a table in the order of its key, and starts over some time after its end.  Its progress is saved in the
transaction of each page, where a restart continues.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from lcc.config import QmConfig
from lcc.errors import code
from lcc.interfaces import IQueueRules
from lcc.model import COUNTED, Standing
from lcc.storage.database.tables.rows import CACHED, FETCH, TOLD, TOLD_COLUMNS, told_notice
from lcc.storage.queue.intake.held_deletions import drop_held, held_sweeps
from lcc.storage.queue.intake.sweep import remove_content, removed_rows
from lcc.storage.queue.maintenance.consistency import Check, check_counters, check_rows_of_sets, check_sets
from lcc.storage.queue.maintenance.recheck import recheck, stop_polling
from lcc.storage.queue.write_transaction import WriteTransaction

PAGE_ROWS = 2000
PAGE_PROVIDERS = 1000
FULL_SETS_SECONDS = 3600

_EXPIRED = code("expired")


class _Job(NamedTuple):
    """
    :ivar often: it starts over after an hour already.
    """

    page: Callable[[WriteTransaction, IQueueRules, bytes], bytes | None]
    often: bool = False


def do_next_page(write: WriteTransaction, rules: IQueueRules) -> bool:
    """Do a page of the job that is overdue the longest; True: there is more to do now."""
    txn, now, settings = write.txn, write.now, write.settings
    state = {
        name: (due, bytes(progress)) for name, due, progress in txn.query("SELECT name, due, progress FROM chores")
    }
    due: list[tuple[int, str]] = []
    for name, job in JOBS.items():
        at = state.get(name, (0, b""))[0]
        # A time too far ahead is from a wrong clock.
        if at <= now or at > now + _period(job, settings):
            due.append((min(at, now), name))
    if not due:
        return False
    name = min(due)[1]
    job = JOBS[name]
    left = job.page(write, rules, state.get(name, (0, b""))[1])
    next_time = now + _period(job, settings) if left is None else now
    txn.upsert("chores", ("name", "due", "progress"), [(name, next_time, left or b"")], ("name",))
    return left is not None or len(due) > 1


def _period(job: _Job, settings: QmConfig) -> int:
    period = settings.housekeeping_period
    return min(period, FULL_SETS_SECONDS) if job.often else period


def look_at_ages(write: WriteTransaction, rules: IQueueRules, progress: bytes) -> bytes | None:
    """Ask for content that was not confirmed for long: its provider, who may delete it thereby, or, where others told
    of it, its web server.  Later delete it, and what nobody polls any longer; delete old tombstones."""
    txn, now, settings = write.txn, write.now, write.settings
    sql = (
        "SELECT urlkey, pid, state, source, change_number, connseq, confirmed_time, words, seen"
        " FROM lccurl WHERE urlkey > ? ORDER BY urlkey LIMIT ?"
    )
    rows = txn.query(sql, [progress, PAGE_ROWS])
    held = held_sweeps(txn, (row[1] for row in rows))
    for sweep in held.values():
        if settings.age_expired and now - sweep.time >= settings.age_expired:
            drop_held(txn, sweep.pid, sweep.psetid)  # all that it held has expired
    expired: defaultdict[int, list[bytes]] = defaultdict(list)
    old: set[int] = set()
    lacking: set[int] = set()
    forgotten: list[bytes] = []
    unsure: list[bytes] = []
    unpolled: list[bytes] = []
    for key, pid, state, source, change, connseq, confirmed, words, seen in rows:
        age = now - (confirmed or now)
        # Held deletions expire like anything else; another full set would not help.
        unnamed = (
            pid in held
            and seen != held[pid].psetid
            and Standing(connseq, source, words).told_number <= held[pid].connseq
        )
        if state != CACHED:
            if age >= settings.tombstones_kept:
                forgotten.append(key)
                write.forgotten(change)
        elif source & COUNTED != TOLD:
            if not source & COUNTED:
                if settings.age_expired and age >= settings.age_expired:
                    unpolled.append(bytes(key))
            elif settings.reverify and age >= settings.reverify:
                unsure.append(bytes(key))
        elif settings.age_expired and age >= settings.age_expired:
            expired[pid].append(bytes(key))
            if not unnamed:
                lacking.add(pid)
        elif settings.age_wanted and age >= settings.age_wanted and not unnamed:
            old.add(pid)
    txn.execute_in("DELETE FROM lccurl WHERE urlkey IN ({in})", forgotten)
    write.load_stats(old | expired.keys())
    for pid, gone in sorted(expired.items()):
        if _expire(write, pid, gone) and pid in lacking:
            _want(write, pid, "expired-files")
    for pid in old:
        _want(write, pid, "old-files")
    if unsure:
        recheck(write, rules, unsure)
    if unpolled:
        stop_polling(write, rules, unpolled)
    return bytes(rows[-1][0]) if len(rows) == PAGE_ROWS else None


def _expire(write: WriteTransaction, pid: int, keys: list[bytes]) -> bool:
    """Delete expired rows; False: there were none."""
    txn = write.txn
    # What the provider has told since is not expired, however long it is queued.
    sql = f"SELECT urlkey FROM qdb WHERE operation = {FETCH} AND urlkey IN ({{in}})"
    queued = {key for (key,) in txn.query_in(sql, keys)}
    gone = [key for key in keys if key not in queued]
    sql = f"SELECT urlkey, connseq, source, {TOLD_COLUMNS} FROM lccurl WHERE urlkey IN ({{in}})"
    for key, connseq, source, *told in txn.query_in(sql, gone):
        write.error(pid, key, connseq, _EXPIRED, "", told_notice(told, key), source=source)
    remove_content(write, removed_rows(txn, gone), pid)
    return bool(gone)


def _want(write: WriteTransaction, pid: int, reason: str) -> None:
    """Ask for a full set, unless one came lately: what is still old cannot be fetched, and another one would not
    help."""
    stats = write.stats(pid)
    if write.now - stats.last_full_time >= write.settings.age_wanted:
        write.want_full_set(pid, reason)


def allow_full_sets(write: WriteTransaction, _rules: IQueueRules, progress: bytes) -> bytes | None:
    """Reset the count of unsolicited full sets of providers whose period has ended."""
    txn = write.txn
    after = int(progress or b"0")
    sql = "SELECT pid FROM pstats WHERE pid > ? ORDER BY pid LIMIT ?"
    pids = [pid for (pid,) in txn.query(sql, [after, PAGE_PROVIDERS])]
    if pids:
        txn.execute(
            "UPDATE pstats SET fullsets_used = 0, fullsets_since = ?"
            " WHERE pid > ? AND pid <= ? AND fullsets_used > 0 AND (fullsets_since <= ? OR fullsets_since > ?)",
            # A period that starts in the future: the clock was set back.
            [write.now, after, pids[-1], write.now - write.settings.full_set_period, write.now],
        )
    return b"%d" % pids[-1] if len(pids) == PAGE_PROVIDERS else None


def _checked(check: Check) -> _Job:
    return _Job(lambda write, _rules, progress: check(write, progress))


JOBS: dict[str, _Job] = {
    "full-sets": _Job(allow_full_sets, often=True),
    "ages": _Job(look_at_ages),
    "sets": _checked(check_sets),
    "rows-of-sets": _checked(check_rows_of_sets),
    "counters": _checked(check_counters),
}
