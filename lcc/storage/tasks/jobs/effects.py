"""What a job does besides its work takes effect with its ending."""

from __future__ import annotations

from typing import Any

from lcc.interfaces import IItemStore, ITaskRules
from lcc.model.notifiers import JOBS_MAY_SAY
from lcc.model.sources import Source, parse_source
from lcc.model.tasks import (
    KEY_CHARS_MAX,
    NAME_CHARS_MAX,
    NOBODY,
    POLLED_KINDS,
    Asking,
    DueJob,
    Effects,
    FollowUp,
    Job,
    JobNotice,
    JobSpec,
)
from lcc.storage.tasks.jobs.due import insert_job
from lcc.storage.tasks.polling.robots import EVERY_SECONDS, ROBOTS, RULES, notify, robots_known
from lcc.storage.tasks.polling.sitemaps import SITEMAP, store_sitemap
from lcc.storage.tasks.rows import content_key, dedup_of
from lcc.storage.tasks.write import TaskWrite

EVERY_SECONDS_MAX = 366 * 86400
_OPERATIONS = ("update", "delete", "recheck", "retract")
_URL_CHARS_MAX = 4096


def apply_effects(
    write: TaskWrite,
    rules: ITaskRules,
    job: Job,
    scope: str,
    asking: Asking,
    effects: Effects,
    items: IItemStore,
    page: str,
) -> list[DueJob]:
    """Carry the effects of a job out.

    :param scope: of the keys of its follow-ups.
    :param asking: whose own words its notices may be.
    :param page: key of the page that it was given; empty: none.
    :returns: follow-ups that were added.
    :raises ValueError: one of them cannot be; the transaction must not be committed.
    """
    if effects.data is not None:
        table, key = ("tasks", job.task) if job.task else ("jobs", job.id)
        write.txn.execute(f"UPDATE {table} SET data = ? WHERE id = ?", [effects.data, key])
    notices, every = effects.notices, effects.every_seconds
    if job.spec.kind == SITEMAP and not job.spec.command:
        stated = store_sitemap(write, rules, job, asking, effects.items) if effects.items else ()
        write.txn.execute("UPDATE jobs SET items = items + ? WHERE id = ?", [len(stated), job.id])
        notices += stated
    elif effects.items:
        stored = items.store(write.txn, job.task, job.id, page, effects.items, write.now, asking != NOBODY)
        write.count(job.spec.kind, items=stored.new)
        write.txn.execute("UPDATE jobs SET items = items + ? WHERE id = ?", [stored.new, job.id])
        notices += stored.notices
        every = stored.every_seconds if every is None else every
        if stored.warning:
            write.tell(job.id, "warn", stored.warning)
        if stored.robots is not None and job.spec.kind == ROBOTS:
            robots_known(write, rules, job.task, stored.robots, RULES, 200)
            every = EVERY_SECONDS
    if every is not None:
        _set_period(write, job.task, every)
    for notice in notices:
        _check_notice(notice, asking)
    notify(write, rules, notices, asking, job.id)
    return _add_followups(write, job, scope, effects.followups)


def _set_period(write: TaskWrite, task: int, every_seconds: int) -> None:
    if not 1 <= every_seconds <= EVERY_SECONDS_MAX:
        raise ValueError(f"a period of {every_seconds} seconds: it may be 1 to {EVERY_SECONDS_MAX}")
    row = write.txn.one("SELECT every_seconds, least_seconds, most_seconds FROM tasks WHERE id = ?", [task])
    if row is None:
        return
    period, least, most = row
    if not period:
        raise ValueError("the task has no period: it runs at a time of day, or by a cron line")
    every = max(every_seconds, least)
    write.txn.execute("UPDATE tasks SET every_seconds = ? WHERE id = ?", [min(every, most) if most else every, task])


def _check_notice(notice: JobNotice, asking: Asking) -> None:
    source = parse_source(notice.source)
    if source & ~JOBS_MAY_SAY:
        raise ValueError(f"a job may not notify with the source {notice.source!r}")
    if source is Source.LISTED and asking == NOBODY:
        raise ValueError("only a feed with --listed, or a sitemap, may notify with the source 'listed'")
    if notice.op not in _OPERATIONS:
        raise ValueError(f"op={notice.op[:40]!r} is none of {', '.join(_OPERATIONS)}")
    if len(notice.mimetype) > NAME_CHARS_MAX:
        raise ValueError(f"a mime type of {len(notice.mimetype)} characters: {notice.mimetype[:80]!r}")
    if not notice.url or len(notice.url) > _URL_CHARS_MAX:
        raise ValueError(f"a URL of {len(notice.url)} characters: {notice.url[:80]!r}")


def _add_followups(write: TaskWrite, job: Job, scope: str, followups: tuple[FollowUp, ...]) -> list[DueJob]:
    wanted: dict[bytes, tuple[FollowUp, Any]] = {}
    for added in followups:
        _check_followup(added.spec)
        if added.key:
            dedup = dedup_of(scope, added.key)
        else:
            dedup = dedup_of(f"job/{job.id}", content_key(added.spec, added.after_seconds, added.at_time))
        wanted.setdefault(dedup, (added, None))
    there = {
        bytes(row[0]) for row in write.txn.query_in("SELECT dedup FROM jobs WHERE dedup IN ({in})", list(wanted))
    }
    made = []
    for dedup, (added, _) in wanted.items():
        if dedup in there:
            continue
        write.check_room()
        due = write.now + added.after_seconds if added.at_time is None else max(added.at_time, write.now)
        new = Job(
            write.next("job"),
            added.spec,
            parent=job.id,
            key=added.key[:KEY_CHARS_MAX],
            scheduled_time=due,
            due_time=due,
            updated_time=write.now,
        )
        made.append(insert_job(write, new, scope, dedup))
    return made


def _check_followup(spec: JobSpec) -> None:
    if spec.kind in POLLED_KINDS and not spec.command:
        raise ValueError(f"a job of the kind {spec.kind!r} is made by its task, not by a worker")
