"""Jobs that make the text of pages which items of feeds lead to (``feed add --full-content``).

Two things make one: a page that an item leads to has changed in the cache, or a new item leads to a page that is
cached already.  Both are followed by numbers, whose positions are in ``schedulerfence``; a job's key is the page and
the md5 of its content, so that following them again adds none.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from lcc.model.items import link_hash
from lcc.model.polled import PolledContent
from lcc.model.tasks import DueJob, Job, JobSpec
from lcc.storage.database.tables.rows import CACHED
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.jobs.due import insert_job
from lcc.storage.tasks.rows import dedup_of
from lcc.storage.tasks.write import TaskWrite

TEXT = "text"
"""The kind of these jobs."""
PAGE_CHANGES, ITEM_CHANGES = "textpages", "textitems"
"""What is followed: names of rows of ``schedulerfence``."""
CHANGES_AT_ONCE = 2000
_COLUMNS = "urlkey, curl, mimetype, charset, md5, len, fetched_machineid, fetched_fileid, fetched_url"
_READABLE = f"state = {CACHED} AND (mimetype LIKE 'text/%' OR mimetype IN ('*/*', 'application/xhtml+xml'))"


class WantedText(NamedTuple):
    """A page whose text is wanted.

    :ivar task: of a feed that has an item which leads there.
    :ivar identity: of that item.
    """

    page: PolledContent
    task: int
    identity: bytes


class NewItem(NamedTuple):
    """An item that is new.

    :ivar link: of its page; may be empty.
    """

    change: int
    task: int
    identity: bytes
    link: str


# Of the database of the queue.


def last_page(txn: Txn) -> int:
    """The number of the cache's last change."""
    return int(txn.value("SELECT MAX(change_number) FROM lccurl", default=0))


def pages_changed(txn: Txn, after: int, upto: int) -> list[PolledContent]:
    """Cached pages with text whose last change has a number in this range."""
    sql = f"SELECT {_COLUMNS} FROM lccurl WHERE change_number > ? AND change_number <= ? AND {_READABLE}"
    return _pages(txn, sql, [after, upto])


def pages_at(txn: Txn, keys: Mapping[str, Sequence[bytes]], links: Mapping[str, str]) -> dict[str, PolledContent]:
    """What is cached of these links.

    :param keys: normalised URL -> the keys of all its views, from the least to the greatest.
    :param links: link -> normalised URL.
    """
    found = {}
    for link, url in links.items():
        low, high = keys[url]
        sql = f"SELECT {_COLUMNS} FROM lccurl WHERE urlkey >= ? AND urlkey <= ? AND {_READABLE} LIMIT 1"
        for page in _pages(txn, sql, [low, high]):
            found[link] = page
    return found


def _pages(txn: Txn, sql: str, values: Sequence[object]) -> list[PolledContent]:
    pages = []
    for key, curl, mimetype, charset, md5, length, machine, file, fetched in txn.query(sql, values):
        if machine is not None and file is not None:
            kind = "text/html" if mimetype == "*/*" else mimetype
            content_type = f"{kind}; charset={charset}" if charset else kind
            pages.append(
                PolledContent(curl, machine, file, length or 0, md5, bytes(key).hex(), fetched or "", content_type)
            )
    return pages


def cached_among(txn: Txn, keys: Sequence[bytes]) -> set[bytes]:
    """Those of these pages that are cached."""
    sql = f"SELECT urlkey FROM lccurl WHERE urlkey IN ({{in}}) AND state = {CACHED}"
    return {bytes(key) for (key,) in txn.query_in(sql, keys)}


# Of the tables of tasks.


class TextRow(NamedTuple):
    """A page that has a text, and of which content that was made."""

    key: bytes
    md5: str


def texts_page(txn: Txn, after: bytes, limit: int) -> list[TextRow]:
    """Texts of pages with greater keys, in order of these."""
    sql = "SELECT urlkey, md5 FROM texts WHERE urlkey > ? ORDER BY urlkey LIMIT ?"
    return [TextRow(bytes(key), md5) for key, md5 in txn.query(sql, [after, limit])]


