"""What sitemaps list (``sitemaps``, ``sitemapurls``), and what follows from it: notices of the source ``listed``.

What a reading finds new or changed is notified of with the job's ending.  What it no longer lists waits until all
documents of its index were polled since (a URL may have moved to another of them), then it is retracted, unless
another document of the provider still lists it.  Too much at once is held until an operator confirms it, as of a full
set.

An index makes a task of each document that it lists; one that it lists no longer is removed, and with it goes what it
has listed.

A change list of ResourceSync says itself what was deleted.  That waits for nothing, and stays only if another change
list says otherwise; what a change list names no longer stays as it is.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import attrs

from lcc.interfaces import ITaskRules
from lcc.model.sitemaps import (
    CHILDREN_MAX,
    DELETED,
    INDEX_OPTION,
    LEVEL_OPTION,
    SITE_URLS_MAX,
    bucket_text,
    index_of,
    read_bucket,
    read_stored,
)
from lcc.model.tasks import NOBODY, Asking, Job, JobNotice, JobSpec, Task, TaskState
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.jobs.new_tasks import draw_task_id, insert_task
from lcc.storage.tasks.outbox import add_notices
from lcc.storage.tasks.rows import TASKS, task_of
from lcc.storage.tasks.write import TaskWrite

SITEMAP = "sitemap"
_CHANGES = "changelist"
_RANKS = {"description": 1, "capabilitylist": 2, "sitemapindex": 3}
_SITEMAPS = (
    *("task", "site", "kind", "urls", "gone", "held", "left_out", "pid", "connorder", "read_time", "gone_time"),
    "confirmed",
)
_URLS = ("task", "bucket", "listed", "gone")
_RETRACTED_AT_ONCE = 20_000
_SITES_AT_ONCE = 50


def store_sitemap(
    write: TaskWrite, rules: ITaskRules, job: Job, asking: Asking, items: Sequence[str]
) -> tuple[JobNotice, ...]:
    """What a job has read of a document; returns what it notifies of.

    :raises ValueError: it makes no sense, or is too much.
    """
    read = read_stored(items)
    txn = write.txn
    row = txn.one(f"{TASKS.select} WHERE id = ?", [job.task])
    if row is None or asking == NOBODY:
        return ()
    task = task_of(row)
    if not _begin(txn, task, asking):
        return ()
    notices, gone = _store_buckets(txn, task.id, read.buckets)
    if read.changes:
        changed, more = _store_changes(txn, task.id, read.changes)
        notices, gone = notices + changed, gone + more
    sql = "UPDATE sitemaps SET gone = gone + ?, pid = ?, connorder = ?, read_time = ? WHERE task = ?"
    txn.execute(sql, [gone, asking.pid, asking.order, write.now, task.id])
    if read.kind:
        sql = "UPDATE sitemaps SET kind = ?, urls = ?, left_out = ? WHERE task = ?"
        count = 0 if read.children or read.kind == _CHANGES else read.urls
        txn.execute(sql, [read.kind, count, read.left_out, task.id])
        if read.kind in _RANKS:
            # What it was before, when it was no index, it lists no longer.
            _drop_all(write, task.id)
        _set_children(write, rules, task, read.kind, read.children)
        sql = "UPDATE sitemaps SET gone_time = ? WHERE task = ? AND gone > 0 AND gone_time = 0"
        txn.execute(sql, [write.now, task.id])
        _check_site(txn, task)
    write.count(job.spec.kind, items=len(notices))
    return notices


def _begin(txn: Txn, task: Task, asking: Asking) -> bool:
    """Whether what differs from the last reading is what this provider is to be told."""
    found = txn.value("SELECT pid FROM sitemaps WHERE task = ?", [task.id])
    if found is None:
        _insert(txn, task.id, index_of(task.spec.args) or task.id, asking)
    elif found not in (0, asking.pid):
        # The site has another provider now, which was told nothing: all of it is read when it is polled next.
        txn.execute("DELETE FROM sitemapurls WHERE task = ?", [task.id])
        txn.execute(
            "UPDATE sitemaps SET urls = 0, gone = 0, held = 0, gone_time = 0, pid = 0 WHERE task = ?", [task.id]
        )
        txn.execute("UPDATE tasks SET data = '', seen = 0 WHERE id = ?", [task.id])
        return False
    return True


def _insert(txn: Txn, task: int, site: int, asking: Asking = NOBODY) -> None:
    txn.insert("sitemaps", _SITEMAPS, [(task, site, "", 0, 0, 0, 0, asking.pid, asking.order, 0, 0, 0)])


def _site_of(txn: Txn, task: int) -> int:
    """The task that an operator has made."""
    return int(txn.value("SELECT site FROM sitemaps WHERE task = ?", [task], task))


def _check_site(txn: Txn, task: Task) -> None:
    site = _site_of(txn, task.id)
    urls = int(txn.value("SELECT SUM(urls) FROM sitemaps WHERE site = ?", [site]) or 0)
    if urls > SITE_URLS_MAX:
        raise ValueError(f"the documents of sitemap {site} list {urls:,} URLs: {SITE_URLS_MAX:,} are allowed")


def _read(data: bytes | None) -> dict[str, str]:
    return read_bucket(zlib.decompress(data).decode()) if data else {}


def _there(data: bytes | None) -> dict[str, str]:
    """What a bucket lists, without what it says was deleted."""
    return {url: time for url, time in _read(data).items() if not time.startswith(DELETED)}


def _pack(urls: Mapping[str, str]) -> bytes:
    text = bucket_text(f"{url}\t{time}" if time else url for url, time in urls.items())
    return zlib.compress(text.encode("utf-8", "replace"), 1) if text else b""


def _store_buckets(txn: Txn, task: int, buckets: Mapping[int, str]) -> tuple[tuple[JobNotice, ...], int]:
    """Notices of what is new or changed; and how many more are gone now."""
    sql = "SELECT bucket, listed, gone FROM sitemapurls WHERE task = ? AND bucket IN ({in})"
    before = {row[0]: (_read(row[1]), _read(row[2])) for row in txn.query_in(sql, sorted(buckets), [task])}
    notices: list[JobNotice] = []
    rows = []
    more = 0
    for number, text in sorted(buckets.items()):
        now = read_bucket(text)
        listed, was_gone = before.get(number, ({}, {}))
        gone = {url: time for url, time in {**was_gone, **listed}.items() if url not in now}
        more += len(gone) - len(was_gone)
        for url, time in now.items():
            # One that comes back is told, too: it may be retracted already, and the queue knows.
            if url in was_gone or listed.get(url) != time or url not in listed:
                notices.append(JobNotice(url, "listed", mtime=time if time.isdigit() else ""))
        rows.append((task, number, _pack(now), _pack(gone)))
    txn.upsert("sitemapurls", _URLS, rows, ["task", "bucket"], ["listed", "gone"])
    return tuple(notices), more


def _store_changes(txn: Txn, task: int, buckets: Mapping[int, str]) -> tuple[tuple[JobNotice, ...], int]:
    """The same of a change list."""
    sql = "SELECT bucket, listed, gone FROM sitemapurls WHERE task = ? AND bucket IN ({in})"
    before = {row[0]: (_read(row[1]), _read(row[2])) for row in txn.query_in(sql, sorted(buckets), [task])}
    notices: list[JobNotice] = []
    rows = []
    more = 0
    for number, text in sorted(buckets.items()):
        now = read_bucket(text)
        known, was_gone = before.get(number, ({}, {}))
        gone = dict(was_gone)
        for url, said in now.items():
            if known.get(url) == said:
                continue
            time = said.partition("@")[0]
            if time == DELETED:
                gone[url] = ""
            else:
                gone.pop(url, None)
                notices.append(JobNotice(url, "listed", mtime=time if time.isdigit() else ""))
        more += len(gone) - len(was_gone)
        rows.append((task, number, _pack(now), _pack(gone)))
    txn.upsert("sitemapurls", _URLS, rows, ["task", "bucket"], ["listed", "gone"])
    return tuple(notices), more


def _drop_all(write: TaskWrite, task: int, also_changes: bool = True) -> None:
    """A document lists nothing any longer.

    :param also_changes: also if it is a change list, which has only said what became of it.
    """
    txn = write.txn
    gone_now = 0
    rows = []
    if not also_changes and txn.value("SELECT kind FROM sitemaps WHERE task = ?", [task]) == _CHANGES:
        return
    for number, listed, was_gone in txn.query("SELECT bucket, listed, gone FROM sitemapurls WHERE task = ?", [task]):
        gone = {**_read(was_gone), **_there(listed)}
        gone_now += len(gone)
        rows.append((task, number, b"", _pack(gone)))
    txn.upsert("sitemapurls", _URLS, rows, ["task", "bucket"], ["listed", "gone"])
    txn.execute("UPDATE sitemaps SET urls = 0, gone = ? WHERE task = ?", [gone_now, task])
    txn.execute("UPDATE sitemaps SET gone_time = ? WHERE task = ? AND gone > 0 AND gone_time = 0", [write.now, task])


def documents_of(txn: Txn, index: int) -> list[Task]:
    """The tasks of the documents that an index lists, and that these list."""
    sql = f"{TASKS.select} WHERE id IN (SELECT task FROM sitemaps WHERE site = ? AND task <> site) ORDER BY id"
    return [task_of(row) for row in txn.query(sql, [index])]


def _remove_document(write: TaskWrite, number: int, also_changes: bool = True) -> None:
    """A document is no more: what it has listed is gone."""
    _drop_all(write, number, also_changes)
    write.txn.execute("DELETE FROM tasks WHERE id = ?", [number])
    write.txn.execute("DELETE FROM sitemaps WHERE task = ? AND gone = 0", [number])
    if write.txn.one("SELECT 1 FROM sitemaps WHERE task = ?", [number]) is None:
        write.txn.execute("DELETE FROM sitemapurls WHERE task = ?", [number])


def _remove_listed(write: TaskWrite, listed: Mapping[int, Sequence[Task]], number: int) -> None:
    """A document is listed no longer; so are those that it lists.

    :param listed: documents, by what lists them.
    """
    for task in listed.get(number, ()):
        _remove_listed(write, listed, task.id)
    _remove_document(write, number, also_changes=False)


def _set_children(write: TaskWrite, rules: ITaskRules, index: Task, kind: str, urls: Sequence[str]) -> None:
    site = _site_of(write.txn, index.id)
    documents = documents_of(write.txn, site)
    by_index: defaultdict[int, list[Task]] = defaultdict(list)
    for task in documents:
        by_index[index_of(task.spec.args)].append(task)
    there = {task.spec.args[0]: task.id for task in by_index[index.id]}
    listed = set(urls)
    for url, number in there.items():
        if url not in listed:
            _remove_listed(write, by_index, number)
    if len(documents) - len(there) + len(listed) > CHILDREN_MAX:
        raise ValueError(f"sitemap {site} has more than {CHILDREN_MAX:,} documents")
    options = tuple(word for word in index.spec.args[1:] if word.startswith("--allow"))
    if kind in ("description", "capabilitylist"):
        options += (LEVEL_OPTION, str(_RANKS[kind]))
    for url in urls:
        if url in there:
            continue
        number = draw_task_id(write.txn)
        spec = JobSpec(SITEMAP, args=(url, INDEX_OPTION, str(index.id), *options))
        bounds = index.least_seconds, index.most_seconds
        insert_task(write, rules, Task(number, spec, index.when, TaskState.ACTIVE, index.auto, *bounds))
        _insert(write.txn, number, site)


def remove_sitemap(write: TaskWrite, number: int) -> None:
    """A sitemap is read no longer: what it lists is retracted, and its documents are removed, too."""
    for task in documents_of(write.txn, number):
        _remove_document(write, task.id)
    _remove_document(write, number)
    write.txn.execute("UPDATE sitemaps SET confirmed = 1 WHERE site = ?", [number])


def confirm_sitemap(write: TaskWrite, number: int) -> int:
    """What has gone from a sitemap is to be retracted, however much it is; returns how much."""
    write.txn.execute("UPDATE sitemaps SET confirmed = 1 WHERE site = ? AND gone > 0", [number])
    return int(write.txn.value("SELECT SUM(gone) FROM sitemaps WHERE site = ?", [number]) or 0)


def gone_sites(txn: Txn) -> list[int]:
    """Sitemaps from which URLs have gone."""
    sql = "SELECT DISTINCT site FROM sitemaps WHERE gone_time > 0 ORDER BY site LIMIT ?"
    return [number for (number,) in txn.query(sql, [_SITES_AT_ONCE])]


class SitemapState(NamedTuple):
    """A sitemap, for people.

    :ivar kind: of the document; empty: it was not read yet.
    :ivar documents: that were read, or are to be.
    :ivar urls: that they list.
    :ivar gone: that they listed, list no longer, and are to be retracted.
    :ivar held: of these: too many at once, to be confirmed by an operator.
    :ivar left_out: that they list, and may not.
    :ivar read_time: when one of them was read last; 0: never.
    """

    kind: str = ""
    documents: int = 0
    urls: int = 0
    gone: int = 0
    held: int = 0
    left_out: int = 0
    read_time: int = 0


def sitemap_states(txn: Txn, sites: Sequence[int]) -> dict[int, SitemapState]:
    """How it is with these sitemaps; of one that was not read yet there is nothing."""
    sql = (
        "SELECT site, MAX(CASE WHEN task = site THEN kind ELSE '' END), COUNT(*), SUM(urls), SUM(gone), SUM(held),"
        " SUM(left_out), MAX(read_time) FROM sitemaps WHERE site IN ({in}) GROUP BY site"
    )
    return {row[0]: SitemapState(row[1], *map(int, row[2:])) for row in txn.query_in(sql, sites)}


def held_sitemaps(txn: Txn) -> tuple[int, int]:
    """How many sitemaps have deletions that are held, and of how many URLs."""
    row = txn.query("SELECT COUNT(DISTINCT site), SUM(held) FROM sitemaps WHERE gone_time > 0 AND held > 0")[0]
    return int(row[0]), int(row[1] or 0)


@attrs.frozen
class Gone:
    """What of a sitemap waits to be retracted.

    :ivar urls: that its documents list.
    :ivar gone: that they listed, and list no longer.
    :ivar held: too much: an operator has to confirm it.
    :ivar waits: documents of its index are to be polled first.
    """

    urls: int = 0
    gone: int = 0
    held: bool = False
    waits: bool = False


def gone_of(txn: Txn, rules: ITaskRules, site: int) -> Gone:
    """How it is with a sitemap."""
    urls = int(txn.value("SELECT SUM(urls) FROM sitemaps WHERE site = ?", [site]) or 0)
    # What a change list says was deleted is among what the resource list has listed.
    sql = (
        "SELECT SUM(gone), SUM(CASE WHEN kind = ? THEN 0 ELSE gone END), MIN(gone_time), MIN(confirmed) FROM sitemaps"
        " WHERE site = ? AND gone_time > 0"
    )
    gone, unlisted, since, confirmed = txn.query(sql, [_CHANGES, site])[0]
    if not gone:
        return Gone(urls)
    held = not confirmed and rules.is_mass_deletion(int(gone), urls + int(unlisted))
    return Gone(urls, int(gone), held, _waits(txn, site, since))


def _waits(txn: Txn, site: int, since: int) -> bool:
    """Whether a document of this sitemap was not polled since then."""
    return any(
        task.state is TaskState.ACTIVE and not task.failures and (task.ended_time is None or task.ended_time < since)
        for task in documents_of(txn, site)
    )


def retract_gone(write: TaskWrite, rules: ITaskRules) -> int:
    """Retract what has gone, where that is neither held nor waits; returns how many URLs were."""
    count = 0
    for site in gone_sites(write.txn):
        found = gone_of(write.txn, rules, site)
        held = "gone" if found.held else "0"
        write.txn.execute(f"UPDATE sitemaps SET held = {held} WHERE site = ? AND held <> {held}", [site])
        if found.held:
            continue
        sql = "SELECT task, pid, connorder, gone_time, kind FROM sitemaps WHERE site = ? AND gone_time > 0"
        for task, pid, order, since, kind in write.txn.query(f"{sql} ORDER BY task", [site]):
            if kind != _CHANGES and _waits(write.txn, site, since):
                continue
            count += _retract(write, task, kind, Asking(pid, order), _RETRACTED_AT_ONCE - count)
            if count >= _RETRACTED_AT_ONCE:
                return count
    return count


def _retract(write: TaskWrite, task: int, kind: str, asking: Asking, limit: int) -> int:
    """Retract what has gone from a document, about as much as this."""
    txn = write.txn
    rows = txn.query("SELECT task, kind FROM sitemaps WHERE pid = ? AND task <> ?", [asking.pid, task])
    # A resource list is older than the change list that says what was deleted.
    others = [number for number, other in rows if kind != _CHANGES or other == _CHANGES]
    count = 0
    for number, data in txn.query("SELECT bucket, gone FROM sitemapurls WHERE task = ?", [task]):
        gone = _read(data)
        if not gone:
            continue
        if count >= limit:
            return count
        sql = "SELECT listed FROM sitemapurls WHERE bucket = ? AND task IN ({in})"
        still: set[str] = set()
        for (listed,) in txn.query_in(sql, others, [number]):
            still |= _there(listed).keys() & gone.keys()
        add_notices(write, [JobNotice(url, "listed", "retract") for url in gone if url not in still], asking, 0)
        values = [b"", task, number]
        txn.execute("UPDATE sitemapurls SET gone = ? WHERE task = ? AND bucket = ?", values)
        txn.execute("UPDATE sitemaps SET gone = gone - ? WHERE task = ?", [len(gone), task])
        count += len(gone)
    txn.execute("UPDATE sitemaps SET gone = 0, held = 0, gone_time = 0, confirmed = 0 WHERE task = ?", [task])
    if txn.one("SELECT 1 FROM tasks WHERE id = ?", [task]) is None:
        txn.execute("DELETE FROM sitemaps WHERE task = ?", [task])
        txn.execute("DELETE FROM sitemapurls WHERE task = ?", [task])
    return count
