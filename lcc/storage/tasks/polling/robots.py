"""robots.txt of sites that hints lead to: known before anything of theirs is fetched (``robots``, ``heldnotices``).

The first hint of a site makes a task of the kind ``robots``, and waits, as those after it do.  Once the rules are
known, what they allow goes into the outbox, the rest is left out, and so is what comes later.  A robots.txt that
could not be read (5xx, 429, no answer, an error of ours) forbids nothing for good: hints wait on, and it is asked for
again soon.

Whoever writes a feed may name as many hosts as it likes, whether they exist or not, and each that does becomes a
watched provider, of which there may be only so many: new sites are bounded, for each task and all together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from lcc.interfaces import ITaskRules
from lcc.model.states import SiteRobots, UnreadRobots
from lcc.model.tasks import NOBODY, Asking, JobNotice, JobSpec, Task, When
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.jobs.new_tasks import draw_task_id, insert_task
from lcc.storage.tasks.outbox import add_notices, root_of
from lcc.storage.tasks.write import DAY_SECONDS, TaskWrite

ROBOTS = "robots"
RULES, NONE = "rules", "none"
FIRST_SECONDS, EVERY_SECONDS = 30, 86400
"""The period of the task until its robots.txt is known, and from then on."""
UNREAD_SECONDS_MAX = 3600
"""While it cannot be read, the period doubles with each failure, up to this."""
HELD_MAX = 10_000
"""Hints of one site that wait; further ones are left out."""
NEW_SITES_MAX = 1000
"""Sites of which the jobs of a task give the first hints within a day."""
UNREAD_SITES_MAX = 10_000
"""Sites whose hints wait for a robots.txt: while there are so many, no hints of further ones are taken."""
_ORIGIN_CHARS_MAX = 255
_HINTS = frozenset({"feed", "link"})
_BOUND = frozenset({"update", "recheck"})
_ROBOTS = ("origin", "rules", "allow", "fetched_time", "checked_time", "status", "task", "named_by", "named_time")
_EPOCH = "queue_epoch"
_HELD = ("number", "origin", "url", "source", "op", "mimetype", "job", "time")


def notify(write: TaskWrite, rules: ITaskRules, notices: Iterable[JobNotice], asking: Asking, job: int) -> None:
    """Put notices into the outbox, hints only as far as robots.txt of their sites allows.

    :param asking: whose own words those with the source ``listed`` are.
    """
    free: list[JobNotice] = []
    hints: dict[str, list[JobNotice]] = {}
    for notice in notices:
        if notice.source in _HINTS and notice.op in _BOUND:
            hints.setdefault(root_of(notice.url), []).append(notice)
        else:
            free.append(notice)
    for origin in [origin for origin in hints if len(origin) > _ORIGIN_CHARS_MAX]:
        left = f"{len(hints.pop(origin))} URLs of a host whose name is too long are left out: {origin[:80]}"
        write.tell(job, "warn", left)
    sql = "SELECT origin, rules, allow, checked_time, status FROM robots WHERE origin IN ({in})"
    known = {row[0]: row[1:] for row in write.txn.query_in(sql, sorted(hints))}
    _ask_for_new(write, rules, {origin: each for origin, each in hints.items() if origin not in known}, job)
    for origin, each in hints.items():
        if origin in known:
            free += _admitted(write, rules, origin, known[origin], each, job)
    add_notices(write, free, asking, job)


def _ask_for_new(write: TaskWrite, rules: ITaskRules, hints: Mapping[str, list[JobNotice]], job: int) -> None:
    """Sites of which nothing is known yet: their robots.txt is asked for, as far as so many may be; these wait."""
    if not hints:
        return
    sql = (
        "SELECT COUNT(*) FROM (SELECT 1 FROM robots WHERE allow = ? AND EXISTS"
        " (SELECT 1 FROM heldnotices WHERE heldnotices.origin = robots.origin) LIMIT ?) some"
    )
    unread = write.txn.value(sql, [NONE, UNREAD_SITES_MAX], 0)
    task = write.txn.value("SELECT task FROM jobs WHERE id = ?", [job], 0)
    sql = "SELECT COUNT(*) FROM robots WHERE named_by = ? AND named_time > ?"
    named = write.txn.value(sql, [task, write.now - DAY_SECONDS], 0) if task else 0
    room = max(0, min(NEW_SITES_MAX - named, UNREAD_SITES_MAX - unread))
    origins = list(hints)
    for origin in origins[:room]:
        _ask_for(write, rules, origin, task)
        _hold(write, origin, hints[origin], job)
    left = origins[room:]
    if left:
        count = sum(len(hints[origin]) for origin in left)
        bounds = f"{NEW_SITES_MAX:,} of a task a day, and {UNREAD_SITES_MAX:,} that wait for their robots.txt"
        write.tell(job, "warn", f"{count} URLs of {len(left)} new sites are left out: there may be {bounds}")


def _admitted(
    write: TaskWrite,
    rules: ITaskRules,
    origin: str,
    known: tuple[Any, ...],
    notices: list[JobNotice],
    job: int,
) -> list[JobNotice]:
    """
    :param known: rules, what holds, when it was asked for, and the status of that.
    """
    text, allow, checked_time, status = known
    if not checked_time:
        _hold(write, origin, notices, job)
        return []
    if allow == NONE:
        waiting = _hold(write, origin, notices, job)
        if waiting:
            why = f"its robots.txt could not be read ({status}); it is asked for again"
            write.tell(job, "info", f"{waiting} URLs of {origin} wait: {why}")
        return []
    return _allowed(write, rules, text, allow, notices, job)


def _allowed(
    write: TaskWrite, rules: ITaskRules, text: str, allow: str, notices: list[JobNotice], job: int
) -> list[JobNotice]:
    found = [notice for notice in notices if rules.robots_allow(text, allow, notice.url)]
    if len(found) < len(notices):
        left = f"robots.txt forbids {len(notices) - len(found)} of {len(notices)} URLs of {root_of(notices[0].url)}"
        write.tell(job, "info", left)
    return found


def poll_robots(write: TaskWrite, rules: ITaskRules, origins: Sequence[str]) -> None:
    """From now on robots.txt of these sites are polled.

    :param origins: as :func:`lcc.storage.tasks.outbox.root_of` gives them.
    """
    there = {row[0] for row in write.txn.query_in("SELECT origin FROM robots WHERE origin IN ({in})", origins)}
    for origin in origins:
        if origin not in there and len(origin) <= _ORIGIN_CHARS_MAX:
            _ask_for(write, rules, origin)


def ask_again(write: TaskWrite, origins: Sequence[str]) -> list[int]:
    """Robots.txt of these sites that could not be read are not known yet, from now on.

    :returns: the tasks that poll them.
    """
    sql = "SELECT task FROM robots WHERE origin IN ({in}) AND allow = ?"
    tasks = [task for (task,) in write.txn.query_in(sql, origins, (), [NONE])]
    write.txn.execute_in("UPDATE robots SET checked_time = 0 WHERE task IN ({in})", tasks)
    return tasks


def refused_robots(txn: Txn, status: int, limit: int) -> list[str]:
    """Sites whose robots.txt could not be read because of this error.

    :param status: its code.
    """
    sql = "SELECT origin FROM robots WHERE allow = ? AND status = ? AND checked_time > 0 ORDER BY origin LIMIT ?"
    return [origin for (origin,) in txn.query(sql, [NONE, status, limit])]


def robots_rules(txn: Txn, origin: str) -> tuple[str, str] | None:
    """What is known of a site, for :meth:`lcc.interfaces.ITaskRules.robots_allow`: the rules, and what holds; None:
    nothing yet.

    :param origin: as :func:`lcc.storage.tasks.outbox.root_of` gives it.
    """
    row = txn.one("SELECT rules, allow FROM robots WHERE origin = ? AND checked_time > 0", [origin])
    return None if row is None else (row[0], row[1])


def read_robots(txn: Txn, origins: Sequence[str]) -> dict[str, SiteRobots]:
    """What is known of these sites; of one that is not polled there is nothing.

    :param origins: as :func:`lcc.storage.tasks.outbox.root_of` gives them.
    """
    sql = "SELECT origin, allow, rules, checked_time, delay_seconds FROM robots WHERE origin IN ({in})"
    rows = [SiteRobots(*row) for row in txn.query_in(sql, origins)]
    return {row.origin: row if row.checked_time else SiteRobots(row.origin) for row in rows}


def unread_robots(txn: Txn, origins: Sequence[str]) -> dict[str, UnreadRobots]:
    """Those of these sites that are polled, and whose robots.txt is not known or could not be read.

    :param origins: as :func:`lcc.storage.tasks.outbox.root_of` gives them.
    """
    sql = (
        "SELECT robots.origin, robots.status, robots.checked_time, COALESCE(tasks.due_time, 0) FROM robots"
        " LEFT JOIN tasks ON tasks.id = robots.task WHERE robots.allow = ? AND robots.origin IN ({in})"
    )
    return {row[0]: UnreadRobots._make(row) for row in txn.query_in(sql, origins, before=[NONE])}


class AskedBySite(NamedTuple):
    """What a robots.txt asks for besides its rules.

    :ivar delay_seconds: between fetches; 0: none.
    :ivar hours: in which to fetch, in UTC; empty: any.
    """

    origin: str
    delay_seconds: float
    hours: str


def untold_asked(txn: Txn, after: str, limit: int) -> list[AskedBySite]:
    """Of sites whose providers have not got what their robots.txt asks for, by name, behind this one."""
    sql = (
        "SELECT origin, delay_seconds, hours FROM robots WHERE asked_said = 0 AND checked_time > 0 AND origin > ?"
        " ORDER BY origin LIMIT ?"
    )
    return [AskedBySite._make(row) for row in txn.query(sql, [after, limit])]


def asked_said(write: TaskWrite, said: Sequence[AskedBySite]) -> None:
    """Their providers have got that."""
    for each in said:
        sql = "UPDATE robots SET asked_said = 1 WHERE origin = ? AND delay_seconds = ? AND hours = ?"
        write.txn.execute(sql, each)


def note_epoch(write: TaskWrite, epoch: str) -> bool:
    """The queue's database has this epoch.  True: it had another one, so that it was put back, and what providers had
    got may be lost: they get it again."""
    before = write.txn.value("SELECT value FROM meta WHERE name = ?", [_EPOCH])
    if before == epoch:
        return False
    write.txn.upsert("meta", ["name", "value"], [(_EPOCH, epoch)], ["name"], ["value"])
    if before is None:
        return False
    write.txn.execute("UPDATE robots SET asked_said = 0 WHERE asked_said = 1 AND (delay_seconds > 0 OR hours <> '')")
    return True


def _ask_for(write: TaskWrite, rules: ITaskRules, origin: str, named_by: int = 0) -> None:
    """
    :param named_by: the task whose job has named it first; 0: none.
    """
    number = draw_task_id(write.txn)
    task = Task(number, JobSpec(ROBOTS, args=(f"{origin}robots.txt",)), When(every_seconds=FIRST_SECONDS))
    insert_task(write, rules, task)
    write.txn.insert("robots", _ROBOTS, [(origin, "", NONE, 0, 0, 0, number, named_by, write.now)])


def _hold(write: TaskWrite, origin: str, notices: list[JobNotice], job: int) -> int:
    """Hints wait; returns how many of them: no more of a site than may."""
    waiting = write.txn.value("SELECT COUNT(*) FROM heldnotices WHERE origin = ?", [origin], 0)
    held = notices[: max(0, HELD_MAX - waiting)]
    rows = [
        (write.next("notice"), origin, each.url, each.source, each.op, each.mimetype, job, write.now) for each in held
    ]
    if len(held) < len(notices):
        left = len(notices) - len(held)
        write.tell(job, "warn", f"{left} URLs of {origin} are left out: {HELD_MAX:,} wait for its robots.txt already")
    write.txn.insert("heldnotices", _HELD, rows)
    return len(held)


def robots_known(write: TaskWrite, rules: ITaskRules, task: int, text: str, allow: str, status: int) -> str:
    """What robots.txt says, or what came in its place; hints that have waited for it go on.

    :param task: that polls it.
    :param allow: ``rules``, ``all`` or ``none``; an error does not take away rules that were read before.
    :returns: which of these holds now.
    """
    row = write.txn.one("SELECT origin, rules, allow, fetched_time FROM robots WHERE task = ?", [task])
    if row is None:
        return allow
    origin, old, old_allow, fetched = row
    if allow == NONE and old_allow == RULES:
        text, allow = old, old_allow
    elif allow == RULES:
        fetched = write.now
    delay, hours = (rules.robots_delay(text), rules.robots_hours(text)) if allow == RULES else (0.0, "")
    values = [text, allow, fetched, write.now, status, delay, hours, origin]
    sql = (
        "UPDATE robots SET rules = ?, allow = ?, fetched_time = ?, checked_time = ?, status = ?, delay_seconds = ?,"
        " hours = ?, asked_said = 0 WHERE origin = ?"
    )
    write.txn.execute(sql, values)
    _release(write, rules, origin, text, allow)
    return str(allow)


def known_so_far(write: TaskWrite, task: int) -> str:
    """What holds of the site whose robots.txt this task polls."""
    return str(write.txn.value("SELECT allow FROM robots WHERE task = ?", [task], NONE))


def _release(write: TaskWrite, rules: ITaskRules, origin: str, text: str, allow: str) -> None:
    if allow == NONE:
        return  # for now: they wait on, for some days
    sql = "SELECT url, source, op, mimetype, job FROM heldnotices WHERE origin = ? ORDER BY number"
    by_job: dict[int, list[JobNotice]] = {}
    for url, source, op, mimetype, job in write.txn.query(sql, [origin]):
        by_job.setdefault(job, []).append(JobNotice(url, source, op, mimetype))
    write.txn.execute("DELETE FROM heldnotices WHERE origin = ?", [origin])
    for job, notices in by_job.items():
        add_notices(write, _allowed(write, rules, text, allow, notices, job), NOBODY, job)


def settled(task: Task, allow: str) -> Task:
    """A task after an error: polled once a day from now on; while nothing is known of its robots.txt, sooner.

    :param task: its ``failures`` count this error, too.
    :param allow: what holds now; ``none``: it could not be read.
    """
    every = EVERY_SECONDS
    if allow == NONE:
        every = min(FIRST_SECONDS << min(task.failures, 10), UNREAD_SECONDS_MAX)
    return attrs.evolve(task, when=attrs.evolve(task.when, every_seconds=every))


def forget_unknown(write: TaskWrite, origins: Sequence[str]) -> None:
    """No hint of these sites waits any longer: those for which no provider could be made are not asked for until the
    next one comes."""
    sql = (
        "SELECT robots.task FROM robots JOIN tasks ON tasks.id = robots.task"
        " WHERE robots.origin IN ({in}) AND robots.allow = ? AND tasks.pid = 0"
    )
    for (task,) in write.txn.query_in(sql, origins, (), [NONE]):
        remove_task(write, task)


def remove_task(write: TaskWrite, number: int) -> None:
    """A task is no more; the robots.txt that it polls is asked for again with the next hint."""
    write.txn.execute("DELETE FROM tasks WHERE id = ?", [number])
    write.txn.execute("DELETE FROM robots WHERE task = ?", [number])