def forget_texts(write: TaskWrite, texts: Sequence[TextRow]) -> None:
    """The pages of these texts are cached no longer; if they come back, with whatever content, they get new ones."""
    write.txn.execute_in("DELETE FROM texts WHERE urlkey IN ({in})", [text.key for text in texts])
    dedups = [_dedup(text.key.hex(), text.md5) for text in texts]
    write.txn.execute_in("UPDATE jobs SET dedup = NULL WHERE dedup IN ({in})", dedups)


def is_any_wanted(txn: Txn) -> bool:
    """Whether there is a feed whose items' pages are wanted as text."""
    return txn.one("SELECT id FROM tasks WHERE texts = 1 LIMIT 1") is not None


def _wanting(txn: Txn, tasks: Collection[int]) -> set[int]:
    """Those of these tasks that are such feeds."""
    return {row[0] for row in txn.query_in("SELECT id FROM tasks WHERE id IN ({in}) AND texts = 1", sorted(tasks))}


def text_position(txn: Txn, name: str) -> int:
    """How far a number was followed; -1: not at all yet."""
    return int(txn.value("SELECT value FROM schedulerfence WHERE name = ?", [name], -1))


def new_items(txn: Txn, after: int, upto: int) -> list[NewItem]:
    """New items of such feeds whose change has a number in this range."""
    sql = (
        "SELECT change_number, task, identity, record FROM feeditems WHERE change_number > ? AND change_number <= ?"
        " AND found_time = changed_time AND link IS NOT NULL"
    )
    rows = txn.query(sql, [after, upto])
    feeds = _wanting(txn, {row[1] for row in rows})
    return [
        NewItem(change, task, bytes(identity), str(json.loads(record).get("link", "")))
        for change, task, identity, record in rows
        if task in feeds
    ]


def items_leading_to(txn: Txn, pages: Sequence[PolledContent]) -> list[WantedText]:
    """The pages that items of such feeds lead to."""
    by_link = {link_hash(page.url): page for page in pages}
    sql = "SELECT link, task, identity FROM feeditems WHERE link IN ({in})"
    found: dict[bytes, WantedText] = {}
    rows = txn.query_in(sql, sorted(by_link))
    feeds = _wanting(txn, {task for _, task, _ in rows})
    for link, task, identity in rows:
        if task in feeds:
            found.setdefault(bytes(link), WantedText(by_link[bytes(link)], task, bytes(identity)))
    return list(found.values())


def make_text_jobs(
    write: TaskWrite, wanted: Sequence[WantedText], positions: Mapping[str, int]
) -> list[DueJob] | None:
    """Make a job for each page that has no text of its content yet, and save how far the numbers were followed.

    :returns: None: so many jobs may not be open now, and nothing was done.
    """
    keys = {bytes.fromhex(each.page.key): each for each in wanted}
    sql = "SELECT urlkey, md5 FROM texts WHERE urlkey IN ({in})"
    have = {bytes(key): md5 for key, md5 in write.txn.query_in(sql, sorted(keys))}
    missing = {
        _dedup(each.page.key, each.page.md5): each for key, each in keys.items() if have.get(key) != each.page.md5
    }
    sql = "SELECT dedup FROM jobs WHERE dedup IN ({in})"
    there = {bytes(row[0]) for row in write.txn.query_in(sql, sorted(missing))}
    if len(missing) - len(there) > write.room:
        return None
    made = []
    for dedup, (page, task, identity) in missing.items():
        if dedup in there:
            continue
        spec = JobSpec(TEXT, args=(page.url, str(task), identity.hex()))
        job = Job(write.next("job"), spec, scheduled_time=write.now, due_time=write.now, updated_time=write.now)
        made.append(insert_job(write, job, "", dedup, page.to_json()))
    rows = list(positions.items())
    write.txn.upsert("schedulerfence", ["name", "value"], rows, ["name"])
    return made


def _dedup(key: str, md5: str) -> bytes:
    return dedup_of(TEXT, f"{key}/{md5}")
